//! The commit that the sources are of.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Commit of the workspace, with `-dirty` if one of `sources` is not as in it; "unknown" outside a repository of its own.
pub(crate) fn of(workspace: &Path, sources: &[&str]) -> String {
    if !is_its_own(workspace) {
        return "unknown".to_owned();
    }
    let Some(commit) = git(workspace, &["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let status = [&["status", "--porcelain", "--"], sources].concat();
    match git(workspace, &status) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}-dirty"),
    }
}

/// Files of git, those that are there, of which one changes with every commit and every change of the branch.
pub(crate) fn watched(workspace: &Path) -> Vec<PathBuf> {
    if !is_its_own(workspace) {
        return Vec::new();
    }
    let branch = git(workspace, &["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "index", "packed-refs"];
    names
        .into_iter()
        .chain(branch.as_deref())
        // In a worktree these lie in several places, which git knows.
        .filter_map(|name| git(workspace, &["rev-parse", "--git-path", name]))
        .map(|path| workspace.join(path))
        .filter(|path| path.exists())
        .collect()
}

/// Sources that were unpacked inside somebody else's repository are not of its commit.
fn is_its_own(workspace: &Path) -> bool {
    let top = git(workspace, &["rev-parse", "--show-toplevel"]);
    let top = top.and_then(|top| Path::new(&top).canonicalize().ok());
    top.is_some() && top == workspace.canonicalize().ok()
}

/// What git answers, if there is a git and it does.
fn git(workspace: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        // It shall write nothing, not even what it has learned of the files: that would look like a change.
        .arg("--no-optional-locks")
        .args(arguments)
        .current_dir(workspace)
        // As a hook's caller sets them for another repository.
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}
