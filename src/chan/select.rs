//! Waiting for several channels at once: the engine of `select!`, and the dynamic [`Select`].
//!
//! # Algorithm
//!
//! 1. Try the cases in an order drawn from the choice seam; the first that need not wait is chosen.
//! 2. None: one waiter enters the lines of all channels, with an entry per case. A channel that turns out to be ready while
//!    it is entered ends that: the select claims its own waiter, so that nobody else can choose, leaves, and starts over. A
//!    rendezvous with somebody in the line is paired on the spot (see `zero`).
//! 3. Wait. Whoever ends the wait names the case. The select leaves the other lines and takes up the named case first, so
//!    that the value or the room it was woken for is never left behind for nobody; if another was faster it starts over.
//!
//! Nothing is consumed before the choice, and only the chosen channel is touched. After a deadline or a cancellation every
//! entry is out of its line.
//!
//! Rejected: one goroutine per case (a value can be received by a case that is not chosen); locking all channels in the
//! order of their addresses, as Go does (most selects find a ready case by looking at one channel).
//!
//! # Safety
//!
//! Entries stay where they are while they are in a line: they are pinned in this module's own storage, which leaves every
//! line before it goes.

#![allow(unsafe_code)]

use super::error::{
    ReadyTimeoutError, RecvError, SelectTimeoutError, SendError, TryReadyError, TrySelectError,
};
use super::line::{Entry, Offer};
use super::patience::{NO_WAIT, deadline_after, deadline_at};
use super::receiver::Receiver;
use super::sender::Sender;
#[cfg(not(urgo_loom))]
use super::spin::{Patience, Spin};
use super::token::Token;
use crate::park::{CASE_FIRST, Outcome, WaitReason, Waiter};
use crate::sched;
use crate::time::Deadline;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::time::Duration;

/// What came of entering a channel's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registered {
    /// In the line.
    Waiting,
    /// The operation need not wait. (Buffered: in the line all the same.)
    Ready,
    /// Another channel has chosen already.
    Chosen,
    /// The select has claimed itself and the token is filled.
    Paired,
    /// The select has claimed itself for nothing.
    Withdrawn,
}

/// One side of a channel, as a select sees it.
pub(super) trait SelectHandle {
    /// Chooses this operation if it need not wait: fills the token.
    fn attempt(&self, token: &mut Token) -> bool;
    /// Nanoseconds of the runtime's clock at which it becomes ready by itself.
    fn deadline(&self) -> u64 {
        sched::NEVER
    }
    /// Whether somebody on another CPU may make it ready at this moment, so that looking again may pay.
    fn is_worth_a_look(&self) -> bool;
    /// How many values or places there are, about.
    fn depth(&self) -> usize;
    /// Another number whenever it has become ready since.
    fn stamp(&self) -> usize;
    /// Enters the line. The entry offers `token`.
    fn register(&self, entry: &Entry, token: *mut Token) -> Registered;
    /// Leaves the line, whether it is in or not.
    fn unregister(&self, entry: &Entry);
    /// Whether the operation need not wait.
    fn is_ready(&self) -> bool;
    /// Enters the line of those who only want to hear; `true` if it is ready already.
    fn watch(&self, entry: &Entry) -> bool;
    /// Leaves that line, whether it is in or not.
    fn unwatch(&self, entry: &Entry);
    /// Takes back a permit that was not used.
    fn abandon(&self);
    /// What tells this side of this channel from all others.
    fn address(&self) -> *const ();
}

/// A case of a select: one side of one channel.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Case<'a>(&'a dyn SelectHandle);

impl<'a> Case<'a> {
    #[doc(hidden)]
    #[inline]
    pub fn recv<T>(receiver: &'a Receiver<T>) -> Case<'a> {
        Case(receiver)
    }

    #[doc(hidden)]
    #[inline]
    pub fn send<T>(sender: &'a Sender<T>) -> Case<'a> {
        Case(sender)
    }
}

impl core::fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Case").field(&self.0.address()).finish()
    }
}

/// Cases up to this many need no allocation.
const INLINE: usize = 8;

/// The order in which cases are tried: drawn as far as it is needed.
struct Order {
    inline: [u8; INLINE],
    more: Vec<usize>,
    len: usize,
    is_biased: bool,
}

