//! One workload: its question, its plots, and a table for each case.

use super::frame::Curve;
use super::notes::Notes;
use super::plots;
use super::story::{Chapter, Shown};
use super::text::{
    budget, contender, count, date, escaped, pill, prose, ratio as ratio_text, short_date, spread,
};
use crate::catalogue::Budget;
use crate::cell::{Latencies, decode};
use crate::machine::Facts;
use crate::results::{AHEAD, Line, Summary, columns, ratio_to, reason, short};
use std::fmt::Write;

/// The whole section.
pub(super) fn section(chapter: &Chapter, notes: &Notes, newest: &Facts) -> String {
    let name = escaped(&chapter.name);
    let mut out = format!("<section>\n<h2 id=\"w-{name}\">{name}</h2>\n");
    match chapter.workload {
        Some(workload) => {
            let _ = write!(
                out,
                "<p class=question>{}</p>\n<div class=about><p><b>What is done.</b> {}</p><p><b>What it is not:</b> {}</p></div>\n",
                prose(workload.question),
                prose(workload.work),
                prose(workload.is_not)
            );
        }
        None => {
            out += "<p class=question>The catalogue does not have this workload any more.</p>\n"
        }
    }
    if let Some(note) = notes.on(&chapter.name) {
        let _ = writeln!(out, "<div class=note id=\"note-{name}\">{note}</div>");
    }
    out += &groups(&chapter.cases);
    out += &against_connections(&chapter.cases);
    out += &history(&chapter.cases);
    for case in &chapter.cases {
        out += &case_of(case, newest);
    }
    out + "</section>\n"
}

fn figure(title: &str, svg: &str) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>\n{svg}</figure>\n",
        escaped(title)
    )
}

/// Names of contenders in these cases, each once.
fn contenders<'a>(cases: impl Iterator<Item = &'a Shown>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for line in cases.flat_map(|case| &case.lines) {
        if !names.contains(&line.contender.as_str()) {
            names.push(&line.contender);
        }
    }
    names
}

/// A curve of `metric` for each contender, over cases with their places on the x axis; only contenders with two points and more.
fn curves_of(cases: &[(f64, &Shown)], metric: &str) -> Vec<Curve> {
    let names = contenders(cases.iter().map(|(_, case)| *case));
    let curve = |name: &str| {
        let point = |(x, case): &(f64, &Shown)| {
            let line = case.lines.iter().find(|line| line.contender == name)?;
            let summary = Summary::of(line.metrics.get(metric)?.iter().copied())?;
            Some((*x, summary.median, [summary.min, summary.max]))
        };
        let mut points: Vec<_> = cases.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve {
            name: name.to_owned(),
            points,
            has_dots: true,
        }
    };
    let all = names.into_iter().map(curve);
    all.filter(|curve| curve.points.len() > 1).collect()
}

/// The plots that the catalogue groups cases into.
fn groups(cases: &[Shown]) -> String {
    let mut out = String::new();
    let mut done = Vec::new();
    let plotted = |case: &'_ Shown| case.case.as_ref().and_then(|case| case.plot.clone());
    for first in cases.iter().filter_map(plotted) {
        if done.contains(&first.title) {
            continue;
        }
        done.push(first.title);
        let group: Vec<(f64, &Shown)> = cases
            .iter()
            .filter_map(|case| Some((plotted(case)?, case)))
            .filter(|(plot, _)| plot.title == first.title)
            .map(|(plot, case)| (plot.x, case))
            .collect();
        let judge = &group[0].1.lines[0].judge;
        let curves = curves_of(&group, &judge.metric);
        if !curves.is_empty() {
            let y = format!("{} in {}", judge.what, judge.unit);
            out += &figure(first.title, &plots::curves(&curves, first.axis, &y));
        }
    }
    out
}

/// Requests per second, and what one costs, over the number of connections, for cases that differ in nothing else.
fn against_connections(cases: &[Shown]) -> String {
    const METRICS: [(&str, &str, &str); 2] = [
        (
            "requests_per_second",
            "throughput",
            "requests per second: more is better",
        ),
        ("server_cpu_us", "CPU time of the server per request", "µs"),
    ];
    let connections =
        |case: &Shown| -> Option<f64> { case.lines[0].params.get("connections")?.parse().ok() };
    let rest = |case: &Shown| {
        let parts = case
            .name
            .split(", ")
            .filter(|part| !part.contains("connection"));
        parts.collect::<Vec<_>>().join(", ")
    };
    let mut kinds: Vec<String> = Vec::new();
    for case in cases {
        if connections(case).is_some() && !kinds.contains(&rest(case)) {
            kinds.push(rest(case));
        }
    }
    let mut out = String::new();
    for kind in kinds {
        let group: Vec<(f64, &Shown)> = cases
            .iter()
            .filter(|case| rest(case) == kind)
            .filter_map(|case| Some((connections(case)?, case)))
            .collect();
        for (metric, what, unit) in METRICS {
            let is_drawn = group.iter().any(|(_, case)| {
                let plot = case.case.as_ref().and_then(|case| case.plot.as_ref());
                plot.is_some() && case.lines[0].judge.metric == metric
            });
            let curves = curves_of(&group, metric);
            if !is_drawn && !curves.is_empty() {
                let title = format!("{kind}: {what} against connections");
                let title = title.trim_start_matches(": ");
                out += &figure(title, &plots::curves(&curves, "connections", unit));
            }
        }
    }
    out
}

