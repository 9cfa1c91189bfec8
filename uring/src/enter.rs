//! The one door to `io_uring_enter`. Every call goes through [`enter`], for rings with a plan of faults behind `Ring::enter_or_fail`.
//!
//! **What each errno means in this call, and what is done:**
//!
//! | errno | meaning here | action |
//! |---|---|---|
//! | `ETIME` | the wait's deadline passed | [`Entered::TimedOut`] |
//! | `EINTR` | a signal came while waiting, nothing had been submitted | [`Entered::Interrupted`] |
//! | `EAGAIN`, `ENOMEM` | no memory for a request; the SQEs stay queued | [`Entered::Stalled`]: reap, try later |
//! | `EBUSY` | completions are backed up; the SQEs stay queued | [`Entered::Stalled`]: reap, then again |
//! | `EBADR` | the kernel lost a completion for want of memory | fatal: some op can never be acknowledged |
//! | `EEXIST` | not the ring's own thread | fatal: `Ring` is `!Send`, someone broke that |
//! | `EPERM`, `EACCES`, `ENOSYS` | a filter was put on after set-up | fatal: memory in flight can never be got back |
//! | `EBADF`, `EBADFD`, `EFAULT`, `EINVAL`, `ENXIO`, `EOPNOTSUPP`, `EOWNERDEAD` | our own arguments are wrong | fatal |
//!
//! A positive return says how many SQEs were taken, and nothing else: with at least one taken, the kernel hides `ETIME` and
//! `EINTR` of the wait behind the count; with fewer taken than asked, it did not wait at all. So callers look at the
//! queues again after every return.
//!
//! *Fatal* writes one line with `write(2)` and aborts: no goroutine can be told, since the memory its op names can neither
//! be freed nor be waited for.
//!
//! # Safety
//!
//! `Submitter::enter` is unsafe because its argument pointer and size must fit the flags. Here that is always either no
//! argument or one `WaitArgument` with `EXT_ARG`.

#![allow(unsafe_code)]

use io_uring::{EnterFlags, IoUring};

use crate::host;

/// `struct io_uring_getevents_arg`. No signal mask: the wait ends on any signal.
#[repr(C)]
struct WaitArgument {
    sigmask: u64,
    sigmask_bytes: u32,
    min_wait_usec: u32,
    timespec: u64,
}

#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

const _: () = assert!(size_of::<WaitArgument>() == 24 && size_of::<KernelTimespec>() == 16);

/// Deadlines at or beyond this are "never": 2^62 ns is 146 years after boot, and kernels add to it without checking.
const DEADLINE_NEVER_NS: u64 = 1 << 62;

/// What came of one enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Entered {
    /// This many SQEs were taken. Says nothing about completions.
    Taken(u32),
    TimedOut,
    Interrupted,
    Stalled,
}

/// How one enter behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Submit only.
    Submit,
    /// Submit and run deferred completions; never sleep.
    Reap,
    /// Submit, run deferred completions, and sleep until one record or the deadline.
    Sleep {
        deadline_ns: Option<u64>,
        is_absolute: bool,
        no_iowait: bool,
    },
}

/// Owner thread only.
#[inline]
pub(crate) fn enter(io: &IoUring, to_submit: u32, mode: Mode) -> Entered {
    match try_enter(io, to_submit, mode) {
        Ok(taken) => Entered::Taken(taken),
        Err(errno) => answer(errno),
    }
}

/// As [`enter`], with the errno instead of the answer. For probing at set-up.
pub(crate) fn try_enter(io: &IoUring, to_submit: u32, mode: Mode) -> Result<u32, i32> {
    let (min_complete, flags, deadline_ns) = match mode {
        Mode::Submit => (0, EnterFlags::empty(), None),
        Mode::Reap => (0, EnterFlags::GETEVENTS, None),
        Mode::Sleep {
            deadline_ns,
            is_absolute,
            no_iowait,
        } => {
            let mut flags = EnterFlags::GETEVENTS;
            flags.set(EnterFlags::NO_IOWAIT, no_iowait);
            let deadline_ns = deadline_ns.filter(|&at| at < DEADLINE_NEVER_NS);
            flags.set(EnterFlags::EXT_ARG, deadline_ns.is_some());
            flags.set(EnterFlags::ABS_TIMER, deadline_ns.is_some() && is_absolute);
            (1, flags, deadline_ns)
        }
    };
    let submitter = io.submitter();
    let result = match deadline_ns {
        None => {
            // SAFETY: because without EXT_ARG a null argument is a null signal mask; established by the match above.
            unsafe { submitter.enter::<WaitArgument>(to_submit, min_complete, flags.bits(), None) }
        }
        Some(at) => {
            let timeout_ns = if flags.contains(EnterFlags::ABS_TIMER) {
                at
            } else {
                at.saturating_sub(host::monotonic_ns())
            };
            let timespec = KernelTimespec {
                seconds: (timeout_ns / 1_000_000_000) as i64,
                nanoseconds: (timeout_ns % 1_000_000_000) as i64,
            };
            let argument = WaitArgument {
                sigmask: 0,
                sigmask_bytes: 0,
                min_wait_usec: 0,
                timespec: std::ptr::from_ref(&timespec) as u64,
            };
            // SAFETY: because EXT_ARG is set and the argument is the kernel's 24-byte structure whose timespec pointer is
            // to a local; established by the lines above; until the call returns, after which the kernel keeps neither.
            unsafe { submitter.enter(to_submit, min_complete, flags.bits(), Some(&argument)) }
        }
    };
    result
        .map(|taken| taken as u32)
        .map_err(|error| error.raw_os_error().unwrap_or(0))
}

#[cold]
pub(crate) fn answer(errno: i32) -> Entered {
    match errno {
        libc::ETIME => Entered::TimedOut,
        libc::EINTR => Entered::Interrupted,
        libc::EAGAIN | libc::ENOMEM | libc::EBUSY => Entered::Stalled,
        libc::EBADR => fatal(
            "io_uring_enter: the kernel lost a completion for want of memory (EBADR)",
            errno,
        ),
        libc::EEXIST => fatal(
            "io_uring_enter: the ring was used by a thread that does not own it (EEXIST)",
            errno,
        ),
        libc::EPERM | libc::EACCES | libc::ENOSYS => fatal(
            "io_uring_enter: io_uring was forbidden after it had been set up; a seccomp filter added later?",
            errno,
        ),
        _ => fatal(
            "io_uring_enter: the kernel refused the runtime's own request",
            errno,
        ),
    }
}

/// Prints without allocating and aborts.
#[cold]
fn fatal(what: &str, errno: i32) -> ! {
    urgo_sys::raw_stderr::fatal(what, errno)
}
