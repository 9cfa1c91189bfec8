//! Waiting in the lot: one safe call for all locks, with every way in which a wait ends.
//!
//! # Safety
//!
//! The node is on this stack and is pinned by not being moved; it leaves the lot before the frame goes.

#![allow(unsafe_code)]

#[cfg(not(urgo_loom))]
pub(super) use live::{Wait, settle};

/// How a wait in the lot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// There was no wait: the word said so.
    Refused,
    /// A waker ended it, with this case.
    Woken(u32),
    /// The deadline passed first. `moved`: the waiter had been requeued.
    TimedOut { moved: bool },
    /// The goroutine was cancelled first: the caller cleans up and calls `sched::unwind_if_cancelled`.
    Cancelled { moved: bool },
}

#[cfg(not(urgo_loom))]
mod live {
    use super::Ended;
    use crate::park::lot::{LOT, Node, Wakes};
    use crate::park::{Outcome, WaitReason};
    use crate::sched;

    /// How to wait.
    #[derive(Clone, Copy, Debug)]
    pub(in crate::sync) struct Wait {
        pub(in crate::sync) address: usize,
        /// See [`Node::tag`].
        pub(in crate::sync) tag: usize,
        /// Before all others: for one who was there before.
        pub(in crate::sync) goes_first: bool,
        pub(in crate::sync) reason: WaitReason,
        pub(in crate::sync) deadline: u64,
    }

    impl Wait {
        /// Waits unless `validate` refuses, which runs under the lock of the bucket. `announced` runs when the waiter is in the
        /// queue and the lock is free again, before the wait. Neither may unwind or wait. Blocks the calling goroutine or thread.
        pub(in crate::sync) fn wait(
            self,
            validate: impl FnOnce() -> bool,
            announced: impl FnOnce(),
        ) -> Ended {
            let node = Node::new(sched::new_parked_waiter(), self.tag);
            let mut locked = LOT.lock(self.address);
            let waits = validate();
            if waits {
                // SAFETY: ours, born parked, and here until it was woken (`wait_parked` says so) or removed, below; nothing in
                // between unwinds.
                unsafe {
                    if self.goes_first {
                        locked.push_first(self.address, &node);
                    } else {
                        locked.push(self.address, &node);
                    }
                }
            }
            settle(locked.unlock());
            if !waits {
                return Ended::Refused;
            }
            let bomb = Bomb;
            announced();
            core::mem::forget(bomb);
            match sched::wait_parked(&node.waiter, self.reason, self.deadline) {
                Outcome::Woken => Ended::Woken(node.waiter.case().unwrap_or(0)),
                outcome => {
                    LOT.remove(&node);
                    let moved = node.address() != self.address;
                    if outcome == Outcome::TimedOut {
                        Ended::TimedOut { moved }
                    } else {
                        Ended::Cancelled { moved }
                    }
                }
            }
        }
    }

    /// Outside every lock. Settles the wakes of a section.
    #[inline]
    pub(in crate::sync) fn settle(wakes: Wakes) {
        wakes.for_each(sched::settle);
    }

    /// Ends the process if the frame of a queued node is about to be unwound.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
}
