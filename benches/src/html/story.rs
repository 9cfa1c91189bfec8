//! What the report tells: which results of which run are shown, and the history.

use crate::catalogue::{self, Case, Size, Workload};
use crate::machine::Facts;
use crate::results::{Judged, Line, Summary, judge};

/// A case with the results that are shown: those of the newest run that has it.
#[derive(Debug)]
pub(super) struct Shown {
    /// Of the catalogue, which may have forgotten it.
    pub(super) case: Option<Case>,
    pub(super) name: String,
    /// urgo first, as they ran.
    pub(super) lines: Vec<Line>,
    pub(super) judged: Option<Judged>,
    /// Medians of urgo in all runs that have the case, oldest first.
    pub(super) history: Vec<(Facts, Summary)>,
    /// Its anchor in the page.
    pub(super) id: String,
}

/// A workload of which there are results.
#[derive(Debug)]
pub(super) struct Chapter {
    pub(super) name: String,
    /// Of the catalogue, which may have forgotten it.
    pub(super) workload: Option<&'static Workload>,
    pub(super) cases: Vec<Shown>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Story {
    /// The runs, oldest first, each with the number of cases of it that are shown.
    pub(super) runs: Vec<(Facts, usize)>,
    /// In the order of the catalogue.
    pub(super) chapters: Vec<Chapter>,
    pub(super) is_quick: bool,
}

impl Story {
    /// Of all lines of all runs, in any order.
    pub(super) fn of(mut lines: Vec<Line>) -> Story {
        lines.sort_by_key(|line| line.facts.started);
        let mut names: Vec<&str> = lines.iter().map(|line| line.workload.as_str()).collect();
        names.sort_by_key(|name| (place(name), *name));
        names.dedup();
        let chapters: Vec<Chapter> = names.iter().map(|name| chapter(name, &lines)).collect();
        let mut runs: Vec<(Facts, usize)> = Vec::new();
        for line in &lines {
            if runs
                .last()
                .is_none_or(|(facts, _)| facts.started != line.facts.started)
            {
                runs.push((line.facts.clone(), 0));
            }
        }
        let shown = chapters.iter().flat_map(|chapter| &chapter.cases);
        for shown in shown.clone() {
            let started = shown.lines[0].facts.started;
            let run = runs.iter_mut().find(|(facts, _)| facts.started == started);
            run.expect("it has its run").1 += 1;
        }
        Story {
            is_quick: shown.clone().any(|shown| shown.lines[0].is_quick),
            runs,
            chapters,
        }
    }
}

fn place(workload: &str) -> usize {
    let mut all = catalogue::all().iter();
    all.position(|other| other.name == workload)
        .unwrap_or(usize::MAX)
}

fn chapter(name: &str, lines: &[Line]) -> Chapter {
    let lines: Vec<&Line> = lines.iter().filter(|line| line.workload == name).collect();
    let workload = catalogue::find(name);
    let cases = |size| workload.map_or_else(Vec::new, |workload| (workload.cases)(size));
    let catalogue: Vec<Case> = [Size::Full, Size::Quick]
        .into_iter()
        .flat_map(cases)
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for line in &lines {
        if !names.contains(&line.case.as_str()) {
            names.push(&line.case);
        }
    }
    names.sort_by_key(|name| {
        let place = catalogue.iter().position(|case| case.name == **name);
        place.unwrap_or(usize::MAX)
    });
    let shown = names.iter().enumerate().map(|(at, case)| {
        let of_case = lines.iter().filter(|line| line.case == *case);
        let known = catalogue.iter().find(|other| other.name == *case);
        shown(known.cloned(), of_case.copied(), format!("{name}-{at}"))
    });
    Chapter {
        name: name.to_owned(),
        workload,
        cases: shown.collect(),
    }
}

fn shown<'a>(case: Option<Case>, all: impl Iterator<Item = &'a Line>, id: String) -> Shown {
    let all: Vec<&Line> = all.collect();
    let newest = all.last().expect("a case has lines").facts.started;
    let lines: Vec<Line> = all
        .iter()
        .filter(|line| line.facts.started == newest)
        .map(|line| (*line).clone())
        .collect();
    // A tiny run among full ones would be a point far off.
    let history = all.iter().filter(|line| line.contender == "urgo");
    let history = history.filter(|line| line.is_quick == lines[0].is_quick);
    let point = |line: &&'a Line| {
        let summary = Summary::of(line.judged().iter().copied())?;
        Some((line.facts.clone(), summary))
    };
    let budget = case.as_ref().and_then(|case| case.budget);
    Shown {
        name: lines[0].case.clone(),
        judged: budget.and_then(|budget| judge(budget, &lines)),
        history: history.filter_map(point).collect(),
        case,
        lines,
        id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::line;

    #[test]
    fn of_each_case_the_newest_results_are_shown_and_all_are_history() {
        let run = |started, case: &str, value| {
            let mut line = line("urgo", &[value]);
            line.case = case.to_owned();
            line.facts.started = started;
            line
        };
        let lines = vec![run(20, "a", 2.0), run(10, "a", 1.0), run(10, "b", 3.0)];
        let story = Story::of(lines);
        let [chapter] = &story.chapters[..] else {
            panic!("one workload")
        };
        let shown: Vec<_> = chapter
            .cases
            .iter()
            .map(|case| {
                (
                    case.name.as_str(),
                    case.lines[0].judged()[0],
                    case.history.len(),
                )
            })
            .collect();
        assert_eq!(shown, [("a", 2.0, 2), ("b", 3.0, 1)]);
        let runs: Vec<_> = story.runs.iter().map(|(f, n)| (f.started, *n)).collect();
        assert_eq!(runs, [(10, 1), (20, 1)]);
    }
}
