//! # Purpose
//!
//! The lot: where waiters wait for a *word*, any `u32` in memory, known by its address only. The word's owner pays four bytes
//! and no more; who waits for it is kept here.
//!
//! # Words
//!
//! *Address*: the key, the address of the word. *Node*: a waiter with its place in the lot, on the waiter's stack. *Bucket*:
//! one of [`BUCKETS`] places of a hash table, each a lock and the queues of the words that fell to it.
//!
//! # Algorithm
//!
//! 1. A waiter locks the bucket of its word, looks at the word once more (*validates*), and if the word still tells it to
//!    wait, appends its node; it unlocks and waits.
//! 2. A waker changes the word, then locks the bucket and takes nodes off the front, oldest first. A node whose wait is over
//!    already (timed out, cancelled) is dropped from the queue and counts for nothing. Each other wait is ended *under the
//!    lock*; the wakes are chained up through the nodes themselves, so nothing is allocated, and settled *after* it.
//! 3. A waiter whose deadline passed, or who was cancelled, locks the bucket of the address it has *now* and takes its node
//!    out. Waiters are born parked: one that was woken comes back only when its wake was settled, and its node lives until then.
//! 4. A requeue locks both buckets, the one with the lower place in the table first, and moves nodes over.
//!
//! The table is fixed: 2¹⁶ buckets of 16 bytes, 1 MiB of zero pages of which only those cost memory that were used. A million
//! words waited for at once are 16 to a bucket; a few hot words hardly ever meet. Within a bucket each word has a queue of its
//! own (the first waiters of the words form a chain), so a hundred thousand waiters for one word do not slow down its
//! neighbours. Rejected: a table that grows, as it must lock all of itself to do so; cache-line-sized buckets, as
//! then the table must be small, and long chains cost more than a rare shared line.
//!
//! Costs: one locked instruction to lock and one to unlock a bucket, one per wait that is ended. A section under a bucket's
//! lock runs no user code, switches no stack, allocates nothing. Its length is bounded by the number of nodes taken off; a waker that may meet a great many takes
//! [`BATCH`] at a time and lets others in between ([`Lot::wake_some`]).
//!
//! # No wake-up is lost
//!
//! A waiter W validates under the bucket's lock and enqueues in the same section. A waker K changes the word and then enters
//! the same lock. Either W's section comes first: then K finds the node. Or K's comes first: then what K did before it,
//! the change of the word among it, happened before W's section (LT1), W's look shows it, and W does not wait. The look
//! itself may be relaxed.
//!
//! A wake that ends no wait is not lost either: [`Locked::wake_first`] goes on to the next node when somebody else has ended
//! a wait first (the wait word has one winner), and says so when there is none. A waiter that has timed out therefore never
//! consumes a wake; one that was woken has, and must make use of it or pass it on.
//!
//! # Nothing is mistaken for something else
//!
//! *A word that is freed, its address used anew.* Nodes of the old word are gone: each waiter borrows the word while it
//! waits. A waker that only holds the stale address could wake a waiter of the new word: so whoever may lose the word by
//! changing it changes it under the bucket's lock ([`Locked`] is made for that), where the waiters still hold it alive.
//! Only who was requeued does not borrow the word that it waits for now. A condvar's waiter borrows the mutex that it is moved
//! to; what users requeue with `futex` has keys of its own, odd numbers, so that no lock finds strangers in its queue.
//! *A node that is reused.* It lives in its owner's frame, which goes only when the node is out of every queue and its wake
//! has been settled. Nobody holds a node's address but the queue (under the lock) and the chain of wakes, whose
//! owner reads the next link before it settles a wake.
//! *A node that is moved while its owner looks for it.* `address` changes under the locks of both buckets. The owner reads it,
//! locks that bucket, and reads again: if it is the same now, then it stays so for as long as the lock is held, as whoever
//! moves it needs that lock; if not, it starts over. It starts over once per requeue.
//!
//! # Ordering
//!
//! LT1, between sections under one bucket's lock (see [`bucket`]); what a waker did before it woke somebody is published to
//! the woken by the wait word (WW1) and by the settling of the wake.
//!
//! # Invariants
//!
//! A node is in at most one queue; `address` names its bucket while it is queued. Locks of two buckets are taken in the
//! order of the table; no other lock is taken under them.
//!
//! # Safety
//!
//! Nodes are reached through raw pointers; see [`bucket`] for why they are alive.

