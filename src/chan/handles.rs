//! The two ends of a channel: who still holds it, and who frees it.
//!
//! One allocation holds the channel and the number of handles on each side. The last handle of a side disconnects it; the
//! side that goes second frees the allocation.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | HA1 | a count goes down, release | the last one's fence, acquire | what the other handles of that side did |
//! | HA2 | `is_half` exchange of the first side, release | that of the second side, acquire | what the first side did |
//!
//! # Safety
//!
//! The allocation is shared by counts of our own. It stays while either side has a handle: a side sets `is_half` only after
//! its last handle is gone, and only the side that finds it set frees.

#![allow(unsafe_code)]

use super::buffered::Buffered;
use super::zero::Zero;
use crate::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::ops::Deref;
use std::process;

/// More handles than there can be in memory, unless somebody forgets them in a loop.
const HANDLES_MAX: usize = isize::MAX as usize;

/// What becomes of a channel when a side is gone.
pub(super) trait TwoSided {
    /// Nobody sends any more.
    fn disconnect_senders(&self);
    /// Nobody receives any more: what is queued is dropped.
    fn disconnect_receivers(&self);
}

impl<T> TwoSided for Buffered<T> {
    fn disconnect_senders(&self) {
        Buffered::disconnect_senders(self);
    }

    fn disconnect_receivers(&self) {
        Buffered::disconnect_receivers(self);
    }
}

impl<T> TwoSided for Zero<T> {
    fn disconnect_senders(&self) {
        Zero::disconnect_senders(self);
    }

    fn disconnect_receivers(&self) {
        Zero::disconnect_receivers(self);
    }
}

/// The allocation. The counts come last, away from what the channel uses for every message.
#[repr(C)]
struct Shared<C> {
    channel: C,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// One side is gone.
    is_half: AtomicBool,
}

/// A new channel with one handle on each side.
pub(super) fn pair<C: TwoSided>(channel: C) -> (SenderEnd<C>, ReceiverEnd<C>) {
    let shared = Box::into_raw(Box::new(Shared {
        channel,
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        is_half: AtomicBool::new(false),
    }));
    (SenderEnd { shared }, ReceiverEnd { shared })
}

/// One handle on the sending side.
///
/// A mutable pointer makes it invariant in the message's type. Were it not, a message could be sent that does not live as
/// long as its receiver was promised:
///
/// ```compile_fail
/// use urgo::chan::Sender;
///
/// fn shorten<'a>(sender: Sender<&'static str>) -> Sender<&'a str> {
///     sender
/// }
/// ```
#[derive(Debug)]
pub(super) struct SenderEnd<C: TwoSided> {
    shared: *mut Shared<C>,
}

/// One handle on the receiving side.
#[derive(Debug)]
pub(super) struct ReceiverEnd<C: TwoSided> {
    shared: *mut Shared<C>,
}

#[inline]
fn add(count: &AtomicUsize) {
    if count.fetch_add(1, Ordering::Relaxed) > HANDLES_MAX {
        process::abort();
    }
}

/// Whether it was the last.
#[inline]
fn subtract(count: &AtomicUsize) -> bool {
    // HA1, pairs with the fence below.
    if count.fetch_sub(1, Ordering::Release) != 1 {
        return false;
    }
    // HA1, pairs with the release above.
    fence(Ordering::Acquire);
    true
}

/// Frees the allocation if the other side is gone; dropped when a side is, even by unwinding.
struct Leave<C>(*mut Shared<C>);

