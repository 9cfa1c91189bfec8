//! Rules on single files: where `unsafe` and atomics may stand, what an ordering must say, names, and what must not be left behind.

use std::collections::BTreeSet;

use crate::source::Source;
use crate::tree::{Breach, CRATE_SOURCES, Tree, breach};

/// Only `src/atomic.rs` (or its folder) names atomics and the model checker; the rest of `src/` goes through it.
pub(crate) fn check_atomics(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let (reached, _) = tree.reach("src");
    for file in reached.iter().filter(|f| !f.is_test) {
        if file.module.first().is_some_and(|room| room == "atomic") {
            continue;
        }
        for path in file.source.paths().iter().filter(|p| !p.is_test) {
            let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
            let is_atomic = matches!(segments[..], ["core" | "std", "sync", "atomic", ..]);
            if is_atomic || segments[0] == "loom" {
                let named = segments[..segments.len().min(3)].join("::");
                breaches.push(breach(
                    &file.path,
                    path.line,
                    format!(
                        "names `{named}`; take it from `crate::atomic`, the single door for atomics, so that the \
                         model checker sees it"
                    ),
                ));
            }
        }
    }
    breaches
}

/// `unsafe` is denied at each crate root and permitted per file, under a `# Safety` heading.
pub(crate) fn check_unsafe_doors(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for folder in CRATE_SOURCES {
        let root = format!("{folder}/lib.rs");
        // A test file beside a door stands under its parent's permission, and under the compiler's eye.
        let (reached, _) = tree.reach(folder);
        let tests: BTreeSet<&str> = reached
            .iter()
            .filter(|f| f.is_test)
            .map(|f| f.path.as_str())
            .collect();
        for (path, text) in tree
            .rust_files_in(folder)
            .filter(|(path, _)| !tests.contains(path))
        {
            let source = Source::parse(text);
            let doors = lint_attributes(&source);
            let denies = doors
                .iter()
                .any(|d| d.is_inner && matches!(d.level, "deny" | "forbid"));
            if path == root && !denies {
                breaches.push(breach(
                    path,
                    1,
                    "the crate root does not deny unsafe code; add `#![deny(unsafe_code)]`",
                ));
            }
            let allow = doors
                .iter()
                .find(|d| d.is_inner && matches!(d.level, "allow" | "expect"));
            for door in doors
                .iter()
                .filter(|d| !d.is_inner && matches!(d.level, "allow" | "expect"))
            {
                breaches.push(breach(
                    path,
                    door.line,
                    "unsafe code is permitted per file, not per item; open the file with `#![allow(unsafe_code)]`",
                ));
            }
            let first_unsafe = source
                .tokens
                .iter()
                .find(|t| matches!(t.text.as_str(), "unsafe" | "global_asm"));
            match (first_unsafe, allow) {
                (Some(token), None) => breaches.push(breach(
                    path,
                    token.line,
                    "unsafe code without `#![allow(unsafe_code)]` at the top of the file; add it with a `# Safety` heading",
                )),
                (None, Some(door)) => breaches.push(breach(
                    path,
                    door.line,
                    "`#![allow(unsafe_code)]` in a file without unsafe code; remove it, so that the door stays shut",
                )),
                _ => {}
            }
            if first_unsafe.is_some() && !has_safety_heading(text) {
                breaches.push(breach(
                    path,
                    1,
                    "unsafe code without a `//! # Safety` heading; say why it must be unsafe and what it relies on",
                ));
            }
        }
    }
    breaches
}

struct LintAttribute<'a> {
    level: &'a str,
    is_inner: bool,
    line: usize,
}

/// Attributes that set the level of `unsafe_code`.
fn lint_attributes(source: &Source) -> Vec<LintAttribute<'_>> {
    let mut found = Vec::new();
    for i in 0..source.tokens.len() {
        let open = match (source.text(i), source.text(i + 1), source.text(i + 2)) {
            ("#", "!", "[") => i + 2,
            ("#", "[", _) => i + 1,
            _ => continue,
        };
        let end = source.closing(open);
        if (open..end).any(|k| source.text(k) == "unsafe_code") {
            found.push(LintAttribute {
                level: source.text(open + 1),
                is_inner: open == i + 2,
                line: source.tokens[i].line,
            });
        }
    }
    found
}

fn has_safety_heading(text: &str) -> bool {
    text.lines().any(|line| {
        line.trim_start().strip_prefix("//!").is_some_and(|doc| {
            doc.trim().starts_with('#')
                && doc.trim_matches([' ', '#']).eq_ignore_ascii_case("safety")
        })
    })
}

/// Lines above an ordering in which its partner may be named.
const PARTNER_LINES_MAX: usize = 6;

/// How a comment names it. One comment may speak for two orderings.
const PARTNER_WORDS: &[&str] = &["pairs with", "pair with"];

