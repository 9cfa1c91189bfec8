//! The wait word: the one atomic whose value decides whether waiting is allowed and who ended it.
//!
//! # State
//!
//! | value | meaning | who may store it |
//! |---|---|---|
//! | `EMPTY` 0 | the waiter has not gone to wait, nobody has ended the wait | the owner, at creation |
//! | `PARKED` 1 | the waiter is waiting, or about to switch out / enter `futex(2)` | the owner, from `EMPTY` or at creation |
//! | 2.. | the wait is over; the value says why (an [`Outcome`](super::Outcome) or a select case) | one winner, from `EMPTY` or `PARKED` |
//!
//! Exactly one [`WaitWord::finish`] wins. A waker that loses has delivered nothing and must pass its permit or value on
//! to another waiter; that is what keeps timed-out waiters from swallowing wake-ups.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | WW1 | `finish`, AcqRel exchange | `outcome` / failed `park`, Acquire | what the waker did before (value, permit) |
//! | WW2 | `park`, AcqRel exchange | `finish`, AcqRel exchange | the waiter's saved context, before a waker readies it |

use crate::atomic::{AtomicU32, Ordering};

pub(crate) const EMPTY: u32 = 0;
pub(crate) const PARKED: u32 = 1;
/// The first outcome that is free for numbering: cases of a select.
pub(crate) const CASE_FIRST: u32 = 16;

/// What a winner of [`WaitWord::finish`] owes the waiter.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debt {
    /// Somebody else ended this wait before; the caller's wake-up was not delivered.
    Lost,
    /// The waiter had not gone to wait: it will see the word by itself.
    Nothing,
    /// The waiter waits: the caller must ready the goroutine or wake the thread, exactly once.
    Wake,
}

/// See the module's table.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct WaitWord(AtomicU32);

impl WaitWord {
    pub(crate) fn new() -> Self {
        WaitWord(AtomicU32::new(EMPTY))
    }

    /// A word that is `PARKED` from the start. Publishing it must order what came before, in place of WW2.
    pub(crate) fn parked() -> Self {
        WaitWord(AtomicU32::new(PARKED))
    }

    /// Owner only. Announces that the owner goes to wait; `false` if the wait is already over.
    #[inline]
    pub(crate) fn park(&self) -> bool {
        // WW2, pairs with the exchange in `finish`; the failure load pairs with WW1.
        self.0
            .compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Any thread. Ends the wait with `outcome` (≥ 2) unless it is over already.
    #[inline]
    pub(crate) fn finish(&self, outcome: u32) -> Debt {
        debug_assert!(outcome > PARKED);
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen <= PARKED {
            // WW1, pairs with `outcome` and with the failed exchange in `park`; its load side pairs with WW2.
            match self
                .0
                .compare_exchange_weak(seen, outcome, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(PARKED) => return Debt::Wake,
                Ok(_) => return Debt::Nothing,
                Err(now) => seen = now,
            }
        }
        Debt::Lost
    }

    /// As [`finish`](Self::finish) where nobody else can call it at the same time.
    #[inline]
    pub(crate) fn finish_alone(&self, outcome: u32) -> Debt {
        debug_assert!(outcome > PARKED);
        let seen = self.0.load(Ordering::Relaxed);
        if seen > PARKED {
            return Debt::Lost;
        }
        // WW1, pairs with `outcome`.
        self.0.store(outcome, Ordering::Release);
        if seen == PARKED {
            Debt::Wake
        } else {
            Debt::Nothing
        }
    }

    /// Any thread. The value that ended the wait, if it is over.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<u32> {
        // Pairs with WW1.
        let value = self.0.load(Ordering::Acquire);
        (value > PARKED).then_some(value)
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// A waiter and two rivals that end its wait: one wins, and the waiter is woken iff it parked.
    #[test]
    fn loom_wait_word_has_one_winner_and_no_lost_wake() {
        loom::model(|| {
            let word = Arc::new(WaitWord::new());
            let wakes = Arc::new(AtomicUsize::new(0));
            let lost = Arc::new(AtomicUsize::new(0));
            let rivals: Vec<_> = [2, 3]
                .into_iter()
                .map(|value| {
                    let (word, wakes, lost) = (word.clone(), wakes.clone(), lost.clone());
                    loom::thread::spawn(move || match word.finish(value) {
                        Debt::Wake => drop(wakes.fetch_add(1, Ordering::Relaxed)),
                        Debt::Lost => drop(lost.fetch_add(1, Ordering::Relaxed)),
                        Debt::Nothing => {}
                    })
                })
                .collect();
            let parked = word.park();
            for rival in rivals {
                rival.join().unwrap();
            }
            assert_eq!(lost.load(Ordering::Relaxed), 1);
            assert_eq!(wakes.load(Ordering::Relaxed), usize::from(parked));
            assert!(matches!(word.outcome(), Some(2 | 3)));
        });
    }
}
