//! The house rules as a test: layering, the single door for atomics, where `unsafe` may stand, partners of orderings,
//! dead files, names and debris. It reads files only.
//!
//! `TIDY_ROOT` points it at another tree; `ci/canary` uses that to see it fail.

#[path = "tidy/house.rs"]
mod house;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tree.rs"]
mod tree;

#[path = "tidy/planted.rs"]
mod planted;

use std::path::PathBuf;

use tree::{Breach, Tree};

fn this_tree() -> Tree {
    let root = std::env::var_os("TIDY_ROOT")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let tree = Tree::read(&root);
    assert!(
        tree.files.contains_key("src/lib.rs") && tree.files.contains_key("Cargo.toml"),
        "{} is not the root of the project",
        root.display()
    );
    tree
}

#[track_caller]
fn assert_none(breaches: &[Breach]) {
    let list: Vec<String> = breaches.iter().map(Breach::to_string).collect();
    assert!(
        list.is_empty(),
        "{} breach(es) of the house rules:\n{}",
        list.len(),
        list.join("\n")
    );
}

#[test]
fn rooms_name_only_lower_rooms() {
    assert_none(&house::check(&this_tree()));
}

#[test]
fn atomics_come_through_one_door() {
    assert_none(&rules::check_atomics(&this_tree()));
}

#[test]
fn unsafe_code_stands_behind_a_marked_door() {
    assert_none(&rules::check_unsafe_doors(&this_tree()));
}

#[test]
fn strong_orderings_name_their_partner() {
    assert_none(&rules::check_orderings(&this_tree()));
}

#[test]
fn every_source_file_is_compiled() {
    assert_none(&house::check_dead_files(&this_tree()));
}

#[test]
fn files_are_named_after_what_they_hold() {
    assert_none(&rules::check_file_names(&this_tree()));
}

#[test]
fn one_word_per_idea() {
    assert_none(&rules::check_words(&this_tree()));
}

#[test]
fn nothing_is_left_behind() {
    assert_none(&rules::check_debris(&this_tree()));
}
