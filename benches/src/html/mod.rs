//! # Purpose
//!
//! The report: one HTML file that needs nothing else, neither files beside it nor a network.
//!
//! # Way
//!
//! `story` decides which results are shown and what came before them; `summary` writes the top of the page and `chapter` a section
//! for each workload; `plots` draws on `frame` and `axis`, once for light and dark pages: letters and grid have colours of
//! their own (`ink`), which the style sheet exchanges for those of the reader's page.
//!
//! # Imports
//!
//! `catalogue`, `cell`, `machine`, `results`.

mod axis;
mod chapter;
mod frame;
mod ink;
mod notes;
mod plots;
mod story;
mod summary;
mod text;

use crate::results::{Line, Verdict, ahead, read_lines};
use notes::Notes;
use std::fmt::Write;
use std::path::Path;
use story::{Chapter, Story};
use text::escaped;

/// Draws the report of results files.
///
/// # Errors
/// What cannot be read or written.
pub(crate) fn write(
    files: &[std::path::PathBuf],
    notes: Option<&Path>,
    to: &Path,
) -> Result<(), String> {
    let mut lines = Vec::new();
    for file in files {
        lines.extend(read_lines(file)?);
    }
    if lines.is_empty() {
        return Err("there are no results in what is to be drawn".to_owned());
    }
    write_lines(lines, notes, to)
}

/// Draws the report of all these results. Runs are told apart by when they were started.
///
/// # Errors
/// What cannot be read or written.
pub(crate) fn write_lines(lines: Vec<Line>, notes: Option<&Path>, to: &Path) -> Result<(), String> {
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    let notes = match notes {
        Some(path) => std::fs::read_to_string(path).map_err(|e| failed(path, e))?,
        None => String::new(),
    };
    let story = Story::of(lines);
    let notes = Notes::of(&notes, |name| {
        story.chapters.iter().any(|chapter| chapter.name == name)
    });
    std::fs::write(to, page(&story, &notes)).map_err(|e| failed(to, e))
}

fn page(story: &Story, notes: &Notes) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport content=\"width=device-width, \
         initial-scale=1\">\n<title>urgo and its rivals</title>\n<style>\n{}</style>\n</head>\n<body>\n",
        include_str!("style.css")
    );
    out += &contents(story, notes);
    out += "<main>\n";
    out += &summary::head(story);
    if !notes.rest.is_empty() {
        let _ = writeln!(
            out,
            "<h2 id=notes>Notes</h2>\n<div class=note>{}</div>",
            notes.rest
        );
    }
    out += &summary::verdicts(story, notes);
    if let Some((newest, _)) = story.runs.last() {
        for chapter in &story.chapters {
            out += &chapter::section(chapter, notes, newest);
        }
    }
    out + "</main>\n</body>\n</html>\n"
}

fn contents(story: &Story, notes: &Notes) -> String {
    let mut out = "<nav><b>Contents</b>\n<ul>".to_owned();
    if !notes.rest.is_empty() {
        out += "<li><a href=\"#notes\">Notes</a>";
    }
    out += "<li><a href=\"#summary\">Summary</a><li><a href=\"#budgets\">Budgets</a><li><a href=\"#ahead\">Rivals ahead</a></ul>\n";
    out += "<b>Workloads</b>\n<ul>";
    for chapter in &story.chapters {
        let name = escaped(&chapter.name);
        let _ = write!(out, "<li><a href=\"#w-{name}\">{name}</a>{}", mark(chapter));
    }
    out + "</ul></nav>\n"
}

/// What is to be explained of a workload.
fn mark(chapter: &Chapter) -> &'static str {
    let judged = |verdict| {
        let mut all = chapter.cases.iter().filter_map(|case| case.judged.as_ref());
        all.any(|judged| judged.verdict == verdict)
    };
    if judged(Verdict::Missed) {
        " <span class=\"pill miss\">miss</span>"
    } else if chapter
        .cases
        .iter()
        .any(|case| !ahead(&case.lines).is_empty())
    {
        " <span class=\"pill open\">behind</span>"
    } else {
        ""
    }
}
