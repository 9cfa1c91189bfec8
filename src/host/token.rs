//! The outside's side as a number, for C.

use super::answer::{Answer, AnyPlace, Place};
use super::completer::Side;
use super::fault::Fault;
use crate::sched::outside::{self, Outlet};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A [`Completer`](super::Completer) as a number: for foreign functions, which hand it back to a callback.
///
/// Any number may be answered, from any thread, any number of times, before, during and after the life of its runtime. If it is not
/// that of an operation that is out, unanswered, and was turned into a token, nothing happens but that a counter is moved
/// ([`counters`](super::counters)). (Not from a signal handler: answering takes a lock.) A number is never given twice in a process. On 64-bit targets it fits into a `void *`.
///
/// ```
/// use std::ffi::c_void;
/// use urgo::host::{Operation, Token};
///
/// /// As a C library would have it: `start(callback, user_data)`, and later `callback(status, user_data)` on some thread.
/// type Callback = extern "C" fn(i32, *mut c_void);
///
/// fn start(callback: Callback, user_data: *mut c_void) {
///     let user_data = user_data as usize;
///     std::thread::spawn(move || callback(7, user_data as *mut c_void));
/// }
///
/// extern "C" fn on_done(status: i32, user_data: *mut c_void) {
///     Token::from_raw(user_data as u64).complete(status);
/// }
///
/// urgo::run(|| {
///     let status = Operation::<i32>::register()
///         .unwrap()
///         .submit(|completer| start(on_done, completer.into_token().into_raw() as *mut c_void))
///         .wait();
///     assert_eq!(status.unwrap(), 7);
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(outside::Token);

/// What a token leads to.
pub(super) struct Exposed(pub(super) Arc<dyn AnyPlace>);

impl Token {
    pub(super) fn of(outlet: &Outlet) -> Token {
        Token(outlet.token())
    }

    /// The number. Never 0.
    #[must_use]
    pub fn into_raw(self) -> u64 {
        self.0.into_raw()
    }

    /// The token of a number, whatever number that is.
    #[must_use]
    pub fn from_raw(raw: u64) -> Token {
        Token(outside::Token::from_raw(raw))
    }

    /// As [`Completer::complete`](super::Completer::complete). A value that is not of the operation's type is dropped, and the operation
    /// ends with a fault of the kind [`WrongType`](super::FaultKind::WrongType): mind the type of number literals.
    pub fn complete<T: Send + 'static>(self, value: T) {
        let Some((outlet, place)) = self.claim() else {
            return;
        };
        let any_place: Arc<dyn Any + Send + Sync> = place.clone();
        match any_place.downcast::<Place<T>>() {
            Ok(place) => Side { outlet, place }.give(Answer::Value(value)),
            Err(_) => {
                let fault = Fault::wrong_type(std::any::type_name::<T>());
                give_fault(&outlet, &*place, fault);
            }
        }
    }

    /// As [`Completer::fault`](super::Completer::fault).
    pub fn fault(self, fault: impl Into<Fault>) {
        // Before the claim: it may panic.
        let fault = fault.into();
        if let Some((outlet, place)) = self.claim() {
            give_fault(&outlet, &*place, fault);
        }
    }

    /// As [`Completer::ack`](super::Completer::ack).
    pub fn ack(self) {
        if let Some((outlet, place)) = self.claim()
            && place.put_ack()
        {
            outlet.post();
        }
    }

    /// Whether the operation is known to have been called off. `false` also if it is over, or never was.
    #[must_use]
    pub fn is_cancelled(self) -> bool {
        outside::look_up(self.0)
            .and_then(|(_, reach)| place_of(&reach))
            .is_some_and(|place| place.is_called_off())
    }

    /// The right to answer, if there is one to be had; if not, that is counted.
    fn claim(self) -> Option<(Outlet, Arc<dyn AnyPlace>)> {
        let (outlet, reach) = outside::find(self.0)?;
        let place = place_of(&reach)?;
        outlet.claim().then_some((outlet, place))
    }
}

fn place_of(reach: &outside::Reach) -> Option<Arc<dyn AnyPlace>> {
    let exposed = reach.downcast_ref::<Exposed>();
    exposed.map(|exposed| exposed.0.clone())
}

/// After a claim.
fn give_fault(outlet: &Outlet, place: &dyn AnyPlace, fault: Fault) {
    match place.put_fault(fault) {
        Ok(()) => outlet.post(),
        Err(unwanted) => drop(unwanted),
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
