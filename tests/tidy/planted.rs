//! The checker's own tests: each kind of breach is planted in a small tree and must be found, and its lawful twin must not.

use crate::house::{self, HOUSE};
use crate::rules;
use crate::source::Source;
use crate::tree::{Breach, Tree};

const ROOT: (&str, &str) = (
    "src/lib.rs",
    "#![deny(unsafe_code)]\nmod atomic;\nmod go;\nmod park;\nmod sched;\npub use go::spawn;\n",
);
const MANIFEST: (&str, &str) = (
    "Cargo.toml",
    "[workspace.dependencies]\nclap = \"4\"\n[dependencies]\nurgo-sys.workspace = true\ncrossbeam-deque = \"0.8\"\n[dev-dependencies]\nloom = \"1\"\n",
);

/// A small lawful house with `text` as its `src/park.rs`.
fn with_park(text: &str) -> Tree {
    Tree::of(&[
        ROOT,
        MANIFEST,
        (
            "src/atomic.rs",
            "pub use core::sync::atomic::{AtomicU32, Ordering};\n",
        ),
        ("src/go.rs", "use crate::sched;\nuse crate::park::Waiter;\n"),
        (
            "src/sched.rs",
            "use crate::{atomic, park::{self, Waiter}};\nuse crossbeam_deque::Worker;\n",
        ),
        ("src/park.rs", text),
    ])
}

#[track_caller]
fn assert_found(breaches: &[Breach], path: &str, line: usize, part: &str) {
    let list: Vec<String> = breaches.iter().map(Breach::to_string).collect();
    let is_it = |b: &&Breach| b.path == path && b.line == line && b.message.contains(part);
    assert!(
        breaches.iter().any(|b| is_it(&b)),
        "not found at {path}:{line} with \"{part}\" among:\n{}",
        list.join("\n")
    );
    assert_eq!(
        breaches.len(),
        1,
        "one breach was planted:\n{}",
        list.join("\n")
    );
}

#[track_caller]
fn assert_lawful(breaches: &[Breach]) {
    crate::assert_none(breaches);
}

#[test]
fn table_rows_name_only_rows_before_them() {
    for (height, row) in HOUSE.iter().enumerate() {
        for lower in row.rooms {
            assert!(
                HOUSE[..height].iter().any(|r| r.name == *lower),
                "row `{}` names `{lower}`, which is not before it",
                row.name
            );
        }
    }
}

#[test]
fn layering_finds_an_upper_room_however_it_is_written() {
    for text in [
        "use crate::sched::Worker;\n",
        "use crate::{atomic::AtomicU32, sched};\n",
        "use super::sched;\n",
        "fn f() { crate::sched::ready(); }\n",
        "macro_rules! m { () => { $crate::sched::ready() }; }\n",
        "use crate as house; use crate::sched as below;\n",
    ] {
        assert_found(&house::check(&with_park(text)), "src/park.rs", 1, "`sched`");
    }
    let deep = "mod inner {\n    use super::super::sched::Worker;\n}\n";
    assert_found(&house::check(&with_park(deep)), "src/park.rs", 2, "`sched`");
}

#[test]
fn layering_sees_through_names_re_exported_at_the_root() {
    let tree = with_park("fn f() { crate::spawn(|| ()); }\n");
    assert_found(&house::check(&tree), "src/park.rs", 1, "`go`");
}

#[test]
fn layering_finds_another_rooms_crate() {
    let tree = with_park("use crossbeam_deque::Stealer;\n");
    assert_found(&house::check(&tree), "src/park.rs", 1, "`crossbeam_deque`");
}

#[test]
fn layering_finds_a_room_without_a_row() {
    let mut tree = with_park("");
    tree.files
        .insert("src/lib.rs".into(), format!("{}mod cellar;\n", ROOT.1));
    tree.files.insert("src/cellar.rs".into(), String::new());
    assert_found(&house::check(&tree), "src/cellar.rs", 1, "no row");
}

#[test]
fn layering_finds_a_member_crate_that_knows_too_much() {
    let mut tree = with_park("");
    let manifest = "[dependencies]\nlibc = \"0.2\"\n[target.'cfg(unix)'.dependencies]\nurgo-uring = { path = \"..\" }\n";
    tree.files.insert("sys/Cargo.toml".into(), manifest.into());
    assert_found(&house::check(&tree), "sys/Cargo.toml", 1, "`urgo_uring`");
}

