//! How an OS thread waits on a 32-bit word: `futex(2)`, private to this process.
//!
//! The word is never written here. Whoever changes it and then calls [`wake`] is seen by a waiter: the kernel compares
//! the word with `expected` under the lock of the wait queue, so a change before the comparison gives
//! [`FutexOutcome::ValueChanged`] and a wake after it finds the waiter queued.
//!
//! | errno of `FUTEX_WAIT_BITSET` here | taken as |
//! |---|---|
//! | `EAGAIN` | [`FutexOutcome::ValueChanged`] |
//! | `ETIMEDOUT` | [`FutexOutcome::TimedOut`] |
//! | `EINTR` | [`FutexOutcome::Interrupted`] |
//! | others | impossible for an aligned, mapped word: fatal |
//!
//! # Safety
//! `unsafe` for one raw `syscall`: [`wake_ptr`] passes an address that may no longer be mapped, which no reference may
//! express.
#![allow(unsafe_code)]

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::raw_stderr::fatal;

const NS_PER_S: u64 = 1_000_000_000;
/// `FUTEX_BITSET_MATCH_ANY`
const MATCH_ANY: NonZeroU32 = NonZeroU32::MAX;

/// Why [`wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FutexOutcome {
    /// A wake was spent on this thread. May be spurious: look at the word again.
    Woken,
    /// The word did not hold the expected value; the thread did not wait.
    ValueChanged,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// `futex(word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, deadline, NULL, FUTEX_BITSET_MATCH_ANY)`: blocks the
/// calling thread while the word holds `expected`, until a wake or `deadline`.
///
/// `deadline_ns` is absolute, in nanoseconds of `CLOCK_MONOTONIC` as [`crate::clock::monotonic_ns`] gives them; `None`
/// waits for ever. A deadline in the past still compares the word first.
///
/// # Examples
/// ```
/// use core::sync::atomic::AtomicU32;
/// use urgo_sys::futex::{FutexOutcome, wait};
/// let word = AtomicU32::new(1);
/// assert_eq!(wait(&word, 0, None), FutexOutcome::ValueChanged);
/// assert_eq!(wait(&word, 1, Some(0)), FutexOutcome::TimedOut);
/// ```
#[inline]
pub fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) -> FutexOutcome {
    let limit = deadline_ns.map(|ns| Timespec {
        // At most 1.8e10 s: fits any signed 64-bit count, and the kernel saturates what its own clock cannot hold.
        tv_sec: (ns / NS_PER_S) as i64,
        tv_nsec: (ns % NS_PER_S) as _,
    });
    match futex::wait_bitset(word, Flags::PRIVATE, expected, limit.as_ref(), MATCH_ANY) {
        Ok(()) => FutexOutcome::Woken,
        Err(Errno::AGAIN) => FutexOutcome::ValueChanged,
        Err(Errno::TIMEDOUT) => FutexOutcome::TimedOut,
        Err(Errno::INTR) => FutexOutcome::Interrupted,
        Err(other) => fatal("futex wait refused", other.raw_os_error()),
    }
}

/// `futex(word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count)`: wakes at most `count` waiters and returns how many. Blocks
/// nothing; a signal handler may call it.
#[inline]
pub fn wake(word: &AtomicU32, count: u32) -> u32 {
    wake_ptr(word, count)
}

/// As [`wake`], for a word whose memory may have been reused or unmapped meanwhile.
///
/// A waiter may leave, and free its word, as soon as the word has changed; the waker that changed it then holds a stale
/// address. For a private futex the kernel uses the address only as a key and never reads it, so the worst a stale one
/// does is a spurious wake of whoever waits there now, which every waiter must expect anyway.
///
/// # Panics
/// Never; a misaligned or kernel-space address is fatal (no `AtomicU32` ever lived there).
#[inline]
pub fn wake_ptr(word: *const AtomicU32, count: u32) -> u32 {
    // The kernel takes an int: more waiters than that cannot exist.
    let count = count.min(i32::MAX as u32);
    // SAFETY: because FUTEX_WAKE on a private futex uses the address as a key and never accesses the memory behind it,
    // any address may be passed; established by the kernel's key lookup for private futexes; holds without end.
    let woken = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.addr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            count,
        )
    };
    match u32::try_from(woken) {
        Ok(woken) => woken,
        Err(_) => fatal("futex wake refused", crate::errno::last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_word_that_already_changed_is_not_waited_for() {
        let word = AtomicU32::new(7);
        assert_eq!(wait(&word, 6, None), FutexOutcome::ValueChanged);
    }

    #[test]
    fn a_deadline_ends_the_wait_and_not_before() {
        let word = AtomicU32::new(0);
        let deadline = crate::clock::monotonic_ns() + 3_000_000;
        loop {
            match wait(&word, 0, Some(deadline)) {
                FutexOutcome::TimedOut => break,
                FutexOutcome::Woken | FutexOutcome::Interrupted => continue,
                FutexOutcome::ValueChanged => panic!("nobody changed the word"),
            }
        }
        assert!(crate::clock::monotonic_ns() >= deadline);
    }

    #[test]
    fn the_farthest_deadline_is_accepted() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 0, Some(u64::MAX)), FutexOutcome::ValueChanged);
    }

    #[test]
    fn a_wake_from_another_thread_ends_the_wait() {
        let word = Arc::new(AtomicU32::new(0));
        let waiter = {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                let mut outcomes = Vec::new();
                while word.load(Relaxed) == 0 {
                    outcomes.push(wait(&word, 0, None));
                }
                outcomes
            })
        };
        // Wake without changing the word until a wake is spent on the waiter, so that it has really waited.
        while wake(&word, 1) == 0 {
            thread::yield_now();
        }
        word.store(1, Relaxed);
        wake(&word, u32::MAX);
        let outcomes = waiter.join().unwrap();
        assert!(outcomes.contains(&FutexOutcome::Woken), "{outcomes:?}");
        assert!(!outcomes.contains(&FutexOutcome::TimedOut));
    }

    #[test]
    fn a_wake_counts_no_more_than_were_asked() {
        let word = Arc::new(AtomicU32::new(0));
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let word = Arc::clone(&word);
                thread::spawn(move || {
                    while word.load(Relaxed) == 0 {
                        let _ = wait(&word, 0, None);
                    }
                })
            })
            .collect();
        for _ in 0..20 {
            assert!(wake(&word, 2) <= 2);
            thread::yield_now();
        }
        word.store(1, Relaxed);
        wake(&word, u32::MAX);
        for waiter in waiters {
            waiter.join().unwrap();
        }
    }

    #[test]
    fn a_wake_of_memory_that_is_gone_harms_nobody() {
        let mapping = crate::mapping::Mapping::reserve(4096).unwrap();
        let stale = mapping.base().cast::<AtomicU32>().cast_const();
        drop(mapping);
        assert_eq!(wake_ptr(stale, 1), 0);
    }
}
