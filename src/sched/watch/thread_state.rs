//! What a thread of this process is doing, as the kernel tells it under `/proc/self/task`.
//!
//! A process may always read this of its own threads. Where `/proc` is not mounted nothing is known.

use std::fmt;

/// What a thread does at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It runs, or waits for a CPU.
    Computes,
    /// It waits in `futex(2)` for the word at this address.
    Futex(u64),
    /// It waits in another system call.
    Call(i64),
    /// It waits in the kernel, but not in a system call.
    Fault,
    /// The kernel does not say.
    Unknown,
}

/// What a thread has had so far, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// On a CPU.
    pub(crate) on_cpu: u64,
    /// Waiting for a CPU.
    pub(crate) off_cpu: u64,
}

pub(crate) fn doing(thread: u32) -> Doing {
    match std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")) {
        Ok(text) => parse_doing(&text),
        Err(_) => Doing::Unknown,
    }
}

/// `None` where the kernel does not count.
pub(crate) fn times(thread: u32) -> Option<Times> {
    parse_times(&std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
}

/// `running`, or a number of a system call with its arguments, or -1; then stack pointer and program counter.
fn parse_doing(text: &str) -> Doing {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else {
        return Doing::Unknown;
    };
    if first == "running" {
        return Doing::Computes;
    }
    match first.parse() {
        Ok(-1) => Doing::Fault,
        Ok(libc::SYS_futex) => {
            let address = words.next().and_then(|word| word.strip_prefix("0x"));
            Doing::Futex(address.map_or(0, |hex| u64::from_str_radix(hex, 16).unwrap_or(0)))
        }
        Ok(number) => Doing::Call(number),
        Err(_) => Doing::Unknown,
    }
}

/// Time on CPUs, time waiting for one, number of turns. Zeros where the kernel was built without the count.
fn parse_times(text: &str) -> Option<Times> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let (on_cpu, off_cpu) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (on_cpu != 0).then_some(Times { on_cpu, off_cpu })
}

/// Names of the calls in which threads are found waiting.
fn name(number: i64) -> Option<&'static str> {
    Some(match number {
        libc::SYS_accept => "accept",
        libc::SYS_accept4 => "accept4",
        libc::SYS_clock_nanosleep => "clock_nanosleep",
        libc::SYS_connect => "connect",
        libc::SYS_epoll_pwait => "epoll_pwait",
        libc::SYS_fcntl => "fcntl",
        libc::SYS_fdatasync => "fdatasync",
        libc::SYS_flock => "flock",
        libc::SYS_fsync => "fsync",
        libc::SYS_io_uring_enter => "io_uring_enter",
        libc::SYS_nanosleep => "nanosleep",
        libc::SYS_openat => "openat",
        libc::SYS_ppoll => "ppoll",
        libc::SYS_pread64 => "pread64",
        libc::SYS_pwrite64 => "pwrite64",
        libc::SYS_read => "read",
        libc::SYS_readv => "readv",
        libc::SYS_recvfrom => "recvfrom",
        libc::SYS_recvmsg => "recvmsg",
        libc::SYS_sendmsg => "sendmsg",
        libc::SYS_sendto => "sendto",
        libc::SYS_wait4 => "wait4",
        libc::SYS_waitid => "waitid",
        libc::SYS_write => "write",
        libc::SYS_writev => "writev",
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => "epoll_wait",
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => "poll",
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => "select",
        _ => return None,
    })
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Doing::Computes => f.write_str("computing"),
            Doing::Futex(address) => write!(f, "in futex(2) on {address:#x}"),
            Doing::Call(number) => match name(number) {
                Some(name) => write!(f, "in system call {number} ({name})"),
                None => write!(f, "in system call {number}"),
            },
            Doing::Fault => f.write_str("in the kernel, outside any system call"),
            Doing::Unknown => f.write_str("doing what the kernel does not say"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_understood() {
        let futex = format!(
            "{} 0x7ffe10 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f91\n",
            libc::SYS_futex
        );
        assert_eq!(parse_doing("running\n"), Doing::Computes);
        assert_eq!(parse_doing(&futex), Doing::Futex(0x7f_fe10));
        assert_eq!(parse_doing("-1 0x7ffd 0x7f91\n"), Doing::Fault);
        assert_eq!(parse_doing("23 0x0 0x1 0x7ffd 0x7f91\n"), Doing::Call(23));
        assert_eq!(parse_doing(""), Doing::Unknown);
        assert_eq!(parse_doing("what\n"), Doing::Unknown);
        let (on_cpu, off_cpu) = (69_093, 14_002);
        assert_eq!(
            parse_times("69093 14002 2\n"),
            Some(Times { on_cpu, off_cpu })
        );
        assert_eq!(parse_times("0 0 0\n"), None);
    }

    #[test]
    fn a_thread_that_reads_a_pipe_is_seen_in_read() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(urgo_sys::thread::gettid() as u32).unwrap();
            std::io::Read::read(&mut &reader, &mut [0]).unwrap()
        });
        let id = told.recv().unwrap();
        while doing(id) != Doing::Call(libc::SYS_read) {
            std::thread::yield_now();
        }
        assert!(doing(id).to_string().contains("(read)"));
        drop(writer);
        assert_eq!(thread.join().unwrap(), 0);
    }
}
