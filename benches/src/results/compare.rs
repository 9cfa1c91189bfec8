//! Two results files against each other.

use super::rank::{LEVEL, SAMPLES_MIN, probability};
use super::table::short;
use super::{Line, Summary, read_lines};
use crate::machine::Facts;
use std::collections::BTreeSet;
use std::path::Path;

/// What of the two files is compared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Contenders; all if empty.
    pub(crate) contenders: Vec<String>,
    /// Only workloads whose name, or cases whose name, contains this.
    pub(crate) part: Option<String>,
}

impl Wanted {
    fn takes(&self, line: &Line) -> bool {
        let by_name = self.contenders.is_empty() || self.contenders.contains(&line.contender);
        let part = self.part.as_deref().unwrap_or("");
        by_name && (line.case.contains(part) || line.workload.contains(part))
    }
}

/// Case and contender that both files have.
#[derive(Debug, Clone, PartialEq)]
struct Pair<'a> {
    before: &'a Line,
    medians: [f64; 2],
    ratio: f64,
    word: &'static str,
    /// Parameters of the case that are not the same on both sides, with both values.
    differences: Vec<String>,
}

/// The word for a pair that did not do the same.
const OTHER_WORK: &str = "not comparable";

/// Prints, for each case and contender that both files have, both medians, the ratio of the second to the first, and a word.
///
/// # Errors
/// What cannot be read.
pub(crate) fn compare(before: &Path, after: &Path, wanted: &Wanted) -> Result<(), String> {
    let files = [before, after];
    let mut sides = Vec::new();
    for file in files {
        let mut lines = newest(read_lines(file)?);
        if lines.is_empty() {
            return Err(format!("{}: no results in it", file.display()));
        }
        lines.retain(|line| wanted.takes(line));
        sides.push(lines);
    }
    let [before, after] = [&sides[0], &sides[1]];
    warnings(before, after)
        .iter()
        .for_each(|warning| eprintln!("warning: {warning}"));
    let pairs = pairs(before, after);
    print_pairs(&pairs);
    for (file, only) in [
        (files[0], missing(before, after)),
        (files[1], missing(after, before)),
    ] {
        if !only.is_empty() {
            println!("\nonly in {}:", file.display());
            only.iter().for_each(|name| println!("   {name}"));
        }
    }
    Ok(())
}

/// The last line of each case and contender: a file may hold several runs.
fn newest(lines: Vec<Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        match kept.iter_mut().find(|other| is_same(other, &line)) {
            Some(other) => *other = line,
            None => kept.push(line),
        }
    }
    kept
}

fn is_same(a: &Line, b: &Line) -> bool {
    a.workload == b.workload && a.case == b.case && a.contender == b.contender
}

fn pairs<'a>(before: &'a [Line], after: &'a [Line]) -> Vec<Pair<'a>> {
    let pair = |line: &'a Line| {
        let other = after.iter().find(|other| is_same(line, other))?;
        // A metric of one side alone says nothing: the case is then judged by something else now.
        if line.judge != other.judge {
            return None;
        }
        let (a, b) = (line.judged(), other.judged());
        let medians = [
            Summary::of(a.iter().copied())?,
            Summary::of(b.iter().copied())?,
        ]
        .map(|s| s.median);
        let differences = differences(line, other);
        Some(Pair {
            before: line,
            medians,
            ratio: medians[1] / medians[0],
            word: if differences.is_empty() {
                word(a, b)
            } else {
                OTHER_WORK
            },
            differences,
        })
    };
    let mut pairs: Vec<_> = before.iter().filter_map(pair).collect();
    pairs.sort_by(|a, b| {
        let ours = |pair: &Pair<'_>| pair.before.contender == "urgo";
        ours(b).cmp(&ours(a)).then(a.ratio.total_cmp(&b.ratio))
    });
    pairs
}

/// "name: A and B" for each parameter of the case that differs.
fn differences(a: &Line, b: &Line) -> Vec<String> {
    let names: BTreeSet<&String> = a.params.keys().chain(b.params.keys()).collect();
    let value = |line: &Line, name: &str| {
        line.params
            .get(name)
            .cloned()
            .unwrap_or_else(|| "none".to_owned())
    };
    names
        .into_iter()
        .map(|name| (name, value(a, name), value(b, name)))
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| format!("{name}: {a} and {b}"))
        .collect()
}

/// "slower" and "faster" as for times; for memory it is "more" and "less" in truth, which nobody misreads.
fn word(before: &[f64], after: &[f64]) -> &'static str {
    let middle = |values: &[f64]| Summary::of(values.iter().copied()).map(|s| s.median);
    if before.len() < SAMPLES_MIN || after.len() < SAMPLES_MIN {
        "too few rounds to say"
    } else if probability(before, after) > LEVEL {
        "same within noise"
    } else if middle(after) < middle(before) {
        "faster"
    } else {
        "slower"
    }
}

