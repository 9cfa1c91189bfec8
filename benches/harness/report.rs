//! Medians, ratios, the printed table and the JSON line.

use super::{Clock, Facts, Options, Sample};
use std::fs::File;
use std::io::Write;

/// Median and extremes of one series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    /// Middle value; mean of the two middle ones for an even count.
    pub(crate) median: f64,
    /// Least value.
    pub(crate) min: f64,
    /// Greatest value.
    pub(crate) max: f64,
}

impl Summary {
    /// # Panics
    /// If `values` is empty.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Summary {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Summary {
            median: (low + high) / 2.0,
            min: values[0],
            max: values[values.len() - 1],
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(
            f,
            "{:>10.digits$}  ({:.digits$} .. {:.digits$})",
            self.median, self.min, self.max
        )
    }
}

/// Ratio of two series, formed round by round.
pub(crate) fn ratios(subject: &[f64], rival: &[f64]) -> Summary {
    Summary::of(
        subject
            .iter()
            .zip(rival)
            .map(|(subject, rival)| subject / rival),
    )
}

/// Where results go: the terminal, and the JSON file if one was named.
#[derive(Debug)]
pub(crate) struct Report {
    bench: &'static str,
    facts: Facts,
    json: Option<File>,
}

impl Report {
    /// Prints the bench's name and the machine.
    pub(crate) fn open(bench: &'static str, cpus: &[usize], options: &mut Options) -> Report {
        let facts = Facts::gather(cpus);
        println!(
            "== {bench}{}\n{facts}",
            if options.quick {
                " (--quick: sizes are tiny, numbers mean nothing)"
            } else {
                ""
            }
        );
        Report {
            bench,
            facts,
            json: options.json.take(),
        }
    }

    /// Prints one table of contenders; ratios are those of the first row to every other row, by `clock`.
    pub(crate) fn table(
        &mut self,
        case: &str,
        clock: Clock,
        budget: Option<f64>,
        rows: &[(&str, &[Sample])],
    ) {
        let rounds = rows.first().map_or(0, |(_, samples)| samples.len());
        let (judged, other) = match clock {
            Clock::Cpu => ("CPU time of the process", "wall"),
            Clock::Wall => ("wall time", "CPU"),
        };
        println!("\n-- {case}: ns per operation, {judged}, median (min .. max) of {rounds} rounds");
        let by_clock = |samples: &[Sample]| -> (Vec<f64>, Vec<f64>) {
            let cpu = samples.iter().map(|sample| sample.cpu_ns).collect();
            let wall = samples.iter().map(|sample| sample.wall_ns).collect();
            match clock {
                Clock::Cpu => (cpu, wall),
                Clock::Wall => (wall, cpu),
            }
        };
        for (name, samples) in rows {
            let (first, second) = by_clock(samples);
            let first = Summary::of(first);
            let second = Summary::of(second).median;
            println!("{name:<28}{:<34}  {other} {second:.2}", format!("{first}"));
            self.line(
                case,
                name,
                "cpu_ns",
                samples.iter().map(|sample| sample.cpu_ns).collect(),
            );
            self.line(
                case,
                name,
                "wall_ns",
                samples.iter().map(|sample| sample.wall_ns).collect(),
            );
        }
        let Some(((subject, subject_samples), rivals)) = rows.split_first() else {
            return;
        };
        let (subject_ns, _) = by_clock(subject_samples);
        for (rival, samples) in rivals {
            println!(
                "ratio {:<44}{}",
                format!("{subject} / {rival}"),
                ratios(&subject_ns, &by_clock(samples).0)
            );
        }
        if let Some(budget) = budget {
            println!("budget of the first row: <= {budget} ns");
        }
    }

    /// Appends one JSON line: the samples in round order, their median, and the machine.
    pub(crate) fn line(&mut self, case: &str, contender: &str, metric: &str, samples: Vec<f64>) {
        let Some(file) = &mut self.json else { return };
        let line = serde_json::json!({
            "bench": self.bench, "case": case, "contender": contender, "metric": metric,
            "median": Summary::of(samples.iter().copied()).median, "samples": samples,
            "cpu": self.facts.cpu, "kernel": self.facts.kernel, "commit": self.facts.commit, "rustc": self.facts.rustc,
        });
        writeln!(file, "{line}").expect("the JSON file takes lines");
    }
}
