//! Join handles.
//!
//! # Safety
//!
//! A handle owns one end of a control block; the join word (see `goroutine::join_word`) says when the result is there and
//! who frees the block.

#![allow(unsafe_code)]

use crate::goroutine::{End, Goroutine, Payload, StackError, take_result};
use crate::park::{Outcome, WaitReason};
use crate::sched;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Why a goroutine has no value to give.
#[non_exhaustive]
pub enum JoinError {
    /// It panicked; this is the payload.
    Panic(Box<dyn Any + Send>),
    /// It was cancelled, or its runtime ended before it did.
    Cancelled,
    /// It called [`exit_goroutine`](crate::exit_goroutine).
    Exited,
    /// No stack could be had for it, so it never started.
    NoStack(StackError),
}

impl JoinError {
    /// The panic's payload, to be handed to `std::panic::resume_unwind`.
    ///
    /// # Errors
    ///
    /// The error itself if it is not a panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, JoinError> {
        match self {
            JoinError::Panic(payload) => Ok(payload),
            other => Err(other),
        }
    }

    /// Whether the goroutine panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, JoinError::Panic(_))
    }

    /// Whether the goroutine was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, JoinError::Cancelled)
    }
}

/// What a panic's payload says, if it says something.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panic(payload) => match panic_message(&**payload) {
                Some(message) => write!(f, "the goroutine panicked: {message}"),
                None => f.write_str("the goroutine panicked"),
            },
            JoinError::Cancelled => f.write_str("the goroutine was cancelled"),
            JoinError::Exited => f.write_str("the goroutine called exit_goroutine"),
            JoinError::NoStack(error) => write!(f, "the goroutine could not start: {error}"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panic(payload) => f
                .debug_tuple("Panic")
                .field(&panic_message(&**payload).unwrap_or(".."))
                .finish(),
            JoinError::Cancelled => f.write_str("Cancelled"),
            JoinError::Exited => f.write_str("Exited"),
            JoinError::NoStack(error) => f.debug_tuple("NoStack").field(error).finish(),
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JoinError::NoStack(error) => Some(error),
            _ => None,
        }
    }
}

/// One end of a goroutine's control block. Dropping it detaches the goroutine.
pub(crate) struct RawJoin<T> {
    block: NonNull<Goroutine>,
    result: PhantomData<T>,
}

// SAFETY: the handle gives out the result, which is sent with it; the block's other end is synchronised by the join word.
unsafe impl<T: Send> Send for RawJoin<T> {}
// SAFETY: through a shared handle only atomics are reached.
unsafe impl<T: Send> Sync for RawJoin<T> {}

impl<T> RawJoin<T> {
    /// # Safety
    ///
    /// The goroutine's result type is `T`, and no other handle of it exists.
    #[inline]
    pub(crate) unsafe fn new(block: NonNull<Goroutine>) -> RawJoin<T> {
        RawJoin {
            block,
            result: PhantomData,
        }
    }

    #[inline]
    fn block(&self) -> &Goroutine {
        // SAFETY: the block is not freed before both ends have let go, and this is one.
        unsafe { self.block.as_ref() }
    }

    pub(crate) fn id(&self) -> u64 {
        self.block().id()
    }

    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.block().join.is_done()
    }

    pub(crate) fn cancel(&self) {
        sched::cancel(self.block());
    }

    /// Waits for the result. A cancelled goroutine unwinds from here, and then this handle detaches.
    #[inline]
    pub(crate) fn join(self) -> End<T> {
        if !self.is_finished() {
            while !self.wait(sched::NEVER) {}
        }
        let this = ManuallyDrop::new(self);
        let block = this.block;
        // SAFETY: done, so the result is there; the handle is not dropped, so nobody else takes it, and the block is
        // freed once.
        unsafe {
            let end = take_result(block.as_ref());
            sched::free(block);
            end
        }
    }

    /// Waits until the result is there (`true`) or the deadline has passed. A cancelled goroutine unwinds from here.
    pub(crate) fn wait_until(&self, deadline: u64) -> bool {
        self.is_finished() || self.wait(deadline)
    }

    #[cold]
    fn wait(&self, deadline: u64) -> bool {
        let g = self.block();
        if sched::current().is_some_and(|me| std::ptr::eq(me, g)) {
            panic!("a goroutine that joins itself waits for ever");
        }
        loop {
            let waiter = sched::new_waiter();
            g.joiner.set(&raw const waiter);
            if !g.join.announce() {
                return true;
            }
            let outcome = sched::wait(&waiter, WaitReason::Join, deadline);
            if outcome == Outcome::Woken {
                return true;
            }
            // Cancelled, or too late: take the address back before the waiter goes.
            if !g.join.retract() {
                // The goroutine has ended meanwhile and looks at the waiter just now, for an instant.
                while !g.join.is_released() {
                    std::thread::yield_now();
                }
                return true;
            }
            if outcome == Outcome::TimedOut {
                return false;
            }
            sched::unwind_if_cancelled();
        }
    }
}

