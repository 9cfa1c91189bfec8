//! Results for the terminal.

use super::{Line, Summary, Verdict, ahead, judge, ratio_to};
use crate::catalogue::{Budget, Case, Workload};

/// Metrics that get a column of their own where a contender has them: name, heading, factor.
const COLUMNS: &[(&str, &str, f64)] = &[
    ("cpu_ns", "cpu ns", 1.0),
    ("wall_ns", "wall ns", 1.0),
    ("server_cpu_us", "cpu µs", 1.0),
    ("requests_per_second", "req/s", 1.0),
    ("p50_us", "p50 µs", 1.0),
    ("p99_us", "p99 µs", 1.0),
    ("p999_us", "p99.9 µs", 1.0),
    ("switches", "switches", 1.0),
    ("syscalls", "syscalls", 1.0),
    ("peak_bytes", "peak MiB", 1.0 / 1_048_576.0),
];

/// The columns for a case: all but the metric that decides, where some contender has them.
pub(crate) fn columns(lines: &[Line]) -> Vec<(&'static str, &'static str, f64)> {
    let is_judge = |metric: &str| lines.iter().any(|line| line.judge.metric == metric);
    let has = |metric: &str| lines.iter().any(|line| line.metrics.contains_key(metric));
    COLUMNS
        .iter()
        .filter(|(metric, _, _)| !is_judge(metric) && has(metric))
        .copied()
        .collect()
}

/// Prints one case: the metric that decides, the ratios of urgo to each rival, and the other metrics.
pub(crate) fn print_case(workload: &Workload, case: &Case, lines: &[Line]) {
    let rounds = lines
        .iter()
        .map(|line| line.judged().len())
        .max()
        .unwrap_or(0);
    println!("\n== {}: {}", workload.name, case.name);
    print!(
        "   {} in {} per operation, median (min .. max) of {rounds} rounds",
        case.judge.what, case.judge.unit
    );
    match case.budget {
        Some(budget) => println!("; budget {budget}"),
        None => println!(),
    }
    let columns = columns(lines);
    print!("{:<26}{:^34}{:>8}", "", case.judge.unit, "ratio");
    for (_, heading, _) in &columns {
        print!("{heading:>11}");
    }
    println!();
    for line in lines {
        print_line(line, ratio_to(lines, &line.contender), &columns);
    }
    if let Some(judged) = case.budget.and_then(|budget| judge(budget, lines)) {
        let word = match judged.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Open => "not judged, since a rival is missing",
        };
        println!("budget {}: {word}", judged.budget);
    }
}

fn print_line(line: &Line, ratio: Option<f64>, columns: &[(&str, &str, f64)]) {
    let name = format!("{} {}", line.contender, line.version);
    let Some(judged) = Summary::of(line.judged().iter().copied()) else {
        let why = line.error.as_deref().map(reason);
        println!(
            "{name:<26}  {}",
            why.as_deref().unwrap_or("nothing measured")
        );
        return;
    };
    let spread = format!("({} .. {})", short(judged.min), short(judged.max));
    print!("{name:<26}{:>12}  {spread:<20}", short(judged.median));
    match ratio {
        Some(ratio) if line.contender != "urgo" => print!("{ratio:>8.3}"),
        _ => print!("{:>8}", ""),
    }
    for (metric, _, factor) in columns {
        match line.median(metric) {
            Some(value) => print!("{:>11}", short(value * factor)),
            None => print!("{:>11}", "-"),
        }
    }
    println!();
    // It has values, but not all that it should have.
    if let Some(why) = &line.error {
        println!("   FAILED: {}", reason(why));
    }
}

/// Prints what is to be explained: budgets that were missed, and cases in which a rival is ahead by more than 5 %.
pub(crate) fn print_verdict(cases: &[(String, Option<Budget>, Vec<Line>)]) {
    let mut lost = Vec::new();
    let (mut met, mut open, mut missed) = (0, 0, Vec::new());
    for (name, budget, lines) in cases {
        match budget.and_then(|budget| judge(budget, lines)) {
            Some(judged) if judged.verdict == Verdict::Missed => missed.push(format!(
                "{name}: {} {}, budget {}",
                short(judged.ours.median),
                lines[0].judge.unit,
                judged.budget
            )),
            Some(judged) if judged.verdict == Verdict::Met => met += 1,
            Some(_) => open += 1,
            None => {}
        }
        for (rival, ratio) in ahead(lines) {
            lost.push(format!("{name}: {ratio:.2} times {rival}"));
        }
    }
    print!("\n== budgets: {met} met, {} missed", missed.len());
    if open > 0 {
        print!(", {open} not judged, since a rival is missing");
    }
    println!();
    missed.iter().for_each(|line| println!("   missed: {line}"));
    println!("== rivals ahead by more than 5 %: {}", lost.len());
    lost.iter().for_each(|line| println!("   {line}"));
}

/// Why something failed, in one line of readable length: what a cell said, without the stack of its panic.
pub(crate) fn reason(why: &str) -> String {
    const LETTERS_MAX: usize = 240;
    let lines = why.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("note: "));
    let lines = lines.take_while(|line| *line != "stack backtrace:");
    let whole = lines.collect::<Vec<_>>().join(" · ");
    match whole.char_indices().nth(LETTERS_MAX) {
        Some((end, _)) => format!("{} …", &whole[..end]),
        None => whole,
    }
}

/// Three or four significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => {
            let digits = format!("{value:.0}");
            let mut out = String::new();
            for (at, digit) in digits.chars().enumerate() {
                let left = digits.len() - at;
                if at > 0 && left % 3 == 0 && digits.as_bytes()[at - 1] != b'-' {
                    out.push(',');
                }
                out.push(digit);
            }
            out
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_without_the_stack() {
        let why = "exit status: 101\n\nthread 'main' panicked at a.rs:1:2:\nno memory\nstack backtrace:\n  0: main\n";
        let line = "exit status: 101 · thread 'main' panicked at a.rs:1:2: · no memory";
        assert_eq!(reason(why), line);
        assert_eq!(reason(&"é".repeat(1000)).chars().count(), 242);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.012_34, 0.5, 12.34, 123.4, 1234.5, 1_234_567.0].map(short);
        assert_eq!(
            texts,
            ["0", "0.0123", "0.50", "12.3", "123", "1,234", "1,234,567"]
        );
    }
}
