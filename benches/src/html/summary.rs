//! The top of the report: where the numbers are from, and what is to be explained.

use super::notes::Notes;
use super::story::{Chapter, Shown, Story};
use super::text::{budget, contender, date, escaped, pill, ratio as ratio_text, spread};
use crate::results::{Verdict, ahead, short};
use std::fmt::Write;

/// Heading, facts of the newest run, the other runs, and how to get the numbers again.
pub(super) fn head(story: &Story) -> String {
    let mut out = String::new();
    if story.is_quick {
        out += "<p class=alarm>These are results of --quick: the sizes were tiny, and the numbers mean nothing. They show that \
                everything runs, no more.</p>";
    }
    out += "<h1>urgo and its rivals</h1>\n";
    let Some((facts, _)) = story.runs.last() else {
        return out + "<p>There are no results.</p>";
    };
    out += "<p class=question>Each measurement in a process of its own, on CPUs of its own, contenders in turn.</p>\n";
    let cpus: Vec<_> = facts.cpus.iter().map(usize::to_string).collect();
    out += "<dl class=facts>";
    for (what, value) in [
        ("CPU", &facts.cpu),
        ("CPUs used", &cpus.join(", ")),
        ("Kernel", &facts.kernel),
        ("Governor", &facts.governor),
        ("Load at the start", &facts.load),
        ("Commit", &facts.commit),
        ("Compiler", &facts.rustc),
        ("Build", &facts.build.to_string()),
        ("Started", &date(facts)),
    ] {
        let _ = write!(out, "<dt>{what}<dd>{}", escaped(value));
    }
    out += "</dl>\n";
    out += "<p>In all tables <b>less is better</b>. A figure is the median of the rounds, with the least and the greatest beside \
            it. A <b>ratio</b> is urgo's figure divided by the rival's, formed round by round; shown is the median of these. Below \
            1 urgo is ahead.</p>\n";
    if story.runs.len() > 1 {
        out += &runs(story);
    }
    out + &again(story)
}

fn runs(story: &Story) -> String {
    let mut out = "<h3 id=runs>Runs in this report</h3><div class=scroll><table><tr><th class=text>started<th class=text>commit\
                   <th class=text>kernel<th class=text>load<th>cases shown"
        .to_owned();
    for (facts, shown) in story.runs.iter().rev() {
        let _ = write!(
            out,
            "<tr><td class=text>{}<td class=text>{}<td class=text>{}<td class=text>{}<td>{shown}",
            date(facts),
            escaped(&facts.commit),
            escaped(&facts.kernel),
            escaped(&facts.load)
        );
    }
    out + "</table></div><p class=\"soft small\">Of each case the newest results are shown; the older ones are its history.</p>\n"
}

fn again(story: &Story) -> String {
    let known = story.chapters.iter().filter(|c| c.workload.is_some());
    let names: Vec<_> = known.map(|chapter| chapter.name.as_str()).collect();
    let names = match names.len() {
        some if some == crate::catalogue::all().len() => String::new(),
        _ => format!("{} ", names.join(" ")),
    };
    let quick = if story.is_quick { "--quick " } else { "" };
    let dirty = story
        .runs
        .last()
        .is_some_and(|(f, _)| f.commit.ends_with("-dirty"));
    let dirty = if dirty {
        "<p class=\"soft small\">The working tree had changes on top of that commit.</p>\n"
    } else {
        ""
    };
    format!(
        "<h3>To get these numbers again</h3>\n<pre><code>cargo run --release -p urgo-bench -- run {}{quick}--json results.json \
         --html report.html</code></pre>\n{dirty}",
        escaped(&names)
    )
}

