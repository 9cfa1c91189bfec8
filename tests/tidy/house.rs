//! The house plan as a table, and the check that the code keeps to it: a lower room never names an upper one.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Breach, CRATE_SOURCES, Reached, Tree, breach};

/// One room of `src/`.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    /// Other rooms that it may name, each of which stands above it in the table (and so below it in the house).
    pub(crate) rooms: &'static [&'static str],
    /// Crates that it may name besides `core`, `alloc` and `std`.
    pub(crate) crates: &'static [&'static str],
}

const fn room(
    name: &'static str,
    rooms: &'static [&'static str],
    crates: &'static [&'static str],
) -> Room {
    Room {
        name,
        rooms,
        crates,
    }
}

/// The rooms of `src/`, lowest first. A new room gets a row here. `loom` stands for the model checker's threads and locks,
/// in what is compiled for it only; its atomics come through `atomic`.
#[rustfmt::skip]
pub(crate) const HOUSE: &[Room] = &[
    // What every room stands on.
    room("atomic",    &[],                                     &["loom", "urgo_sys"]),
    room("limits",    &[],                                     &[]),
    room("fatal",     &["atomic", "limits"],                   &["libc", "urgo_sys"]),
    // The doors to the outside: clock, choice, kernel, entropy, host threads.
    room("seam",      &["atomic", "limits", "fatal"],          &["io_uring", "libc", "urgo_sys", "urgo_uring"]),
    // Parking.
    room("park",      &["atomic", "limits", "fatal", "seam"],  &["crossbeam_utils", "libc", "loom", "urgo_sys"]),
    // The tree of contexts.
    room("ambient",   &["atomic", "park"],                     &[]),
    // The goroutine itself: control block, stack, registry.
    room("goroutine", &["atomic", "limits", "fatal", "seam", "park", "ambient"],
                                                               &["crossbeam_utils", "libc", "urgo_arch", "urgo_sys"]),
    // Event sources.
    room("timer",     &["atomic", "limits", "fatal"],          &[]),
    // Scheduler.
    room("sched",     &["atomic", "limits", "fatal", "seam", "park", "ambient", "goroutine", "timer"],
                      &["crossbeam_deque", "crossbeam_utils", "io_uring", "libc", "loom", "tracing", "urgo_arch", "urgo_sys", "urgo_uring"]),
    // What users call.
    room("blocking",  &["atomic", "limits", "fatal", "seam", "park", "goroutine", "timer", "sched"],
                      &["crossbeam_utils", "libc", "tracing", "urgo_sys"]),
    room("go",        &["atomic", "limits", "fatal", "seam", "park", "goroutine", "timer", "sched"],
                      &["tracing"]),
    room("time",      &["atomic", "limits", "fatal", "seam", "park", "ambient", "goroutine", "timer", "sched", "go"],
                      &["urgo_sys"]),
    room("host",      &["atomic", "limits", "fatal", "seam", "park", "ambient", "goroutine", "timer", "sched", "time"],
                      &[]),
    room("sync",      &["atomic", "limits", "fatal", "seam", "park", "goroutine", "timer", "sched", "time"],
                      &["crossbeam_utils", "lock_api"]),
    room("chan",      &["atomic", "limits", "fatal", "seam", "park", "goroutine", "timer", "sched", "time", "sync"],
                      &["crossbeam_utils", "urgo_sys"]),
    room("io",        &["atomic", "limits", "fatal", "seam", "park", "ambient", "goroutine", "timer", "sched", "time"],
                      &["io_uring", "libc", "urgo_sys", "urgo_uring"]),
    room("net",       &["atomic", "limits", "fatal", "seam", "park", "goroutine", "timer", "sched", "time", "io", "blocking", "host"],
                      &["io_uring", "libc", "socket2", "urgo_sys", "urgo_uring"]),
    room("context",   &["atomic", "limits", "fatal", "seam", "park", "ambient", "goroutine", "timer", "sched", "go", "time", "sync", "chan"],
                      &[]),
    // Above the API.
    room("debug",     &["atomic", "limits", "fatal", "seam", "park", "goroutine", "timer", "sched", "blocking", "time", "go", "host", "sync", "chan", "io", "net"],
                      &["libc", "tracing", "urgo_arch", "urgo_sys", "urgo_uring"]),
    room("runtime",   &["atomic", "limits", "fatal", "seam", "park", "goroutine", "timer", "sched", "blocking", "time", "go", "host", "sync", "chan", "io", "net", "debug"],
                      &["crossbeam_deque", "crossbeam_utils", "io_uring", "libc", "tracing", "urgo_arch", "urgo_sys", "urgo_uring"]),
];

/// What each member crate may depend on. A door knows no policy, so it knows none of the crates above it.
#[rustfmt::skip]
pub(crate) const MEMBERS: &[(&str, &[&str])] = &[
    ("arch",  &[]),
    ("sys",   &["bitflags", "core_affinity", "libc", "memmap2", "rustix"]),
    ("uring", &["bitflags", "io-uring", "libc", "urgo-sys"]),
];

/// Layering of `src/` and of the member crates, in one pass.
pub(crate) fn check(tree: &Tree) -> Vec<Breach> {
    check_with(tree, HOUSE)
}

