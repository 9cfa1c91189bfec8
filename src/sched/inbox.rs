//! The inbox: one worker's queue of goroutines that others hand to it (readied goroutines homed here, and fresh ones
//! placed here).
//!
//! # Algorithm
//!
//! A Treiber stack of intrusive links, many pushers and one taker. The taker always takes everything with one exchange
//! and turns it round, so that goroutines come out in the order in which they went in, and no pop exists that could
//! suffer from ABA. A node is in at most one queue at a time, so one link per goroutine serves all queues.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | IB1 | `push`, Release exchange | `take_all`, Acquire exchange | the node's link and all that the pusher did before |
//!
//! # Safety
//!
//! Nodes are raw pointers: whoever pushes one vouches that it is in no other queue and lives until the taker has it.
//! Goroutines do: a queued goroutine cannot end before it is dispatched.

#![allow(unsafe_code)]

use crate::atomic::{AtomicPtr, Ordering};
use core::ptr::{self, NonNull};

/// A record that can wait in an inbox.
pub(crate) trait Linked: Sized {
    /// The link; whoever has the node in hand, outside every queue, may use it.
    fn link(&self) -> &AtomicPtr<Self>;
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    head: AtomicPtr<T>,
}

impl<T: Linked> Inbox<T> {
    pub(crate) fn new() -> Self {
        Inbox {
            head: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Any thread; takes no lock.
    ///
    /// # Safety
    ///
    /// `node` is valid, in no queue, and stays valid until the owner has taken it.
    pub(crate) unsafe fn push(&self, node: NonNull<T>) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: valid by this function's contract; ours alone until the exchange below succeeds.
            unsafe { node.as_ref() }
                .link()
                .store(head, Ordering::Relaxed);
            // IB1, pairs with `take_all`.
            match self.head.compare_exchange_weak(
                head,
                node.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Any thread. Whether there was nothing at some moment during the call.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Owner worker only. Everything that is there, oldest first.
    #[inline]
    pub(crate) fn take_all(&self) -> Taken<T> {
        if self.is_empty() {
            return Taken {
                next: ptr::null_mut(),
            };
        }
        // Pairs with IB1.
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut oldest: *mut T = ptr::null_mut();
        while let Some(node) = NonNull::new(newest) {
            // SAFETY: the node was pushed under `push`'s contract and is ours since the exchange.
            let link = unsafe { node.as_ref() }.link();
            newest = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = node.as_ptr();
        }
        Taken { next: oldest }
    }
}

/// What [`Inbox::take_all`] took, oldest first. Whoever drops it before its end loses the rest, so nobody does.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    next: *mut T,
}

impl<T: Linked> Iterator for Taken<T> {
    type Item = NonNull<T>;

    #[inline]
    fn next(&mut self) -> Option<NonNull<T>> {
        let node = NonNull::new(self.next)?;
        // SAFETY: in this list since `take_all`, valid by `push`'s contract until we hand it out here.
        self.next = unsafe { node.as_ref() }.link().load(Ordering::Relaxed);
        Some(node)
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;

    struct Node(AtomicPtr<Node>, u32);

    impl Linked for Node {
        fn link(&self) -> &AtomicPtr<Node> {
            &self.0
        }
    }

    fn node(value: u32) -> NonNull<Node> {
        NonNull::from(Box::leak(Box::new(Node(
            AtomicPtr::new(ptr::null_mut()),
            value,
        ))))
    }

    /// Two pushers, one taker: nothing is lost or seen twice, and each pusher's nodes keep their order.
    #[test]
    fn loom_inbox_keeps_order_and_loses_nothing() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::new());
            let pushers: Vec<_> = [10, 20]
                .into_iter()
                .map(|base| {
                    let inbox = inbox.clone();
                    loom::thread::spawn(move || {
                        for step in 0..2 {
                            // SAFETY: a fresh leaked node, pushed once.
                            unsafe { inbox.push(node(base + step)) };
                        }
                    })
                })
                .collect();
            let mut seen = Vec::new();
            let mut take = |inbox: &Inbox<Node>| {
                for node in inbox.take_all() {
                    // SAFETY: taken, so ours; made by `Box::leak`.
                    seen.push(unsafe { Box::from_raw(node.as_ptr()) }.1);
                }
            };
            take(&inbox);
            for pusher in pushers {
                pusher.join().unwrap();
            }
            take(&inbox);
            let of = |base: u32| {
                seen.iter()
                    .copied()
                    .filter(|v| v / 10 == base / 10)
                    .collect::<Vec<_>>()
            };
            assert_eq!(of(10), [10, 11]);
            assert_eq!(of(20), [20, 21]);
        });
    }
}