/// Budgets and losses.
pub(super) fn verdicts(story: &Story, notes: &Notes) -> String {
    let cases: Vec<(&Chapter, &Shown)> = story
        .chapters
        .iter()
        .flat_map(|chapter| chapter.cases.iter().map(move |case| (chapter, case)))
        .collect();
    let number = |verdict| {
        let judged = cases.iter().filter_map(|(_, case)| case.judged.as_ref());
        judged.filter(|judged| judged.verdict == verdict).count()
    };
    let losses: usize = cases.iter().map(|(_, case)| ahead(&case.lines).len()).sum();
    let mut out = "<h2 id=summary>Summary</h2>\n<div class=score>".to_owned();
    let contenders: usize = cases.iter().map(|(_, case)| case.lines.len()).sum();
    let failed = cases.iter().flat_map(|(_, case)| &case.lines);
    let failed = failed.filter(|line| line.error.is_some()).count();
    for (number, what) in [
        (cases.len(), "cases"),
        (contenders, "measurements"),
        (number(Verdict::Met), "budgets met"),
        (number(Verdict::Missed), "budgets missed"),
        (losses, "times a rival ahead"),
        (failed, "without result"),
    ] {
        let _ = write!(out, "<div><b>{number}</b>{what}</div>");
    }
    out += "</div>\n";
    out += &budgets(&cases, notes);
    out + &rivals_ahead(&cases, notes)
}

fn budgets(cases: &[(&Chapter, &Shown)], notes: &Notes) -> String {
    let mut out = "<h3 id=budgets>Budgets</h3>\n<div class=scroll><table><tr><th class=text>case<th>urgo, median (range)<th>\
                   budget<th><th class=text>ratio to the rival named<th class=text>note"
        .to_owned();
    let mut rows = 0;
    for (chapter, case) in cases {
        let Some(judged) = &case.judged else {
            continue;
        };
        rows += 1;
        let rival = judged.rival.map_or(String::new(), |(name, ratio)| {
            format!("{} × {}", ratio_text(ratio), contender(name))
        });
        let note = match judged.verdict {
            Verdict::Missed => note(chapter, notes),
            _ => String::new(),
        };
        let _ = write!(
            out,
            "<tr><td class=text>{}<td>{}<td>{}<td>{}<td class=text>{rival}<td class=text>{note}",
            link(chapter, case),
            spread(judged.ours, &case.lines[0].judge.unit),
            budget(judged.budget, &case.lines[0].judge.unit),
            pill(judged.verdict)
        );
    }
    match rows {
        0 => "<h3 id=budgets>Budgets</h3>\n<p>None of these cases has a budget.</p>\n".to_owned(),
        _ => out + "</table></div>\n",
    }
}

fn rivals_ahead(cases: &[(&Chapter, &Shown)], notes: &Notes) -> String {
    let mut out = String::new();
    for (chapter, case) in cases {
        for (rival, ratio) in ahead(&case.lines) {
            let value = |name: &str| {
                let line = case.lines.iter().find(|line| line.contender == name);
                let median = line.and_then(|line| line.median(&line.judge.metric));
                median.map_or(String::new(), short)
            };
            let _ = write!(
                out,
                "<tr><td class=text>{}<td class=text>{}<td class=behind>{}<td>{} {unit}<td>{} {unit}<td class=text>{}",
                link(chapter, case),
                contender(rival),
                ratio_text(ratio),
                value("urgo"),
                value(rival),
                note(chapter, notes),
                unit = escaped(&case.lines[0].judge.unit)
            );
        }
    }
    let heading = "<h3 id=ahead>Rivals ahead by more than 5 %</h3>\n";
    if out.is_empty() {
        return format!("{heading}<p>None.</p>\n");
    }
    format!(
        "{heading}<div class=scroll><table><tr><th class=text>case<th class=text>rival<th>ratio<th>urgo<th>rival<th class=text>\
         note{out}</table></div>\n"
    )
}

fn link(chapter: &Chapter, case: &Shown) -> String {
    format!(
        "<a href=\"#{}\">{}: {}</a>",
        escaped(&case.id),
        escaped(&chapter.name),
        escaped(&case.name)
    )
}

fn note(chapter: &Chapter, notes: &Notes) -> String {
    match notes.on(&chapter.name) {
        Some(_) => format!("<a href=\"#note-{}\">see note</a>", escaped(&chapter.name)),
        None => "<span class=\"pill open\">no note yet</span>".to_owned(),
    }
}
