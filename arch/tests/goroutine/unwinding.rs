//! Panics on goroutine stacks, and on the host stack around a switch.

use std::cell::Cell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::rc::Rc;

use urgo_arch::{init, switch_in};

use crate::ground::{Goroutine, Inside, ROOMY_BYTES, Stack};

const DEEP_BYTES: usize = 64 << 20;
const DEPTH: usize = 20_000;

struct CountsDrops<'a>(&'a Cell<usize>);

impl Drop for CountsDrops<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Waits at the bottom of `depth` frames with something to drop in each, then panics.
#[inline(never)]
fn panic_below(inside: &Inside, depth: usize, drops: &Cell<usize>) -> usize {
    let _guard = CountsDrops(drops);
    if depth == 0 {
        inside.wait();
        std::panic::panic_any("at the bottom");
    }
    black_box(panic_below(inside, depth - 1, drops)) + 1
}

#[test]
fn panic_after_a_wait_unwinds_deep_frames_and_is_caught_on_the_goroutine() {
    let drops = Rc::new(Cell::new(0));
    let counted = drops.clone();
    let goroutine = Goroutine::fresh(DEEP_BYTES, move |inside| {
        let payload =
            catch_unwind(AssertUnwindSafe(|| panic_below(inside, DEPTH, &counted))).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "at the bottom");
        inside.wait();
    });
    assert!(goroutine.resume());
    assert_eq!(drops.get(), 0);
    assert!(goroutine.resume(), "caught, and waiting again");
    assert_eq!(drops.get(), DEPTH + 1);
    assert!(!goroutine.resume());
    assert!(goroutine.take_panic().is_none());
}

/// Catches, waits while nothing unwinds, and goes on unwinding.
#[inline(never)]
fn catch_wait_and_resume(inside: &Inside, drops: &Cell<usize>) {
    let _guard = CountsDrops(drops);
    let payload = catch_unwind(AssertUnwindSafe(|| panic_below(inside, 10, drops))).unwrap_err();
    inside.wait();
    resume_unwind(payload);
}

#[test]
fn caught_panic_resumes_after_a_wait() {
    let drops = Rc::new(Cell::new(0));
    let counted = drops.clone();
    let goroutine = Goroutine::fresh(ROOMY_BYTES, move |inside| {
        catch_wait_and_resume(inside, &counted)
    });
    assert!(goroutine.resume());
    assert!(goroutine.resume());
    assert_eq!(drops.get(), 11);
    assert!(!goroutine.resume());
    assert_eq!(drops.get(), 12);
    assert_eq!(
        *goroutine.take_panic().unwrap().downcast::<&str>().unwrap(),
        "at the bottom"
    );
}

/// A drop that waits while its frame unwinds.
struct WaitsInDrop<'a>(&'a Inside);

impl Drop for WaitsInDrop<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[test]
fn drop_may_wait_during_unwinding_while_another_goroutine_panics() {
    let first = Goroutine::fresh(ROOMY_BYTES, |inside| {
        let _waits = WaitsInDrop(inside);
        resume_unwind(Box::new("first"));
    });
    let second = Goroutine::fresh(ROOMY_BYTES, |_| resume_unwind(Box::new("second")));
    assert!(first.resume(), "waits in the middle of its unwinding");
    assert!(!second.resume());
    assert!(!first.resume());
    assert_eq!(
        *first.take_panic().unwrap().downcast::<&str>().unwrap(),
        "first"
    );
    assert_eq!(
        *second.take_panic().unwrap().downcast::<&str>().unwrap(),
        "second"
    );
}

/// Has a switch of the host inlined, something to drop, and panics after the goroutine came back.
#[inline(never)]
fn host_panics_after_a_switch(goroutine: &Goroutine, drops: &Cell<usize>) {
    let _guard = CountsDrops(drops);
    goroutine.resume();
    std::panic::panic_any(17_u8);
}

#[test]
fn host_unwinds_normally_after_a_goroutine_came_back() {
    let drops = Cell::new(0);
    let goroutine = Goroutine::fresh(ROOMY_BYTES, |inside| {
        for _ in 0..100 {
            inside.wait();
        }
    });
    for _ in 0..100 {
        let payload = catch_unwind(AssertUnwindSafe(|| {
            host_panics_after_a_switch(&goroutine, &drops)
        }))
        .unwrap_err();
        assert_eq!(*payload.downcast::<u8>().unwrap(), 17);
    }
    assert_eq!(drops.get(), 100);
    assert!(!goroutine.resume());
}

unsafe extern "C" fn panicking_entry(_: *mut ()) -> ! {
    panic!("leaves the entry");
}

/// Run by the test below in a process of its own.
#[test]
#[ignore = "aborts"]
fn let_a_panic_leave_the_entry() {
    let stack = Stack::map(ROOMY_BYTES);
    let mut host = std::ptr::null_mut();
    // SAFETY: the stack is mapped and unused, the context entered once.
    unsafe {
        let sp = init(stack.top(), panicking_entry, std::ptr::null_mut());
        switch_in(&raw mut host, sp);
    }
}

#[test]
fn panic_that_leaves_the_entry_aborts_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "unwinding::let_a_panic_leave_the_entry",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains("leaves the entry"), "{said}");
}
