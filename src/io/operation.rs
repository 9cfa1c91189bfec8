//! One operation on a goroutine, from wish to result, whatever the kernel says on the way.
//!
//! # Safety
//!
//! Passes on `sched::perform`'s contract: all memory that the entry names stays valid until the call returns (or
//! unwinds), because a goroutine does not leave the call before the operation's last completion.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;

use io_uring::{opcode, squeue, types};

use crate::io::blocked_threads;
use crate::park::WaitReason;
use crate::sched::{self, Performed};

/// Repeats after a cancel that was not meant for the operation. A late cancel for an earlier owner of the number can
/// come once per worker; the bound only keeps a kernel surprise from looping for ever.
const STRAY_CANCELS_MAX: u32 = 64;

/// How a call wants to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) reason: WaitReason,
    /// Readiness to wait for where the kernel answers `EAGAIN`: `POLLIN` or `POLLOUT`.
    pub(crate) events: i16,
    /// `CLOCK_MONOTONIC` in nanoseconds; [`NEVER`](crate::io::NEVER).
    pub(crate) deadline: u64,
    /// `EAGAIN` is the caller's `WouldBlock`: the entry itself does not wait.
    pub(crate) is_nonblocking: bool,
}

/// What a successful operation brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// Never negative: bytes, a descriptor number, readiness.
    pub(crate) result: i32,
}

/// Why a call in a `Drop` was not waited for.
#[derive(Debug)]
struct BeingCancelled;

impl std::fmt::Display for BeingCancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the goroutine is being cancelled, and the call would have had to wait")
    }
}

impl std::error::Error for BeingCancelled {}

/// Performs what `entry` builds on the running goroutine's ring; `None` on a plain thread, where nothing was done.
///
/// The entry is built anew for each repeat; a cancelled operation is repeated while it `is_wanted`. Errors are the kernel's, `TimedOut` at the deadline, `WouldBlock` as in
/// [`Wish`], `ConnectionAborted` if the kernel cancels again and again.
///
/// # Safety
/// All memory that the entry names stays valid until this call returns or unwinds.
pub(crate) unsafe fn perform(
    fd: RawFd,
    wish: Wish,
    is_wanted: &dyn Fn() -> bool,
    entry: impl Fn() -> squeue::Entry,
) -> Option<io::Result<Completion>> {
    let mut stray_cancels = 0;
    loop {
        // SAFETY: the caller's promise is the callee's contract.
        let performed = unsafe { sched::perform(entry(), fd, wish.reason, wish.deadline) };
        let errno = match performed {
            Performed::NotAGoroutine => return None,
            Performed::ContextEnded(error) => return Some(Err(error.into())),
            Performed::Cancelled => return Some(Err(io::Error::other(BeingCancelled))),
            Performed::TimedOut => return Some(Err(io::ErrorKind::TimedOut.into())),
            Performed::Done { res } if res >= 0 => return Some(Ok(Completion { result: res })),
            Performed::Done { res } => -res,
        };
        match errno {
            libc::EINTR => {}
            libc::EAGAIN if !wish.is_nonblocking => {
                // An O_NONBLOCK file on a kernel that answers for it instead of waiting.
                if let Err(error) = poll(fd, wish, is_wanted)? {
                    return Some(Err(error));
                }
            }
            libc::ECANCELED if stray_cancels < STRAY_CANCELS_MAX && is_wanted() => {
                stray_cancels += 1
            }
            libc::ECANCELED if is_wanted() => {
                return Some(Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "the kernel keeps cancelling the operation",
                )));
            }
            _ => return Some(Err(io::Error::from_raw_os_error(errno))),
        }
    }
}

/// Waits on the ring until `fd` is ready as `wish` says; `None` on a plain thread.
fn poll(fd: RawFd, wish: Wish, is_wanted: &dyn Fn() -> bool) -> Option<io::Result<()>> {
    let polling = Wish {
        reason: WaitReason::Poll,
        is_nonblocking: true,
        ..wish
    };
    let events = u32::from(wish.events.cast_unsigned());
    // SAFETY: a poll request names no memory.
    let performed = unsafe {
        perform(fd, polling, is_wanted, || {
            opcode::PollAdd::new(types::Fd(fd), events).build()
        })
    };
    performed.map(|result| result.map(|_| ()))
}

/// Waits until `fd` is ready as `wish` says, on a goroutine or a plain thread. For descriptors that nobody else can
/// close; a handle's own waits go through [`Descriptor`](crate::io::Descriptor).
pub(crate) fn wait_ready(fd: RawFd, wish: Wish) -> io::Result<()> {
    match poll(fd, wish, &|| true) {
        Some(polled) => polled,
        None => {
            let context = sched::ambient::in_force();
            let context = context.as_deref();
            let ended = || context.and_then(sched::ambient::ended);
            if let Some(error) = ended() {
                return Err(error.into());
            }
            blocked_threads::wait_alone(fd, wish.events, wish.deadline, context)?;
            match ended() {
                Some(error) => Err(error.into()),
                None => Ok(()),
            }
        }
    }
}

/// A buffer length as a request takes it: at most what a result can tell.
pub(crate) fn length_u32(length: usize) -> u32 {
    u32::try_from(length)
        .unwrap_or(u32::MAX)
        .min(i32::MAX as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_a_result_are_cut_not_wrapped() {
        assert_eq!(length_u32(0), 0);
        assert_eq!(length_u32(4096), 4096);
        assert_eq!(length_u32(i32::MAX as usize + 1), i32::MAX as u32);
        assert_eq!(length_u32(usize::MAX), i32::MAX as u32);
        assert_eq!(length_u32(1 << 32), i32::MAX as u32);
    }
}
