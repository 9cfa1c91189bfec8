//! The join word: who takes a goroutine's result, and who frees its control block.
//!
//! A control block has two ends, the goroutine itself and its `JoinHandle`. Each sets its own bit when it lets go; the
//! second to let go frees the block. So an ordinary spawn-and-join costs one locked instruction in all: the exchange by
//! which the goroutine says that it is done.
//!
//! # State
//!
//! | bit | meaning | who sets it |
//! |---|---|---|
//! | `DONE` | the result is in the block; the goroutine's side touches the block no more | the goroutine's side, once |
//! | `DETACHED` | the handle is gone; nobody will take the result | the handle, once |
//! | `JOINER` | the joiner's address is in the block | the handle, cleared by it too |
//! | `RELEASED` | the goroutine's side will not touch the joiner's waiter (nor the block) any more | the goroutine's side, when its wake-up was refused because the joiner had been cancelled |
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | JW1 | `complete`, AcqRel | `is_done`, `announce`, `detach`: Acquire | the result, to the handle |
//! | JW2 | `announce`, AcqRel | `complete`, AcqRel | the joiner's address, to the goroutine's side |
//! | JW4 | `release`, Release | `is_released`, Acquire | the end of the goroutine's side's look at the waiter |
//! | JW3 | `detach`, AcqRel | `complete`, AcqRel | that the goroutine's side owns the block now |
//! | JW5 | `reset`, Release | `is_done`, Acquire | the block's new id, to a home that still knows it by the old one |

use crate::atomic::{AtomicU32, Ordering};

const DONE: u32 = 1;
const DETACHED: u32 = 2;
const JOINER: u32 = 4;
const RELEASED: u32 = 8;

/// What the goroutine's side owes after [`JoinWord::complete`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// The handle will find the result by itself. The block is the handle's.
    Nothing,
    /// The joiner waits: wake it (its address was read before). The block is the handle's.
    WakeJoiner,
    /// There is no handle: drop the result and free the block.
    Free,
}

/// See the module's table.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct JoinWord(AtomicU32);

impl JoinWord {
    pub(crate) fn new() -> Self {
        JoinWord(AtomicU32::new(0))
    }

    /// Spawner only, before the block is published, and after its new id is in it.
    #[cfg(not(urgo_loom))]
    pub(crate) fn reset(&self) {
        // JW5, pairs with `is_done`.
        self.0.store(0, Ordering::Release);
    }

    /// Goroutine's side, once: the result is in place.
    #[inline]
    pub(crate) fn complete(&self) -> Completed {
        // JW1; the load side pairs with JW2 and JW3.
        // Adding sets the bit, which is clear, in one instruction; `fetch_or` would be a loop, as its result is looked at.
        let before = self.0.fetch_add(DONE, Ordering::AcqRel);
        debug_assert_eq!(before & DONE, 0);
        if before & DETACHED != 0 {
            Completed::Free
        } else if before & JOINER != 0 {
            Completed::WakeJoiner
        } else {
            Completed::Nothing
        }
    }

    /// Whether the result is there. Handle, or whoever only wants to know whether a goroutine of some id is still there.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Pairs with JW1 and JW5.
        self.0.load(Ordering::Acquire) & DONE != 0
    }

    /// Handle only, after it stored the joiner's address: `false` if the result is already there.
    pub(crate) fn announce(&self) -> bool {
        // JW2, pairs with `complete`; the load side pairs with JW1.
        self.0.fetch_or(JOINER, Ordering::AcqRel) & DONE == 0
    }

    /// Handle only, to change or take back the joiner's address: `false` if the result is already there (and a wake may
    /// be on its way).
    pub(crate) fn retract(&self) -> bool {
        // Load side pairs with JW1; AcqRel keeps later stores of the address behind the exchange (JW2).
        self.0.fetch_and(!JOINER, Ordering::AcqRel) & DONE == 0
    }

    /// Goroutine's side, after `complete` said `Free`: the word is ours alone, and the goroutine is not over yet.
    pub(crate) fn reopen(&self) {
        self.0.fetch_and(!DONE, Ordering::Relaxed);
    }

    /// Goroutine's side, last use, when the joiner refused the wake-up.
    pub(crate) fn release(&self) {
        // JW4, pairs with `is_released`.
        self.0.fetch_or(RELEASED, Ordering::Release);
    }

    /// Handle only, after `retract` failed and the wait had not ended by the wake-up: the waiter may go when this is true.
    pub(crate) fn is_released(&self) -> bool {
        // Pairs with JW4.
        self.0.load(Ordering::Acquire) & RELEASED != 0
    }

    /// Handle only, last use: `true` if the caller must drop the result and free the block.
    #[inline]
    pub(crate) fn detach(&self) -> bool {
        // JW3, pairs with `complete`; the load side pairs with JW1.
        self.0.fetch_or(DETACHED, Ordering::AcqRel) & DONE != 0
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// Whatever the order, exactly one side frees, and a joiner that announced in time is woken.
    #[test]
    fn loom_join_word_frees_once_and_wakes_the_joiner() {
        for join in [true, false] {
            loom::model(move || {
                let word = Arc::new(JoinWord::new());
                let frees = Arc::new(AtomicUsize::new(0));
                let woken = Arc::new(AtomicUsize::new(0));
                let side = {
                    let (word, frees, woken) = (word.clone(), frees.clone(), woken.clone());
                    loom::thread::spawn(move || match word.complete() {
                        Completed::Free => drop(frees.fetch_add(1, Ordering::Relaxed)),
                        Completed::WakeJoiner => drop(woken.fetch_add(1, Ordering::Relaxed)),
                        Completed::Nothing => {}
                    })
                };
                let mut waits = false;
                if join {
                    waits = word.announce();
                    if !waits {
                        assert!(word.is_done());
                        frees.fetch_add(1, Ordering::Relaxed);
                    }
                } else if word.detach() {
                    frees.fetch_add(1, Ordering::Relaxed);
                }
                side.join().unwrap();
                assert_eq!(woken.load(Ordering::Relaxed), usize::from(waits));
                // A woken joiner frees later; otherwise one side has freed by now.
                assert_eq!(frees.load(Ordering::Relaxed), usize::from(!waits));
            });
        }
    }
}
