//! Writes down what this program is made of, when it is made: commit, compiler, profile. A run may be a week and ten commits
//! later.

mod commit;
mod settings;

use settings::{Settings, profile_of};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What goes into the program, seen from the workspace: a change there makes another program, and a dirty one if it is not in
/// the commit.
const SOURCES: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    ".cargo",
    "src",
    "arch",
    "sys",
    "uring",
    "benches/Cargo.toml",
    "benches/build",
    "benches/src",
    "benches/rivals",
];

fn main() {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let workspace = package.parent().expect("the package lies in the workspace");
    let sources: Vec<&str> = SOURCES
        .iter()
        .copied()
        .filter(|path| workspace.join(path).exists())
        .collect();
    // A path that is not there would be looked for at each build, and the program built anew.
    sources
        .iter()
        .for_each(|path| rerun_if_changed(&workspace.join(path)));
    commit::watched(workspace)
        .iter()
        .for_each(|path| rerun_if_changed(path));
    tell("COMMIT", &commit::of(workspace, &sources));

    let rustc = Command::new(variable("RUSTC")).arg("--version").output();
    let rustc = rustc.ok().filter(|output| output.status.success());
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    tell("RUSTC", rustc.as_deref().unwrap_or("unknown"));

    let profile =
        profile_of(Path::new(&variable("OUT_DIR"))).unwrap_or_else(|| variable("PROFILE"));
    let manifest = std::fs::read_to_string(workspace.join("Cargo.toml")).unwrap_or_default();
    let settings = Settings::new(&manifest, |name| {
        println!("cargo::rerun-if-env-changed={name}");
        std::env::var(name).ok()
    });
    tell("OPT_LEVEL", &variable("OPT_LEVEL"));
    tell("LTO", &settings.find(&profile, "lto"));
    tell("CODEGEN_UNITS", &settings.find(&profile, "codegen-units"));
    tell("PROFILE", &profile);
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    tell("RUSTFLAGS", &flags.replace('\u{1f}', " "));
}

/// What cargo sets for every build script.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn rerun_if_changed(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

fn tell(name: &str, value: &str) {
    println!("cargo::rustc-env=URGO_BENCH_BUILD_{name}={value}");
}