#[test]
fn layering_leaves_lower_rooms_tests_and_prose_alone() {
    for text in [
        "use crate::atomic::AtomicU32;\nuse urgo_sys::futex;\nuse super::atomic;\n",
        "//! [`crate::sched`] calls this.\n/* crate::sched */\nconst A: &str = \"crate::sched\";\n",
        "#[cfg(test)]\nmod tests {\n    use crate::sched::Worker;\n    use super::*;\n}\n",
        "#[cfg(all(test, urgo_loom))]\nuse crate::sched::Worker;\n",
        "mod inner { use super::super::park; use super::Other; }\n",
    ] {
        assert_lawful(&house::check(&with_park(text)));
    }
    let after_test = "#[cfg(test)]\nmod tests {}\nuse crate::sched::Worker;\n";
    assert_found(
        &house::check(&with_park(after_test)),
        "src/park.rs",
        3,
        "`sched`",
    );
    let not_test = "#[cfg(not(test))]\nuse crate::sched::Worker;\n";
    assert_found(
        &house::check(&with_park(not_test)),
        "src/park.rs",
        2,
        "`sched`",
    );
}

#[test]
fn layering_leaves_a_test_file_alone_and_finds_its_neighbour() {
    let mut tree = with_park("#[cfg(test)]\nmod tests;\nmod word;\n");
    tree.files.insert(
        "src/park/tests.rs".into(),
        "use crate::sched::Worker;\n".into(),
    );
    tree.files.insert(
        "src/park/word.rs".into(),
        "use super::super::sched::Worker;\n".into(),
    );
    assert_found(&house::check(&tree), "src/park/word.rs", 1, "`sched`");
}

#[test]
fn atomics_are_found_outside_their_door() {
    for text in [
        "use std::sync::atomic::AtomicU32;\n",
        "use core::sync::{atomic::{AtomicU32, Ordering}};\n",
        "fn f() { ::std::sync::atomic::fence(X); }\n",
    ] {
        let breaches = rules::check_atomics(&with_park(text));
        assert!(
            !breaches.is_empty() && breaches.iter().all(|b| b.path == "src/park.rs"),
            "{text}"
        );
        assert!(breaches[0].message.contains("crate::atomic"));
    }
    let model = with_park("fn f() { loom::thread::yield_now(); }\n");
    assert_found(
        &rules::check_atomics(&model),
        "src/park.rs",
        1,
        "`loom::thread",
    );
    assert_lawful(&rules::check_atomics(&with_park(
        "use std::sync::Arc;\nuse crate::atomic::AtomicU32;\n",
    )));
}

#[test]
fn unsafe_code_is_found_without_its_door() {
    let heading = "//! # Safety\n//! Because.\n";
    let allow = "#![allow(unsafe_code)]\n";
    let code = "fn f() { unsafe { g() } }\n";
    let check = |text: String| rules::check_unsafe_doors(&with_park(&text));
    assert_found(
        &check(format!("{heading}{code}")),
        "src/park.rs",
        3,
        "without `#![allow(unsafe_code)]`",
    );
    assert_found(
        &check(format!("{allow}{code}")),
        "src/park.rs",
        1,
        "# Safety",
    );
    assert_found(
        &check(format!("{heading}{allow}fn f() {{}}\n")),
        "src/park.rs",
        3,
        "without unsafe code",
    );
    let per_item = format!("{heading}{allow}#[allow(unsafe_code)]\n{code}");
    assert_found(&check(per_item), "src/park.rs", 4, "per file, not per item");
    assert_lawful(&check(format!("{heading}{allow}{code}")));
    assert_lawful(&check(
        "//! unsafe in prose\nconst A: &str = \"unsafe\";\n".into(),
    ));
}

#[test]
fn unsafe_code_is_denied_at_every_crate_root() {
    let mut tree = with_park("");
    tree.files
        .insert("arch/src/lib.rs".into(), "//! A crate.\n".into());
    assert_found(
        &rules::check_unsafe_doors(&tree),
        "arch/src/lib.rs",
        1,
        "#![deny(unsafe_code)]",
    );
}