fn print_pairs(pairs: &[Pair<'_>]) {
    if pairs.is_empty() {
        println!("nothing that both files have");
        return;
    }
    let name = |pair: &Pair<'_>| format!("{}, {}", pair.before.workload, pair.before.case);
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let names = widest(&mut pairs.iter().map(|pair| name(pair).chars().count()));
    let who = widest(
        &mut pairs
            .iter()
            .map(|pair| pair.before.contender.chars().count()),
    );
    println!(
        "{:<names$}  {:<who$}{:>12}{:>12}      {:>8}",
        "", "", "before", "after", "ratio"
    );
    for pair in pairs {
        println!(
            "{:<names$}  {:<who$}{:>12}{:>12} {:<5}{:>8.3}  {}",
            name(pair),
            pair.before.contender,
            short(pair.medians[0]),
            short(pair.medians[1]),
            pair.before.judge.unit,
            pair.ratio,
            pair.word
        );
        for difference in &pair.differences {
            println!("   warning: another parameter, {difference}");
        }
    }
    let count = |word| pairs.iter().filter(|pair| pair.word == word).count();
    println!(
        "\n{} compared: {} faster, {} slower",
        pairs.len() - count(OTHER_WORK),
        count("faster"),
        count("slower")
    );
    if count(OTHER_WORK) > 0 {
        println!(
            "{} not comparable, since they were run with other parameters; `run --rate` sets the rate of a calibrated case",
            count(OTHER_WORK)
        );
    }
}

/// Why the two files might not be comparable.
fn warnings(before: &[Line], after: &[Line]) -> Vec<String> {
    let mut warnings = Vec::new();
    let facts = |line: &Line| {
        let Facts {
            cpu,
            cpus,
            kernel,
            governor,
            rustc,
            build,
            ..
        } = line.facts.clone();
        [
            cpu,
            format!("{cpus:?}"),
            kernel,
            governor,
            rustc,
            build.to_string(),
        ]
    };
    let names = [
        "CPU",
        "list of CPUs",
        "kernel",
        "governor",
        "compiler",
        "build",
    ];
    for (at, what) in names.iter().enumerate() {
        let of = |lines: &[Line]| -> BTreeSet<String> {
            lines.iter().map(|line| facts(line)[at].clone()).collect()
        };
        let (a, b) = (of(before), of(after));
        if a != b && !a.is_empty() && !b.is_empty() {
            let list = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join("; ");
            warnings.push(format!("{what} differs: {} and {}", list(a), list(b)));
        }
    }
    if before.iter().chain(after).any(|line| line.is_quick) {
        warnings.push("there are results of --quick here, which mean nothing".to_owned());
    }
    warnings
}

fn missing(here: &[Line], there: &[Line]) -> Vec<String> {
    let alone = here
        .iter()
        .filter(|line| !there.iter().any(|other| is_same(line, other)));
    alone
        .map(|line| format!("{}, {}, {}", line.workload, line.case, line.contender))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::line;

    #[test]
    fn a_word_needs_enough_rounds_and_a_real_difference() {
        let low = [1.0, 1.1, 1.2, 1.3, 1.4];
        let high = [2.0, 2.1, 2.2, 2.3, 2.4];
        assert_eq!(word(&low, &high), "slower");
        assert_eq!(word(&high, &low), "faster");
        assert_eq!(word(&low, &low), "same within noise");
        assert_eq!(word(&low[..3], &high[..3]), "too few rounds to say");
    }

    #[test]
    fn urgo_comes_first_and_the_best_ratio_before_the_others() {
        let mut other = line("urgo", &[2.0]);
        other.case = "another".to_owned();
        let before = [line("a", &[4.0]), line("urgo", &[1.0]), other.clone()];
        other.metrics.insert("cpu_ns".to_owned(), vec![1.0]);
        let after = [line("a", &[1.0]), line("urgo", &[2.0]), other];
        let order: Vec<_> = pairs(&before, &after)
            .iter()
            .map(|pair| (pair.before.contender.clone(), pair.ratio))
            .collect();
        let expected = [("urgo", 0.5), ("urgo", 2.0), ("a", 0.25)];
        assert_eq!(
            order,
            expected.map(|(name, ratio)| (name.to_owned(), ratio))
        );
    }

    #[test]
    fn a_case_with_other_parameters_gets_both_values_and_no_verdict() {
        let with_rate = |rate: Option<&str>, values: &[f64]| {
            let mut line = line("urgo", values);
            line.params.insert("message".to_owned(), "64".to_owned());
            if let Some(rate) = rate {
                line.params.insert("rate".to_owned(), rate.to_owned());
            }
            line
        };
        let low = [1.0, 1.1, 1.2, 1.3, 1.4];
        let high = [2.0, 2.1, 2.2, 2.3, 2.4];
        let before = [with_rate(Some("1000"), &low)];
        let same = [with_rate(Some("1000"), &high)];
        assert_eq!(pairs(&before, &same)[0].word, "slower");
        assert!(pairs(&before, &same)[0].differences.is_empty());
        for (rate, said) in [
            (Some("1100"), "rate: 1000 and 1100"),
            (None, "rate: 1000 and none"),
        ] {
            let after = [with_rate(rate, &high)];
            let pair = &pairs(&before, &after)[0];
            assert_eq!(
                (pair.word, &pair.differences[..]),
                (OTHER_WORK, &[said.to_owned()][..])
            );
        }
    }

    #[test]
    fn another_machine_is_warned_of() {
        let before = [line("urgo", &[1.0])];
        let mut after = before.clone();
        assert!(warnings(&before, &after).is_empty());
        after[0].facts.kernel = "another".to_owned();
        assert_eq!(warnings(&before, &after).len(), 1);
        after[0].facts.build.lto = "off".to_owned();
        assert_eq!(warnings(&before, &after).len(), 2);
        assert!(warnings(&before, &[]).is_empty());
    }

    #[test]
    fn the_last_of_several_runs_counts() {
        let kept = newest(vec![line("urgo", &[1.0]), line("urgo", &[2.0])]);
        assert_eq!(kept, [line("urgo", &[2.0])]);
        assert_eq!(missing(&kept, &[]), ["work, case, urgo"]);
    }
}
