//! Channels with a queue: bounded, unbounded, oneshot.
//!
//! # Algorithm
//!
//! Each side has a lock, biased to the worker that uses it alone (`park::biased`), so that at any time there is one writer
//! and one reader. Between them is the classic queue of one writer and one reader (Lamport 1983) with each side's memory of
//! where it last saw the other: a send looks at `head` only when the queue seems full, a receive at `tail` only when it
//! seems empty.
//!
//! Whoever finds no room (no value) enters a line under a third lock, announces itself, and looks once more. A sender that
//! has published a value looks whether receivers are announced and wakes one; a receiver that has made room does the same
//! for senders. A woken one tries again: being woken is a hint, nothing is consumed by it, so nothing is lost by a waiter
//! that times out, is cancelled or is chosen by another channel of its select.
//!
//! Before it enters the line a waiter whose worker has nothing else to do, and whose other side runs on another thread, looks
//! again a few times with growing pauses. The pauses let the other side do several values in a row, each of which would
//! otherwise cost both CPUs a transfer of the same cache lines. For the same reason one that was woken by another thread lets some
//! room, or some values, gather before it goes on, if it has learnt that this pays (`spin`).
//!
//! # State
//!
//! `tail`, `seen_head`, `reserved` belong to the holder of the send lock, `head`, `seen_tail` to that of the receive lock;
//! `tail` and `head` are read by everyone. The lines belong to the holder of the lock of `waiting`.
//!
//! `state` bits, set once and never cleared: `CLOSED` (sends fail; stored under the send lock, or by the last sender going),
//! `DEAD` (no receiver is left).
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | CH1 | `tail`, release | `tail`, acquire | the value |
//! | CH2 | `head`, release | `head`, acquire | that the place is free |
//! | CH3 | `state` CLOSED, release | `state`, acquire | every successful send before it |
//! | CH4 | publish, `Held::barrier`, load `receivers` / `senders` | announce, `barrier_against`, look at the queue | store-load: one of the two sees the other |
//!
//! # Safety
//!
//! The cells are used under the locks named above; values are moved in and out of raw slots.

#![allow(unsafe_code)]

use super::error::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use super::line::{Entry, Line, Offer};
use super::patience::NO_WAIT;
use super::spin::{Lag, Patience, Spin};
use super::store::Store;
use super::token::{Claim, Token};
use crate::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::limits::READY_MESSAGES;
use crate::park::{BiasedLock, Outcome, WaitReason};
use crate::sched;
use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use core::ptr;
use crossbeam_utils::CachePadded;

const CLOSED: u32 = 1;
const DEAD: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Buffered<T> {
    send: CachePadded<SendSide>,
    receive: CachePadded<ReceiveSide>,
    waiting: CachePadded<Waiting>,
    capacity: usize,
    /// The first send closes it.
    is_oneshot: bool,
    store: Store<T>,
}

#[derive(Debug)]
struct SendSide {
    lock: BiasedLock,
    tail: AtomicUsize,
    /// `head` as last seen here.
    seen_head: Cell<usize>,
    /// Places promised to selects that have chosen to send and not sent yet.
    reserved: Cell<usize>,
    patience: Patience,
    lag: Lag,
}

#[derive(Debug)]
struct ReceiveSide {
    lock: BiasedLock,
    head: AtomicUsize,
    /// `tail` as last seen here.
    seen_tail: Cell<usize>,
    patience: Patience,
    lag: Lag,
}

#[derive(Debug)]
struct Waiting {
    state: AtomicU32,
    /// Entries in the two lines below it, for looking without the lock.
    receivers: AtomicU32,
    senders: AtomicU32,
    lock: BiasedLock,
    receiving: Lines,
    sending: Lines,
}

/// One side's waiters.
#[derive(Debug)]
struct Lines {
    line: Line,
    /// Those who only want to hear that it is ready, and so are all told.
    watchers: Line,
    /// Where the other side was when somebody entered last.
    last_wait: Cell<usize>,
}

/// A bias of the other side's lock is worth what it costs who waits, if it has done so many operations since the last wait.
const WORTH_A_BIAS: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Send,
    Receive,
}