#![allow(unsafe_code)]

mod bucket;
#[cfg(all(test, urgo_loom))]
mod models;
#[cfg(all(test, not(urgo_loom)))]
mod tests;

use super::waiter::{Waiter, Wake};
use super::word::CASE_FIRST;
use crate::atomic::{AtomicUsize, Ordering};
#[cfg(urgo_loom)]
use crate::atomic::{ModelCondvar, ModelMutex};
use bucket::Bucket;
use core::cell::Cell;
use core::marker::PhantomPinned;
use core::ptr;

/// The outcome of a wait that [`Lot::wake`] has ended. Owners of words may number others from here on.
pub(crate) const WOKEN: u32 = CASE_FIRST;

#[cfg(not(urgo_loom))]
const BUCKET_BITS: u32 = 16;
#[cfg(urgo_loom)]
const BUCKET_BITS: u32 = 1;
const BUCKETS: usize = 1 << BUCKET_BITS;

/// Waits that a waker ends under the lock in one go.
pub(crate) const BATCH: usize = 256;

/// How far the queues of a bucket had come at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u32);

/// The one lot of the process: words know no runtime, and plain threads wait too.
#[cfg(not(urgo_loom))]
pub(crate) static LOT: Lot = Lot::new();

/// See the module.
#[derive(Debug)]
pub(crate) struct Lot {
    #[cfg(not(urgo_loom))]
    buckets: [Bucket; BUCKETS],
    #[cfg(urgo_loom)]
    buckets: Vec<Bucket>,
}

/// A waiter and its place in the lot. On the owner's stack; not moved while it is queued.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) waiter: Waiter,
    /// What wakers may want to know of this waiter: the kind of lock, a number of permits, the address of a mutex.
    pub(crate) tag: usize,
    /// Stored under the lock of the bucket that it names, and of the one that it named before. Relaxed: see the module.
    address: AtomicUsize,
    /// All of these: under the lock of the bucket. `next` also links the chain of wakes.
    queued: Cell<bool>,
    ticket: Cell<u32>,
    next: Cell<*const Node>,
    prev: Cell<*const Node>,
    /// In the first node of a word: the last one.
    tail: Cell<*const Node>,
    /// In the first node of a word: the first node of the bucket's next word.
    chain: Cell<*const Node>,
    wake: Cell<Wake>,
    _pinned: PhantomPinned,
}

impl Node {
    /// A node for a waiter that was born parked.
    #[inline]
    pub(crate) fn new(waiter: Waiter, tag: usize) -> Node {
        Node {
            waiter,
            tag,
            address: AtomicUsize::new(0),
            queued: Cell::new(false),
            ticket: Cell::new(0),
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            tail: Cell::new(ptr::null()),
            chain: Cell::new(ptr::null()),
            wake: Cell::new(Wake::Nothing),
            _pinned: PhantomPinned,
        }
    }

    /// The address that it waits for, or waited for last. Stable for its owner once it is out of the queue.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.address.load(Ordering::Relaxed)
    }

    /// The bucket's lock is held. The first half of enqueueing.
    #[inline]
    fn enter(&self, address: usize, ticket: u32) {
        debug_assert!(!self.queued.get());
        self.ticket.set(ticket);
        self.address.store(address, Ordering::Relaxed);
        self.queued.set(true);
        self.next.set(ptr::null());
        self.prev.set(ptr::null());
    }
}

impl Lot {
    #[cfg(not(urgo_loom))]
    pub(crate) const fn new() -> Lot {
        Lot {
            buckets: [const { Bucket::new() }; BUCKETS],
        }
    }

    #[cfg(urgo_loom)]
    pub(crate) fn new() -> Lot {
        Lot {
            buckets: (0..BUCKETS).map(|_| Bucket::new()).collect(),
        }
    }

    /// Words lie close together or at regular distances; multiplication by 2⁶⁴ over the golden ratio spreads both over
    /// the upper bits.
    #[inline]
    fn place(address: usize) -> usize {
        #[cfg(not(urgo_loom))]
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        #[cfg(urgo_loom)]
        let hash = (address as u64) << 63;
        (hash >> (u64::BITS - BUCKET_BITS)) as usize
    }

