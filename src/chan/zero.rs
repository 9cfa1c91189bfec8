//! The rendezvous: a channel without a queue. A value goes from the sender's stack to the receiver's.
//!
//! # Algorithm
//!
//! Under one lock, biased to the worker that uses it alone: whoever comes looks for someone in the other side's line. A
//! sender *claims* the first receiver (its wait is over, but it is not woken yet), writes the value into the place that the
//! receiver offers, and settles the wake; a receiver claims the first sender and takes the value out of the place it offers.
//! Nobody there: it enters its own line and waits. On one worker the one that was woken is the next to run, entered straight
//! from the stack of the one that woke it as soon as that one waits.
//!
//! A select that has claimed a receiver has no value yet: it gets the claim as its token, and hands the value over, or calls
//! the claim off, when it completes. A select that waits in the senders' line offers its token: a receiver that finds it
//! there puts a claim on *itself* into it, and waits for the value.
//!
//! A select never meets itself. One that registers and finds a partner in the line first claims itself (so that nobody else
//! can), then the partner, both under the lock: of two selects that meet on one channel, one always succeeds.
//!
//! # Invariants
//!
//! Between claim and settling the claimed one stays where it is (`park`), so its place and its token may be used without the
//! lock. Once `is_closed` is set nobody enters a line.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | ZE1 | an arrival is counted, release | `stamp`, acquire | that the lines or `is_closed` have changed |
//!
//! Everything else is ordered by the lock, and values by the wait word's exchange (`park::word`).
//!
//! # Safety
//!
//! Places and tokens on other stacks are reached through raw pointers, alive by the invariants above. A place's type is the
//! channel's.

#![allow(unsafe_code)]

use super::buffered::Side;
use super::error::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use super::line::{Entry, Line, Offer};
use super::patience::NO_WAIT;
use super::select::Registered;
use super::token::{Claim, ClaimedReceiver, Token};
use crate::atomic::{AtomicUsize, Ordering};
use crate::park::{BiasedLock, Outcome, WaitReason, Waiter, Wake};
use crate::sched::{self, Here};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

/// See the module.
#[derive(Debug)]
pub(super) struct Zero<T> {
    lock: BiasedLock,
    is_closed: Cell<bool>,
    senders: Line,
    receivers: Line,
    /// How many have entered the two lines so far, senders and receivers, the closing included; for looking without the lock.
    sender_arrivals: AtomicUsize,
    receiver_arrivals: AtomicUsize,
    /// Selects that only want to hear that somebody waits on the other side.
    send_watchers: Line,
    receive_watchers: Line,
    _values: PhantomData<Box<T>>,
}

// SAFETY: values of type `T` go from sender to receiver, each to one; the cells are under the lock.
unsafe impl<T: Send> Send for Zero<T> {}
// SAFETY: as above; no reference to a value is ever given out.
unsafe impl<T: Send> Sync for Zero<T> {}

/// What was found under the lock.
enum Met<'a> {
    Closed,
    Nobody,
    Somebody(&'a Entry, Wake),
}

impl<T> Zero<T> {
    pub(super) fn new() -> Zero<T> {
        Zero {
            lock: BiasedLock::new(),
            is_closed: Cell::new(false),
            senders: Line::new(),
            receivers: Line::new(),
            sender_arrivals: AtomicUsize::new(0),
            receiver_arrivals: AtomicUsize::new(0),
            send_watchers: Line::new(),
            receive_watchers: Line::new(),
            _values: PhantomData,
        }
    }