// SAFETY: values of type `T` go from sender to receiver, each to one; the cells are under locks.
unsafe impl<T: Send> Send for Buffered<T> {}
// SAFETY: as above; no reference to a value is ever given out.
unsafe impl<T: Send> Sync for Buffered<T> {}

enum Refused {
    Full,
    Closed,
}

impl<T> Buffered<T> {
    pub(super) fn bounded(capacity: usize) -> Buffered<T> {
        Buffered::with(Store::ring(capacity), capacity, false)
    }

    pub(super) fn unbounded() -> Buffered<T> {
        Buffered::with(Store::list(), usize::MAX, false)
    }

    pub(super) fn oneshot() -> Buffered<T> {
        Buffered::with(Store::ring(1), 1, true)
    }

    fn with(store: Store<T>, capacity: usize, is_oneshot: bool) -> Buffered<T> {
        Buffered {
            send: CachePadded::new(SendSide {
                lock: BiasedLock::new(),
                tail: AtomicUsize::new(0),
                seen_head: Cell::new(0),
                reserved: Cell::new(0),
                patience: Patience::new(),
                lag: Lag::new(),
            }),
            receive: CachePadded::new(ReceiveSide {
                lock: BiasedLock::new(),
                head: AtomicUsize::new(0),
                seen_tail: Cell::new(0),
                patience: Patience::new(),
                lag: Lag::new(),
            }),
            waiting: CachePadded::new(Waiting {
                state: AtomicU32::new(0),
                receivers: AtomicU32::new(0),
                senders: AtomicU32::new(0),
                lock: BiasedLock::new(),
                receiving: Lines::new(),
                sending: Lines::new(),
            }),
            capacity,
            is_oneshot,
            store,
        }
    }

    // -------------------------------------------------------------------------------------------------------- the queue

    #[inline(always)]
    fn push(&self, value: T) -> Result<(), (T, Refused)> {
        let side = &*self.send;
        let held = side.lock.lock(sched::thread_token());
        if self.waiting.state.load(Ordering::Relaxed) & CLOSED != 0 {
            held.unlock();
            return Err((value, Refused::Closed));
        }
        if !self.has_room(side) {
            held.unlock();
            return Err((value, Refused::Full));
        }
        self.publish(side, value);
        // CH4, pairs with `barrier_against` in `enter`.
        held.barrier();
        let is_awaited = self.waiting.receivers.load(Ordering::Relaxed) != 0
            // Those whose place was promised to a select that has thought better of it. They look under this lock.
            || self.is_oneshot && self.waiting.senders.load(Ordering::Relaxed) != 0;
        held.unlock();
        if is_awaited {
            self.wake(Side::Receive);
        }
        self.give_turn_at(side.tail.load(Ordering::Relaxed));
        Ok(())
    }

    /// Send lock held; there is room.
    #[inline(always)]
    fn publish(&self, side: &SendSide, value: T) {
        let tail = side.tail.load(Ordering::Relaxed);
        // SAFETY: the lock makes us the only writer, and there is room, so the place was left by the reader (CH2).
        unsafe { self.store.write(tail, value) };
        // CH1, pairs with the loads in `pop` and `len`.
        side.tail.store(tail.wrapping_add(1), Ordering::Release);
        if self.is_oneshot {
            // CH3, pairs with the load in `pop`.
            self.waiting.state.fetch_or(CLOSED, Ordering::Release);
        }
    }

    /// Send lock held.
    #[inline(always)]
    fn has_room(&self, side: &SendSide) -> bool {
        let tail = side.tail.load(Ordering::Relaxed);
        let used = tail
            .wrapping_sub(side.seen_head.get())
            .wrapping_add(side.reserved.get());
        if used < self.capacity {
            return true;
        }
        // CH2, pairs with the store in `pop`.
        side.seen_head
            .set(self.receive.head.load(Ordering::Acquire));
        tail.wrapping_sub(side.seen_head.get())
            .wrapping_add(side.reserved.get())
            < self.capacity
    }

