//! The cancel mark: how any thread asks for a goroutine's end, whether it has started or not.
//!
//! A goroutine that has started belongs to its home, which alone may end its wait; so whoever cancels it sends its home a
//! command. One that has not started belongs to whichever queue holds it, and nobody can say where that is. So the mark
//! is set first, and its home looks at it when it starts the goroutine.
//!
//! # Algorithm
//!
//! Whoever cancels: set the mark (if it was set already, somebody else sees to the rest); barrier (CM1); look whether the
//! goroutine has started; if so, send its home the command.
//!
//! The home, when it starts the goroutine: store that it has started; barrier (CM1); look at the mark; if it is set, the
//! goroutine is cancelled from the first.
//!
//! # Why no cancellation is lost
//!
//! Either the canceller's barrier is before the home's: then the home's look at the mark sees it. Or the home's is before
//! the canceller's: then the canceller sees that the goroutine has started, and the command goes out. If both happen the
//! goroutine is cancelled twice, which is once.
//!
//! Starting is frequent and cancelling is not, so the home's barrier is the light half of an asymmetric one, an
//! instruction that is not there; where the kernel has none to offer, both sides take a fence.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | CM1 | canceller: mark, heavy barrier, look at the start | home: start, light barrier, look at the mark | store-load: one of them sees the other |
//! | CM2 | `ask`, AcqRel | `is_set`, Acquire | what the canceller did before |

use crate::atomic::{AtomicBool, Ordering, fence, heavy_barrier, light_barrier};

/// Whether the two halves of an asymmetric barrier are to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barriers {
    /// `membarrier(2)` makes the light half cost nothing.
    Asymmetric,
    /// Both sides take a fence.
    Fences,
}

/// See the module.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct CancelMark(AtomicBool);

impl CancelMark {
    pub(crate) fn new() -> CancelMark {
        CancelMark(AtomicBool::new(false))
    }

    /// Spawner only, before the block is published.
    #[cfg(not(urgo_loom))]
    #[inline]
    pub(crate) fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Any thread that keeps the block from being freed. Sets the mark; `true`: the goroutine has started, and the caller
    /// must send its home the command.
    #[must_use]
    pub(crate) fn ask(&self, barriers: Barriers, has_started: impl FnOnce() -> bool) -> bool {
        if !self.ask_started() {
            return false;
        }
        match barriers {
            // CM1, pairs with the light barrier in `is_set_at_start`.
            Barriers::Asymmetric => heavy_barrier(),
            // CM1, pairs with the fence in `is_set_at_start`.
            Barriers::Fences => fence(Ordering::SeqCst),
        }
        has_started()
    }

    /// As [`ask`](Self::ask), for a goroutine of which the caller knows, from itself, that it has started: there is no race with the start, and
    /// so no barrier.
    #[must_use]
    pub(crate) fn ask_started(&self) -> bool {
        // CM2, pairs with `is_set`.
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Home only, after it has stored that the goroutine has started.
    #[inline]
    pub(crate) fn is_set_at_start(&self, barriers: Barriers) -> bool {
        match barriers {
            // CM1, pairs with the heavy barrier in `ask`.
            Barriers::Asymmetric => light_barrier(),
            // CM1, pairs with the fence in `ask`.
            Barriers::Fences => fence(Ordering::SeqCst),
        }
        self.is_set()
    }

    /// Whether somebody has asked.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        // CM2, pairs with `ask`.
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;

    /// Two cancel a goroutine that starts at this moment: it is cancelled from the first, or one of them sends the command.
    #[test]
    fn loom_cancel_mark_is_seen_at_the_start_or_sent() {
        for barriers in [Barriers::Asymmetric, Barriers::Fences] {
            loom::model(move || {
                let state = Arc::new((CancelMark::new(), AtomicBool::new(false)));
                let cancellers = [(); 2].map(|()| {
                    let state = state.clone();
                    loom::thread::spawn(move || {
                        let (mark, started) = &*state;
                        mark.ask(barriers, || started.load(Ordering::Relaxed))
                    })
                });
                let (mark, started) = &*state;
                started.store(true, Ordering::Relaxed);
                let is_seen = mark.is_set_at_start(barriers);
                let sent = cancellers.map(|canceller| canceller.join().unwrap());
                assert!(is_seen || sent.contains(&true), "nobody cancels it");
                assert!(!(sent[0] && sent[1]), "one command is enough");
            });
        }
    }

    /// One cancels a goroutine at any moment, another as soon as the goroutine has said that it runs: as above.
    #[test]
    fn loom_cancel_mark_of_one_that_is_known_to_have_started() {
        for barriers in [Barriers::Asymmetric, Barriers::Fences] {
            loom::model(move || {
                let new = || AtomicBool::new(false);
                let state = Arc::new((CancelMark::new(), new(), new()));
                let (any, late) = (state.clone(), state.clone());
                let any = loom::thread::spawn(move || {
                    let (mark, started, _) = &*any;
                    mark.ask(barriers, || started.load(Ordering::Relaxed))
                });
                let late = loom::thread::spawn(move || {
                    let (mark, started, runs) = &*late;
                    // Pairs with the store below.
                    runs.load(Ordering::Acquire) && {
                        assert!(started.load(Ordering::Relaxed));
                        mark.ask_started()
                    }
                });
                let (mark, started, runs) = &*state;
                started.store(true, Ordering::Relaxed);
                let is_seen = mark.is_set_at_start(barriers);
                // Pairs with the load above.
                runs.store(!is_seen, Ordering::Release);
                let sent = [any, late].map(|canceller| canceller.join().unwrap());
                assert!(is_seen || sent.contains(&true), "nobody cancels it");
                assert!(!(sent[0] && sent[1]), "one command is enough");
            });
        }
    }
}
