//! Calls that wait no longer than a context lasts, for those whose usual shape has no room for its error.

use super::error::{JoinInterrupted, RecvError, SendError};
use super::{Context, ContextError};
use crate::ambient::Node;
use crate::chan::{Receiver, RecvTimeoutError, SendTimeoutError, Sender};
use crate::go::{JoinError, JoinHandle};
use crate::park::{Outcome, WaitReason};
use crate::sched;
use crate::sync::{self, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::time::duration_ns;
use std::time::Duration;

impl Context {
    /// Calls `call` without a wait first, then with the context's deadline, after which it returns `None`; so it does when
    /// the context is cancelled.
    fn heeded<R>(&self, mut call: impl FnMut(u64) -> Option<R>) -> Result<R, ContextError> {
        let node = self
            .node
            .as_ref()
            .filter(|_| !sched::ambient::is_shielded());
        let Some(node) = node else {
            loop {
                if let Some(result) = call(sched::NEVER) {
                    return Ok(result);
                }
            }
        };
        if let Some(error) = sched::ambient::ended_lately(node) {
            return Err(error);
        }
        if let Some(result) = call(NO_WAIT) {
            return Ok(result);
        }
        sched::ambient::heeding(node, || {
            loop {
                // Before every wait: who cancels from now on finds it.
                if let Some(error) = sched::ambient::ended(node) {
                    return Err(error);
                }
                if let Some(result) = call(deadline_of(node)) {
                    return Ok(result);
                }
            }
        })
    }

    /// As [`Receiver::recv`], but waits no longer than this context lasts.
    ///
    /// Blocks the calling goroutine (or plain thread). Takes no message if it fails.
    ///
    /// # Errors
    ///
    /// [`RecvError`]: `Disconnected` if the channel is empty and nothing more can come, `Context` if the context is over, also if
    /// there is a message.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::chan::bounded;
    /// use urgo::context::{Context, ContextError, RecvError};
    ///
    /// urgo::run(|| {
    ///     let (s, r) = bounded(1);
    ///     let context = Context::background().with_timeout(Duration::from_millis(2));
    ///     s.send(1).unwrap();
    ///     assert_eq!(context.recv(&r), Ok(1));
    ///     assert_eq!(context.recv(&r), Err(RecvError::Context(ContextError::DeadlineExceeded)));
    /// });
    /// ```
    pub fn recv<T>(&self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        let received = self.heeded(|deadline| match receiver.recv_ns(deadline) {
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(RecvError::Disconnected)),
            Ok(message) => Some(Ok(message)),
        });
        received.map_err(RecvError::Context)?
    }

    /// As [`Sender::send`], but waits no longer than this context lasts.
    ///
    /// Blocks the calling goroutine (or plain thread). A message that was not sent is in the error.
    ///
    /// # Errors
    ///
    /// [`SendError`]: `Disconnected` if nobody receives, `Context` if the context is over, also if there is room.
    ///
    /// ```
    /// use urgo::chan::bounded;
    /// use urgo::context::{Context, ContextError, SendError};
    ///
    /// urgo::run(|| {
    ///     let (s, _r) = bounded(1);
    ///     let context = Context::background().with_cancel();
    ///     assert_eq!(context.send(&s, "first"), Ok(()));
    ///     let full = context.enter(|| {
    ///         urgo::spawn(move || urgo::context::current().send(&s, "second"))
    ///     });
    ///     context.cancel();
    ///     assert_eq!(full.join().unwrap(), Err(SendError::Context("second", ContextError::Cancelled)));
    /// });
    /// ```
    pub fn send<T>(&self, sender: &Sender<T>, message: T) -> Result<(), SendError<T>> {
        let mut unsent = Some(message);
        let sent = self.heeded(|deadline| {
            let message = unsent.take()?;
            match sender.send_ns(message, deadline) {
                Ok(()) => Some(Ok(())),
                Err(SendTimeoutError::Timeout(message)) => {
                    unsent = Some(message);
                    None
                }
                Err(SendTimeoutError::Disconnected(message)) => {
                    Some(Err(SendError::Disconnected(message)))
                }
            }
        });
        match (sent, unsent) {
            (Ok(sent), _) => sent,
            (Err(error), Some(message)) => Err(SendError::Context(message, error)),
            (Err(_), None) => unreachable!("a message that was not sent is still here"),
        }
    }

    /// As [`Mutex::lock`](crate::sync::Mutex), but waits no longer than this context lasts.
    ///
    /// # Errors
    ///
    /// [`ContextError`] if the context is over, also if the mutex is free.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::context::{Context, ContextError};
    /// use urgo::sync::Mutex;
    ///
    /// urgo::run(|| {
    ///     let mutex = Mutex::new(1);
    ///     let context = Context::background().with_timeout(Duration::from_millis(2));
    ///     let mut guard = context.lock(&mutex).unwrap();
    ///     *guard += 1;
    ///     assert_eq!(context.lock(&mutex).err(), Some(ContextError::DeadlineExceeded));
    /// });
    /// ```
    pub fn lock<'a, T: ?Sized>(
        &self,
        mutex: &'a Mutex<T>,
    ) -> Result<MutexGuard<'a, T>, ContextError> {
        self.heeded(|deadline| sync::lock_until(mutex, deadline))
    }

    /// As `RwLock::read`, but waits no longer than this context lasts.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub fn read<'a, T: ?Sized>(
        &self,
        lock: &'a RwLock<T>,
    ) -> Result<RwLockReadGuard<'a, T>, ContextError> {
        self.heeded(|deadline| sync::read_until(lock, deadline))
    }

    /// As `RwLock::write`, but waits no longer than this context lasts.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub fn write<'a, T: ?Sized>(
        &self,
        lock: &'a RwLock<T>,
    ) -> Result<RwLockWriteGuard<'a, T>, ContextError> {
        self.heeded(|deadline| sync::write_until(lock, deadline))
    }

    /// As [`sleep`](crate::sleep), but no longer than this context lasts.
    ///
    /// # Errors
    ///
    /// [`ContextError`] if the context was over before the time was.
    pub fn sleep(&self, duration: Duration) -> Result<(), ContextError> {
        let end = sched::now_ns().saturating_add(duration_ns(duration));
        self.heeded(|deadline| {
            if deadline == NO_WAIT {
                return None;
            }
            if end <= sched::now_ns() {
                return Some(());
            }
            let waiter = sched::new_waiter();
            if sched::wait(&waiter, WaitReason::Timer, end.min(deadline)) == Outcome::Cancelled {
                sched::unwind_if_cancelled();
            }
            (end <= sched::now_ns()).then_some(())
        })
    }

    /// As [`JoinHandle::join`], but waits no longer than this context lasts.
    ///
    /// # Errors
    ///
    /// [`JoinInterrupted`] with the handle, if the context is over, also if the goroutine has ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::context::{Context, ContextError};
    ///
    /// urgo::run(|| {
    ///     let (_s, r) = urgo::chan::bounded::<()>(0);
    ///     let context = Context::background().with_timeout(Duration::from_millis(2));
    ///     let waits = urgo::spawn(move || r.recv());
    ///     let interrupted = context.join(waits).unwrap_err();
    ///     assert_eq!(interrupted.error, ContextError::DeadlineExceeded);
    ///     assert!(!interrupted.handle.is_finished());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If a goroutine joins itself.
    pub fn join<T>(
        &self,
        handle: JoinHandle<T>,
    ) -> Result<Result<T, JoinError>, JoinInterrupted<T>> {
        match self.heeded(|deadline| {
            let is_over = match deadline {
                NO_WAIT => handle.is_finished(),
                _ => handle.wait_until(deadline),
            };
            is_over.then_some(())
        }) {
            Ok(()) => Ok(handle.join()),
            Err(error) => Err(JoinInterrupted { handle, error }),
        }
    }
}

/// The deadline of a look that does not wait.
const NO_WAIT: u64 = 0;

/// For a wait that may end early although there is no deadline.
fn deadline_of(node: &Node) -> u64 {
    node.deadline().min(sched::FAR)
}
