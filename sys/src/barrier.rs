//! A memory barrier with two unlike halves: one side pays a compiler barrier only, the other makes every CPU that runs
//! this process pass a full one: `membarrier(2)`.
//!
//! Pairing. A thread that stores *a*, calls [`light`] and loads *b*, and a thread that stores *b*, calls [`heavy`] and
//! loads *a*: at least one of the loads sees the other's store, as with `fence(SeqCst)` on both sides.
//!
//! | errno of `membarrier` here | taken as |
//! |---|---|
//! | any, in [`is_available`] | not available: then neither half is used, and no lock is biased |
//! | `EPERM` in [`heavy`] | the registration was lost (a forked child): register and repeat |
//! | others in [`heavy`] | fatal: the light side relies on it |

use core::sync::atomic::{Ordering, compiler_fence, fence};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};

use crate::raw_stderr::fatal;

/// Whether [`light`] and [`heavy`] may be used. Registers the process at the first question, which takes microseconds
/// while it has one thread and up to some milliseconds later.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| !crate::switches::disabled("membarrier") && register().is_ok())
}

fn register() -> Result<(), Errno> {
    membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
    membarrier(MembarrierCommand::PrivateExpedited)
}

/// The cheap half: no instruction, but the compiler moves no access across it.
#[inline(always)]
pub fn light() {
    // Pairs with `heavy`.
    compiler_fence(Ordering::SeqCst);
}

/// The dear half, `membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)`: some 0.1 µs alone, 1 to 2 µs when other CPUs run this
/// process. Only after [`is_available`] has said yes. Blocks nothing.
pub fn heavy() {
    // Pairs with `light`.
    fence(Ordering::SeqCst);
    match membarrier(MembarrierCommand::PrivateExpedited) {
        Ok(()) => {}
        Err(Errno::PERM) if register().is_ok() => {}
        Err(errno) => fatal(
            "membarrier refused, though it was granted before",
            errno.raw_os_error(),
        ),
    }
    // Pairs with `light`.
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    /// The store-buffering test: never may both sides miss the other's store.
    #[test]
    fn one_of_the_two_sides_sees_the_other() {
        if !is_available() {
            return;
        }
        const ROUNDS: u32 = 5_000;
        let (a, b) = (AtomicU32::new(0), AtomicU32::new(0));
        let seen = [AtomicU32::new(0), AtomicU32::new(0)];
        let gate = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    gate.wait();
                    a.store(round, Ordering::Relaxed);
                    light();
                    seen[0].store(b.load(Ordering::Relaxed), Ordering::Relaxed);
                    gate.wait();
                }
            });
            for round in 1..=ROUNDS {
                gate.wait();
                b.store(round, Ordering::Relaxed);
                heavy();
                let other = a.load(Ordering::Relaxed);
                gate.wait();
                assert!(other == round || seen[0].load(Ordering::Relaxed) == round);
            }
        });
    }
}
