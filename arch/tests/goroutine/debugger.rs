//! gdb's `bt` on a goroutine.

use std::hint::black_box;
use std::process::Command;

use crate::ground::{Goroutine, Inside, ROOMY_BYTES};

/// Where gdb stops.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn urgo_arch_gdb_stops_here() {
    black_box(());
}

#[inline(never)]
fn user_frame(inside: &Inside, depth: usize) -> usize {
    if depth == 0 {
        inside.wait();
        urgo_arch_gdb_stops_here();
        return 0;
    }
    black_box(user_frame(inside, depth - 1)) + 1
}

/// The process that gdb looks at; passes on its own as well.
#[test]
fn goroutine_for_gdb_runs_to_its_end() {
    let goroutine = Goroutine::fresh(ROOMY_BYTES, |inside| assert_eq!(user_frame(inside, 3), 3));
    assert!(goroutine.resume());
    assert!(!goroutine.resume());
    assert!(goroutine.take_panic().is_none());
}

#[test]
fn gdb_backtrace_ends_at_the_entry() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("skipped: no gdb");
        return;
    }
    let output = Command::new("gdb")
        .args(["-nx", "-batch"])
        .args([
            "-ex",
            "set debuginfod enabled off",
            "-ex",
            "set startup-with-shell off",
        ])
        .args([
            "-ex",
            "break urgo_arch_gdb_stops_here",
            "-ex",
            "run",
            "-ex",
            "echo -- backtrace\\n",
            "-ex",
            "bt",
        ])
        .args(["-ex", "kill", "--args"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "debugger::goroutine_for_gdb_runs_to_its_end",
            "--test-threads=1",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if complained.contains("Operation not permitted") && complained.contains("ptrace") {
        println!("skipped: ptrace is not permitted here");
        return;
    }
    let trace = said
        .split_once("-- backtrace\n")
        .unwrap_or_else(|| panic!("{said}\n{complained}"))
        .1;
    let frames: Vec<&str> = trace.lines().filter(|line| line.starts_with('#')).collect();
    assert!(
        frames[0].contains("urgo_arch_gdb_stops_here"),
        "{said}\n{complained}"
    );
    assert_eq!(trace.matches("user_frame").count(), 4, "{said}");
    assert!(
        frames.last().unwrap().contains("urgo_goroutine_entry"),
        "{said}"
    );
    for complaint in ["Backtrace stopped", "corrupt stack", "Cannot access memory"] {
        assert!(
            !said.contains(complaint) && !complained.contains(complaint),
            "{said}\n{complained}"
        );
    }
}
