//! What the build script writes down.

#[path = "../build/commit.rs"]
mod commit;
#[path = "../build/settings.rs"]
mod settings;

use settings::{Settings, profile_of};
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = "\
[workspace]
lto = \"no profile\"

[profile.release]
debug = \"line-tables-only\" # thin
lto = \"thin\"  # a comment
codegen-units = 1

[profile.smoke]
inherits = \"release\"
lto = \"off\"

[package]
name = \"it\"
";

fn find(profile: &str, key: &str, variables: &[(&str, &str)]) -> String {
    let variable = |name: &str| {
        let found = variables.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Settings::new(MANIFEST, variable).find(profile, key)
}

#[test]
fn a_setting_says_where_it_is_from() {
    assert_eq!(find("release", "lto", &[]), "thin (Cargo.toml)");
    let off = [("CARGO_PROFILE_RELEASE_LTO", "off")];
    assert_eq!(
        find("release", "lto", &off),
        "off (CARGO_PROFILE_RELEASE_LTO)"
    );
    assert_eq!(find("release", "codegen-units", &off), "1 (Cargo.toml)");
    assert_eq!(find("debug", "lto", &off), "cargo's default");
    let dev = [("CARGO_PROFILE_DEV_CODEGEN_UNITS", "4")];
    assert_eq!(
        find("debug", "codegen-units", &dev),
        "4 (CARGO_PROFILE_DEV_CODEGEN_UNITS)"
    );
}

#[test]
fn a_profile_inherits_what_it_does_not_say() {
    assert_eq!(find("smoke", "lto", &[]), "off (Cargo.toml)");
    assert_eq!(find("smoke", "codegen-units", &[]), "1 (Cargo.toml)");
    let fat = [("CARGO_PROFILE_RELEASE_LTO", "fat")];
    assert_eq!(find("smoke", "lto", &fat), "off (Cargo.toml)");
    let many = [("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")];
    assert_eq!(
        find("smoke", "codegen-units", &many),
        "16 (CARGO_PROFILE_RELEASE_CODEGEN_UNITS)"
    );
    assert_eq!(find("nobody", "lto", &[]), "cargo's default");
}

#[test]
fn the_profile_is_the_name_of_its_directory() {
    let of = |path| profile_of(Path::new(path));
    assert_eq!(of("/t/smoke/build/it-0123/out"), Some("smoke".to_owned()));
    assert_eq!(
        of("/t/x86_64-a/debug/build/it-0123/out"),
        Some("debug".to_owned())
    );
    assert_eq!(of("/elsewhere/out"), None);
}

/// An empty directory of one test.
fn room(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(path.join("src")).unwrap();
    path
}

fn git(room: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@localhost",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .current_dir(room)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
}

#[test]
fn a_commit_is_known_in_a_worktree_and_says_whether_the_sources_are_its_own() {
    let room = room("commit");
    let main = room.join("main");
    std::fs::create_dir_all(main.join("src")).unwrap();
    let file = |name: &str, text: &str| std::fs::write(main.join(name), text).unwrap();
    file("src/a.rs", "1");
    file("notes", "1");
    git(&main, &["init", "--quiet"]);
    git(&main, &["add", "."]);
    git(&main, &["commit", "--quiet", "-m", "one"]);
    let first = commit::of(&main, &["src"]);
    assert_eq!(first.len(), 12, "{first}");
    file("notes", "2");
    assert_eq!(commit::of(&main, &["src"]), first, "notes are no source");
    file("src/a.rs", "2");
    assert_eq!(commit::of(&main, &["src"]), format!("{first}-dirty"));
    file("src/a.rs", "1");
    file("src/b.rs", "new");
    assert_eq!(commit::of(&main, &["src"]), format!("{first}-dirty"));

    // A new commit in a worktree touches one of the files that are watched.
    git(
        &main,
        &["worktree", "add", "--quiet", "../tree", "-b", "branch"],
    );
    let tree = room.join("tree");
    assert_eq!(commit::of(&tree, &["src"]), first);
    let watched = commit::watched(&tree);
    assert!(
        watched.iter().any(|path| path.ends_with("HEAD")),
        "{watched:?}"
    );
    assert!(
        watched
            .iter()
            .any(|path| path.ends_with("refs/heads/branch")),
        "{watched:?}"
    );
    let texts = || -> Vec<_> {
        watched
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    };
    let before = texts();
    git(&tree, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
    assert_ne!(before, texts());
    assert_ne!(commit::of(&tree, &["src"]), first);

    // Somebody else's repository around the sources says nothing of them.
    assert_eq!(commit::of(&main.join("src"), &["."]), "unknown");
    assert!(commit::watched(&main.join("src")).is_empty());
}

#[test]
fn outside_a_repository_the_commit_is_unknown() {
    // A directory that is in no repository, or in one that is not its own.
    let room = room("outside");
    assert_eq!(commit::of(&room, &["src"]), "unknown");
    assert!(commit::watched(&room).is_empty());
}