pub(crate) fn check_with(tree: &Tree, house: &[Room]) -> Vec<Breach> {
    let (reached, _) = tree.reach("src");
    let outside = dependencies(tree, "Cargo.toml");
    let exports = RootExports::of(&reached);
    let mut breaches = Vec::new();
    for file in reached
        .iter()
        .filter(|f| !f.is_test && !f.module.is_empty())
    {
        let own = file.module[0].as_str();
        let Some(row) = house.iter().find(|r| r.name == own) else {
            breaches.push(breach(
                &file.path,
                1,
                format!("room `{own}` has no row in the table of tests/tidy/house.rs; give it one, at its height"),
            ));
            continue;
        };
        let mut seen = BTreeSet::new();
        for path in file.source.paths().iter().filter(|p| !p.is_test) {
            let Some(target) = target(file, &path.segments, path.inline.len(), &exports, &outside)
            else {
                continue;
            };
            let complaint = match target {
                Target::Room(name) if name == own || row.rooms.contains(&name.as_str()) => continue,
                Target::Crate(name) if row.crates.contains(&name.as_str()) => continue,
                Target::Room(name) if house.iter().any(|r| r.name == name) => format!(
                    "room `{own}` names `{name}`, which it may not use; return a value to the upper room (down by \
                     call, up by value), or change the plan in DESIGN.md section 3 and the table in tests/tidy/house.rs"
                ),
                Target::Room(name) => format!(
                    "room `{own}` names `crate::{name}`, which is neither a room nor re-exported from one; name the room that holds it"
                ),
                Target::Crate(name) => format!(
                    "room `{own}` names the crate `{name}`, which belongs to other rooms; go through the room or \
                     member crate that owns it, or change the table in tests/tidy/house.rs"
                ),
            };
            if seen.insert((path.line, complaint.clone())) {
                breaches.push(breach(&file.path, path.line, complaint));
            }
        }
    }
    breaches.extend(member_breaches(tree));
    breaches
}

enum Target {
    Room(String),
    Crate(String),
}

/// Which room or crate a path of `file` leads to, if it leaves the room it is written in.
fn target(
    file: &Reached,
    segments: &[String],
    inline: usize,
    exports: &RootExports,
    outside: &BTreeSet<String>,
) -> Option<Target> {
    let first = segments[0].as_str();
    if outside.contains(first) {
        return Some(Target::Crate(first.to_owned()));
    }
    let from_root = match first {
        "crate" => &segments[1..],
        "super" | "self" => {
            let ups = segments
                .iter()
                .take_while(|s| *s == "super" || *s == "self")
                .count();
            let supers = segments[..ups].iter().filter(|s| *s == "super").count();
            if supers < file.module.len() + inline {
                return None;
            }
            &segments[ups..]
        }
        _ => return None,
    };
    let name = from_root.first()?;
    Some(Target::Room(exports.room_of(name)))
}

/// Names that `lib.rs` re-exports, and macros, by the room they come from: `crate::spawn` is `go`.
struct RootExports(BTreeMap<String, String>);

impl RootExports {
    fn of(reached: &[Reached]) -> Self {
        let mut by_name = BTreeMap::new();
        for file in reached {
            let Some(own) = file.module.first() else {
                continue;
            };
            let source = &file.source;
            for i in 0..source.tokens.len() {
                if source.text(i) == "macro_rules" && source.text(i + 1) == "!" {
                    by_name.insert(source.text(i + 2).to_owned(), own.clone());
                }
            }
        }
        let root = reached.iter().find(|f| f.module.is_empty());
        let rooms: BTreeSet<&String> = reached.iter().filter_map(|f| f.module.first()).collect();
        for path in root.iter().flat_map(|f| f.source.paths()) {
            let inner: Vec<&String> = path
                .segments
                .iter()
                .skip_while(|s| *s == "crate" || *s == "self")
                .collect();
            if let [room, .., leaf] = inner[..]
                && rooms.contains(room)
                && !rooms.contains(path.alias.as_ref().unwrap_or(leaf))
            {
                by_name.insert(path.alias.as_ref().unwrap_or(leaf).clone(), room.clone());
            }
        }
        Self(by_name)
    }

    fn room_of(&self, name: &str) -> String {
        self.0
            .get(name)
            .map_or_else(|| name.to_owned(), Clone::clone)
    }
}

fn member_breaches(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (member, allowed) in MEMBERS {
        let manifest = format!("{member}/Cargo.toml");
        let allowed: BTreeSet<String> = allowed.iter().map(|a| a.replace('-', "_")).collect();
        for name in dependencies(tree, &manifest).difference(&allowed) {
            breaches.push(breach(
                &manifest,
                1,
                format!(
                    "urgo-{member} depends on `{name}`, which its row in tests/tidy/house.rs does not list; a door \
                     holds no policy and knows nothing above it"
                ),
            ));
        }
    }
    breaches
}

/// Names under `[dependencies]` and `[target.'..'.dependencies]`, as the code writes them.
pub(crate) fn dependencies(tree: &Tree, manifest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_inside = false;
    for line in tree.files.get(manifest).map_or("", String::as_str).lines() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            let table = header.rsplit('.').next().unwrap_or(header);
            is_inside = table == "dependencies" && !header.starts_with("workspace");
        } else if is_inside && line.contains('=') {
            let name: String = line
                .chars()
                .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
                .collect();
            names.insert(name.replace('-', "_"));
        }
    }
    names
}

/// Files below the crates' `src` folders that no `mod` line reaches, and `mod` lines that reach no file.
pub(crate) fn check_dead_files(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for folder in CRATE_SOURCES {
        if !tree.files.contains_key(&format!("{folder}/lib.rs")) {
            continue;
        }
        let (reached, missing) = tree.reach(folder);
        breaches.extend(missing);
        let alive: BTreeSet<&str> = reached.iter().map(|f| f.path.as_str()).collect();
        for (path, _) in tree.rust_files_in(folder) {
            if !alive.contains(path) {
                breaches.push(breach(
                    path,
                    1,
                    "no `mod` line reaches this file, so it is never compiled; declare it or delete it",
                ));
            }
        }
    }
    breaches
}
