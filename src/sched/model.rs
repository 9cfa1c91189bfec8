//! Waiting and waking as the model checker has them: the same verbs as `wait`, for its threads.
//!
//! A waiter with a deadline other than "never" tries to end its wait at once. Whether a waker was faster is the checker's to
//! explore.

use crate::atomic::{model_static, model_thread_local};
use crate::park::lot;
use crate::park::{Outcome, Presence, Target, Token, WaitReason, Waiter, Wake};
use core::cell::Cell;

pub(crate) const NEVER: u64 = u64::MAX;

model_thread_local! {
    static TOKEN: Cell<usize> = Cell::new(0);
}

model_static! {
    static ref PRESENCES: [Presence; 3] = core::array::from_fn(|_| Presence::new());
}

/// Makes the calling model thread the thread of a worker (1 to 3), which locks may be biased to.
#[cfg(test)]
pub(crate) fn become_worker(number: usize) {
    TOKEN.with(|cell| cell.set(number));
}

/// What the calling model thread has become; 0 if it is no worker's.
pub(crate) fn worker_number() -> usize {
    TOKEN.with(Cell::get)
}

pub(crate) fn thread_token() -> Token {
    match worker_number() {
        0 => Token::NOBODY,
        number => Token::of(&PRESENCES[number - 1]),
    }
}

pub(crate) fn new_parked_waiter() -> Waiter {
    Waiter::parked(Target::Thread)
}

/// See the real one.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a>(core::marker::PhantomData<&'a ()>);

pub(crate) fn here<'a>() -> Here<'a> {
    Here(core::marker::PhantomData)
}

impl Here<'_> {
    pub(crate) fn token(self) -> Token {
        thread_token()
    }

    pub(crate) fn new_parked_waiter(self) -> Waiter {
        new_parked_waiter()
    }

    pub(crate) fn is_local(self, _waiter: &Waiter) -> bool {
        false
    }

    pub(crate) fn settle(self, wake: Wake) {
        settle(wake);
    }

    pub(crate) fn wait_parked(self, waiter: &Waiter, reason: WaitReason, deadline: u64) -> Outcome {
        wait_parked(waiter, reason, deadline)
    }
}

/// No looking again before waiting: it would only repeat what the checker explores anyway.
pub(crate) fn has_others_ready() -> bool {
    true
}

pub(crate) fn yield_now() {}

pub(crate) fn spend_turn() {}

pub(crate) fn give_turn() {}

pub(crate) fn choose(_n: usize) -> usize {
    0
}

/// Deadlines are either 0, which is past, or to come.
pub(crate) fn now_ns() -> u64 {
    1
}

pub(crate) fn unwind_if_cancelled() {}

pub(crate) fn wait_parked(waiter: &Waiter, _reason: WaitReason, deadline: u64) -> Outcome {
    if deadline != NEVER && waiter.finish(Outcome::TimedOut).is_some() {
        return Outcome::TimedOut;
    }
    lot::signalled(waiter);
    waiter.outcome().expect("the wait is over")
}

pub(crate) fn settle(wake: Wake) {
    match wake {
        Wake::Nothing => {}
        Wake::Goroutine(_) => unreachable!("the model has threads only"),
        Wake::Thread(signal) => lot::signal(signal),
    }
}