impl Order {
    #[inline]
    fn new(len: usize, is_biased: bool) -> Order {
        Order {
            inline: [0, 1, 2, 3, 4, 5, 6, 7],
            more: if len > INLINE {
                (0..len).collect()
            } else {
                Vec::new()
            },
            len,
            is_biased,
        }
    }

    /// The `turn`th case to try (Durstenfeld's shuffle, a step at a time).
    #[inline]
    fn at(&mut self, turn: usize) -> usize {
        if self.is_biased {
            return turn;
        }
        let other = turn + sched::choose(self.len - turn);
        if self.len <= INLINE {
            self.inline.swap(turn, other);
            usize::from(self.inline[turn])
        } else {
            self.more.swap(turn, other);
            self.more[turn]
        }
    }

    /// The `turn`th case once more, after all have been drawn.
    #[inline]
    fn again(&self, turn: usize) -> usize {
        if self.len <= INLINE {
            usize::from(self.inline[turn])
        } else {
            self.more[turn]
        }
    }
}

/// Entries of a select, which do not move.
struct Entries {
    inline: [MaybeUninit<Entry>; INLINE],
    more: Vec<MaybeUninit<Entry>>,
}

impl Entries {
    #[inline]
    fn new(len: usize) -> Entries {
        Entries {
            inline: [const { MaybeUninit::uninit() }; INLINE],
            more: if len > INLINE {
                core::iter::repeat_with(MaybeUninit::uninit)
                    .take(len)
                    .collect()
            } else {
                Vec::new()
            },
        }
    }

    #[inline]
    fn places(&mut self) -> &mut [MaybeUninit<Entry>] {
        if self.more.is_empty() {
            &mut self.inline
        } else {
            &mut self.more
        }
    }
}