/// urgo's medians over the runs, for cases with a budget.
fn history(cases: &[Shown]) -> String {
    let mut figures = String::new();
    for case in cases {
        let Some(judged) = &case.judged else {
            continue;
        };
        if case.history.len() < 2 {
            continue;
        }
        let points: Vec<_> = case
            .history
            .iter()
            .map(|(facts, summary)| (short_date(facts), *summary))
            .collect();
        let most = match judged.budget {
            Budget::AtMost(most) => Some(most),
            _ => None,
        };
        let unit = &case.lines[0].judge.unit;
        figures += &figure(&case.name, &plots::history(&points, unit, most));
    }
    if figures.is_empty() {
        return figures;
    }
    format!("<h3>urgo over the runs</h3>\n<div class=grid>{figures}</div>\n")
}

fn case_of(case: &Shown, newest: &Facts) -> String {
    let first = &case.lines[0];
    let mut out = format!(
        "<div class=case>\n<h3 id=\"{}\">{}",
        escaped(&case.id),
        escaped(&case.name)
    );
    if let Some(judged) = &case.judged {
        let _ = write!(
            out,
            " <span class=\"soft small\">budget {}</span> {}",
            budget(judged.budget, &first.judge.unit),
            pill(judged.verdict)
        );
    }
    let rounds = case.lines.iter().map(|line| line.judged().len()).max();
    let _ = write!(
        out,
        "</h3>\n<p class=\"soft small\">Decided by {} per operation; {}, {}",
        escaped(&first.judge.what),
        count(first.workers, "CPU"),
        count(rounds.unwrap_or(0), "round")
    );
    if first.facts.started != newest.started {
        let _ = write!(
            out,
            "; from the run of {}, commit {}",
            date(&first.facts),
            escaped(&first.facts.commit)
        );
    }
    out += "</p>\n";
    out += &table(&case.lines);
    if let Some(svg) = plots::medians(&case.lines) {
        let _ = writeln!(out, "<figure>{svg}</figure>");
    }
    let latencies: Vec<(&str, Latencies)> = case.lines.iter().filter_map(latencies_of).collect();
    if !latencies.is_empty() {
        out += &figure(
            "Latency by percentile, all rounds",
            &plots::latencies(&latencies),
        );
    }
    out + "</div>\n"
}

fn latencies_of(line: &Line) -> Option<(&str, Latencies)> {
    let latencies = decode(line.latencies.as_deref()?);
    let latencies = latencies.expect("a line is read or made with latencies that decode");
    (!latencies.is_empty()).then_some((line.contender.as_str(), latencies))
}

fn table(lines: &[Line]) -> String {
    let columns = columns(lines);
    let mut out = format!(
        "<div class=scroll><table><tr><th class=text>contender<th>{}<th>ratio",
        escaped(&lines[0].judge.unit)
    );
    for (_, heading, _) in &columns {
        let _ = write!(out, "<th>{heading}");
    }
    for line in lines {
        let class = if line.contender == "urgo" {
            " class=ours"
        } else {
            ""
        };
        let _ = write!(
            out,
            "<tr{class}><td class=text>{} <span class=version>{}</span>",
            contender(&line.contender),
            escaped(&line.version)
        );
        let error = line.error.as_deref().map(|why| escaped(&reason(why)));
        let Some(summary) = Summary::of(line.judged().iter().copied()) else {
            let _ = write!(
                out,
                "<td class=error colspan={}>{}",
                columns.len() + 2,
                error.as_deref().unwrap_or("nothing measured")
            );
            continue;
        };
        let _ = write!(out, "<td>{}", spread(summary, ""));
        out += &match ratio_to(lines, &line.contender) {
            Some(_) if line.contender == "urgo" => "<td>".to_owned(),
            Some(ratio) if ratio > AHEAD => format!("<td class=behind>{}", ratio_text(ratio)),
            Some(ratio) => format!("<td>{}", ratio_text(ratio)),
            None => "<td>-".to_owned(),
        };
        for (metric, _, factor) in &columns {
            let value = line.median(metric).map(|value| short(value * factor));
            let _ = write!(out, "<td>{}", value.as_deref().unwrap_or("-"));
        }
        if let Some(why) = error {
            let _ = write!(out, "<td class=error>then: {why}");
        }
    }
    out + "</table></div>\n"
}
