//! The outside's side: a typed handle.

use super::answer::{Answer, Place};
use super::fault::Fault;
use super::token::{Exposed, Token};
use crate::sched::outside::Outlet;
use std::fmt;
use std::sync::Arc;

/// The right to answer one [`Operation`](super::Operation), from any thread, at any time, with no runtime at hand.
///
/// An answer is the outside's last word: whatever the waiter has lent is its own again from there on. Dropping the completer
/// without an answer is one, too: a [`Fault`] of the kind [`Abandoned`](super::FaultKind::Abandoned).
///
/// Answering blocks nothing for longer than a lock that is held for some tens of nanoseconds. It takes such locks, so it is not for signal
/// handlers.
pub struct Completer<T> {
    /// Until it has answered.
    side: Option<Side<T>>,
}

/// What it takes to answer.
pub(super) struct Side<T> {
    pub(super) outlet: Outlet,
    pub(super) place: Arc<Place<T>>,
}

impl<T> Side<T> {
    /// After a claim.
    pub(super) fn give(&self, answer: Answer<T>) {
        // What nobody will look at is dropped here, on the outside's thread.
        match self.place.put(answer) {
            Ok(()) => self.outlet.post(),
            Err(unwanted) => drop(unwanted),
        }
    }
}

impl<T> Completer<T> {
    pub(super) fn new(outlet: Outlet, place: Arc<Place<T>>) -> Completer<T> {
        Completer {
            side: Some(Side { outlet, place }),
        }
    }

    /// Answers with a value. If the operation has been called off, the value is dropped: on the waiter's side, or here if nobody
    /// waits any more.
    pub fn complete(self, value: T) {
        self.answer(Answer::Value(value));
    }

    /// Answers that the operation has failed.
    pub fn fault(self, fault: impl Into<Fault>) {
        self.answer(Answer::Fault(fault.into()));
    }

    /// Answers a cancellation: the outside has stopped and let go. If nobody had called the operation off, this is a fault of
    /// the kind [`LetGo`](super::FaultKind::LetGo).
    pub fn ack(self) {
        self.answer(Answer::Ack);
    }

    /// Whether the operation has been called off, so that the outside may as well stop and [`ack`](Self::ack).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.side
            .as_ref()
            .is_some_and(|side| side.place.is_called_off())
    }

    fn answer(mut self, answer: Answer<T>) {
        if let Some(side) = self.side.take()
            && side.outlet.claim()
        {
            side.give(answer);
        }
    }
}

impl<T: Send + 'static> Completer<T> {
    /// Makes a number of the right to answer, which C code can keep as its user data. Allocates.
    ///
    /// Nothing answers by itself any more: if the number is lost, the waiter waits for good.
    #[must_use = "the waiter waits until the token is answered"]
    pub fn into_token(mut self) -> Token {
        let side = self.side.take().expect("only its end takes it");
        side.outlet.expose(Arc::new(Exposed(side.place)));
        Token::of(&side.outlet)
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if let Some(side) = self.side.take()
            && side.outlet.claim()
        {
            side.give(Answer::Fault(Fault::abandoned()));
        }
    }
}

impl<T> fmt::Debug for Completer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.side.as_ref().map(|side| side.outlet.token());
        f.debug_tuple("Completer").field(&token).finish()
    }
}