/// Chooses one of `cases`, waiting until `deadline` at most. `None`: none could be chosen in time.
fn choose(
    cases: &[Case<'_>],
    mut deadline: u64,
    is_biased: bool,
    token: &mut Token,
) -> Option<usize> {
    sched::spend_turn();
    loop {
        let mut order = Order::new(cases.len(), is_biased);
        let stamp = if deadline == NO_WAIT { stamp(cases) } else { 0 };
        for turn in 0..cases.len() {
            let at = order.at(turn);
            if cases[at].0.attempt(token) {
                return Some(at);
            }
        }
        if deadline == NO_WAIT {
            if cases.len() == 1 || self::stamp(cases) == stamp {
                return None;
            }
            continue;
        }
        if let Some(at) = look_again(cases, &order, token) {
            return Some(at);
        }
        match wait_to_choose(cases, deadline, &order, token) {
            Waited::Chosen(at) => return Some(at),
            Waited::Again => {}
            // Once more, without waiting.
            Waited::TimedOut => deadline = NO_WAIT,
        }
    }
}

/// A few more looks before waiting, where that is likely to pay (see `spin`).
#[cfg(urgo_loom)]
fn look_again(_: &[Case<'_>], _: &Order, _: &mut Token) -> Option<usize> {
    None
}

/// A few more looks before waiting, where that is likely to pay (see `spin`).
#[cfg(not(urgo_loom))]
#[inline]
fn look_again(cases: &[Case<'_>], order: &Order, token: &mut Token) -> Option<usize> {
    std::thread_local! {
        /// Selects have no place of their own to remember what they have learnt, so each thread has one for all.
        static PATIENCE: Patience = const { Patience::new() };
    }
    if !cases.iter().any(|case| case.0.is_worth_a_look()) {
        return None;
    }
    PATIENCE.with(|patience| {
        let mut spin = Spin::new(patience, true);
        while spin.again() {
            let found = (0..cases.len())
                .map(|turn| order.again(turn))
                .find(|&at| cases[at].0.attempt(token));
            if let Some(at) = found {
                spin.succeeded(cases[at].0.depth() + 1);
                return Some(at);
            }
        }
        spin.failed();
        None
    })
}

/// Changes whenever a case that was not ready becomes so. If it is the same before and after a pass that found nothing, then
/// nothing became ready behind its back: at the end of the pass nothing was ready at all. Otherwise a value that moves from a
/// channel not looked at yet to one looked at before would be missed, though at every moment one of them was ready.
fn stamp(cases: &[Case<'_>]) -> usize {
    cases
        .iter()
        .fold(0, |sum: usize, case| sum.wrapping_add(case.0.stamp()))
}

enum Waited {
    Chosen(usize),
    /// Nothing is chosen: start over.
    Again,
    TimedOut,
}

/// Steps 2 and 3.
#[inline(never)]
fn wait_to_choose(cases: &[Case<'_>], deadline: u64, order: &Order, token: &mut Token) -> Waited {
    let waiter = sched::new_parked_waiter();
    let mut storage = Entries::new(cases.len());
    let places = storage.places();
    let token: *mut Token = token;
    let mut until = deadline;
    let mut entered = 0;
    let mut last = Registered::Waiting;
    // In the drawn order: of two cases on one channel the first in the line is the one that is claimed.
    for turn in 0..cases.len() {
        let index = order.again(turn);
        let case = cases[index];
        until = until.min(case.0.deadline());
        let entry = places[index].write(Entry::case_of(&waiter, index, Offer::Select(token)));
        last = case.0.register(entry, token);
        entered = turn + 1;
        if last != Registered::Waiting {
            break;
        }
    }
    // SAFETY: the entries of the first `entered` turns were written; they are shared from here on.
    let entry = |index: usize| unsafe { places[index].assume_init_ref() };
    let leave_all = || {
        for turn in 0..entered {
            let index = order.again(turn);
            cases[index].0.unregister(entry(index));
        }
    };
    let is_withdrawn = match last {
        Registered::Paired => {
            leave_all();
            return Waited::Chosen(order.again(entered - 1));
        }
        Registered::Withdrawn => true,
        Registered::Ready => waiter.finish(Outcome::Woken).is_some(),
        Registered::Chosen | Registered::Waiting => false,
    };
    if is_withdrawn {
        leave_all();
        return Waited::Again;
    }
    let outcome = sched::wait_parked(&waiter, WaitReason::Select, until);
    leave_all();
    match outcome {
        Outcome::Woken => {
            let Some(index) = chosen(&waiter) else {
                return Waited::Again;
            };
            // SAFETY: the waiter is out of every line and its wake is settled: nobody else uses the token any more.
            let token = unsafe { &mut *token };
            if take_up(cases[index], entry(index), token) {
                Waited::Chosen(index)
            } else {
                Waited::Again
            }
        }
        Outcome::TimedOut if until == deadline => Waited::TimedOut,
        Outcome::TimedOut => Waited::Again,
        Outcome::Cancelled => {
            sched::unwind_if_cancelled();
            Waited::Again
        }
    }
}

fn chosen(waiter: &Waiter) -> Option<usize> {
    waiter.case().map(|case| (case - CASE_FIRST) as usize)
}

/// The case that the wait ended with. `false` if another was faster.
fn take_up(case: Case<'_>, entry: &Entry, token: &mut Token) -> bool {
    if !token.is_empty() {
        // A rendezvous: whoever chose us has filled it.
        return true;
    }
    if entry.is_closed.get() {
        token.set_closed();
        return true;
    }
    !entry.is_void.get() && case.0.attempt(token)
}

/// Waits until one of `cases` need not wait, and says which. `None`: none in time.
fn wait_ready(cases: &[Case<'_>], mut deadline: u64, is_biased: bool) -> Option<usize> {
    sched::spend_turn();
    loop {
        let mut order = Order::new(cases.len(), is_biased);
        let stamp = if deadline == NO_WAIT { stamp(cases) } else { 0 };
        for turn in 0..cases.len() {
            let at = order.at(turn);
            if cases[at].0.is_ready() {
                return Some(at);
            }
        }
        if deadline == NO_WAIT && self::stamp(cases) == stamp {
            return None;
        }
        if deadline == NO_WAIT {
            continue;
        }
        if watch(cases, deadline) {
            // Once more, without waiting.
            deadline = NO_WAIT;
        }
    }
}

/// Waits until some case may be ready, or the deadline has passed (`true`).
fn watch(cases: &[Case<'_>], deadline: u64) -> bool {
    let waiter = sched::new_parked_waiter();
    let mut storage = Entries::new(cases.len());
    let places = storage.places();
    let mut until = deadline;
    let mut entered = 0;
    let mut is_ready = false;
    for (index, case) in cases.iter().enumerate() {
        until = until.min(case.0.deadline());
        let entry = places[index].write(Entry::case_of(&waiter, index, Offer::Nothing));
        is_ready = case.0.watch(entry);
        entered = index + 1;
        if is_ready {
            break;
        }
    }
    let mut outcome = Outcome::Woken;
    if !is_ready || waiter.finish(Outcome::Woken).is_none() {
        outcome = sched::wait_parked(&waiter, WaitReason::Select, until);
    }
    for (index, case) in cases[..entered].iter().enumerate() {
        // SAFETY: the first `entered` entries were written.
        case.0.unwatch(unsafe { places[index].assume_init_ref() });
    }
    if outcome == Outcome::Cancelled {
        sched::unwind_if_cancelled();
    }
    outcome == Outcome::TimedOut && until == deadline
}

/// Nothing to wait for but the deadline.
fn wait_out(deadline: u64) {
    if deadline != NO_WAIT {
        let waiter = sched::new_parked_waiter();
        sched::wait_parked(&waiter, WaitReason::Select, deadline);
        sched::unwind_if_cancelled();
    }
}

/// What the macros call: the same as [`Select`], without its list.
#[doc(hidden)]
pub(super) mod engine {
    use super::*;

    #[doc(hidden)]
    #[inline]
    pub fn try_select<'a>(cases: &[Case<'a>], is_biased: bool) -> Option<SelectedOperation<'a>> {
        until(cases, 0, is_biased)
    }

    #[doc(hidden)]
    #[inline]
    pub fn select<'a>(cases: &[Case<'a>], is_biased: bool) -> SelectedOperation<'a> {
        loop {
            if let Some(operation) = until(cases, sched::NEVER, is_biased) {
                return operation;
            }
        }
    }

    #[doc(hidden)]
    #[inline]
    pub fn select_timeout<'a>(
        cases: &[Case<'a>],
        timeout: Duration,
        is_biased: bool,
    ) -> Option<SelectedOperation<'a>> {
        until(cases, deadline_after(timeout), is_biased)
    }

    #[inline]
    pub(super) fn until<'a>(
        cases: &[Case<'a>],
        deadline: u64,
        is_biased: bool,
    ) -> Option<SelectedOperation<'a>> {
        let mut operation = SelectedOperation {
            token: Token::new(),
            position: 0,
            index: 0,
            case: None,
            is_home: true,
            _not_send: PhantomData,
        };
        if cases.is_empty() {
            wait_out(deadline);
            return None;
        }
        let at = choose(cases, deadline, is_biased, &mut operation.token)?;
        operation.position = at;
        operation.index = at;
        operation.case = Some(cases[at]);
        Some(operation)
    }
}

