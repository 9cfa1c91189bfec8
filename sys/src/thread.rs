//! Properties of the calling thread: id, name, timer slack, current CPU.
//!
//! # Safety
//! `unsafe` for `sched_getcpu`, which has no safe door that reads the C library's registered area (a load instead of a
//! call).
#![allow(unsafe_code)]

use core::num::NonZeroU64;
use std::ffi::CString;
use std::io;

/// `TASK_COMM_LEN` without its NUL: the bytes of a thread name that the kernel keeps.
pub const NAME_BYTES_MAX: usize = 15;

/// `gettid()`. A signal handler may call it.
#[inline]
pub fn gettid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// `prctl(PR_SET_NAME)` for the calling thread, cut to [`NAME_BYTES_MAX`] bytes at a character boundary and at the first
/// NUL.
///
/// # Errors
/// None that the kernel is known to give; passed on all the same.
pub fn set_name(name: &str) -> io::Result<()> {
    let name = kept_part(name);
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(rustix::thread::set_name(&name)?)
}

/// `prctl(PR_GET_NAME)` for the calling thread.
///
/// # Errors
/// `InvalidData` if the name is not UTF-8.
pub fn name() -> io::Result<String> {
    rustix::thread::name()?
        .into_string()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

fn kept_part(name: &str) -> &str {
    let name = name.split('\0').next().unwrap_or("");
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// `prctl(PR_SET_TIMERSLACK, ns)` for the calling thread: by how much the kernel may delay its timers to batch them (50 µs
/// unless set). The runtime asks for 1 ns, since its own timers are already batched.
///
/// # Errors
/// The errno of `prctl`.
pub fn set_timer_slack_ns(slack_ns: NonZeroU64) -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(Some(slack_ns))?)
}

/// `prctl(PR_GET_TIMERSLACK)` for the calling thread, in nanoseconds.
///
/// # Errors
/// The errno of `prctl`.
pub fn timer_slack_ns() -> io::Result<u64> {
    Ok(rustix::thread::current_timer_slack()?)
}

/// `sched_getcpu()`: the CPU this thread runs on, or ran on a moment ago unless it is pinned.
#[inline]
pub fn current_cpu() -> usize {
    // SAFETY: because sched_getcpu takes no arguments and only reads; established by its C signature; holds without end.
    let cpu = unsafe { libc::sched_getcpu() };
    // ENOSYS is the only failure, on kernels far older than any this runtime runs on.
    usize::try_from(cpu).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_at_a_character_and_read_back() {
        std::thread::spawn(|| {
            set_name("urgo-worker-0123456789").unwrap();
            assert_eq!(name().unwrap(), "urgo-worker-012");
            set_name("aaaaaaaaaaaaaaéé").unwrap();
            assert_eq!(name().unwrap(), "aaaaaaaaaaaaaa");
            set_name("short\0hidden").unwrap();
            assert_eq!(name().unwrap(), "short");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_timer_slack_of_this_thread_changes() {
        std::thread::spawn(|| {
            set_timer_slack_ns(NonZeroU64::MIN).unwrap();
            assert_eq!(timer_slack_ns().unwrap(), 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn every_thread_has_its_own_id() {
        let mine = gettid();
        let other = std::thread::spawn(gettid).join().unwrap();
        assert_ne!(mine, other);
        assert_eq!(mine, gettid());
    }

    #[test]
    fn the_current_cpu_is_one_of_the_mask() {
        let mask = crate::cpu::affinity().unwrap();
        assert!(mask.contains(current_cpu()));
    }
}