    #[inline(always)]
    fn pop(&self) -> Result<T, TryRecvError> {
        let side = &*self.receive;
        let held = side.lock.lock(sched::thread_token());
        let head = side.head.load(Ordering::Relaxed);
        if head == side.seen_tail.get() && !self.look_for_more(side, head) {
            let error = self.empty_or_closed(side, head);
            if let Some(error) = error {
                held.unlock();
                return Err(error);
            }
        }
        // SAFETY: the lock makes us the only reader, and `head` is before `tail` (CH1).
        let value = unsafe { self.store.read(head) };
        // CH2, pairs with the loads in `has_room` and `len`.
        side.head.store(head.wrapping_add(1), Ordering::Release);
        if self.capacity == usize::MAX {
            // Nobody ever waits for room.
            let retired = self.store.take_retired();
            held.unlock();
            drop(retired);
            self.give_turn_at(head);
            return Ok(value);
        }
        // CH4, pairs with `barrier_against` in `enter`.
        held.barrier();
        let is_awaited = self.waiting.senders.load(Ordering::Relaxed) != 0;
        held.unlock();
        if is_awaited {
            self.wake(Side::Send);
        }
        self.give_turn_at(head);
        Ok(value)
    }

    /// Who sends or receives without ever waiting should not keep the worker for good.
    #[inline(always)]
    fn give_turn_at(&self, position: usize) {
        if position % READY_MESSAGES == READY_MESSAGES - 1 {
            sched::give_turn();
        }
    }

    /// Receive lock held. Whether there is something at `head` after all.
    #[inline(always)]
    fn look_for_more(&self, side: &ReceiveSide, head: usize) -> bool {
        // CH1, pairs with the store in `publish`.
        side.seen_tail.set(self.send.tail.load(Ordering::Acquire));
        head != side.seen_tail.get()
    }

    /// Receive lock held, and nothing was seen at `head`. `None` if there is something now.
    #[inline]
    fn empty_or_closed(&self, side: &ReceiveSide, head: usize) -> Option<TryRecvError> {
        // CH3, pairs with the stores of CLOSED: sends that succeeded before are seen by the second look.
        if self.waiting.state.load(Ordering::Acquire) & CLOSED == 0 {
            Some(TryRecvError::Empty)
        } else if self.look_for_more(side, head) {
            None
        } else {
            Some(TryRecvError::Disconnected)
        }
    }

    // ------------------------------------------------------------------------------------------------------ operations

