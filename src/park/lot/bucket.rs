//! One place of the lot's table: a short lock, and the queues of the words that hash to it.
//!
//! # State
//!
//! | lock | meaning | who stores it |
//! |---|---|---|
//! | `FREE` 0 | nobody is in the bucket | the holder, leaving |
//! | `HELD` 1 | one thread is in it | whoever takes it, from `FREE` |
//! | `CROWDED` 2 | one thread is in it, others may sleep in `futex(2)` | whoever gives up spinning |
//!
//! | node | meaning | links that hold |
//! |---|---|---|
//! | not queued | in no queue | none |
//! | first of its word | the queue's head, in the bucket's chain of words | `next`, `tail`, `chain` |
//! | later | behind another waiter for the same word | `next`, `prev` |
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | LT1 | `unlock`, release | `lock`, acquire | nodes and links, and what either side did to the word before |
//!
//! # Safety
//!
//! Links are raw pointers to nodes on other stacks. A queued node is alive: its owner does not leave before the node was
//! woken or taken out under this lock.

#![allow(unsafe_code)]

use super::Node;
#[cfg(not(urgo_loom))]
use crate::atomic::{AtomicU32, Ordering};
#[cfg(urgo_loom)]
use crate::atomic::{ModelMutex, ModelMutexGuard};
use core::cell::Cell;
use core::ptr;

#[cfg(not(urgo_loom))]
const FREE: u32 = 0;
#[cfg(not(urgo_loom))]
const HELD: u32 = 1;
#[cfg(not(urgo_loom))]
const CROWDED: u32 = 2;
/// Looks at a held lock before its seeker sleeps: some times the length of a short section, less than a sleep costs.
#[cfg(not(urgo_loom))]
const SPINS: u32 = 40;

/// See the module.
#[repr(C)]
pub(super) struct Bucket {
    #[cfg(not(urgo_loom))]
    lock: AtomicU32,
    /// The model checker's own lock: it lets a thread that must wait sleep, where ours would spin through its bound.
    #[cfg(urgo_loom)]
    lock: ModelMutex<()>,
    #[cfg(urgo_loom)]
    held: Cell<Option<ModelMutexGuard<'static, ()>>>,
    /// Counts those that enqueue, so that a waker that comes and goes can tell who was there when it came.
    tickets: Cell<u32>,
    /// The first waiter of the first word; `Node::chain` leads to the other words.
    words: Cell<*const Node>,
}

#[cfg(all(target_pointer_width = "64", not(urgo_loom)))]
const _: () = assert!(size_of::<Bucket>() == 16, "four buckets to a cache line");

// SAFETY: its cells are used under the lock only (the methods below say so), and lead to nodes, which are shared likewise.
unsafe impl Sync for Bucket {}
// SAFETY: as above.
unsafe impl Send for Bucket {}

impl core::fmt::Debug for Bucket {
    /// Blocks nothing, so tells nothing.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bucket").finish_non_exhaustive()
    }
}

impl Bucket {
    #[cfg(not(urgo_loom))]
    pub(super) const fn new() -> Bucket {
        Bucket {
            lock: AtomicU32::new(FREE),
            tickets: Cell::new(0),
            words: Cell::new(ptr::null()),
        }
    }

    #[cfg(urgo_loom)]
    pub(super) fn new() -> Bucket {
        Bucket {
            lock: Default::default(),
            held: Cell::new(None),
            tickets: Cell::new(0),
            words: Cell::new(ptr::null()),
        }
    }

    /// Any thread. May block the thread while another is in the bucket: for as long as that one's short section takes, or,
    /// if it was preempted, until it runs again.
    #[inline]
    #[cfg(not(urgo_loom))]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    /// Any thread. Takes the lock if it is free.
    #[inline]
    #[cfg(not(urgo_loom))]
    pub(super) fn try_lock(&self) -> bool {
        // LT1, pairs with `unlock`.
        self.lock
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    #[cfg(not(urgo_loom))]
    fn lock_slow(&self) {
        for _ in 0..SPINS {
            core::hint::spin_loop();
            if self.lock.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return;
            }
        }
        // LT1, pairs with `unlock`. Crowded even if we are the only one: there may be others asleep.
        while self.lock.swap(CROWDED, Ordering::Acquire) != FREE {
            let _ = urgo_sys::futex::wait(&self.lock, CROWDED, None);
        }
    }

    #[cfg(urgo_loom)]
    pub(super) fn lock(&self) {
        self.hold(self.lock.lock().unwrap());
    }

    #[cfg(urgo_loom)]
    pub(super) fn try_lock(&self) -> bool {
        match self.lock.try_lock() {
            Ok(guard) => {
                self.hold(guard);
                true
            }
            Err(_) => false,
        }
    }

