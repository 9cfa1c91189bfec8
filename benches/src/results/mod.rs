//! # Purpose
//!
//! What was measured: series of samples, their medians and ratios, the line they are kept as, the table they are shown in.
//!
//! # Imports
//!
//! `catalogue`, `cell`, `machine`.

mod compare;
mod line;
mod markdown;
mod rank;
mod summary;
mod table;
mod verdict;

pub(crate) use compare::{Wanted, compare};
pub(crate) use line::{Line, read_lines};
pub(crate) use markdown::markdown;
pub(crate) use rank::{LEVEL, SAMPLES_MIN};
pub(crate) use summary::{Summary, ratios};
pub(crate) use table::{columns, print_case, print_verdict, reason, short};
pub(crate) use verdict::{AHEAD, Judged, Verdict, ahead, judge, ratio_to};

use crate::catalogue::{Case, Contender};
use crate::cell::Sample;
use crate::machine::Facts;

/// All samples of one contender in one case, in the order of the rounds.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) contender: &'static str,
    pub(crate) version: String,
    pub(crate) samples: Vec<Sample>,
    /// The sample of the round in which system calls are counted. Only their number, and what was computed, is of use.
    pub(crate) counted: Option<Sample>,
    /// Why it has no samples, or no more of them, or why its system calls could not be counted.
    pub(crate) error: Option<String>,
}

impl Series {
    /// Without a sample yet.
    pub(crate) fn new(contender: &Contender, version: String) -> Series {
        Series {
            contender: contender.name,
            version,
            samples: Vec::new(),
            counted: None,
            error: None,
        }
    }
}

/// A case with its results.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) workload: &'static str,
    pub(crate) case: Case,
    pub(crate) series: Vec<Series>,
    pub(crate) facts: Facts,
    pub(crate) is_quick: bool,
}

impl Finished {
    /// One line per contender.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.series
            .iter()
            .map(|series| Line::of(self, series))
            .collect()
    }
}

/// A line as tests want it: judged by CPU time.
#[cfg(test)]
pub(crate) fn line(contender: &str, values: &[f64]) -> Line {
    Line {
        workload: "work".to_owned(),
        case: "case".to_owned(),
        contender: contender.to_owned(),
        version: String::new(),
        ops: 1,
        checksum: "0".to_owned(),
        workers: 1,
        judge: line::JudgeText {
            metric: "cpu_ns".to_owned(),
            unit: "ns".to_owned(),
            what: "CPU time".to_owned(),
        },
        params: std::collections::BTreeMap::new(),
        metrics: std::collections::BTreeMap::from([("cpu_ns".to_owned(), values.to_vec())]),
        latencies: None,
        error: None,
        is_quick: false,
        facts: Facts {
            cpu: "cpu".to_owned(),
            cpus: vec![0],
            kernel: "1.0".to_owned(),
            governor: "none".to_owned(),
            commit: "0123456789ab".to_owned(),
            rustc: "rustc 1".to_owned(),
            build: crate::machine::Build::default(),
            load: "0.00".to_owned(),
            started: 1_700_000_000,
        },
    }
}
