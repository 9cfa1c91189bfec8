//! `std::backtrace` (DWARF) on a goroutine.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use crate::ground::{Goroutine, Inside, ROOMY_BYTES};

#[inline(never)]
fn traced_by_the_user(inside: &Inside, trace: &RefCell<Vec<String>>, depth: usize) -> usize {
    if depth == 0 {
        inside.wait();
        trace
            .borrow_mut()
            .push(Backtrace::force_capture().to_string());
        return 0;
    }
    black_box(traced_by_the_user(inside, trace, depth - 1)) + 1
}

#[inline(never)]
fn host_frame_that_must_not_show(goroutine: &Goroutine) {
    while goroutine.resume() {}
    black_box(());
}

#[test]
fn backtrace_names_the_users_frames_and_ends_at_the_entry() {
    let trace: Rc<RefCell<Vec<String>>> = Rc::default();
    let written = trace.clone();
    let goroutine = Goroutine::fresh(ROOMY_BYTES * 4, move |inside| {
        traced_by_the_user(inside, &written, 5);
    });
    host_frame_that_must_not_show(&goroutine);
    assert!(goroutine.take_panic().is_none());
    let trace = trace.borrow_mut().pop().unwrap();
    assert_eq!(trace.matches("traced_by_the_user").count(), 6, "{trace}");
    let frames: Vec<&str> = trace
        .lines()
        .filter(|line| !line.trim_start().starts_with("at "))
        .collect();
    assert!(
        frames.last().unwrap().contains("urgo_goroutine_entry"),
        "{trace}"
    );
    assert!(
        !trace.contains("host_frame_that_must_not_show") && !trace.contains("__libc_start"),
        "{trace}"
    );
}