/// Selects over a set of operations that is put together at run time.
///
/// [`select!`](crate::select!) is for a set that is known when the program is written. As with it, of several operations that
/// are ready one is chosen at random, and only the chosen one takes place. The chosen operation must be completed with
/// [`SelectedOperation::send`] or [`SelectedOperation::recv`].
///
/// ```
/// use urgo::chan::{Select, unbounded};
///
/// let (s1, r1) = unbounded();
/// let (_s2, r2) = unbounded::<i32>();
/// s1.send(7).unwrap();
///
/// let mut select = Select::new();
/// let first = select.recv(&r1);
/// let second = select.recv(&r2);
/// let operation = select.select();
/// match operation.index() {
///     i if i == first => assert_eq!(operation.recv(&r1), Ok(7)),
///     i if i == second => assert!(operation.recv(&r2).is_ok()),
///     _ => unreachable!(),
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Select<'a> {
    cases: Vec<Case<'a>>,
    /// The index that was given out for each of `cases`.
    indices: Vec<usize>,
    next: usize,
    is_biased: bool,
    /// The thread it was made on.
    home: ThreadMark,
}

/// Tells threads that are alive from each other: the address of something in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadMark(usize);

impl ThreadMark {
    fn current() -> ThreadMark {
        std::thread_local! {
            static MARK: u8 = const { 0 };
        }
        ThreadMark(MARK.with(|mark| core::ptr::from_ref(mark).addr()))
    }
}

