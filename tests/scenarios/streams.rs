//! Connected pairs, one end of which is the runtime's.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use urgo::net::TcpStream;

use crate::support::wait_until;

/// A stream for goroutines and its other end for plain code.
pub(crate) fn pair() -> (TcpStream, UnixStream) {
    let (ours, other) = UnixStream::pair().unwrap();
    (TcpStream::from(OwnedFd::from(ours)), other)
}

/// As many descriptors as this process may have.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: reads into and from one struct of ours.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// Goroutine. Waits until `started` says that `count` goroutines have come to their wait, and the rings that all wait there.
pub(crate) fn wait_until_in_flight(started: &AtomicUsize, count: usize) {
    wait_until("all to start", || started.load(Ordering::SeqCst) == count);
    wait_until("all to wait in the rings", || {
        let workers = urgo::debug::metrics().workers;
        workers.iter().map(|w| w.ring.in_flight).sum::<usize>() >= count
    });
}
