//! Results for the terminal.

use super::{Line, Summary, ratios};
use crate::catalogue::{Budget, Case, Workload};

/// Metrics that get a column of their own where a contender has them, with heading and factor.
const COLUMNS: &[(&str, &str, f64)] = &[
    ("cpu_ns", "cpu ns", 1.0),
    ("wall_ns", "wall ns", 1.0),
    ("server_cpu_us", "cpu us", 1.0),
    ("requests_per_second", "req/s", 1.0),
    ("p50_us", "p50 us", 1.0),
    ("p99_us", "p99 us", 1.0),
    ("p999_us", "p99.9 us", 1.0),
    ("switches", "switches", 1.0),
    ("syscalls", "syscalls", 1.0),
    ("peak_bytes", "peak MiB", 1.0 / 1_048_576.0),
];

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
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|(metric, _, _)| *metric != case.judge.metric)
        .filter(|(metric, _, _)| lines.iter().any(|line| line.metrics.contains_key(*metric)))
        .collect();
    print!("{:<26}{:^34}{:>8}", "", case.judge.unit, "ratio");
    for (_, heading, _) in &columns {
        print!("{heading:>11}");
    }
    println!();
    let ours = lines.iter().find(|line| line.contender == "urgo");
    for line in lines {
        let name = format!("{} {}", line.contender, line.version);
        let Some(judged) = Summary::of(line.judged().iter().copied()) else {
            let why = line.error.as_deref().unwrap_or("nothing measured");
            println!("{name:<26}  {}", why.lines().next().unwrap_or_default());
            continue;
        };
        let spread = format!("({} .. {})", short(judged.min), short(judged.max));
        print!("{name:<26}{:>12}  {spread:<20}", short(judged.median));
        match ours.and_then(|ours| ratios(ours.judged(), line.judged())) {
            Some(ratio) if line.contender != "urgo" => print!("{:>8.3}", ratio.median),
            _ => print!("{:>8}", ""),
        }
        for (metric, _, factor) in &columns {
            match line.median(metric) {
                Some(value) => print!("{:>11}", short(value * factor)),
                None => print!("{:>11}", "-"),
            }
        }
        println!();
    }
    if let Some(budget) = case.budget
        && let Some(ours) = ours
        && let Some(median) = ours.median(case.judge.metric)
    {
        let met = budget.is_met(median, |rival| {
            let line = lines.iter().find(|line| line.contender == rival)?;
            Some(ratios(ours.judged(), line.judged())?.median)
        });
        println!("budget {budget}: {}", if met { "met" } else { "MISSED" });
    }
}

/// Prints what is to be explained: budgets that were missed, and cases in which a rival is ahead by more than 5 %.
pub(crate) fn print_verdict(cases: &[(String, Option<Budget>, Vec<Line>)]) {
    let mut lost = Vec::new();
    let (mut met, mut missed) = (0, Vec::new());
    for (name, budget, lines) in cases {
        let Some(ours) = lines.iter().find(|line| line.contender == "urgo") else {
            continue;
        };
        let ratio_to = |rival: &str| {
            let line = lines.iter().find(|line| line.contender == rival)?;
            Some(ratios(ours.judged(), line.judged())?.median)
        };
        if let (Some(budget), Some(median)) = (budget, ours.median(&ours.judge.metric)) {
            if budget.is_met(median, ratio_to) {
                met += 1;
            } else {
                missed.push(format!(
                    "{name}: {} {}, budget {budget}",
                    short(median),
                    ours.judge.unit
                ));
            }
        }
        for line in lines {
            match ratio_to(&line.contender) {
                Some(ratio) if ratio > 1.05 => {
                    lost.push(format!("{name}: {ratio:.2} times {}", line.contender))
                }
                _ => {}
            }
        }
    }
    println!("\n== budgets: {met} met, {} missed", missed.len());
    missed.iter().for_each(|line| println!("   missed: {line}"));
    println!("== rivals ahead by more than 5 %: {}", lost.len());
    lost.iter().for_each(|line| println!("   {line}"));
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
