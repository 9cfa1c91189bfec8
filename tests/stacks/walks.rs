//! Walking a goroutine's stack ends at its entry.

use std::backtrace::Backtrace;

use crate::support::runtime;

#[inline(never)]
fn marked_frame(depth: usize) -> String {
    if depth == 0 {
        let trace = Backtrace::force_capture().to_string();
        return std::hint::black_box(trace);
    }
    std::hint::black_box(marked_frame(depth - 1))
}

#[test]
fn a_backtrace_of_a_goroutine_ends_at_its_entry() {
    runtime(1).run(|| {
        for waited in [false, true] {
            let trace = urgo::spawn(move || {
                if waited {
                    urgo::yield_now();
                }
                marked_frame(5)
            });
            let trace = trace.join().unwrap();
            let frames: Vec<&str> = trace
                .lines()
                .map(str::trim)
                .filter(|line| {
                    line.split(':')
                        .next()
                        .is_some_and(|n| n.parse::<u32>().is_ok())
                })
                .collect();
            let marked = frames.iter().filter(|f| f.contains("marked_frame")).count();
            assert_eq!(marked, 6, "{trace}");
            let last = frames
                .iter()
                .rev()
                .find(|frame| !frame.ends_with("<unknown>"))
                .unwrap();
            assert!(last.contains("urgo_goroutine_entry"), "{trace}");
            assert!(
                !trace.contains("worker_thread"),
                "went on to the worker:\n{trace}"
            );
        }
    });
}

/// Follows the chain of saved frame pointers, as profilers do.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn frame_pointers() -> Vec<usize> {
    let mut frame: usize;
    // SAFETY: copies a register.
    unsafe {
        std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags))
    };
    let mut chain = Vec::new();
    while frame != 0 {
        assert!(chain.len() < 1000, "no end of frames");
        assert!(
            chain.last().is_none_or(|&last| frame > last),
            "goes down: {chain:x?}"
        );
        chain.push(frame);
        // SAFETY: with frame pointers on, rbp points to the caller's saved rbp in a live frame of this stack, until 0.
        frame = unsafe { *(frame as *const usize) };
    }
    chain
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_chain_of_frame_pointers_ends_at_the_entry() {
    runtime(1).run(|| {
        let chain = urgo::spawn(|| {
            urgo::yield_now();
            frame_pointers()
        });
        let chain = chain.join().unwrap();
        assert!(chain.len() >= 3, "{chain:x?}");
        let span = chain[chain.len() - 1] - chain[0];
        assert!(span < 256 * 1024, "left the goroutine's stack: {chain:x?}");
    });
}

#[test]
fn a_panic_in_a_goroutine_unwinds_to_the_entry_and_no_further() {
    crate::support::hush_planned_panics();
    runtime(1).run(|| {
        for _ in 0..100 {
            let ended: Result<(), _> = urgo::spawn(|| panic!("planned")).join();
            let error = ended.unwrap_err();
            assert!(error.is_panic());
        }
    });
}
