//! What does it cost to change stacks, one way?
//!
//! # Safety
//! Each verb of `urgo-arch` is unsafe; what it asks for is kept by [`Stage`]: one thread, stacks that outlive the contexts, a
//! context that is continued once each time it was saved.

use crate::catalogue::{Budget, Case, Contender, Size, Workload};
use crate::cell::{Cell, Lap, Sample};
use crate::hosts::warm_up;
use corosensei::{Coroutine, CoroutineResult};
use std::alloc::{Layout, alloc, dealloc};
use urgo_arch::{STACK_ALIGN, init, switch_across, switch_in, switch_out};

pub(super) const WORKLOAD: Workload = Workload {
    name: "switch",
    question: "What does it cost to change stacks, one way, with nothing else around it?",
    work: "The host stack enters a goroutine that leaves at once, over and over (\"in and out\"), or two goroutines hand over \
           to each other (\"across\"). One operation is one change of stacks; each goroutine and coroutine counts how often it \
           was entered, and the counts must add up. corosensei's resume and suspend also pass a value and a state.",
    is_not: "a yield (see yield_now), and not what a switch costs when the stacks are cold: two stacks stay in the \
             first-level cache.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::alone("corosensei", resume_and_suspend).of_crate("corosensei"),
    ],
    client: None,
};

const STACK_BYTES: usize = 64 << 10;

fn cases(size: Size) -> Vec<Case> {
    let case = |name, across| {
        Case::new(name, 1, size.of(100_000_000, 1000))
            .param("across", across)
            .budget(Budget::AtMost(1.3))
    };
    vec![case("in and out", 0), case("across", 1)]
}

fn urgo(cell: &Cell) -> Sample {
    let measure = if cell.get::<u8>("across") == 1 {
        across
    } else {
        in_and_out
    };
    measure(warm_up(cell.ops()));
    measure(cell.ops())
}

/// The contexts of the host and of two goroutines, and how often each of these is still to be entered. The goroutines count by
/// themselves, so the counts say that each of them ran.
struct Stage {
    host: *mut u8,
    goroutines: [*mut u8; 2],
    turns_left: [usize; 2],
}

/// Memory for one stack. It must outlive the context on it: in this file it is declared before the `Stage`.
struct Stack {
    memory: *mut u8,
}

impl Stack {
    const LAYOUT: Layout = match Layout::from_size_align(STACK_BYTES, STACK_ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("a stack's layout"),
    };

    fn new() -> Stack {
        // SAFETY: the layout's size is the constant above, not zero.
        let memory = unsafe { alloc(Stack::LAYOUT) };
        assert!(!memory.is_null(), "out of memory");
        Stack { memory }
    }

