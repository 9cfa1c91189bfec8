//! What is to be explained: budgets that were missed, and rivals that are ahead.

use super::{Line, Summary, ratios};
use crate::catalogue::Budget;

/// A rival whose ratio is above this is ahead; what is closer is taken for equal.
pub(crate) const AHEAD: f64 = 1.05;

/// Whether a budget was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// A rival that it names did not run, or failed.
    Open,
}

/// A budget and what was measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    pub(crate) budget: Budget,
    pub(crate) verdict: Verdict,
    /// urgo's values of the metric that decides.
    pub(crate) ours: Summary,
    /// The rival that the budget names, the nearest one if it names several, and urgo's ratio to it.
    pub(crate) rival: Option<(&'static str, f64)>,
}

/// urgo's line of a case.
pub(crate) fn ours(lines: &[Line]) -> Option<&Line> {
    lines.iter().find(|line| line.contender == "urgo")
}

/// Median of the ratios of urgo to `rival`, round by round.
pub(crate) fn ratio_to(lines: &[Line], rival: &str) -> Option<f64> {
    let line = lines.iter().find(|line| line.contender == rival)?;
    Some(ratios(ours(lines)?.judged(), line.judged())?.median)
}

/// Judges a case by its budget; `None` if urgo has no values.
pub(crate) fn judge(budget: Budget, lines: &[Line]) -> Option<Judged> {
    let ours = Summary::of(ours(lines)?.judged().iter().copied())?;
    let named: &[&'static str] = match &budget {
        Budget::AtMost(_) => &[],
        Budget::TimesOf(rival, _) => std::slice::from_ref(rival),
        Budget::AheadOf(rivals) => rivals,
    };
    let found: Vec<_> = named
        .iter()
        .filter_map(|name| Some((*name, ratio_to(lines, name)?)))
        .collect();
    let verdict = if found.len() < named.len() {
        Verdict::Open
    } else if budget.is_met(ours.median, |name| ratio_to(lines, name)) {
        Verdict::Met
    } else {
        Verdict::Missed
    };
    Some(Judged {
        budget,
        verdict,
        ours,
        rival: found.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b)),
    })
}

/// Rivals that are ahead of urgo by more than 5 %, and urgo's ratio to them.
pub(crate) fn ahead(lines: &[Line]) -> Vec<(&str, f64)> {
    let rivals = lines.iter().filter(|line| line.contender != "urgo");
    rivals
        .filter_map(|line| Some((line.contender.as_str(), ratio_to(lines, &line.contender)?)))
        .filter(|(_, ratio)| *ratio > AHEAD)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::line;

    #[test]
    fn a_budget_whose_rival_is_missing_stays_open() {
        let lines = [line("urgo", &[2.0, 2.0]), line("a", &[2.0, 4.0])];
        let verdict = |budget| judge(budget, &lines).unwrap().verdict;
        assert_eq!(verdict(Budget::AtMost(2.0)), Verdict::Met);
        assert_eq!(verdict(Budget::AtMost(1.9)), Verdict::Missed);
        assert_eq!(verdict(Budget::TimesOf("a", 0.8)), Verdict::Met);
        assert_eq!(verdict(Budget::TimesOf("b", 0.8)), Verdict::Open);
        assert_eq!(verdict(Budget::AheadOf(&["a", "b"])), Verdict::Open);
    }

    #[test]
    fn of_several_rivals_the_nearest_is_shown() {
        let lines = [
            line("urgo", &[2.0]),
            line("a", &[8.0]),
            line("b", &[1.0]),
            line("c", &[4.0]),
        ];
        let judged = judge(Budget::AheadOf(&["a", "b", "c"]), &lines).unwrap();
        assert_eq!(judged.rival, Some(("b", 2.0)));
        assert_eq!(judged.verdict, Verdict::Missed);
        assert_eq!(ahead(&lines), [("b", 2.0)]);
    }
}