impl<'a> Select<'a> {
    /// An empty set of operations.
    #[must_use]
    pub fn new() -> Select<'a> {
        Select {
            cases: Vec::new(),
            indices: Vec::new(),
            next: 0,
            is_biased: false,
            home: ThreadMark::current(),
        }
    }

    /// As [`new`](Self::new), but of several operations that are ready the one added first is chosen.
    #[must_use]
    pub fn new_biased() -> Select<'a> {
        Select {
            is_biased: true,
            ..Select::new()
        }
    }

    /// Adds sending on `sender`; returns the operation's index.
    pub fn send<T>(&mut self, sender: &'a Sender<T>) -> usize {
        self.add(Case::send(sender))
    }

    /// Adds receiving from `receiver`; returns the operation's index.
    pub fn recv<T>(&mut self, receiver: &'a Receiver<T>) -> usize {
        self.add(Case::recv(receiver))
    }

    fn add(&mut self, case: Case<'a>) -> usize {
        let index = self.next;
        self.next += 1;
        self.cases.push(case);
        self.indices.push(index);
        index
    }

    /// Takes the operation with `index` out again.
    ///
    /// # Panics
    /// If there is none: it was never added, or was removed before.
    #[track_caller]
    pub fn remove(&mut self, index: usize) {
        let at = self.indices.iter().position(|&i| i == index);
        let at = at.unwrap_or_else(|| {
            panic!("no operation with index {index} is in this select: add it with send() or recv() before removing it")
        });
        if self.is_biased {
            self.cases.remove(at);
            self.indices.remove(at);
        } else {
            self.cases.swap_remove(at);
            self.indices.swap_remove(at);
        }
    }

    /// Chooses an operation that is ready. Blocks nothing.
    ///
    /// # Errors
    /// None is ready.
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        self.until(0).ok_or(TrySelectError)
    }

    /// Waits until an operation is ready and chooses it. Blocks the calling goroutine or thread.
    ///
    /// # Panics
    /// If there are no operations.
    pub fn select(&mut self) -> SelectedOperation<'a> {
        assert!(
            !self.cases.is_empty(),
            "a select without operations would wait for ever: add some with send() or recv()"
        );
        loop {
            if let Some(operation) = self.until(sched::NEVER) {
                return operation;
            }
        }
    }

    /// As [`select`](Self::select), for `timeout` at most.
    ///
    /// # Errors
    /// None became ready in time.
    pub fn select_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.until(deadline_after(timeout))
            .ok_or(SelectTimeoutError)
    }

    /// As [`select`](Self::select), until `deadline` at most.
    ///
    /// # Errors
    /// None became ready in time.
    pub fn select_deadline(
        &mut self,
        deadline: impl Deadline,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.until(deadline_at(deadline.deadline_ns()))
            .ok_or(SelectTimeoutError)
    }

    fn until(&self, deadline: u64) -> Option<SelectedOperation<'a>> {
        let mut operation = engine::until(&self.cases, deadline, self.is_biased)?;
        operation.index = self.indices[operation.position];
        operation.is_home = self.home == ThreadMark::current();
        Some(operation)
    }

    /// The index of an operation that is ready, without choosing it: another may be faster. Blocks nothing.
    ///
    /// # Errors
    /// None is ready.
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        self.ready_until(0).ok_or(TryReadyError)
    }

    /// Waits until an operation is ready, without choosing it: another may be faster. Blocks the calling goroutine or
    /// thread.
    ///
    /// # Panics
    /// If there are no operations.
    pub fn ready(&mut self) -> usize {
        assert!(
            !self.cases.is_empty(),
            "a select without operations would wait for ever: add some with send() or recv()"
        );
        loop {
            if let Some(index) = self.ready_until(sched::NEVER) {
                return index;
            }
        }
    }

    /// As [`ready`](Self::ready), for `timeout` at most.
    ///
    /// # Errors
    /// None became ready in time.
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        self.ready_until(deadline_after(timeout))
            .ok_or(ReadyTimeoutError)
    }

    /// As [`ready`](Self::ready), until `deadline` at most.
    ///
    /// # Errors
    /// None became ready in time.
    pub fn ready_deadline(&mut self, deadline: impl Deadline) -> Result<usize, ReadyTimeoutError> {
        self.ready_until(deadline_at(deadline.deadline_ns()))
            .ok_or(ReadyTimeoutError)
    }

    fn ready_until(&self, deadline: u64) -> Option<usize> {
        if self.cases.is_empty() {
            wait_out(deadline);
            return None;
        }
        wait_ready(&self.cases, deadline, self.is_biased).map(|at| self.indices[at])
    }
}