    fn fresh(&self, entry: unsafe extern "C" fn(*mut ()) -> !, stage: *mut Stage) -> *mut u8 {
        // SAFETY: one past the end of our allocation of STACK_BYTES.
        let top = unsafe { self.memory.add(STACK_BYTES) };
        // SAFETY: the STACK_BYTES below `top` are ours and unused; the size is a multiple of the alignment. The entries of this
        // file take a `Stage`, which is alive and on this thread as long as contexts are continued.
        unsafe { init(top, entry, stage.cast()) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with the same layout. The goroutine on it is suspended for good and owns nothing.
        unsafe { dealloc(self.memory, Stack::LAYOUT) };
    }
}

fn in_and_out(ops: usize) -> Sample {
    let pairs = ops / 2;
    unsafe extern "C" fn leave_at_once(stage: *mut ()) -> ! {
        let stage = stage.cast::<Stage>();
        loop {
            // SAFETY: `stage` is alive and `host` was saved by the `switch_in` below, which waits on this thread.
            unsafe {
                (*stage).turns_left[0] -= 1;
                switch_out(&raw mut (*stage).goroutines[0], &raw const (*stage).host);
            }
        }
    }
    let stack = Stack::new();
    let mut stage = Stage {
        host: std::ptr::null_mut(),
        goroutines: [std::ptr::null_mut(); 2],
        turns_left: [pairs, 0],
    };
    let stage = &raw mut stage;
    // SAFETY: `stage` points to the local above, which lives to the end of this function; as for all accesses below.
    unsafe { (*stage).goroutines[0] = stack.fresh(leave_at_once, stage) };
    let lap = Lap::start();
    for _ in 0..pairs {
        // SAFETY: the context is fresh at first, later the one that `switch_out` saved on this thread; continued once each time.
        unsafe { switch_in(&raw mut (*stage).host, (*stage).goroutines[0]) };
    }
    // SAFETY: the goroutine has been left for good.
    let left = unsafe { (*stage).turns_left };
    switched(lap, 2 * pairs, 2 * (pairs - left[0]))
}

/// The sample of `expected` changes of stacks; `counted` says how many there were by the count of those who were entered.
fn switched(lap: Lap, expected: usize, counted: usize) -> Sample {
    let sample = lap.stop(expected, counted as u64);
    assert_eq!(counted, expected, "a switch went elsewhere, or nowhere");
    sample
}

fn across(switches: usize) -> Sample {
    unsafe extern "C" fn hand_over<const ME: usize>(stage: *mut ()) -> ! {
        let stage = stage.cast::<Stage>();
        loop {
            // SAFETY: `stage` is alive while either goroutine runs, and only the running one touches it. The other's context
            // is fresh or was saved by its own `switch_across`; `host` waits in the `switch_in` below.
            unsafe {
                if (*stage).turns_left[ME] == 0 {
                    switch_out(&raw mut (*stage).goroutines[ME], &raw const (*stage).host);
                }
                (*stage).turns_left[ME] -= 1;
                switch_across(
                    &raw mut (*stage).goroutines[ME],
                    (*stage).goroutines[1 - ME],
                );
            }
        }
    }
    let stacks = [Stack::new(), Stack::new()];
    let mut stage = Stage {
        host: std::ptr::null_mut(),
        goroutines: [std::ptr::null_mut(); 2],
        // In turn, the first one first.
        turns_left: [switches.div_ceil(2), switches / 2],
    };
    let stage = &raw mut stage;
    // SAFETY: `stage` points to the local above, which lives to the end of this function; as for all accesses below.
    unsafe {
        (*stage).goroutines = [
            stacks[0].fresh(hand_over::<0>, stage),
            stacks[1].fresh(hand_over::<1>, stage),
        ];
    }
    let lap = Lap::start();
    // SAFETY: both contexts are fresh; the first is continued here, the second by the first.
    unsafe { switch_in(&raw mut (*stage).host, (*stage).goroutines[0]) };
    // SAFETY: both goroutines have been left for good.
    let left = unsafe { (*stage).turns_left };
    switched(lap, switches, switches - left[0] - left[1])
}

fn resume_and_suspend(cell: &Cell) -> Sample {
    let measure = |pairs: usize| {
        let mut coroutine: Coroutine<(), (), usize> = Coroutine::new(move |yielder, ()| {
            let mut turns = 0;
            while turns < pairs {
                turns += 1;
                yielder.suspend(());
            }
            turns
        });
        let lap = Lap::start();
        for _ in 0..pairs {
            assert!(matches!(coroutine.resume(()), CoroutineResult::Yield(())));
        }
        // One more, which no lap counts, asks for the coroutine's own count.
        let lapped = lap.stop(2 * pairs, 2 * pairs as u64);
        let CoroutineResult::Return(turns) = coroutine.resume(()) else {
            panic!("the coroutine did not end");
        };
        assert_eq!(turns, pairs, "a switch went elsewhere, or nowhere");
        lapped
    };
    measure(warm_up(cell.ops()) / 2);
    measure(cell.ops() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_is_counted_by_who_was_entered() {
        for measure in [in_and_out, across] {
            let sample = measure(1000);
            assert_eq!(
                sample,
                Sample {
                    metrics: sample.metrics.clone(),
                    ..Sample::new(1000, 1000)
                }
            );
        }
        // An odd number ends on the other stack.
        assert_eq!(across(7).checksum, Sample::new(7, 7).checksum);
    }

    #[test]
    #[should_panic(expected = "a switch went elsewhere")]
    fn a_switch_that_did_not_arrive_is_found() {
        switched(Lap::start(), 10, 8);
    }
}