/// Every ordering stronger than relaxed names the place it pairs with.
pub(crate) fn check_orderings(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for folder in CRATE_SOURCES {
        let (reached, _) = tree.reach(folder);
        for file in reached.iter().filter(|f| !f.is_test) {
            let source = &file.source;
            for i in 0..source.tokens.len() {
                let token = &source.tokens[i];
                let is_strong = matches!(
                    token.text.as_str(),
                    "Acquire" | "Release" | "AcqRel" | "SeqCst"
                );
                let is_ordering = source.text(i.wrapping_sub(1)) == "::"
                    && source.text(i.wrapping_sub(2)) == "Ordering";
                let is_bare = !is_ordering && is_imported_ordering(source, i);
                if token.is_test || !is_strong || !(is_ordering || is_bare) {
                    continue;
                }
                let nearby = source.comments_near(token.line, PARTNER_LINES_MAX);
                let has_partner = PARTNER_WORDS.iter().any(|words| nearby.contains(words));
                if !has_partner {
                    breaches.push(breach(
                        &file.path,
                        token.line,
                        format!(
                            "`{}` without a partner; write a comment \"pairs with <tag>\" on the line or within the \
                             {PARTNER_LINES_MAX} lines above",
                            token.text
                        ),
                    ));
                }
            }
        }
    }
    breaches.dedup_by(|a, b| a.path == b.path && a.line == b.line);
    breaches
}

/// `Acquire` by itself, in a file that imports it out of `Ordering`, and not in the import.
fn is_imported_ordering(source: &Source, i: usize) -> bool {
    let word = source.text(i);
    let is_value = matches!(source.text(i.wrapping_sub(1)), "," | "(")
        && matches!(source.text(i + 1), "," | ")");
    is_value
        && source.paths().iter().any(|p| {
            let n = p.segments.len();
            n >= 2
                && p.segments[n - 2] == "Ordering"
                && (p.segments[n - 1] == word || p.segments[n - 1] == "*")
        })
}

/// Stems and endings of file names that say nothing.
const EMPTY_STEMS: &[&str] = &[
    "common", "helper", "helpers", "misc", "mod2", "util", "utils",
];
const EMPTY_ENDINGS: &[&str] = &[
    "_alt", "_helper", "_helpers", "_misc", "_mock", "_util", "_utils",
];

/// Rust files and their folders are named after the one thing they hold.
pub(crate) fn check_file_names(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, _) in tree.rust_files() {
        for part in path.trim_end_matches(".rs").split('/') {
            let is_empty =
                EMPTY_STEMS.contains(&part) || EMPTY_ENDINGS.iter().any(|e| part.ends_with(e));
            if is_empty {
                breaches.push(breach(
                    path,
                    1,
                    format!("`{part}` does not say what it holds; name it after its one concept"),
                ));
            }
        }
    }
    breaches
}

/// Words whose mix-up with ours would mislead a reader, and ours.
const BANNED_WORDS: &[(&str, &str)] = &[
    ("fiber", "goroutine"),
    ("fibers", "goroutines"),
    ("fibre", "goroutine"),
    ("global queue", "injector"),
    ("gopark", "suspend"),
    ("green thread", "goroutine"),
    ("green threads", "goroutines"),
    ("lifo slot", "next slot"),
    ("runnext", "next slot"),
    ("sudog", "waiter"),
    ("task header", "control block"),
];

/// One word per idea, in code and comments of the four crates.
pub(crate) fn check_words(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for folder in CRATE_SOURCES {
        for (path, text) in tree.rust_files_in(folder) {
            for (number, line) in text.lines().enumerate() {
                let lower = line.to_lowercase();
                for (banned, ours) in BANNED_WORDS {
                    if has_whole_word(&lower, banned) {
                        breaches.push(breach(
                            path,
                            number + 1,
                            format!("\"{banned}\" is not our word for it; write \"{ours}\""),
                        ));
                    }
                }
            }
        }
    }
    breaches
}

fn has_whole_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        ![before, after]
            .into_iter()
            .flatten()
            .any(char::is_alphanumeric)
    })
}

/// Beginnings of paths that exist on one machine only. Written in two halves, so that this file does not contain them.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Use", "rs/"),
    concat!("/tmp/pl", "an"),
    concat!("/tmp/tar", "get"),
];

/// Macros that mark unfinished work.
const UNFINISHED: &[&str] = &["dbg", "todo", "unimplemented"];

/// Nothing is left behind: machine paths, trailing blanks, unfinished code.
pub(crate) fn check_debris(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in &tree.files {
        for (number, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\t']) {
                breaches.push(breach(
                    path,
                    number + 1,
                    "blank at the end of the line; remove it",
                ));
            }
            for machine in MACHINE_PATHS {
                if has_path_start(line, machine) {
                    breaches.push(breach(
                        path,
                        number + 1,
                        format!("`{machine}` exists on one machine only; write a path from the project's root"),
                    ));
                }
            }
        }
    }
    for (path, text) in tree.rust_files() {
        let source = Source::parse(text);
        for i in 0..source.tokens.len() {
            let word = source.text(i);
            if UNFINISHED.contains(&word) && source.text(i + 1) == "!" {
                breaches.push(breach(
                    path,
                    source.tokens[i].line,
                    format!("`{word}!` marks unfinished work; finish it, or return a typed error"),
                ));
            }
        }
    }
    breaches
}

fn has_path_start(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '}' | '-' | '*'))
    })
}