// SAFETY: a case is a shared reference to a handle. What a select does on another thread than the one it was made on is what
// the handles' locks make safe on any thread: moving a value, as bytes, out of the channel into a token. Taking it out of the
// token needs a handle, which for a value that must stay on its thread is on that thread only; and where it is left in the token,
// it is dropped on the select's own thread only (`SelectedOperation::give_back`).
unsafe impl Send for Select<'_> {}
// SAFETY: as above.
unsafe impl Sync for Select<'_> {}

impl Default for Select<'_> {
    fn default() -> Self {
        Select::new()
    }
}

/// An operation that a select has chosen and that has yet to be completed.
///
/// It must be completed with [`send`](Self::send) or [`recv`](Self::recv), on the channel it was chosen on. Dropping it
/// panics (unless the goroutine is panicking already): a receive that was chosen has its value, which is dropped with it (or
/// leaked, if the select was made on another thread and used on this one); a send that was chosen gives its place, or its receiver, back.
#[must_use = "the chosen operation has to be completed"]
pub struct SelectedOperation<'a> {
    token: Token,
    position: usize,
    index: usize,
    /// `None` once it is completed.
    case: Option<Case<'a>>,
    /// Chosen on the thread that the handles are on.
    is_home: bool,
    _not_send: PhantomData<*mut ()>,
}

impl SelectedOperation<'_> {
    /// The index that [`Select::send`] or [`Select::recv`] has returned for it.
    #[must_use]
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Completes a send. Blocks nothing: room, or the receiver, is waiting for the value.
    ///
    /// # Errors
    /// The channel is disconnected; the value comes back.
    ///
    /// # Panics
    /// If the operation was added with another channel, or is no send.
    #[track_caller]
    #[inline]
    pub fn send<T>(mut self, sender: &Sender<T>, value: T) -> Result<(), SendError<T>> {
        self.check(sender.address());
        self.case = None;
        sender
            .complete_send(&mut self.token, value)
            .map_err(SendError)
    }

    /// Completes a receive. Blocks nothing.
    ///
    /// # Errors
    /// The channel is disconnected and empty.
    ///
    /// # Panics
    /// If the operation was added with another channel, or is no receive.
    #[track_caller]
    #[inline]
    pub fn recv<T>(mut self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        self.check(receiver.address());
        self.case = None;
        // SAFETY: the address is that of the receiver which filled the token, so the value is of its type.
        unsafe { self.token.take::<T>() }.ok_or(RecvError)
    }

    /// Leaves it undone, as unwinding does.
    #[cfg(all(test, urgo_loom))]
    pub(super) fn call_off(mut self) {
        self.give_back();
    }

    fn give_back(&mut self) -> bool {
        let Some(case) = self.case.take() else {
            return false;
        };
        if !self.is_home {
            // Its type may be one that must not be dropped here.
            self.token.forget_value();
        }
        if self.token.abandon() {
            case.0.abandon();
        }
        true
    }

    #[track_caller]
    #[inline]
    fn check(&self, address: *const ()) {
        assert!(
            self.case
                .is_some_and(|case| core::ptr::eq(case.0.address(), address)),
            "the operation that was chosen belongs to another channel, or to its other side: complete it with the one \
             that was given to send() or recv() of the select"
        );
    }
}

impl core::fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad("SelectedOperation { .. }")
    }
}

impl Drop for SelectedOperation<'_> {
    #[inline]
    fn drop(&mut self) {
        assert!(
            !self.give_back() || std::thread::panicking(),
            "a chosen operation was dropped without being completed: call its send() or recv()"
        );
    }
}
