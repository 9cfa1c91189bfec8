//! The waiter's side.

use super::answer::{Answer, Place};
use super::completer::Completer;
use super::fault::{Fault, RegisterError, WaitError};
use crate::goroutine::discard;
use crate::park::Outcome;
use crate::sched::outside::{Ended, Registration};
use crate::sched::{self, NEVER};
use crate::time::{Deadline, duration_ns};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// An operation that is registered and not yet submitted: nobody outside knows of it.
///
/// It stays on the thread that has registered it: with its goroutine, or with a plain thread. Dropping it undoes the registration.
///
/// ```compile_fail
/// let operation = urgo::host::Operation::<()>::register().unwrap();
/// std::thread::spawn(move || drop(operation)); // what goes to other threads is the completer
/// ```
#[must_use = "an operation does nothing until it is submitted"]
pub struct Operation<'a, T> {
    inner: Inner<'a, T>,
}

/// An operation that the outside has, or has had.
///
/// Dropping it calls the operation off and waits for the outside to let go, as [`wait_timeout`](Self::wait_timeout) does when its time is
/// over.
#[must_use = "dropping it calls the operation off"]
pub struct Submitted<'a, T> {
    inner: Inner<'a, T>,
}

impl<'a, T> Operation<'a, T> {
    /// Registers an operation of the calling goroutine or plain thread. Blocks nothing.
    ///
    /// # Errors
    ///
    /// [`RegisterError`]: too many.
    pub fn register() -> Result<Operation<'a, T>, RegisterError> {
        sched::unwind_if_cancelled();
        let registration = Registration::new().map_err(RegisterError::from_refused)?;
        Ok(Operation {
            inner: Inner {
                registration,
                place: Arc::new(Place::new()),
                on_cancel: None,
                needs_ack: true,
                is_submitted: false,
                is_over: false,
                stays: PhantomData,
            },
        })
    }

    /// Says how to ask the outside to stop.
    ///
    /// `ask` is called at most once, on the waiting goroutine's own stack with no lock held, if the wait is called off (by its deadline, a
    /// cancellation, a drop) before the outside has answered. It may borrow, and may wait; its waits are not cut short. The outside
    /// may be answering at that very moment.
    ///
    /// Without it, the outside learns of it by [`Completer::is_cancelled`] if it asks.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use urgo::host::{Operation, WaitError};
    ///
    /// urgo::run(|| {
    ///     let (stop, stopped) = mpsc::channel();
    ///     let submitted = Operation::<()>::register()
    ///         .unwrap()
    ///         .on_cancel(|| stop.send(()).unwrap())
    ///         .submit(|completer| {
    ///             std::thread::spawn(move || {
    ///                 stopped.recv().unwrap(); // works, until it is told to stop
    ///                 completer.ack();
    ///             });
    ///         });
    ///     let outcome = submitted.wait_timeout(Duration::from_millis(1));
    ///     assert!(matches!(outcome, Err(WaitError::TimedOut))); // and the thread has let go
    /// });
    /// ```
    pub fn on_cancel(mut self, ask: impl FnOnce() + 'a) -> Self {
        self.inner.on_cancel = Some(Box::new(ask));
        self
    }

    /// A wait that is called off ends at once, without waiting for the outside to let go. For requests that hold nothing: the outside may
    /// go on with its work for as long as it likes, and what it answers then is dropped on its own thread.
    pub fn without_ack(mut self) -> Self {
        self.inner.needs_ack = false;
        self
    }

    /// Hands the operation to the outside: `start` takes the completer to it.
    ///
    /// `start` runs at once, on the caller. It may answer by itself; the answer is seen by the wait. If it panics, the operation is called
    /// off like one that is dropped.
    pub fn submit(self, start: impl FnOnce(Completer<T>)) -> Submitted<'a, T> {
        match self.try_submit(|completer| {
            start(completer);
            Ok::<(), std::convert::Infallible>(())
        }) {
            Ok(submitted) => submitted,
            Err(never) => match never {},
        }
    }

    /// As [`submit`](Self::submit), for a `start` that may fail. Blocks the goroutine if it fails after it has given the completer
    /// away.
    ///
    /// # Errors
    ///
    /// `start`'s own. The operation has been called off then, like one that is dropped: whoever has its completer must let go.
    pub fn try_submit<E>(
        mut self,
        start: impl FnOnce(Completer<T>) -> Result<(), E>,
    ) -> Result<Submitted<'a, T>, E> {
        self.inner.is_submitted = true;
        let outlet = self.inner.registration.submit();
        start(Completer::new(outlet, self.inner.place.clone()))?;
        Ok(Submitted { inner: self.inner })
    }
}