    // ------------------------------------------------------------------------------------------------------ operations

    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let here = sched::here();
        match self.meet(here, &self.receivers, None) {
            Met::Closed => Err(TrySendError::Disconnected(value)),
            Met::Nobody => Err(TrySendError::Full(value)),
            Met::Somebody(receiver, wake) => {
                // SAFETY: claimed in this channel's receiving line, so it waits for a `T`.
                unsafe { ClaimedReceiver::new(receiver, wake).fill(value, here) };
                Ok(())
            }
        }
    }

    #[inline]
    pub(super) fn send(&self, value: T, deadline: u64) -> Result<(), SendTimeoutError<T>> {
        let here = sched::here();
        let mut place = MaybeUninit::new(value);
        let waiter;
        let entry;
        // The first look needs no waiter.
        let met = self.meet(here, &self.receivers, None);
        let met = match met {
            Met::Nobody if deadline == NO_WAIT => {
                // SAFETY: written above, nobody has taken it.
                return Err(SendTimeoutError::Timeout(unsafe { place.assume_init() }));
            }
            Met::Nobody => {
                waiter = here.new_parked_waiter();
                entry = Entry::single(&waiter, Offer::Place((&raw mut place).cast()));
                match self.meet(here, &self.receivers, Some((&self.senders, &entry))) {
                    Met::Nobody => return self.sent(here, &place, &waiter, &entry, deadline),
                    met => met,
                }
            }
            met => met,
        };
        // SAFETY: written above, nobody has taken it.
        let value = unsafe { place.assume_init() };
        match met {
            Met::Somebody(receiver, wake) => {
                // SAFETY: claimed in this channel's receiving line, so it waits for a `T`.
                unsafe { ClaimedReceiver::new(receiver, wake).fill(value, here) };
                Ok(())
            }
            _ => Err(SendTimeoutError::Disconnected(value)),
        }
    }

    /// In the line with a value: waits for a receiver to take it.
    #[inline]
    fn sent(
        &self,
        here: Here<'_>,
        place: &MaybeUninit<T>,
        waiter: &Waiter,
        entry: &Entry,
        deadline: u64,
    ) -> Result<(), SendTimeoutError<T>> {
        let outcome = here.wait_parked(waiter, WaitReason::ChanSend, deadline);
        if outcome == Outcome::Woken {
            if entry.is_closed.get() {
                // SAFETY: whoever closed the channel has not touched the place.
                return Err(SendTimeoutError::Disconnected(unsafe {
                    place.assume_init_read()
                }));
            }
            return Ok(());
        }
        self.leave(here, &self.senders, entry);
        // SAFETY: the wait ended by deadline or cancellation, so no receiver has claimed the entry.
        let value = unsafe { place.assume_init_read() };
        if outcome == Outcome::Cancelled {
            // The value goes with this frame.
            sched::unwind_if_cancelled();
        }
        Err(SendTimeoutError::Timeout(value))
    }

    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let here = sched::here();
        loop {
            return match self.meet(here, &self.senders, None) {
                Met::Closed => Err(TryRecvError::Disconnected),
                Met::Nobody => Err(TryRecvError::Empty),
                Met::Somebody(sender, wake) => match self.receive_from(here, sender, wake) {
                    Some(value) => Ok(value),
                    None => continue,
                },
            };
        }
    }

    #[inline]
    pub(super) fn recv(&self, deadline: u64) -> Result<T, RecvTimeoutError> {
        let here = sched::here();
        loop {
            let mut place = MaybeUninit::<T>::uninit();
            let waiter = here.new_parked_waiter();
            let entry = Entry::single(&waiter, Offer::Place((&raw mut place).cast()));
            let waits = deadline != NO_WAIT;
            let enter = waits.then_some((&self.receivers, &entry));
            match self.meet(here, &self.senders, enter) {
                Met::Closed => return Err(RecvTimeoutError::Disconnected),
                Met::Nobody if !waits => return Err(RecvTimeoutError::Timeout),
                Met::Somebody(sender, wake) => match self.receive_from(here, sender, wake) {
                    Some(value) => return Ok(value),
                    None => continue,
                },
                Met::Nobody => {}
            }
            match here.wait_parked(&waiter, WaitReason::ChanRecv, deadline) {
                Outcome::Woken if entry.is_closed.get() => {
                    return Err(RecvTimeoutError::Disconnected);
                }
                Outcome::Woken if entry.is_void.get() => {}
                // SAFETY: the sender that claimed us has filled the place before it settled the wake.
                Outcome::Woken => return Ok(unsafe { place.assume_init() }),
                outcome => {
                    self.leave(here, &self.receivers, &entry);
                    if outcome == Outcome::Cancelled {
                        sched::unwind_if_cancelled();
                    }
                    return Err(RecvTimeoutError::Timeout);
                }
            }
        }
    }

    /// Takes the value of a claimed sender. Waits if it is a select, which makes its value only now; `None` if it thinks
    /// better of it.
    #[inline]
    fn receive_from(&self, here: Here<'_>, sender: &Entry, wake: Wake) -> Option<T> {
        match sender.offer.get() {
            Offer::Place(place) => {
                // SAFETY: the claimed sender's place, full, and of this channel's type.
                let value = unsafe { place.cast::<T>().read() };
                here.settle(wake);
                Some(value)
            }
            Offer::Select(token) => {
                let mut place = MaybeUninit::<T>::uninit();
                let offer = Offer::Place((&raw mut place).cast());
                // SAFETY: the claimed select's token.
                unsafe { self.await_select(here, token, wake, offer) }
                    // SAFETY: the select has filled the place.
                    .then(|| unsafe { place.assume_init() })
            }
            Offer::Nothing => unreachable!("who waits at a rendezvous offers something"),
        }
    }

    /// Lets a claimed select of the sending side make its value, and waits for it in `offer`; `false` if there is none.
    ///
    /// # Safety
    ///
    /// `token` is that of the select which `wake` will wake.
    #[cold]
    unsafe fn await_select(
        &self,
        here: Here<'_>,
        token: *mut Token,
        wake: Wake,
        offer: Offer,
    ) -> bool {
        let waiter = here.new_parked_waiter();
        let entry = Entry::single(&waiter, offer);
        let own_wake = entry.claim(here).expect("nobody else knows it");
        // SAFETY: the caller's promise; the select stays until its wake is settled.
        unsafe { (*token).set_receiver(&entry, own_wake) };
        here.settle(wake);
        // Claimed already: neither a deadline nor a cancellation ends it.
        here.wait_parked(&waiter, WaitReason::ChanRecv, sched::NEVER);
        !entry.is_void.get()
    }

    // -------------------------------------------------------------------------------------------------------- the lock

    /// Claims the first in `line`; if there is nobody, enters the other line with the entry given.
    #[inline(always)]
    fn meet<'a>(&self, here: Here<'_>, line: &Line, enter: Option<(&Line, &Entry)>) -> Met<'a> {
        let held = self.lock.lock(here.token());
        if self.is_closed.get() {
            held.unlock();
            return Met::Closed;
        }
        // SAFETY: the lock is held.
        if let (Some((entry, wake)), _) = unsafe { line.claim(ptr::null(), here) } {
            held.unlock();
            return Met::Somebody(entry, wake);
        }
        let Some((own_line, entry)) = enter else {
            held.unlock();
            return Met::Nobody;
        };
        // SAFETY: the lock is held; the caller waits, and leaves unless it was claimed.
        unsafe { own_line.push(entry) };
        self.count_arrival(if ptr::eq(own_line, &self.senders) {
            Side::Send
        } else {
            Side::Receive
        });
        let is_watched = !self.watchers_of(own_line).is_empty();
        held.unlock();
        if is_watched {
            self.tell_watchers(here, self.watchers_of(own_line));
        }
        Met::Nobody
    }

    fn arrivals(&self, side: Side) -> &AtomicUsize {
        match side {
            Side::Send => &self.sender_arrivals,
            Side::Receive => &self.receiver_arrivals,
        }
    }

    /// Lock held.
    #[inline]
    fn count_arrival(&self, side: Side) {
        let arrivals = self.arrivals(side);
        let number = arrivals.load(Ordering::Relaxed).wrapping_add(1);
        // ZE1, pairs with the load in `stamp`.
        arrivals.store(number, Ordering::Release);
    }

    /// Changes when somebody comes whom a select of this side could meet.
    pub(super) fn stamp(&self, side: Side) -> usize {
        let other = match side {
            Side::Send => Side::Receive,
            Side::Receive => Side::Send,
        };
        // ZE1, pairs with the store in `count_arrival`.
        self.arrivals(other).load(Ordering::Acquire)
    }

    /// Those who want to hear that somebody has entered `line`.
    fn watchers_of(&self, line: &Line) -> &Line {
        if ptr::eq(line, &self.senders) {
            &self.send_watchers
        } else {
            &self.receive_watchers
        }
    }

    #[cold]
    fn leave(&self, here: Here<'_>, line: &Line, entry: &Entry) {
        let held = self.lock.lock(here.token());
        // SAFETY: the lock is held; it was pushed on this line.
        unsafe { line.remove(entry) };
        held.unlock();
    }

    #[cold]
    fn tell_watchers(&self, here: Here<'_>, watchers: &Line) {
        while let Some((_, wake)) = self.claim_from(here, watchers) {
            here.settle(wake);
        }
    }

    fn claim_from<'a>(&self, here: Here<'_>, line: &Line) -> Option<(&'a Entry, Wake)> {
        let held = self.lock.lock(here.token());
        // SAFETY: the lock is held.
        let (claimed, _) = unsafe { line.claim(ptr::null(), here) };
        held.unlock();
        claimed
    }

    // --------------------------------------------------------------------------------------------------------- closing

    /// Whoever waits, and whoever comes, hears that it is closed. `false` if it was closed before.
    pub(super) fn close(&self) -> bool {
        let here = sched::here();
        let held = self.lock.lock(here.token());
        let was_closed = self.is_closed.replace(true);
        self.count_arrival(Side::Send);
        self.count_arrival(Side::Receive);
        held.unlock();
        for line in [
            &self.senders,
            &self.receivers,
            &self.send_watchers,
            &self.receive_watchers,
        ] {
            while let Some((entry, wake)) = self.claim_from(here, line) {
                entry.is_closed.set(true);
                here.settle(wake);
            }
        }
        !was_closed
    }

    pub(super) fn disconnect_senders(&self) {
        self.close();
    }

    pub(super) fn disconnect_receivers(&self) {
        self.close();
    }

    pub(super) fn len(&self) -> usize {
        0
    }

    pub(super) fn is_empty(&self) -> bool {
        true
    }

    pub(super) fn is_full(&self) -> bool {
        true
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        Some(0)
    }

    // ---------------------------------------------------------------------------------------------------------- select

    /// The other side's line, and one's own.
    fn lines(&self, side: Side) -> (&Line, &Line) {
        match side {
            Side::Send => (&self.receivers, &self.senders),
            Side::Receive => (&self.senders, &self.receivers),
        }
    }

    /// For a select: chooses this operation if somebody waits for it.
    pub(super) fn attempt(&self, side: Side, token: &mut Token) -> bool {
        let here = sched::here();
        loop {
            match self.meet(here, self.lines(side).0, None) {
                Met::Closed => {
                    token.set_closed();
                    return true;
                }
                Met::Nobody => return false,
                Met::Somebody(partner, wake) => {
                    if self.pair(here, side, partner, wake, token) {
                        return true;
                    }
                }
            }
        }
    }

    /// With a claimed partner. `false` if it thought better of it.
    fn pair(
        &self,
        here: Here<'_>,
        side: Side,
        partner: &Entry,
        wake: Wake,
        token: &mut Token,
    ) -> bool {
        match (side, partner.offer.get()) {
            (Side::Send, _) => {
                token.set_receiver(partner, wake);
                true
            }
            (Side::Receive, Offer::Place(place)) => {
                // SAFETY: the claimed sender's place, full, and of this channel's type.
                token.put(unsafe { place.cast::<T>().read() });
                here.settle(wake);
                true
            }
            (Side::Receive, Offer::Select(other)) => {
                // SAFETY: the claimed select's token.
                unsafe { self.await_select(here, other, wake, Offer::Select(token)) }
            }
            (Side::Receive, Offer::Nothing) => {
                unreachable!("who waits at a rendezvous offers something")
            }
        }
    }

    /// Whether the other side may be at work on another CPU.
    pub(super) fn is_worth_a_look(&self, _side: Side) -> bool {
        self.lock.is_used_elsewhere(sched::thread_token())
    }

    pub(super) fn depth(&self, _side: Side) -> usize {
        0
    }

    /// For a select: enters the line, or pairs at once.
    pub(super) fn register(&self, side: Side, entry: &Entry, token: *mut Token) -> Registered {
        let here = sched::here();
        let (others, own) = self.lines(side);
        let held = self.lock.lock(here.token());
        if self.is_closed.get() {
            held.unlock();
            return Registered::Ready;
        }
        // SAFETY: the lock is held.
        if !unsafe { others.has_other_than(entry.waiter()) } {
            // SAFETY: the lock is held; the select leaves before the entry goes, unless it was claimed.
            unsafe { own.push(entry) };
            self.count_arrival(side);
            let is_watched = !self.watchers_of(own).is_empty();
            held.unlock();
            if is_watched {
                self.tell_watchers(here, self.watchers_of(own));
            }
            return Registered::Waiting;
        }
        // SAFETY: the select's own waiter, alive while it registers.
        let is_ours = unsafe { &*entry.waiter() }.finish(Outcome::Woken).is_some();
        if !is_ours {
            held.unlock();
            return Registered::Chosen;
        }
        // SAFETY: the lock is held.
        let (claimed, _) = unsafe { others.claim(entry.waiter(), here) };
        held.unlock();
        let Some((partner, wake)) = claimed else {
            return Registered::Withdrawn;
        };
        // SAFETY: the select's own token, which nobody else uses now that it has claimed itself.
        let token = unsafe { &mut *token };
        if self.pair(here, side, partner, wake, token) {
            Registered::Paired
        } else {
            Registered::Withdrawn
        }
    }

    pub(super) fn unregister(&self, side: Side, entry: &Entry) {
        let here = sched::here();
        self.leave(here, self.lines(side).1, entry);
    }

    /// For a select's `ready`: enters the watchers' line. `true` if somebody is there already.
    pub(super) fn watch(&self, side: Side, entry: &Entry) -> bool {
        let here = sched::here();
        let (others, _) = self.lines(side);
        let held = self.lock.lock(here.token());
        // SAFETY: the lock is held; the select leaves before the entry goes, unless it was claimed.
        unsafe { self.watchers_of(others).push(entry) };
        let is_ready = self.is_closed.get() || !others.is_empty();
        held.unlock();
        is_ready
    }

    pub(super) fn unwatch(&self, side: Side, entry: &Entry) {
        let here = sched::here();
        self.leave(here, self.watchers_of(self.lines(side).0), entry);
    }

    pub(super) fn is_ready(&self, side: Side) -> bool {
        let here = sched::here();
        let held = self.lock.lock(here.token());
        let is_ready = self.is_closed.get() || !self.lines(side).0.is_empty();
        held.unlock();
        is_ready
    }

    /// Completes a send that a select has chosen.
    pub(super) fn complete_send(&self, token: &mut Token, value: T) -> Result<(), T> {
        let here = sched::here();
        match token.claim() {
            Claim::Closed => Err(value),
            Claim::Receiver(receiver) => {
                // SAFETY: a token of a select's send on this channel, so the receiver waits for a `T`.
                unsafe { receiver.fill(value, here) };
                Ok(())
            }
            Claim::Permit => unreachable!("a rendezvous gives no permits"),
        }
    }
}
