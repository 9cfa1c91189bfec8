//! The place of an answer, shared by the waiter and the outside.

use super::fault::Fault;
use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the outside has said.
#[derive(Debug)]
pub(super) enum Answer<T> {
    Value(T),
    Fault(Fault),
    /// It has let go, without a result.
    Ack,
}

/// Whether somebody waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interest {
    /// Yes.
    Wanted,
    /// Only to know that the outside has let go.
    CalledOff,
    /// Nobody will look here again.
    Gone,
}

/// See the module. The lock is held for a move only: values are dropped outside it.
#[derive(Debug)]
pub(super) struct Place<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    answer: Option<Answer<T>>,
    interest: Interest,
}

impl<T> Place<T> {
    pub(super) fn new() -> Place<T> {
        Place(Mutex::new(State {
            answer: None,
            interest: Interest::Wanted,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outside, after a claim. Gives the answer back if nobody will look.
    pub(super) fn put(&self, answer: Answer<T>) -> Result<(), Answer<T>> {
        let mut state = self.lock();
        if state.interest == Interest::Gone {
            return Err(answer);
        }
        debug_assert!(state.answer.is_none(), "one claim, one answer");
        state.answer = Some(answer);
        Ok(())
    }

    /// The waiter: the operation is called off. `true`: the outside has answered already.
    pub(super) fn call_off(&self) -> bool {
        let mut state = self.lock();
        state.interest = Interest::CalledOff;
        state.answer.is_some()
    }

    /// The waiter, for the last time.
    pub(super) fn close(&self) -> Option<Answer<T>> {
        let mut state = self.lock();
        state.interest = Interest::Gone;
        state.answer.take()
    }

    /// The outside: whether the operation has been called off.
    pub(super) fn is_called_off(&self) -> bool {
        self.lock().interest != Interest::Wanted
    }
}

/// A place whose type only those know who made it.
pub(super) trait AnyPlace: Any + Send + Sync {
    /// As [`Place::put`].
    fn put_fault(&self, fault: Fault) -> Result<(), Fault>;
    /// As [`Place::put`]; `false` if nobody will look.
    fn put_ack(&self) -> bool;
    /// As [`Place::is_called_off`].
    fn is_called_off(&self) -> bool;
}

impl<T: Send + 'static> AnyPlace for Place<T> {
    fn put_fault(&self, fault: Fault) -> Result<(), Fault> {
        match self.put(Answer::Fault(fault)) {
            Err(Answer::Fault(fault)) => Err(fault),
            _ => Ok(()),
        }
    }

    fn put_ack(&self) -> bool {
        self.put(Answer::Ack).is_ok()
    }

    fn is_called_off(&self) -> bool {
        Place::is_called_off(self)
    }
}