impl<T> Drop for RawJoin<T> {
    fn drop(&mut self) {
        let g = self.block();
        if g.join.detach() {
            // SAFETY: done and this end lets go, so the block is ours alone; its result was not taken.
            unsafe {
                (g.vtable().drop_result)(g);
                sched::free(self.block);
            }
        }
    }
}

/// The right to a goroutine's result. Dropping it detaches the goroutine, which runs on.
///
/// ```
/// urgo::run(|| {
///     let handle = urgo::spawn(|| {
///         if true {
///             panic!("of its own");
///         }
///     });
///     let error = handle.join().unwrap_err();
///     assert!(error.is_panic() && error.to_string().contains("of its own"));
/// });
/// ```
pub struct JoinHandle<T> {
    raw: RawJoin<T>,
}

impl<T> JoinHandle<T> {
    #[inline]
    pub(crate) fn new(raw: RawJoin<T>) -> JoinHandle<T> {
        JoinHandle { raw }
    }

    /// Waits for the goroutine's end and takes its value.
    ///
    /// Blocks the calling goroutine, or the calling thread if that is no goroutine. What the goroutine did happens before
    /// this returns.
    ///
    /// # Errors
    ///
    /// [`JoinError`]: it panicked, was cancelled, exited, or could not start.
    ///
    /// # Panics
    ///
    /// If a goroutine joins itself.
    #[inline]
    pub fn join(self) -> Result<T, JoinError> {
        match self.raw.join() {
            End::Value(value) => Ok(value),
            End::Panic(payload) => Err(JoinError::Panic(payload as Payload)),
            End::Cancelled => Err(JoinError::Cancelled),
            End::Exited => Err(JoinError::Exited),
            End::NoStack(error) => Err(JoinError::NoStack(error)),
        }
    }

    /// Whether the goroutine has ended. Blocks nothing; once `true`, [`join`](Self::join) returns at once.
    pub fn is_finished(&self) -> bool {
        self.raw.is_finished()
    }

    pub(crate) fn wait_until(&self, deadline: u64) -> bool {
        self.raw.wait_until(deadline)
    }

    /// The goroutine's id: unique in its runtime, in spawn order on each worker.
    pub fn id(&self) -> u64 {
        self.raw.id()
    }

    /// Ends the goroutine from outside: it unwinds from its current wait, or from its next one.
    ///
    /// From any thread, at any time; blocks nothing, and does not wait for the goroutine's end. Its destructors run, and
    /// [`join`](Self::join) says [`JoinError::Cancelled`]. One that has not started drops its closure without calling it.
    /// On one that has ended, or whose runtime has, nothing happens.
    ///
    /// A wait ends in whatever way leaves nothing half-done: an operation's memory stays the kernel's until its last
    /// completion, and if it has had an effect (bytes, a connection) its result is returned and the next wait unwinds. Not cut short are: waits
    /// inside [`uncancellable`](crate::uncancellable), waits of a `Drop` while the goroutine unwinds,
    /// [`blocking`](crate::blocking) calls, and locking without a deadline; then the wait after it unwinds. A goroutine that comes to no wait runs on, and if it
    /// returns, its value is there; [`safepoint`](crate::safepoint) counts as a wait. One that catches the unwinding
    /// (`catch_unwind`) unwinds from its next wait again, and from every one after that.
    ///
    /// Goroutines of one worker unwind in the order in which one thread has cancelled them. As any unwinding, this poisons what a panic would
    /// poison: locks of std that are held, a [`Once`](crate::sync::Once) that runs.
    ///
    /// ```
    /// urgo::run(|| {
    ///     let (sender, receiver) = urgo::chan::unbounded::<u32>();
    ///     let reader = urgo::spawn(move || receiver.recv());
    ///     reader.cancel();
    ///     assert!(reader.join().unwrap_err().is_cancelled());
    ///     assert!(sender.send(1).is_err(), "the receiver is gone");
    /// });
    /// ```
    pub fn cancel(&self) {
        self.raw.cancel();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .field("is_finished", &self.is_finished())
            .finish()
    }
}