    /// Any thread. Locks the bucket of `address`, so that the word can be changed together with its queue. May block the
    /// thread while another is in the bucket. Nothing under the lock may panic, wait, or lock another bucket.
    #[inline]
    pub(crate) fn lock(&self, address: usize) -> Locked<'_> {
        let place = Lot::place(address);
        self.buckets[place].lock();
        self.locked(place, place)
    }

    /// As [`lock`](Self::lock), for two words whose queues are to be changed together.
    #[inline]
    pub(crate) fn lock_both(&self, one: usize, other: usize) -> Locked<'_> {
        let (one, other) = (Lot::place(one), Lot::place(other));
        let (low, high) = (one.min(other), one.max(other));
        self.buckets[low].lock();
        if low != high {
            self.buckets[high].lock();
        }
        self.locked(low, high)
    }

    #[inline]
    fn locked(&self, low: usize, high: usize) -> Locked<'_> {
        Locked {
            lot: self,
            low,
            high,
            wakes: Wakes {
                first: ptr::null(),
                last: ptr::null(),
            },
        }
    }

    /// Any thread. If `validate`, under the lock, says that waiting is still right, appends `node` to the queue of
    /// `address`, and says `true`: the caller must wait.
    ///
    /// # Safety
    ///
    /// `node` is the caller's, born parked and in no queue; it stays where it is until it has been woken or
    /// [removed](Self::remove).
    #[inline]
    pub(crate) unsafe fn enqueue(
        &self,
        address: usize,
        node: &Node,
        validate: impl FnOnce() -> bool,
    ) -> bool {
        let mut locked = self.lock(address);
        let waits = validate();
        if waits {
            // SAFETY: promised by the caller.
            unsafe { locked.push(address, node) };
        }
        locked.unlock_quietly();
        waits
    }

    /// The node's owner, whose wait has ended without a wake. `false` if a waker had passed over the node and taken it out.
    pub(crate) fn remove(&self, node: &Node) -> bool {
        loop {
            let address = node.address();
            let locked = self.lock(address);
            // Moved meanwhile? Once it is this bucket's it stays so while we hold the lock.
            if Lot::place(node.address()) == Lot::place(address) {
                // SAFETY: the lock of the bucket of its address is held.
                let was_in = unsafe { locked.bucket(address).remove(node) };
                locked.unlock_quietly();
                return was_in;
            }
            locked.unlock_quietly();
        }
    }

    /// Any thread. Ends up to `max` waits for `address`, with [`WOKEN`]; how many, and the wakes, to be settled. What the
    /// caller did to the word before is seen by waiters that validate later.
    pub(crate) fn wake(&self, address: usize, max: usize) -> (usize, Wakes) {
        let mut locked = self.lock(address);
        let mut woken = 0;
        while woken < max && locked.wake_first(address, WOKEN) {
            woken += 1;
        }
        (woken, locked.unlock())
    }

    /// As [`wake`](Self::wake), of those that waited when `before` was empty, and up to [`BATCH`] of them at a time: for wakers
    /// that may meet a great many. Fewer than that, or than `max`: that was all.
    pub(crate) fn wake_some(
        &self,
        address: usize,
        max: usize,
        before: &mut Option<Ticket>,
    ) -> (usize, Wakes) {
        let mut locked = self.lock(address);
        let now = locked.bucket(address).ticket();
        let Ticket(before) = *before.get_or_insert(Ticket(now));
        let max = max.min(BATCH);
        let mut woken = 0;
        while woken < max && locked.wake_first_before(address, before, now) {
            woken += 1;
        }
        (woken, locked.unlock())
    }

    /// Any thread. If `validate` agrees under the locks, ends up to `wake` waits for `from` with [`WOKEN`] and lets up to
    /// `requeue` others wait for `to` instead. How many of both, and the wakes, to be settled.
    pub(crate) fn requeue(
        &self,
        from: usize,
        to: usize,
        validate: impl FnOnce() -> bool,
        wake: usize,
        requeue: usize,
    ) -> Option<(usize, usize, Wakes)> {
        let mut locked = self.lock_both(from, to);
        if !validate() {
            locked.unlock_quietly();
            return None;
        }
        let (mut woken, mut moved) = (0, 0);
        while woken < wake && locked.wake_first(from, WOKEN) {
            woken += 1;
        }
        // A queue onto itself: they wait where they are, however many.
        while from != to && moved < requeue && locked.move_first(from, to) {
            moved += 1;
        }
        Some((woken, moved, locked.unlock()))
    }
}

