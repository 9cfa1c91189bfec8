//! The epoch of a runtime's end: moved at every change that a worker may wait for, so that no worker sleeps over one.
//!
//! A worker reads the epoch, looks at its conditions, and finds nothing to do. It announces its sleep (with the fence of the
//! idle protocol, ID2) and looks at the epoch again: if it has moved, it stays awake. Whoever changes something moves the
//! epoch after the change and rouses after that (ID1). Then either the worker's second look is behind the move, and it stays
//! awake, or its fence is before the poster's, and the poster finds it asleep.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | EP1 | `advance`, Release | `now`, Acquire | the change before the move |

use crate::atomic::{AtomicU32, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct Epoch(AtomicU32);

impl Epoch {
    pub(crate) fn new() -> Epoch {
        Epoch(AtomicU32::new(0))
    }

    /// Any thread, after a change and before rousing.
    pub(crate) fn advance(&self) {
        // EP1, pairs with `now`.
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Worker, before it looks at its conditions.
    pub(crate) fn now(&self) -> u32 {
        // Pairs with EP1.
        self.0.load(Ordering::Acquire)
    }

    /// Worker, behind its ID2 fence.
    pub(crate) fn has_moved_since(&self, seen: u32) -> bool {
        self.0.load(Ordering::Relaxed) != seen
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::super::idle::{Idle, SleepWord};
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// One worker looks, finds nothing and falls asleep; another changes what it waits for. It sees it, or is roused.
    #[test]
    fn loom_epoch_lets_nobody_sleep_over_a_change() {
        loom::model(|| {
            let state = Arc::new((
                Epoch::new(),
                Idle::new(),
                SleepWord::new(),
                AtomicUsize::new(0),
            ));
            let poster = {
                let state = state.clone();
                loom::thread::spawn(move || {
                    let (epoch, _, word, change) = &*state;
                    change.store(1, Ordering::Relaxed);
                    epoch.advance();
                    word.notify_after_post()
                })
            };
            let (epoch, idle, word, change) = &*state;
            let mut is_asleep = false;
            while !is_asleep {
                let seen = epoch.now();
                if change.load(Ordering::Relaxed) == 1 {
                    break;
                }
                idle.announce_sleep(word);
                is_asleep = !epoch.has_moved_since(seen);
                if !is_asleep {
                    let _ = idle.wake_up(word);
                }
            }
            let is_roused = poster.join().unwrap();
            assert!(!is_asleep || is_roused, "asleep over a change");
        });
    }
}
