//! Contexts: how long work is wanted, who may call it off, and values that go along with a request.
//!
//! A [`Context`] is a node of a tree. It is *over* when it was [cancelled](Context::cancel), when its deadline has passed, or when
//! that is so for a context it derives from. Each goroutine runs under one, the [`current`] context: it inherits its spawner's,
//! and [`Context::enter`] sets another for as long as a closure runs. Names and meaning are those of Go's package `context`,
//! except that a context need not be passed along by hand.
//!
//! ```
//! use std::io::{self, Read};
//! use std::time::Duration;
//! use urgo::context::Context;
//! use urgo::net::{TcpListener, TcpStream};
//!
//! urgo::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
//!     let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
//!     let request = Context::background().with_timeout(Duration::from_millis(5));
//!     // No call in here waits any longer, and neither does one in a goroutine that is spawned in here.
//!     let error = request.enter(|| stream.read(&mut [0; 16])).unwrap_err();
//!     assert_eq!(error.kind(), io::ErrorKind::TimedOut);
//! });
//! ```
//!
//! # What a context cuts short
//!
//! | call | when the current context is over |
//! |---|---|
//! | whatever returns an [`io::Result`](std::io::Result) and may wait | fails: kind `TimedOut` (deadline) or `Other` (cancelled), with a [`ContextError`] as source |
//! | `recv`, `send`, `lock`, `sleep`, `join` and the like, whose shape has no room for it | goes on waiting |
//! | [`ctx.recv(&r)`](Context::recv), [`ctx.send(&s, m)`](Context::send), [`ctx.lock(&m)`](Context::lock), [`ctx.read`](Context::read), [`ctx.write`](Context::write), [`ctx.sleep(d)`](Context::sleep), [`ctx.join(h)`](Context::join) | fails, by *that* context, whatever the current one is |
//! | `select!` with an arm `recv(ctx.done()) -> _` | takes that arm |
//!
//! Nothing is lost: a call that has read, written or accepted something returns it, and the error comes with the next call.
//! A call that begins under a context that was cancelled fails at once and does nothing; one that begins a few hundred
//! microseconds after the deadline may still succeed if it does not have to wait. Parts under
//! [`uncancellable`](crate::uncancellable) are not cut short.
//!
//! # Cost
//!
//! A call under a context looks at one word and, if there is a deadline, sets a timer of its worker: some ten nanoseconds and no
//! system call. Deadlines need no thread and no timer of their own. A cancellation tells workers, not goroutines: the
//! canceller pays for the contexts below and the hooks ([`done`](Context::done) channels, plain threads) on them; each worker
//! ends the waits of its own goroutines, a thousand at a time.
//!
//! # Rejected
//!
//! A registration per wait (two locked instructions each, on a line that all share); a timer per context (a hundred nanoseconds for
//! each request, most of which end in time).
//!
//! # Imports
//!
//! `ambient`, `chan`, `go`, `sync`, `time`, `sched`.

mod calls;
mod error;

pub use crate::ambient::ContextError;
pub use error::{JoinInterrupted, RecvError, SendError};

use crate::ambient::Node;
use crate::chan::{End, Receiver, never};
use crate::sched;
use crate::time::{Deadline, Instant, duration_ns};
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long work is wanted. See the [module](self).
///
/// Clones are the same context. Dropping one ends nothing. All methods may be called by goroutines of any runtime and by plain
/// threads.
#[derive(Clone, Default)]
pub struct Context {
    /// `None`: the background.
    node: Option<Arc<Node>>,
}

/// The context that the calling goroutine (or plain thread) runs under: that of the innermost [`Context::enter`], else its
/// spawner's at the time of the spawn, else the [background](Context::background). Blocks nothing.
///
/// ```
/// use urgo::context::{self, Context};
///
/// let context = Context::background().with_value(7u32);
/// context.enter(|| {
///     urgo::run(|| {
///         let seen = urgo::spawn(|| context::current().value::<u32>().copied());
///         assert_eq!(seen.join().unwrap(), Some(7));
///     });
/// });
/// assert_eq!(context::current(), Context::background());
/// ```
#[must_use]
pub fn current() -> Context {
    Context {
        node: sched::ambient::ambient(),
    }
}

impl Context {
    /// The context that is never over and has no values; where trees begin. Cancelling it does nothing.
    ///
    /// ```
    /// use urgo::context::Context;
    ///
    /// let background = Context::background();
    /// assert!(!background.cancel());
    /// assert_eq!(background.err(), None);
    /// ```
    #[must_use]
    pub const fn background() -> Context {
        Context { node: None }
    }

    /// A context below this one, to be cancelled by itself.
    ///
    /// ```
    /// use urgo::context::{Context, ContextError};
    ///
    /// let parent = Context::background().with_cancel();
    /// let child = parent.with_cancel();
    /// child.cancel();
    /// assert_eq!(parent.err(), None);
    /// parent.cancel();
    /// assert_eq!(parent.with_cancel().err(), Some(ContextError::Cancelled));
    /// ```
    #[must_use]
    pub fn with_cancel(&self) -> Context {
        self.child(sched::NEVER, None)
    }

    /// A context below this one that is over `timeout` from now, if this one is not before. A timeout that ends too late to say is none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::context::{Context, ContextError};
    ///
    /// let context = Context::background().with_timeout(Duration::ZERO);
    /// assert_eq!(context.err(), Some(ContextError::DeadlineExceeded));
    /// let context = Context::background().with_timeout(Duration::MAX);
    /// assert_eq!((context.err(), context.deadline()), (None, None));
    /// ```
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Context {
        self.child(sched::now_ns().saturating_add(duration_ns(timeout)), None)
    }