    #[inline]
    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.push(value).map_err(|(value, refused)| match refused {
            Refused::Full => TrySendError::Full(value),
            Refused::Closed => TrySendError::Disconnected(value),
        })
    }

    #[inline]
    pub(super) fn send(&self, value: T, deadline: u64) -> Result<(), SendTimeoutError<T>> {
        match self.push(value) {
            Ok(()) => Ok(()),
            Err((value, Refused::Closed)) => Err(SendTimeoutError::Disconnected(value)),
            Err((value, Refused::Full)) => self.send_slow(value, deadline),
        }
    }

    #[cold]
    fn send_slow(&self, mut value: T, deadline: u64) -> Result<(), SendTimeoutError<T>> {
        loop {
            let mut spin = self.spin(Side::Send);
            loop {
                match self.push(value) {
                    Ok(()) => {
                        spin.succeeded(self.depth(Side::Send) + 1);
                        return Ok(());
                    }
                    Err((value, Refused::Closed)) => {
                        return Err(SendTimeoutError::Disconnected(value));
                    }
                    Err((back, Refused::Full)) => value = back,
                }
                if !spin.again() {
                    break;
                }
            }
            spin.failed();
            if !self.wait(Side::Send, deadline) {
                return Err(SendTimeoutError::Timeout(value));
            }
            self.let_room_grow();
        }
    }

    /// A sender was woken because a receiver on another CPU has made room, perhaps for one value. The receiver has the rest of
    /// the queue to go on with, so there is no hurry: a little later there is room for many, and no wait after each.
    fn let_room_grow(&self) {
        if self.is_worth_a_look(Side::Send) {
            self.send
                .lag
                .wait(self.capacity / 4, || self.depth(Side::Send));
        }
    }

    #[inline]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.pop()
    }

    #[inline]
    pub(super) fn recv(&self, deadline: u64) -> Result<T, RecvTimeoutError> {
        match self.pop() {
            Ok(value) => Ok(value),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => self.recv_slow(deadline),
        }
    }

    #[inline(never)]
    fn recv_slow(&self, deadline: u64) -> Result<T, RecvTimeoutError> {
        loop {
            let mut spin = self.spin(Side::Receive);
            while spin.again() {
                match self.pop() {
                    Ok(value) => {
                        spin.succeeded(self.depth(Side::Receive) + 1);
                        return Ok(value);
                    }
                    Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                    Err(TryRecvError::Empty) => {}
                }
            }
            spin.failed();
            let in_time = self.wait(Side::Receive, deadline);
            if in_time && self.is_worth_a_look(Side::Receive) {
                self.receive
                    .lag
                    .wait((self.capacity / 4).min(32), || self.depth(Side::Receive));
            }
            match self.pop() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if in_time => {}
                Err(TryRecvError::Empty) => return Err(RecvTimeoutError::Timeout),
            }
        }
    }

    /// Waits until the side may be ready (`true`) or the deadline has passed.
    fn wait(&self, side: Side, deadline: u64) -> bool {
        if deadline == NO_WAIT {
            return false;
        }
        let waiter = sched::new_parked_waiter();
        let entry = Entry::single(&waiter, Offer::Nothing);
        if self.enter(side, &entry, false) && waiter.finish(Outcome::Woken).is_some() {
            self.leave(side, &entry, false);
            return true;
        }
        let reason = match side {
            Side::Send => WaitReason::ChanSend,
            Side::Receive => WaitReason::ChanRecv,
        };
        match sched::wait_parked(&waiter, reason, deadline) {
            Outcome::Woken => true,
            outcome => {
                self.leave(side, &entry, false);
                if outcome == Outcome::Cancelled {
                    sched::unwind_if_cancelled();
                }
                outcome != Outcome::TimedOut
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        loop {
            // CH1 and CH2, pair with the stores in `publish` and `pop`.
            let tail = self.send.tail.load(Ordering::Acquire);
            let head = self.receive.head.load(Ordering::Acquire);
            // If `tail` stood still meanwhile, both were so at one moment.
            if self.send.tail.load(Ordering::Acquire) == tail {
                return tail.wrapping_sub(head);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.capacity != usize::MAX && self.len() >= self.capacity
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        (self.capacity != usize::MAX).then_some(self.capacity)
    }

    // --------------------------------------------------------------------------------------------------------- closing

    /// Sends fail from now on; what is queued still arrives. `false` if it was closed before.
    pub(super) fn close(&self) -> bool {
        // Under the lock: a send that succeeds has published before the bit is seen.
        let held = self.send.lock.lock(sched::thread_token());
        // CH3, pairs with the load in `empty_or_closed`.
        let before = self.waiting.state.fetch_or(CLOSED, Ordering::Release);
        held.unlock();
        self.wake_all();
        before & CLOSED == 0
    }

    /// The last sender has gone.
    pub(super) fn disconnect_senders(&self) {
        // CH3, pairs with the load in `empty_or_closed`. No lock: nobody is left who could be sending.
        if self.waiting.state.fetch_or(CLOSED, Ordering::Release) & CLOSED == 0 {
            self.wake_all();
        }
    }

    /// The last receiver has gone: what is queued is dropped, here.
    pub(super) fn disconnect_receivers(&self) {
        let held = self.send.lock.lock(sched::thread_token());
        // CH3, pairs with the load in `empty_or_closed`. Under the lock: no value is published after this.
        self.waiting
            .state
            .fetch_or(CLOSED | DEAD, Ordering::Release);
        held.unlock();
        self.wake_all();
        self.discard();
    }

    /// Drops what is queued. If destructors panic, the rest is dropped all the same, and the first panic goes on.
    fn discard(&self) {
        let mut panic = None;
        while let Ok(value) = self.pop() {
            let dropped = std::panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
            panic = panic.or(dropped.err());
        }
        if let Some(panic) = panic
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }

    // --------------------------------------------------------------------------------------------------- waiting lines

    fn lines(&self, side: Side) -> (&Lines, &AtomicU32) {
        match side {
            Side::Send => (&self.waiting.sending, &self.waiting.senders),
            Side::Receive => (&self.waiting.receiving, &self.waiting.receivers),
        }
    }

    /// Puts `entry` in its line. `true` if the side is ready all the same, so that the caller need not wait.
    fn enter(&self, side: Side, entry: &Entry, watches: bool) -> bool {
        let (lines, count) = self.lines(side);
        let me = sched::thread_token();
        let (other, position) = match side {
            Side::Send => (&self.receive.lock, &self.receive.head),
            Side::Receive => (&self.send.lock, &self.send.tail),
        };
        let held = self.waiting.lock.lock(me);
        // SAFETY: the lock is held; the caller leaves again before the entry goes, unless it was claimed.
        unsafe { lines.of(watches).push(entry) };
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let position = position.load(Ordering::Relaxed);
        let moved = position.wrapping_sub(lines.last_wait.replace(position));
        held.unlock();
        // CH4, pairs with `Held::barrier` of the other side.
        other.barrier_against(me, moved < WORTH_A_BIAS);
        self.is_ready(side)
    }

    /// Takes `entry` out of its line if nobody has claimed it.
    fn leave(&self, side: Side, entry: &Entry, watches: bool) {
        let (lines, count) = self.lines(side);
        let held = self.waiting.lock.lock(sched::thread_token());
        // SAFETY: the lock is held; it was pushed on this line.
        if unsafe { lines.of(watches).remove(entry) } {
            count.store(count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        }
        held.unlock();
    }

    /// Whether an operation of this side would not wait.
    pub(super) fn is_ready(&self, side: Side) -> bool {
        // CH3, pairs with the stores of CLOSED.
        if self.waiting.state.load(Ordering::Acquire) & CLOSED != 0 {
            return true;
        }
        match side {
            Side::Receive => !self.is_empty(),
            Side::Send => {
                if self.capacity == usize::MAX {
                    return true;
                }
                let held = self.send.lock.lock(sched::thread_token());
                // Once more: the send that ends a oneshot takes the room and closes it, both under this lock.
                let is_closed = self.waiting.state.load(Ordering::Relaxed) & CLOSED != 0;
                let is_ready = is_closed || self.has_room(&self.send);
                held.unlock();
                is_ready
            }
        }
    }

    /// Wakes one waiter of `side`, and everyone who watches it.
    #[cold]
    fn wake(&self, side: Side) {
        if self.is_oneshot && self.waiting.state.load(Ordering::Relaxed) & CLOSED != 0 {
            // Its one send was its end as well, of which everyone has to hear.
            return self.wake_all();
        }
        let (lines, count) = self.lines(side);
        let here = sched::here();
        let held = self.waiting.lock.lock(here.token());
        // SAFETY: the lock is held.
        let (claimed, taken) = unsafe { lines.line.claim(ptr::null(), here) };
        count.store(count.load(Ordering::Relaxed) - taken, Ordering::Relaxed);
        let is_watched = !lines.watchers.is_empty();
        held.unlock();
        if let Some((_, wake)) = claimed {
            here.settle(wake);
        }
        if is_watched {
            while self.claim_from(side, true) {}
        }
    }

    #[cold]
    fn wake_all(&self) {
        for side in [Side::Send, Side::Receive] {
            for watches in [false, true] {
                while self.claim_from(side, watches) {}
            }
        }
    }

    /// Wakes the first of a line; `false` if there is none.
    fn claim_from(&self, side: Side, watches: bool) -> bool {
        let (lines, count) = self.lines(side);
        let here = sched::here();
        let held = self.waiting.lock.lock(here.token());
        // SAFETY: the lock is held.
        let (claimed, taken) = unsafe { lines.of(watches).claim(ptr::null(), here) };
        count.store(count.load(Ordering::Relaxed) - taken, Ordering::Relaxed);
        held.unlock();
        claimed.map(|(_, wake)| here.settle(wake)).is_some()
    }

    fn spin(&self, side: Side) -> Spin<'_> {
        let patience = match side {
            Side::Send => &self.send.patience,
            Side::Receive => &self.receive.patience,
        };
        Spin::new(patience, self.is_worth_a_look(side))
    }

    /// Whether the other side may be at work on another CPU.
    pub(super) fn is_worth_a_look(&self, side: Side) -> bool {
        let other = match side {
            Side::Send => &self.receive.lock,
            Side::Receive => &self.send.lock,
        };
        other.is_used_elsewhere(sched::thread_token())
    }

    /// Values to receive, or places to send to.
    pub(super) fn depth(&self, side: Side) -> usize {
        match side {
            Side::Send => self.capacity.saturating_sub(self.len()),
            Side::Receive => self.len(),
        }
    }

    // ---------------------------------------------------------------------------------------------------------- select

    /// For a select: chooses this operation if it would not wait.
    pub(super) fn attempt(&self, side: Side, token: &mut Token) -> bool {
        match side {
            Side::Send => self.reserve(token),
            Side::Receive => match self.pop() {
                Ok(value) => {
                    token.put(value);
                    true
                }
                Err(TryRecvError::Disconnected) => {
                    token.set_closed();
                    true
                }
                Err(TryRecvError::Empty) => false,
            },
        }
    }

    fn reserve(&self, token: &mut Token) -> bool {
        let side = &*self.send;
        let held = side.lock.lock(sched::thread_token());
        let is_closed = self.waiting.state.load(Ordering::Relaxed) & CLOSED != 0;
        let has_room = !is_closed && self.has_room(side);
        if has_room {
            side.reserved.set(side.reserved.get() + 1);
        }
        held.unlock();
        if is_closed {
            token.set_closed();
        } else if has_room {
            token.set_permit();
        }
        is_closed || has_room
    }

    /// Completes a send that a select has chosen.
    pub(super) fn complete_send(&self, token: &mut Token, value: T) -> Result<(), T> {
        match token.claim() {
            Claim::Closed => Err(value),
            Claim::Permit => self.send_reserved(value),
            Claim::Receiver(_) => unreachable!("a buffered channel claims no receivers"),
        }
    }

    fn send_reserved(&self, value: T) -> Result<(), T> {
        let side = &*self.send;
        let held = side.lock.lock(sched::thread_token());
        side.reserved.set(side.reserved.get() - 1);
        if self.waiting.state.load(Ordering::Relaxed) & CLOSED != 0 {
            held.unlock();
            return Err(value);
        }
        self.publish(side, value);
        // CH4, pairs with `barrier_against` in `enter`.
        held.barrier();
        let is_awaited = self.waiting.receivers.load(Ordering::Relaxed) != 0;
        held.unlock();
        // In a oneshot other senders may wait for what becomes of the place that was promised.
        if is_awaited || self.is_oneshot {
            self.wake(Side::Receive);
        }
        Ok(())
    }

    /// Gives back the place that a select was promised and does not use.
    pub(super) fn abandon_send(&self) {
        let held = self.send.lock.lock(sched::thread_token());
        self.send.reserved.set(self.send.reserved.get() - 1);
        // CH4, as if a receiver had made room.
        held.barrier();
        held.unlock();
        self.wake(Side::Send);
    }

    /// Changes when an operation of this side that would have waited no longer would.
    pub(super) fn stamp(&self, side: Side) -> usize {
        // CH3, CH1 and CH2, pair with the stores of `state`, `tail` and `head`.
        let state = self.waiting.state.load(Ordering::Acquire) as usize;
        state.wrapping_add(match side {
            Side::Send => self.receive.head.load(Ordering::Acquire),
            Side::Receive => self.send.tail.load(Ordering::Acquire),
        })
    }

    /// For a select: enters the line; `true` if it need not wait.
    pub(super) fn register(&self, side: Side, entry: &Entry, watches: bool) -> bool {
        self.enter(side, entry, watches)
    }

    pub(super) fn unregister(&self, side: Side, entry: &Entry, watches: bool) {
        self.leave(side, entry, watches);
    }
}

impl<T> Drop for Buffered<T> {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Lines {
    fn new() -> Lines {
        Lines {
            line: Line::new(),
            watchers: Line::new(),
            last_wait: Cell::new(0),
        }
    }

    #[inline]
    fn of(&self, watches: bool) -> &Line {
        if watches { &self.watchers } else { &self.line }
    }
}
