//! A series as one line of JSON.

use super::{Finished, Series, Summary};
use crate::cell::{decode, encode, latencies};
use crate::machine::Facts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The metric that decides, its unit, and what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JudgeText {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) what: String,
}

/// One contender in one case: a line of a results file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) workload: String,
    pub(crate) case: String,
    pub(crate) contender: String,
    /// Version of the rival; empty for urgo, whose version is the commit.
    pub(crate) version: String,
    /// Operations of one lap.
    pub(crate) ops: u64,
    /// Hash of the result computed, in hexadecimal.
    pub(crate) checksum: String,
    pub(crate) workers: usize,
    pub(crate) judge: JudgeText,
    pub(crate) params: BTreeMap<String, String>,
    /// Values by name of the metric, in the order of the rounds.
    pub(crate) metrics: BTreeMap<String, Vec<f64>>,
    /// Latencies of all rounds together: an HdrHistogram of ns, V2, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latencies: Option<String>,
    /// Why there are no values, or no more of them, or why its system calls could not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Sizes were tiny: the values mean nothing.
    pub(crate) is_quick: bool,
    #[serde(flatten)]
    pub(crate) facts: Facts,
}

impl Line {
    pub(super) fn of(finished: &Finished, series: &Series) -> Line {
        let mut metrics: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut all = latencies();
        for sample in &series.samples {
            for (name, value) in &sample.metrics {
                metrics.entry(name.clone()).or_default().push(*value);
            }
            if let Some(text) = &sample.latencies {
                let some = decode(text).expect("`Sample::read` has decoded it once");
                all.add(&some).expect("histograms of the same bounds");
            }
        }
        let counted = series.counted.as_ref();
        if let Some(syscalls) = counted.and_then(|sample| sample.metrics.get("syscalls")) {
            metrics.insert("syscalls".to_owned(), vec![*syscalls]);
        }
        let first = series.samples.first();
        let judge = finished.case.judge;
        Line {
            workload: finished.workload.to_owned(),
            case: finished.case.name.clone(),
            contender: series.contender.to_owned(),
            version: series.version.clone(),
            ops: first.map_or(0, |sample| sample.ops),
            checksum: first
                .map(|sample| sample.checksum.clone())
                .unwrap_or_default(),
            workers: finished.case.workers,
            judge: JudgeText {
                metric: judge.metric.to_owned(),
                unit: judge.unit.to_owned(),
                what: judge.what.to_owned(),
            },
            params: finished.case.params.clone(),
            metrics,
            latencies: (!all.is_empty()).then(|| encode(&all)),
            error: series.error.clone(),
            is_quick: finished.is_quick,
            facts: finished.facts.clone(),
        }
    }

    /// Values of the metric that decides, in the order of the rounds.
    pub(crate) fn judged(&self) -> &[f64] {
        self.metrics
            .get(&self.judge.metric)
            .map_or(&[], Vec::as_slice)
    }

    /// Median of a metric.
    pub(crate) fn median(&self, metric: &str) -> Option<f64> {
        Some(Summary::of(self.metrics.get(metric)?.iter().copied())?.median)
    }
}

/// Reads a results file.
///
/// # Errors
/// The file and the line that are no results, and why.
pub(crate) fn read_lines(path: &std::path::Path) -> Result<Vec<Line>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            read_line(line)
                .map_err(|e| format!("{}:{}: no line of results: {e}", path.display(), at + 1))
        })
        .collect()
}

fn read_line(text: &str) -> Result<Line, String> {
    let line: Line = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if let Some(latencies) = &line.latencies {
        decode(latencies).map_err(|e| format!("its latencies are none: {e}"))?;
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::line;

    #[test]
    fn a_line_whose_latencies_do_not_decode_is_refused() {
        let mut good = line("urgo", &[1.0]);
        good.latencies = Some(encode(&latencies()));
        let text = |line: &Line| serde_json::to_string(line).unwrap();
        assert_eq!(read_line(&text(&good)).as_ref(), Ok(&good));
        good.latencies = Some("AAAA".to_owned());
        let error = read_line(&text(&good)).unwrap_err();
        assert!(error.contains("latencies"), "{error}");
    }

    #[test]
    fn a_line_of_an_older_file_has_no_facts_of_its_build() {
        let mut old = serde_json::to_value(line("urgo", &[1.0])).unwrap();
        old.as_object_mut().unwrap().remove("build");
        let read = read_line(&old.to_string()).unwrap();
        assert_eq!(read.facts.build, crate::machine::Build::default());
    }
}