    #[cfg(urgo_loom)]
    fn hold(&self, guard: ModelMutexGuard<'_, ()>) {
        // SAFETY: dropped in `unlock`, which the holder calls before the bucket goes.
        let guard = unsafe {
            core::mem::transmute::<ModelMutexGuard<'_, ()>, ModelMutexGuard<'static, ()>>(guard)
        };
        self.held.set(Some(guard));
    }

    /// The holder only.
    #[inline]
    #[cfg(not(urgo_loom))]
    pub(super) fn unlock(&self) {
        // LT1, pairs with `lock`.
        if self.lock.swap(FREE, Ordering::Release) == CROWDED {
            urgo_sys::futex::wake(&self.lock, 1);
        }
    }

    #[cfg(urgo_loom)]
    pub(super) fn unlock(&self) {
        drop(self.held.take());
    }

    // ------------------------------------------------------------------------------- queues; the lock's holder only

    /// The link that names the first waiter for `address`, or the link at which a first one is to be hung in.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    #[inline]
    unsafe fn link(&self, address: usize) -> &Cell<*const Node> {
        let mut link = &self.words;
        // SAFETY: a queued node, alive by the module's invariant.
        while let Some(first) = unsafe { link.get().as_ref() } {
            if first.address() == address {
                break;
            }
            link = &first.chain;
        }
        link
    }

    /// The ticket of whoever enqueues next. The lock's holder only.
    #[inline]
    pub(super) fn ticket(&self) -> u32 {
        self.tickets.get()
    }

    #[cfg(all(test, not(urgo_loom)))]
    pub(super) fn set_tickets(&self, tickets: u32) {
        self.tickets.set(tickets);
    }

    #[inline]
    fn next_ticket(&self) -> u32 {
        let ticket = self.tickets.get();
        self.tickets.set(ticket.wrapping_add(1));
        ticket
    }

    /// The first waiter for `address`.
    ///
    /// # Safety
    ///
    /// The caller holds the lock, and uses the node no longer than that and than the node is queued.
    #[inline]
    pub(super) unsafe fn first<'n>(&self, address: usize) -> Option<&'n Node> {
        // SAFETY: the lock is held; a queued node is alive by the module's invariant.
        unsafe { self.link(address).get().as_ref() }
    }

    /// Appends `node` to the queue of `address`.
    ///
    /// # Safety
    ///
    /// The caller holds the lock of the bucket of `address`; `node` is in no queue, and stays where it is until it was
    /// woken or taken out.
    #[inline]
    pub(super) unsafe fn push(&self, address: usize, node: &Node) {
        node.enter(address, self.next_ticket());
        // SAFETY: the lock is held.
        let link = unsafe { self.link(address) };
        // SAFETY: a queued node is alive.
        match unsafe { link.get().as_ref() } {
            None => {
                node.tail.set(node);
                node.chain.set(ptr::null());
                link.set(node);
            }
            Some(first) => {
                let tail = first.tail.replace(node);
                node.prev.set(tail);
                // SAFETY: the tail of a queue is queued, so alive.
                unsafe { &*tail }.next.set(node);
            }
        }
    }

    /// Puts `node` in front of the queue of `address`.
    ///
    /// # Safety
    ///
    /// As for [`push`](Self::push).
    #[inline]
    pub(super) unsafe fn push_first(&self, address: usize, node: &Node) {
        node.enter(address, self.next_ticket());
        // SAFETY: the lock is held.
        let link = unsafe { self.link(address) };
        // SAFETY: a queued node is alive.
        match unsafe { link.get().as_ref() } {
            None => {
                node.tail.set(node);
                node.chain.set(ptr::null());
            }
            Some(first) => {
                node.next.set(first);
                node.tail.set(first.tail.get());
                node.chain.set(first.chain.get());
                first.prev.set(node);
            }
        }
        link.set(node);
    }

    /// Takes `node` out if it is queued.
    ///
    /// # Safety
    ///
    /// The caller holds the lock of the bucket of the node's address.
    #[inline]
    pub(super) unsafe fn remove(&self, node: &Node) -> bool {
        if !node.queued.replace(false) {
            return false;
        }
        let (next, prev) = (node.next.get(), node.prev.get());
        // SAFETY: neighbours of a queued node are queued, so alive; the lock is held.
        unsafe {
            match (prev.as_ref(), next.as_ref()) {
                (None, None) => self.link(node.address()).set(node.chain.get()),
                (None, Some(next)) => {
                    next.prev.set(ptr::null());
                    next.tail.set(node.tail.get());
                    next.chain.set(node.chain.get());
                    self.link(node.address()).set(next);
                }
                (Some(prev), None) => {
                    prev.next.set(ptr::null());
                    if let Some(first) = self.first(node.address()) {
                        first.tail.set(prev);
                    }
                }
                (Some(prev), Some(next)) => {
                    prev.next.set(next);
                    next.prev.set(prev);
                }
            }
        }
        true
    }
}