/// One or two locked buckets, and the wakes that have come up. Unlocked by [`unlock`](Self::unlock) alone: nothing in between
/// may unwind.
#[must_use = "stays locked until it is unlocked"]
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    lot: &'a Lot,
    /// The places of the buckets; one and the same if it is one.
    low: usize,
    high: usize,
    wakes: Wakes,
}

impl Locked<'_> {
    /// The bucket of `address`, which is locked.
    #[inline]
    fn bucket(&self, address: usize) -> &Bucket {
        let place = Lot::place(address);
        debug_assert!(place == self.low || place == self.high);
        &self.lot.buckets[place]
    }

    /// Locks the bucket of `address` as well, if nobody is in it; never waits, so the order of locks does not matter.
    #[inline]
    pub(crate) fn try_add(&mut self, address: usize) -> bool {
        debug_assert_eq!(self.low, self.high);
        let place = Lot::place(address);
        if place == self.low {
            return true;
        }
        let is_locked = self.lot.buckets[place].try_lock();
        if is_locked {
            self.high = place;
        }
        is_locked
    }

    /// Whether nobody waits for `address`, not even somebody whose wait is over and who has yet to leave.
    #[inline]
    pub(crate) fn is_empty(&self, address: usize) -> bool {
        // SAFETY: the lock is held; the node is not used.
        unsafe { self.bucket(address).first(address) }.is_none()
    }

    /// The tag of the first waiter for `address`.
    #[inline]
    pub(crate) fn first_tag(&self, address: usize) -> Option<usize> {
        // SAFETY: the lock is held, and the node not used beyond this line.
        unsafe { self.bucket(address).first(address) }.map(|node| node.tag)
    }

    /// Appends `node` to the queue of `address`; its owner must wait.
    ///
    /// # Safety
    ///
    /// As for [`Lot::enqueue`].
    #[inline]
    pub(crate) unsafe fn push(&mut self, address: usize, node: &Node) {
        // SAFETY: the lock is held; the rest is promised by the caller.
        unsafe { self.bucket(address).push(address, node) };
    }

    /// As [`push`](Self::push), before all others.
    ///
    /// # Safety
    ///
    /// As for [`Lot::enqueue`].
    #[inline]
    pub(crate) unsafe fn push_first(&mut self, address: usize, node: &Node) {
        // SAFETY: the lock is held; the rest is promised by the caller.
        unsafe { self.bucket(address).push_first(address, node) };
    }

    /// As [`Lot::remove`], together with what else is done under the lock.
    ///
    /// # Safety
    ///
    /// Nobody requeues what waits for `address`, for which `node` waits or waited last.
    #[inline]
    pub(crate) unsafe fn remove(&mut self, address: usize, node: &Node) -> bool {
        debug_assert_eq!(node.address(), address);
        // SAFETY: the lock of the bucket of its address is held, as promised by the caller.
        unsafe { self.bucket(address).remove(node) }
    }

    /// Ends the wait of the oldest waiter for `address` that still waits, with `case` (from [`WOKEN`] on). `false` if there
    /// is none; then nobody was told anything. Waiters whose waits were over leave the queue.
    #[inline]
    pub(crate) fn wake_first(&mut self, address: usize, case: u32) -> bool {
        self.wake_first_if(address, case, |_| true)
    }

    /// As [`wake_first`](Self::wake_first), if `fits` the tag of that waiter.
    #[inline]
    pub(crate) fn wake_first_if(
        &mut self,
        address: usize,
        case: u32,
        fits: impl Fn(usize) -> bool,
    ) -> bool {
        self.wake_first_node(address, case, |node| fits(node.tag))
    }

    /// As [`wake_first`](Self::wake_first), if that waiter came before the ticket `before` was drawn; `now` is the next one.
    ///
    /// The count may have gone round, even while a waiter waited: so what is compared is how many tickets have been drawn since,
    /// and the waker has not been here for long. If nothing was drawn since `before`, everybody was there.
    #[inline]
    fn wake_first_before(&mut self, address: usize, before: u32, now: u32) -> bool {
        let late = now.wrapping_sub(before);
        self.wake_first_node(address, WOKEN, |node| {
            // The node's own ticket counts, so it is one or more, or the count has gone round.
            now.wrapping_sub(node.ticket.get()).wrapping_sub(1) >= late
        })
    }

    #[inline]
    fn wake_first_node(&mut self, address: usize, case: u32, fits: impl Fn(&Node) -> bool) -> bool {
        let bucket = self.bucket(address);
        // SAFETY: the lock is held; a node is used while it is queued, and then as one whose wait we have ended, which is
        // alive until its wake is settled, or as one whose owner needs the lock that we hold to leave.
        unsafe {
            while let Some(node) = bucket.first(address)
                && (fits(node) || node.waiter.outcome().is_some())
            {
                bucket.remove(node);
                if let Some(wake) = node.waiter.finish_case(case) {
                    self.wakes.push(node, wake);
                    return true;
                }
            }
        }
        false
    }

    /// Lets the oldest waiter for `from` that still waits go on waiting, for `to`, behind those that are there. `false` if
    /// there is none. Waiters whose waits were over leave the queue.
    #[inline]
    pub(crate) fn move_first(&mut self, from: usize, to: usize) -> bool {
        self.move_first_if(from, to, |_| true)
    }

    /// As [`move_first`](Self::move_first), if `fits` the tag of that waiter.
    #[inline]
    pub(crate) fn move_first_if(
        &mut self,
        from: usize,
        to: usize,
        fits: impl Fn(usize) -> bool,
    ) -> bool {
        let bucket = self.bucket(from);
        // SAFETY: both locks are held, so that no owner of these nodes can leave; a node is pushed after it was taken out.
        unsafe {
            while let Some(node) = bucket.first(from) {
                let is_over = node.waiter.outcome().is_some();
                if !is_over && !fits(node.tag) {
                    return false;
                }
                bucket.remove(node);
                if !is_over {
                    self.bucket(to).push(to, node);
                    return true;
                }
            }
        }
        false
    }

    /// Unlocks. What it returns must be settled, each of them.
    #[inline]
    pub(crate) fn unlock(self) -> Wakes {
        self.lot.buckets[self.low].unlock();
        if self.high != self.low {
            self.lot.buckets[self.high].unlock();
        }
        self.wakes
    }

    /// Unlocks where nobody was woken.
    #[inline]
    fn unlock_quietly(self) {
        let mut wakes = self.unlock();
        debug_assert!(wakes.next().is_none());
    }
}