impl<T> Submitted<'_, T> {
    /// Waits for the answer. Blocks the calling goroutine or plain thread.
    ///
    /// A goroutine that is cancelled calls the operation off, waits for the outside to let go, and unwinds; if the outside then says that the
    /// operation has failed, the fault is returned, and the goroutine unwinds from its next wait. When the caller's
    /// [context](crate::context) is over the operation is called off, too, and the wait returns.
    ///
    /// # Errors
    ///
    /// [`WaitError::Fault`], [`WaitError::Context`].
    ///
    /// # Panics
    ///
    /// With the panic of the [`on_cancel`](Operation::on_cancel) hook, after the outside has let go; whatever it answered is dropped then.
    pub fn wait(self) -> Result<T, WaitError> {
        self.inner.wait(NEVER)
    }

    /// As [`wait`](Self::wait), for at most `timeout`, and then until the outside has let go.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(self, timeout: Duration) -> Result<T, WaitError> {
        self.inner
            .wait(sched::now_ns().saturating_add(duration_ns(timeout)))
    }

    /// As [`wait_timeout`](Self::wait_timeout), until `deadline`.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_deadline(self, deadline: impl Deadline) -> Result<T, WaitError> {
        self.inner.wait(deadline.deadline_ns())
    }

    /// Whether the answer stands, so that no wait for it blocks or can be called off.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.inner.registration.is_applied()
    }
}

struct Inner<'a, T> {
    registration: Registration,
    place: Arc<Place<T>>,
    on_cancel: Option<Box<dyn FnOnce() + 'a>>,
    needs_ack: bool,
    is_submitted: bool,
    /// The registration has ended, or never will.
    is_over: bool,
    /// It stays on its thread: answers are applied there.
    stays: PhantomData<*const ()>,
}

/// What is left to do after an operation was called off.
#[derive(Default)]
struct CalledOff {
    fault: Option<Fault>,
    /// Of the hook.
    panic: Option<Box<dyn Any + Send>>,
}

impl<T> Inner<'_, T> {
    fn wait(mut self, deadline: u64) -> Result<T, WaitError> {
        let context = sched::ambient::in_force();
        let outcome = match &context {
            None => self.registration.wait(deadline),
            Some(node) => {
                let until = deadline.min(node.deadline()).min(sched::FAR);
                sched::ambient::heeding(node, || self.registration.wait(until))
            }
        };
        if outcome == Some(Outcome::Woken) {
            return self.take().map_err(WaitError::Fault);
        }
        let CalledOff { fault, panic } = self.call_off();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        if let Some(fault) = fault {
            return Err(WaitError::Fault(fault));
        }
        if outcome == Some(Outcome::Cancelled) {
            sched::unwind_if_cancelled();
        }
        let ended = context.filter(|node| node.deadline() <= deadline || node.ended().is_some());
        match ended.and_then(|node| sched::ambient::ended(&node)) {
            Some(error) => Err(WaitError::Context(error)),
            None => Err(WaitError::TimedOut),
        }
    }

    /// The answer, which stands.
    fn take(&mut self) -> Result<T, Fault> {
        let answer = match self.place.close() {
            Some(Answer::Value(value)) => Ok(value),
            Some(Answer::Fault(fault)) => Err(fault),
            Some(Answer::Ack) => Err(Fault::let_go()),
            None => unreachable!("an answer is in its place before it is posted"),
        };
        self.end(if answer.is_ok() {
            Ended::Completed
        } else {
            Ended::Faulted
        });
        answer
    }

    /// Asks the outside to stop, and waits until it has let go. Whatever value it has left is dropped here.
    fn call_off(&mut self) -> CalledOff {
        let mut left = CalledOff::default();
        let is_answered = self.place.call_off();
        if !is_answered && let Some(ask) = self.on_cancel.take() {
            left.panic = catch_unwind(AssertUnwindSafe(|| sched::uncancellable(ask))).err();
        }
        let stands = if !self.needs_ack {
            self.registration.is_applied()
        } else if self.registration.wait_regardless().is_some() {
            true
        } else {
            // In a thread-local's destructor, or on a worker's own stack: nobody would apply the answer. The registration is leaked, and
            // the outside drops its value itself.
            self.is_over = true;
            false
        };
        match self.place.close() {
            Some(Answer::Fault(fault)) if stands => {
                self.end(Ended::Faulted);
                left.fault = Some(fault);
            }
            unwanted => {
                self.end(Ended::Cancelled);
                drop(unwanted);
            }
        }
        left
    }

    fn end(&mut self, ended: Ended) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.registration.end(ended);
        }
    }
}

impl<T> Drop for Inner<'_, T> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if !self.is_submitted {
            self.end(Ended::Cancelled);
        } else if self.registration.is_applied() {
            drop(self.take());
        } else if let Some(panic) = self.call_off().panic {
            if std::thread::panicking() {
                // One panic is on its way already, and this one has been reported.
                discard(panic);
            } else {
                resume_unwind(panic);
            }
        }
    }
}

impl<T> fmt::Debug for Operation<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Operation")
            .field(&self.inner.registration.token())
            .finish()
    }
}

impl<T> fmt::Debug for Submitted<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Submitted")
            .field(&self.inner.registration.token())
            .finish()
    }
}