    /// As [`with_timeout`](Self::with_timeout), at a moment of std's clock or of the runtime's.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::context::Context;
    /// use urgo::time::Instant;
    ///
    /// let soon = Instant::now() + Duration::from_secs(1);
    /// let outer = Context::background().with_deadline(soon);
    /// let inner = outer.with_deadline(soon + Duration::from_secs(1));
    /// assert_eq!(inner.deadline(), Some(soon), "the earlier counts");
    /// ```
    #[must_use]
    pub fn with_deadline(&self, deadline: impl Deadline) -> Context {
        self.child(deadline.deadline_ns(), None)
    }

    /// A context below this one that carries `value`, which [`value`](Self::value) finds by its type. Use a type of your own.
    ///
    /// ```
    /// use urgo::context::Context;
    ///
    /// struct RequestId(u64);
    ///
    /// let context = Context::background().with_value(RequestId(42)).with_cancel();
    /// assert_eq!(context.value::<RequestId>().unwrap().0, 42);
    /// assert!(context.value::<String>().is_none());
    /// ```
    #[must_use]
    pub fn with_value<T: Any + Send + Sync>(&self, value: T) -> Context {
        self.child(sched::NEVER, Some(Box::new(value)))
    }

    fn child(&self, deadline: u64, value: Option<Box<dyn Any + Send + Sync>>) -> Context {
        Context {
            node: Some(Node::child(self.node.clone(), deadline, value)),
        }
    }

    /// The value of type `T` of this context, or of the nearest above it that has one. Takes as long as that is far away.
    #[must_use]
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.node.as_ref()?.value()
    }

    /// Ends this context and all below it, and the waits of those that run under them. Returns whether this call did; `false` if it
    /// was over. Blocks nothing. What was done before happens before others see it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::context::{self, Context, ContextError};
    ///
    /// urgo::run(|| {
    ///     let context = Context::background().with_cancel();
    ///     let sleeper = context.enter(|| {
    ///         urgo::spawn(|| context::current().sleep(Duration::from_secs(3600)))
    ///     });
    ///     assert!(context.cancel());
    ///     assert_eq!(sleeper.join().unwrap(), Err(ContextError::Cancelled));
    /// });
    /// ```
    pub fn cancel(&self) -> bool {
        self.cancel_for(None)
    }

    /// As [`cancel`](Self::cancel), and says why: [`cause`](Self::cause) of this context and those below returns it.
    ///
    /// ```
    /// use urgo::context::{Context, ContextError};
    ///
    /// let context = Context::background().with_cancel();
    /// context.cancel_cause("the disk is full");
    /// assert_eq!(context.err(), Some(ContextError::Cancelled));
    /// assert_eq!(context.cause().unwrap().to_string(), "the disk is full");
    /// ```
    pub fn cancel_cause(&self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> bool {
        self.cancel_for(Some(Arc::from(cause.into())))
    }

    fn cancel_for(&self, cause: Option<Arc<dyn Error + Send + Sync>>) -> bool {
        let Some(node) = &self.node else { return false };
        sched::ambient::cancel(node, cause) && node.ended() == Some(ContextError::Cancelled)
    }

    /// Why this context is over; `None` if it is not.
    #[must_use]
    pub fn err(&self) -> Option<ContextError> {
        sched::ambient::ended(self.node.as_ref()?)
    }

    /// What [`cancel_cause`](Self::cancel_cause) said, of this context or of the one above it that was cancelled; the same as
    /// [`err`](Self::err) if nothing was said.
    #[must_use]
    pub fn cause(&self) -> Option<Arc<dyn Error + Send + Sync>> {
        let error = self.err()?;
        let said = self.node.as_ref().and_then(|node| node.cause());
        Some(said.unwrap_or_else(|| Arc::new(error)))
    }

    /// When this context is over at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.node.as_ref()?.deadline();
        (deadline != sched::NEVER).then(|| Instant::from_ns(deadline))
    }

    /// A channel on which nothing is ever sent, and which is disconnected when this context is over: for
    /// [`select!`](crate::select!). Blocks nothing. The background's is [`never()`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::chan::bounded;
    /// use urgo::context::{Context, ContextError};
    ///
    /// urgo::run(|| {
    ///     let (_s, jobs) = bounded::<u32>(1);
    ///     let context = Context::background().with_timeout(Duration::from_millis(2));
    ///     urgo::select! {
    ///         recv(jobs) -> _ => unreachable!("there are none"),
    ///         recv(context.done()) -> _ => {}
    ///     }
    ///     assert_eq!(context.err(), Some(ContextError::DeadlineExceeded));
    /// });
    /// ```
    #[must_use]
    pub fn done(&self) -> Receiver<()> {
        let Some(node) = &self.node else {
            return never();
        };
        let make = || {
            let end: End<()> = End::at(node.deadline());
            let at_end = end.clone();
            if node.add_hook(move || at_end.close()).is_none() {
                end.close();
            }
            end
        };
        // Whoever waits keeps the context, and with it its place below its parent.
        node.attachment(make).receiver(node.clone())
    }

    /// Calls `f` under this context: it is the [`current`] one for `f` and for what `f` spawns. Ends with `f`, also if that
    /// panics.
    ///
    /// Under the background `f` is cut off from the contexts around it: for work that must go on.
    ///
    /// ```
    /// use urgo::context::{self, Context};
    ///
    /// let context = Context::background().with_value("inner");
    /// let found = context.enter(|| context::current().value::<&str>().copied());
    /// assert_eq!(found, Some("inner"));
    /// ```
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        sched::ambient::enter(self.node.as_ref(), f)
    }
}

/// Whether both are the same context. Any two backgrounds are.
impl PartialEq for Context {
    fn eq(&self, other: &Context) -> bool {
        match (&self.node, &other.node) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("err", &self.err())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
