//! The budgets as a table in Markdown, for a README.

use super::verdict::{Verdict, judge, ours};
use super::{Line, short};
use crate::catalogue::{self, Case, Size};
use std::fmt::Write;

/// One row for each case that has a budget and results: urgo's median, the rivals' medians from the nearest to the farthest, the
/// budget, and whether it was kept. Of several results for a case the last ones count.
pub(crate) fn markdown(lines: &[Line]) -> String {
    let mut out = String::from(
        "| workload | case | urgo | beside it, same run | budget | |\n|---|---|---|---|---|---|\n",
    );
    for workload in catalogue::all() {
        for case in (workload.cases)(Size::Full) {
            let of_case: Vec<_> = lines
                .iter()
                .filter(|line| line.workload == workload.name && line.case == case.name)
                .collect();
            let Some(newest) = of_case.iter().map(|line| line.facts.started).max() else {
                continue;
            };
            let newest: Vec<Line> = of_case
                .into_iter()
                .filter(|line| line.facts.started == newest)
                .cloned()
                .collect();
            out += &row(workload.name, &case, &newest).unwrap_or_default();
        }
    }
    out
}

fn row(workload: &str, case: &Case, lines: &[Line]) -> Option<String> {
    let judged = judge(case.budget?, lines)?;
    let unit = case.judge.unit;
    let metric = &ours(lines)?.judge.metric;
    let mut rivals: Vec<(f64, &str)> = lines
        .iter()
        .filter(|line| line.contender != "urgo")
        .filter_map(|line| Some((line.median(metric)?, line.contender.as_str())))
        .collect();
    rivals.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let rivals: Vec<_> = rivals
        .iter()
        .map(|(median, name)| format!("{name} {}", short(*median)))
        .collect();
    let verdict = match judged.verdict {
        Verdict::Met => "met",
        Verdict::Missed => "**missed**",
        Verdict::Open => "rival missing",
    };
    let ratio = match judged.rival {
        Some((rival, ratio)) => format!(" ({ratio:.2} × {rival})"),
        None => String::new(),
    };
    let mut row = String::new();
    let _ = writeln!(
        row,
        "| `{workload}` | {} | {} {unit}{ratio} | {} | {} | {verdict} |",
        case.name,
        short(judged.ours.median),
        rivals.join(", "),
        judged.budget,
    );
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Budget;
    use crate::results::line;

    #[test]
    fn a_row_says_what_was_measured_beside_whom_and_whether_it_is_enough() {
        let lines = [line("urgo", &[2.0]), line("a", &[8.0]), line("b", &[4.0])];
        let case = Case::new("a case", 1, 1).budget(Budget::AtMost(1.5));
        let row = row("switch", &case, &lines).unwrap();
        assert_eq!(
            row,
            "| `switch` | a case | 2.00 ns | b 4.00, a 8.00 | ≤ 1.5 | **missed** |\n"
        );
        assert_eq!(
            super::row("switch", &Case::new("no budget", 1, 1), &lines),
            None
        );
    }
}
