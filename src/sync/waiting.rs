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

/// Waiting as threads of a model do.
#[cfg(all(test, urgo_loom))]
pub(super) mod modelled {
    use super::Ended;
    use crate::park::lot::{Lot, Node, Wakes, signal, signalled};
    use crate::park::{Outcome, Target, Waiter, Wake};
    use crate::sync::mutex_word::{Caller, MutexWord};

    pub(in crate::sync) fn settle(wakes: Wakes) {
        for wake in wakes {
            let Wake::Thread(word) = wake else {
                panic!("born parked, so there is a wake to settle");
            };
            signal(word);
        }
    }

    /// As `Wait::wait`; one that `gives_up` has a deadline that passes at once.
    pub(in crate::sync) fn wait(
        lot: &Lot,
        address: usize,
        tag: usize,
        goes_first: bool,
        gives_up: bool,
        validate: impl FnOnce() -> bool,
        announced: impl FnOnce(),
    ) -> Ended {
        let node = Node::new(Waiter::parked(Target::Thread), tag);
        let mut locked = lot.lock(address);
        let waits = validate();
        if waits {
            // SAFETY: here until it was signalled or removed, below.
            unsafe {
                if goes_first {
                    locked.push_first(address, &node);
                } else {
                    locked.push(address, &node);
                }
            }
        }
        settle(locked.unlock());
        if !waits {
            return Ended::Refused;
        }
        announced();
        if gives_up && node.waiter.finish(Outcome::TimedOut).is_some() {
            lot.remove(&node);
            let moved = node.address() != address;
            return Ended::TimedOut { moved };
        }
        signalled(&node.waiter);
        Ended::Woken(node.waiter.case().unwrap())
    }

    /// A thread that wants a mutex.
    pub(in crate::sync) struct Thread<'a> {
        pub(in crate::sync) lot: &'a Lot,
        pub(in crate::sync) is_starving: bool,
        pub(in crate::sync) gives_up: bool,
    }

    impl Caller for Thread<'_> {
        fn lot(&self) -> &Lot {
            self.lot
        }

        fn spin(&mut self, _: bool) -> bool {
            false
        }

        fn is_starving(&mut self) -> bool {
            self.is_starving
        }

        fn wait(
            &mut self,
            address: usize,
            goes_first: bool,
            validate: impl FnOnce() -> bool,
        ) -> Ended {
            wait(
                self.lot,
                address,
                0,
                goes_first,
                self.gives_up,
                validate,
                || {},
            )
        }
    }

    pub(in crate::sync) fn unlock(mutex: &MutexWord, lot: &Lot) {
        if !mutex.try_unlock() {
            settle(mutex.unlock_slow(lot, false));
        }
    }
}
