//! Looking again before waiting: how often and how soon, learnt from what it brought.
//!
//! A look at a queue that the other CPU works on takes two cache lines away from it and costs both CPUs about as much as ten
//! messages. So whoever finds nothing pauses, and learns how long: if many values (or places) have come during the pause it may
//! be longer next time, and if there was one, as in a conversation, it was too long. And if looking was in vain, there is less of it.

use crate::atomic::{AtomicU32, Ordering};
use crate::sched;

/// Looks before waiting, at most, and at least: never quite none, so that a change for the better is noticed.
const LOOKS_MAX: u32 = 24;
const LOOKS_MIN: u32 = 2;
/// Rounds of the CPU's own pause (10 to 40 ns each) before the first look.
const PAUSE_MIN: u32 = 2;
const PAUSE_MAX: u32 = 64;
/// From so many values found at once a longer pause would have been better.
const BATCH: usize = 8;

/// What one side of a channel has learnt. Hints, so relaxed, whoever stores them.
#[derive(Debug)]
pub(super) struct Patience {
    looks: AtomicU32,
    pause: AtomicU32,
}

impl Patience {
    /// The model checker's atomics cannot be made at compile time, and its threads do not look again anyway.
    #[cfg(urgo_loom)]
    pub(super) fn new() -> Patience {
        Patience {
            looks: AtomicU32::new(0),
            pause: AtomicU32::new(0),
        }
    }

    #[cfg(not(urgo_loom))]
    pub(super) const fn new() -> Patience {
        Patience {
            looks: AtomicU32::new(LOOKS_MAX / 2),
            pause: AtomicU32::new(PAUSE_MIN * 2),
        }
    }
}

/// How long a woken sender lets room grow before it sends, and a woken receiver lets values gather: learnt in the same way. If
/// the other side is quick there is much more meanwhile; with a slow one it is not worth the time, but for a try now and then.
#[derive(Debug)]
pub(super) struct Lag(AtomicU32);

const LAG_LOOKS_MAX: u32 = 4;
/// So many wakes without a try lead to a try with one look.
const LAG_STEPS: u32 = 16;

impl Lag {
    pub(super) fn new() -> Lag {
        Lag(AtomicU32::new(LAG_LOOKS_MAX * LAG_STEPS))
    }

    /// Pauses, and lets others run, until there is `enough` of what `depth` says, or it has taken long enough.
    pub(super) fn wait(&self, enough: usize, depth: impl Fn() -> usize) {
        let learnt = self.0.load(Ordering::Relaxed);
        let before = depth();
        if before >= enough {
            return;
        }
        let looks = learnt / LAG_STEPS;
        if looks == 0 {
            self.0.store(learnt + 1, Ordering::Relaxed);
            return;
        }
        let mut now = before;
        for _ in 0..looks {
            for _ in 0..PAUSE_MAX {
                core::hint::spin_loop();
            }
            if sched::has_others_ready() {
                sched::yield_now();
            }
            now = depth();
            if now >= enough {
                break;
            }
        }
        let learnt = if now >= enough.min(before + BATCH) {
            (learnt + LAG_STEPS).min(LAG_LOOKS_MAX * LAG_STEPS)
        } else {
            learnt - LAG_STEPS / 2
        };
        self.0.store(learnt, Ordering::Relaxed);
    }
}

/// A few looks with growing pauses between them.
pub(super) struct Spin<'a> {
    patience: &'a Patience,
    looks: u32,
    left: u32,
    first: u32,
    pause: u32,
}

impl Spin<'_> {
    /// `is_worth_it`: the other side may be at work on another CPU at this moment.
    pub(super) fn new(patience: &Patience, is_worth_it: bool) -> Spin<'_> {
        let looks = if is_worth_it {
            patience.looks.load(Ordering::Relaxed)
        } else {
            0
        };
        let first = patience.pause.load(Ordering::Relaxed);
        Spin {
            patience,
            looks,
            left: looks,
            first,
            pause: first,
        }
    }

    /// Pauses; `false` if it was enough, or the worker has something else to do.
    #[inline]
    pub(super) fn again(&mut self) -> bool {
        if self.left == 0 || sched::has_others_ready() {
            return false;
        }
        self.left -= 1;
        for _ in 0..self.pause {
            core::hint::spin_loop();
        }
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }

    /// It has paid: so many were found.
    pub(super) fn succeeded(&self, batch: usize) {
        if self.left == self.looks {
            return;
        }
        if self.looks < LOOKS_MAX {
            self.patience.looks.store(self.looks + 1, Ordering::Relaxed);
        }
        let pause = if batch >= BATCH {
            (self.first * 2).min(PAUSE_MAX)
        } else if batch <= 2 {
            (self.first / 2).max(PAUSE_MIN)
        } else {
            self.first
        };
        self.patience.pause.store(pause, Ordering::Relaxed);
    }

    /// It has not.
    pub(super) fn failed(&self) {
        if self.left != self.looks && self.looks > LOOKS_MIN {
            let looks = self.looks - self.looks / 4 - 1;
            self.patience.looks.store(looks, Ordering::Relaxed);
        }
    }
}