/// The wakes of one section, oldest waiter first, chained through the nodes. Iterate outside every lock and settle each.
#[must_use = "the waiters are parked until their wakes are settled"]
#[derive(Debug)]
pub(crate) struct Wakes {
    first: *const Node,
    last: *const Node,
}

impl Wakes {
    /// # Safety
    ///
    /// `node` is in no queue; its wait was ended by the caller, to whom `wake` is owed.
    #[inline]
    unsafe fn push(&mut self, node: &Node, wake: Wake) {
        node.wake.set(wake);
        node.next.set(ptr::null());
        // SAFETY: a node in this chain is alive until its wake is settled, which happens after it left the chain.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(node),
            None => self.first = node,
        }
        self.last = node;
    }
}

impl Iterator for Wakes {
    type Item = Wake;

    #[inline]
    fn next(&mut self) -> Option<Wake> {
        // SAFETY: as in `push`; the caller settles this wake after we have read the link.
        let node = unsafe { self.first.as_ref() }?;
        self.first = node.next.get();
        Some(node.wake.get())
    }
}

#[cfg(urgo_loom)]
crate::atomic::model_static! {
    /// Where threads of models sleep: in the model checker's own condition variable, as a spinning thread would use up
    /// its bound, and so that it reports a thread that is never signalled as a deadlock.
    static ref SLEEPERS: (ModelMutex<()>, ModelCondvar) = Default::default();
}

/// For models, where every waiter is a thread: settles a wake.
#[cfg(urgo_loom)]
pub(crate) fn signal(signal: ptr::NonNull<crate::atomic::AtomicU32>) {
    let guard = SLEEPERS.0.lock().unwrap();
    // SAFETY: the waiter stays until it is signalled.
    let signal = unsafe { signal.as_ref() };
    // Pairs with the load in `signalled`.
    signal.store(1, Ordering::Release);
    drop(guard);
    SLEEPERS.1.notify_all();
}

/// For models: waits for the settling of a wake.
#[cfg(urgo_loom)]
pub(crate) fn signalled(waiter: &Waiter) {
    let mut guard = SLEEPERS.0.lock().unwrap();
    // Pairs with the store in `signal`.
    while waiter.signal.load(Ordering::Acquire) == 0 {
        guard = SLEEPERS.1.wait(guard).unwrap();
    }
}
