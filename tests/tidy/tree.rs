//! The files of the house: read from disk, or written down in a test. Also who is reached by `mod` from which crate root.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// What tidy found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Breach {
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

pub(crate) fn breach(path: &str, line: usize, message: impl Into<String>) -> Breach {
    Breach {
        path: path.to_owned(),
        line,
        message: message.into(),
    }
}

/// Text files by their path from the root, `/` between the parts.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, String>,
}

/// A file that `mod` declarations reach from a crate root.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) path: String,
    /// `[]` for the crate root, `["park", "waiter"]` for `src/park/waiter.rs`.
    pub(crate) module: Vec<String>,
    /// Exists in test builds only.
    pub(crate) is_test: bool,
    pub(crate) source: Source,
}

/// Source folders of the four crates.
pub(crate) const CRATE_SOURCES: &[&str] = &["src", "arch/src", "sys/src", "uring/src"];

const TEXT_ENDINGS: &[&str] = &["md", "rs", "sh", "toml"];
const SCRIPT_FOLDERS: &[&str] = &["ci", ".ci"];

impl Tree {
    /// Reads every text file that belongs to the project below `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut tree = Self::default();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(root.join(&folder))
                .unwrap_or_else(|e| panic!("cannot list {}: {e}", folder.display()));
            for entry in entries {
                let entry = entry.expect("a folder entry can be read");
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = folder.join(&name);
                let kind = entry.file_type().expect("a folder entry has a type");
                if kind.is_dir() {
                    let is_output = name.starts_with("target") || name == ".git";
                    if !is_output {
                        folders.push(path);
                    }
                } else if kind.is_file() && is_text(&path) {
                    // A file may vanish between the listing and the read while an editor saves it.
                    if let Ok(text) = fs::read_to_string(root.join(&path)) {
                        tree.files.insert(path.to_string_lossy().into_owned(), text);
                    }
                }
            }
        }
        tree
    }

    /// A tree of the given paths and texts.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(p, t)| ((*p).into(), (*t).into()))
                .collect(),
        }
    }

    pub(crate) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Rust files below one folder.
    pub(crate) fn rust_files_in<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.rust_files().filter(move |(path, _)| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Follows `mod` declarations from `<folder>/lib.rs`. Missing files are reported.
    pub(crate) fn reach(&self, folder: &str) -> (Vec<Reached>, Vec<Breach>) {
        let mut reached = Vec::new();
        let mut breaches = Vec::new();
        let root = format!("{folder}/lib.rs");
        let mut todo = vec![(root, Vec::new(), folder.to_owned(), false)];
        while let Some((path, module, child_folder, is_test)) = todo.pop() {
            let Some(text) = self.files.get(&path) else {
                breaches.push(breach(
                    &path,
                    1,
                    "declared by `mod` but not there; write the file or drop the line",
                ));
                continue;
            };
            let source = Source::parse(text);
            for child in source.module_files() {
                let mut parts = child.inline.clone();
                let inline_folder = join(&child_folder, &parts);
                parts.push(child.name.clone());
                let below: Vec<String> = module.iter().cloned().chain(parts).collect();
                let own_folder = format!("{inline_folder}/{}", child.name);
                let (file, grandchildren) = match &child.path {
                    Some(given) => {
                        let here = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                        let base = if child.inline.is_empty() {
                            here
                        } else {
                            &inline_folder
                        };
                        let file = format!("{base}/{given}");
                        let folder = file
                            .rsplit_once('/')
                            .map_or("", |(folder, _)| folder)
                            .to_owned();
                        (file, folder)
                    }
                    None if self.files.contains_key(&format!("{own_folder}/mod.rs")) => {
                        (format!("{own_folder}/mod.rs"), own_folder)
                    }
                    None => (format!("{own_folder}.rs"), own_folder),
                };
                todo.push((file, below, grandchildren, is_test || child.is_test));
            }
            reached.push(Reached {
                path,
                module,
                is_test,
                source,
            });
        }
        (reached, breaches)
    }
}

fn join(folder: &str, parts: &[String]) -> String {
    parts
        .iter()
        .fold(folder.to_owned(), |path, part| format!("{path}/{part}"))
}

fn is_text(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    let in_scripts = SCRIPT_FOLDERS.iter().any(|folder| path.starts_with(folder));
    TEXT_ENDINGS.contains(&ending) || in_scripts
}
