//! Question: what does it cost to change stacks, one way, with nothing else around it?
//!
//! Workload: the host stack enters a goroutine that leaves at once (`switch_in`, `switch_out`), over and over; and two
//! goroutines that hand over to each other (`switch_across`). One operation is one change of stacks. Beside them, in the same
//! run: corosensei, whose `resume` and `suspend` also pass a value and a state.
//!
//! Printed: machine, kernel, commit; ns per change, of CPU time and of wall time; ratio round by round.
//!
//! It is not: a yield (see `yield_now`), and not what a switch costs when the stacks are cold: two stacks stay in the
//! first-level cache.
//!
//! # Safety
//! Each verb of `urgo-arch` is unsafe; what it asks for is kept by [`Stage`]: one thread, stacks that outlive the contexts, a
//! context that is continued once each time it was saved.

#[path = "harness/mod.rs"]
mod harness;

use corosensei::{Coroutine, CoroutineResult};
use harness::{
    Contender, Lap, Options, Report, Sample, allowed_cpus, compare, locked_version, pin,
};
use std::alloc::{Layout, alloc, dealloc};
use urgo_arch::{STACK_ALIGN, init, switch_across, switch_in, switch_out};

const STACK_BYTES: usize = 64 << 10;
const BUDGET_NS: f64 = 1.3;

fn main() {
    let mut options = Options::from_args(21);
    let cpus = allowed_cpus();
    let mut report = Report::open("switch", &cpus, &mut options);
    pin(cpus[0]);
    let rival = format!("corosensei {}", locked_version("corosensei"));
    let switches = options.size(20_000_000, 1000);
    let contenders = vec![
        Contender::new("urgo-arch in/out", || in_and_out(switches / 2)),
        Contender::new("urgo-arch across", || across(switches)),
        Contender::new(rival, || resume_and_suspend(switches / 2)),
    ];
    compare(
        &mut report,
        &options,
        "switch, one way",
        Some(BUDGET_NS),
        contenders,
    );
}

/// The contexts of the host and of two goroutines, and how many turns are left.
struct Stage {
    host: *mut u8,
    goroutines: [*mut u8; 2],
    turns_left: usize,
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

fn in_and_out(pairs: usize) -> Sample {
    unsafe extern "C" fn leave_at_once(stage: *mut ()) -> ! {
        let stage = stage.cast::<Stage>();
        loop {
            // SAFETY: `stage` is alive and `host` was saved by the `switch_in` below, which waits on this thread.
            unsafe { switch_out(&raw mut (*stage).goroutines[0], &raw const (*stage).host) };
        }
    }
    let stack = Stack::new();
    let mut stage = Stage {
        host: std::ptr::null_mut(),
        goroutines: [std::ptr::null_mut(); 2],
        turns_left: 0,
    };
    let stage = &raw mut stage;
    // SAFETY: `stage` points to the local above, which lives to the end of this function; as for all accesses below.
    unsafe { (*stage).goroutines[0] = stack.fresh(leave_at_once, stage) };
    let lap = Lap::start();
    for _ in 0..pairs {
        // SAFETY: the context is fresh at first, later the one that `switch_out` saved on this thread; continued once each time.
        unsafe { switch_in(&raw mut (*stage).host, (*stage).goroutines[0]) };
    }
    lap.stop(2 * pairs)
}

fn across(switches: usize) -> Sample {
    unsafe extern "C" fn hand_over<const ME: usize>(stage: *mut ()) -> ! {
        let stage = stage.cast::<Stage>();
        loop {
            // SAFETY: `stage` is alive while either goroutine runs, and only the running one touches it. The other's context
            // is fresh or was saved by its own `switch_across`; `host` waits in the `switch_in` below.
            unsafe {
                if (*stage).turns_left == 0 {
                    switch_out(&raw mut (*stage).goroutines[ME], &raw const (*stage).host);
                }
                (*stage).turns_left -= 1;
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
        turns_left: switches,
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
    lap.stop(switches)
}

fn resume_and_suspend(pairs: usize) -> Sample {
    let mut coroutine: Coroutine<(), (), ()> = Coroutine::new(move |yielder, ()| {
        for _ in 0..pairs {
            yielder.suspend(());
        }
    });
    let lap = Lap::start();
    for _ in 0..pairs {
        assert!(matches!(coroutine.resume(()), CoroutineResult::Yield(())));
    }
    let sample = lap.stop(2 * pairs);
    assert!(matches!(coroutine.resume(()), CoroutineResult::Return(())));
    sample
}