#[test]
fn an_ordering_without_a_partner_is_found() {
    let check = |text: &str| rules::check_orderings(&with_park(text));
    let alone = "fn f() { a.load(Ordering::Acquire); }\n";
    assert_found(&check(alone), "src/park.rs", 1, "pairs with");
    assert_found(
        &check("fn f() { fence(Ordering::SeqCst); }\n"),
        "src/park.rs",
        1,
        "`SeqCst`",
    );
    let bare = "use crate::atomic::Ordering::{self, Release};\nfn f() { a.store(1, Release); }\n";
    assert_found(&check(bare), "src/park.rs", 2, "`Release`");
    let far = format!("// pairs with PK1\n{}{alone}", "\n".repeat(6));
    assert_found(&check(&far), "src/park.rs", 8, "pairs with");
    for text in [
        "// The word is published; pairs\n// with PK1 in `wake`.\nfn f() { a.load(Ordering::Acquire); }\n",
        "fn f() { a.load(Ordering::Acquire); } // Pairs with PK1.\n",
        "// Both pair with PK1.\nfn f() { a.load(Ordering::Acquire);\n b.load(Ordering::Acquire); }\n",
        "fn f() { a.load(Ordering::Relaxed); let less = Ordering::Less; }\n",
        "#[cfg(test)]\nmod tests { fn f() { a.load(Ordering::SeqCst); } }\n",
        "enum Verb { Release }\nfn f() { g(Release); }\n",
    ] {
        assert_lawful(&check(text));
    }
}

#[test]
fn dead_and_missing_files_are_found() {
    let mut tree = with_park("mod word;\n#[path = \"odd/place.rs\"]\nmod elsewhere;\n");
    tree.files.insert("src/odd/place.rs".into(), String::new());
    assert_found(
        &house::check_dead_files(&tree),
        "src/park/word.rs",
        1,
        "not there",
    );
    tree.files.insert("src/park/word.rs".into(), String::new());
    assert_lawful(&house::check_dead_files(&tree));
    tree.files.insert("src/park/old.rs".into(), String::new());
    assert_found(
        &house::check_dead_files(&tree),
        "src/park/old.rs",
        1,
        "never compiled",
    );
}

#[test]
fn empty_names_and_banned_words_are_found() {
    for path in [
        "src/util.rs",
        "tests/common/load.rs",
        "sys/src/futex_mock.rs",
    ] {
        let tree = Tree::of(&[(path, "")]);
        assert_found(
            &rules::check_file_names(&tree),
            path,
            1,
            "does not say what it holds",
        );
    }
    assert_lawful(&rules::check_file_names(&Tree::of(&[(
        "src/commonwealth.rs",
        "",
    )])));
    let fiber = with_park("\n/// A Fiber is parked.\n");
    assert_found(&rules::check_words(&fiber), "src/park.rs", 2, "goroutine");
    assert_lawful(&rules::check_words(&with_park("/// fiberglass\n")));
}

#[test]
fn debris_is_found() {
    let check = |text: &str| rules::check_debris(&with_park(text));
    assert_found(
        &check("fn f() { \n}\n"),
        "src/park.rs",
        1,
        "end of the line",
    );
    for word in ["todo", "unimplemented", "dbg"] {
        assert_found(
            &check(&format!("fn f() {{\n    {word}!(1);\n}}\n")),
            "src/park.rs",
            2,
            "unfinished work",
        );
        assert_lawful(&check(&format!(
            "// {word}!(1)\nconst A: &str = \"{word}!\";\n"
        )));
    }
    let machine = concat!("/ho", "me/me/urgo");
    assert_found(
        &check(&format!("// see {machine}\n")),
        "src/park.rs",
        1,
        "one machine only",
    );
    let readme = Tree::of(&[("README.md", machine)]);
    assert_found(
        &rules::check_debris(&readme),
        "README.md",
        1,
        "one machine only",
    );
    assert_lawful(&check(&format!("// see docs{machine}\n")));
}

#[test]
fn the_lexer_tells_code_from_strings_comments_and_lifetimes() {
    let text = r##"
fn f<'a>(x: &'a str) -> char { '"' } // a "quote
const B: &[u8] = b"\"unsafe\\"; const R: &str = r#"un"safe"#; const C: char = '\''; const D: char = '\u{7b}';
/* outer /* inner */ still */ use a::{b as c, d::*, e::{self, f}};
"##;
    let source = Source::parse(text);
    assert!(
        source
            .tokens
            .iter()
            .all(|t| t.text != "unsafe" && t.text != "still" && t.text != "quote")
    );
    let paths: Vec<String> = source
        .paths()
        .iter()
        .map(|p| p.segments.join("::"))
        .collect();
    assert_eq!(paths, ["a::b", "a::d::*", "a::e::self", "a::e::f"]);
    assert_eq!(source.paths()[0].alias.as_deref(), Some("c"));
    assert_eq!(source.paths()[0].line, 4);
}