impl<C> Drop for Leave<C> {
    fn drop(&mut self) {
        // SAFETY: this side has not set `is_half` yet, so nobody has freed.
        // HA2, pairs with the other side's exchange here.
        if unsafe { &*self.0 }.is_half.swap(true, Ordering::AcqRel) {
            // SAFETY: made by `Box::into_raw`; both sides are gone, and only the second comes here.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

impl<C: TwoSided> SenderEnd<C> {
    #[inline]
    fn shared(&self) -> &Shared<C> {
        // SAFETY: this handle is counted, so its side has not left.
        unsafe { &*self.shared }
    }

    pub(super) fn is_same(&self, other: &SenderEnd<C>) -> bool {
        self.shared == other.shared
    }

    /// The same for all handles on this side of this channel, and for nothing else.
    #[inline]
    pub(super) fn address(&self) -> *const () {
        (&raw const self.shared().senders).cast()
    }

    #[cold]
    fn leave(&self) {
        let _leave = Leave(self.shared);
        self.shared().channel.disconnect_senders();
    }
}

impl<C: TwoSided> ReceiverEnd<C> {
    #[inline]
    fn shared(&self) -> &Shared<C> {
        // SAFETY: this handle is counted, so its side has not left.
        unsafe { &*self.shared }
    }

    pub(super) fn is_same(&self, other: &ReceiverEnd<C>) -> bool {
        self.shared == other.shared
    }

    /// The same for all handles on this side of this channel, and for nothing else.
    #[inline]
    pub(super) fn address(&self) -> *const () {
        (&raw const self.shared().receivers).cast()
    }

    #[cold]
    fn leave(&self) {
        let _leave = Leave(self.shared);
        self.shared().channel.disconnect_receivers();
    }
}

impl<C: TwoSided> Clone for SenderEnd<C> {
    #[inline]
    fn clone(&self) -> SenderEnd<C> {
        add(&self.shared().senders);
        SenderEnd {
            shared: self.shared,
        }
    }
}

impl<C: TwoSided> Clone for ReceiverEnd<C> {
    #[inline]
    fn clone(&self) -> ReceiverEnd<C> {
        add(&self.shared().receivers);
        ReceiverEnd {
            shared: self.shared,
        }
    }
}

impl<C: TwoSided> Drop for SenderEnd<C> {
    #[inline]
    fn drop(&mut self) {
        if subtract(&self.shared().senders) {
            self.leave();
        }
    }
}

impl<C: TwoSided> Drop for ReceiverEnd<C> {
    #[inline]
    fn drop(&mut self) {
        if subtract(&self.shared().receivers) {
            self.leave();
        }
    }
}

impl<C: TwoSided> Deref for SenderEnd<C> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        &self.shared().channel
    }
}

impl<C: TwoSided> Deref for ReceiverEnd<C> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        &self.shared().channel
    }
}

#[cfg(all(test, not(urgo_loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    struct Watched {
        freed: Arc<AtomicUsize>,
        senders_left: Arc<AtomicUsize>,
        receivers_left: Arc<AtomicUsize>,
    }

    impl TwoSided for Watched {
        fn disconnect_senders(&self) {
            self.senders_left.fetch_add(1, Ordering::Relaxed);
        }

        fn disconnect_receivers(&self) {
            self.receivers_left.fetch_add(1, Ordering::Relaxed);
            assert!(!std::thread::panicking());
            std::panic::resume_unwind(Box::new("a message's drop"));
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.freed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts() -> [Arc<AtomicUsize>; 3] {
        [(); 3].map(|()| Arc::new(AtomicUsize::new(0)))
    }

    fn watched([freed, senders_left, receivers_left]: &[Arc<AtomicUsize>; 3]) -> Watched {
        Watched {
            freed: freed.clone(),
            senders_left: senders_left.clone(),
            receivers_left: receivers_left.clone(),
        }
    }

    fn seen(counts: &[Arc<AtomicUsize>; 3]) -> [usize; 3] {
        counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    #[test]
    fn handles_disconnect_with_the_last_of_a_side_and_free_with_the_second_side() {
        let counts = counts();
        let (sender, receiver) = pair(watched(&counts));
        let other = sender.clone();
        assert!(sender.is_same(&other));
        assert_ne!(sender.address(), receiver.address());
        drop(sender);
        assert_eq!(seen(&counts), [0, 0, 0]);
        drop(other);
        assert_eq!(seen(&counts), [0, 1, 0]);
        let late = receiver.clone();
        drop(receiver);
        assert_eq!(seen(&counts), [0, 1, 0]);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(late))).is_err());
        assert_eq!(seen(&counts), [1, 1, 1]);
    }

    #[test]
    fn handles_free_once_when_both_sides_leave_at_once() {
        for _ in 0..500 {
            let counts = counts();
            let (sender, receiver) = pair(watched(&counts));
            let thread = std::thread::spawn({
                let sender = AssertSend(sender);
                move || drop(sender)
            });
            assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
            thread.join().unwrap();
            assert_eq!(seen(&counts), [1, 1, 1]);
        }
    }

    struct AssertSend(#[allow(dead_code)] SenderEnd<Watched>);
    // SAFETY: what it is a handle of is made of atomics.
    unsafe impl Send for AssertSend {}
}
