//! A kernel counter that wakes a poll: `eventfd(2)`, for hosts whose ring has no futex operation.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// What [`EventFd::notify`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Notified {
    /// The counter went up by one; readers wake.
    Counted,
    /// `EAGAIN`: the counter is at its maximum, so it is readable already and nothing is lost. Nonblocking ones only.
    Saturated,
}

/// What [`EventFd::drain`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Drained {
    /// That many notifications since the last drain, at least one. The counter is now zero.
    Count(u64),
    /// `EAGAIN`: none. Nonblocking ones only.
    Empty,
}

/// An owned event counter, closed on exec and on drop.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
}

impl EventFd {
    /// `eventfd(0, EFD_CLOEXEC | (nonblocking ? EFD_NONBLOCK : 0))`.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: no descriptor left; `ENOMEM`, `ENODEV`: the kernel has no room.
    pub fn new(nonblocking: bool) -> io::Result<EventFd> {
        let mut flags = EventfdFlags::CLOEXEC;
        if nonblocking {
            flags |= EventfdFlags::NONBLOCK;
        }
        Ok(EventFd {
            fd: eventfd(0, flags)?,
        })
    }

    /// `write(fd, 1)`: counts one notification. Any thread; a signal handler may call it. A blocking counter blocks while
    /// it is full (2^64 - 2 notifications).
    ///
    /// # Errors
    /// Errnos other than `EINTR` (repeated) and `EAGAIN` ([`Notified::Saturated`]); none is known for a live counter.
    pub fn notify(&self) -> io::Result<Notified> {
        self.add(1)
    }

    fn add(&self, count: u64) -> io::Result<Notified> {
        loop {
            match rustix::io::write(&self.fd, &count.to_ne_bytes()) {
                Ok(8) => return Ok(Notified::Counted),
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Notified::Saturated),
                Err(other) => return Err(other.into()),
            }
        }
    }

    /// `read(fd)`: takes all notifications. A blocking counter blocks until there is one.
    ///
    /// # Errors
    /// Errnos other than `EINTR` (repeated) and `EAGAIN` ([`Drained::Empty`]); none is known for a live counter.
    pub fn drain(&self) -> io::Result<Drained> {
        let mut count = [0_u8; 8];
        loop {
            match rustix::io::read(&self.fd, &mut count) {
                Ok(8) => return Ok(Drained::Count(u64::from_ne_bytes(count))),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Drained::Empty),
                Err(other) => return Err(other.into()),
            }
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl From<EventFd> for OwnedFd {
    fn from(event: EventFd) -> OwnedFd {
        event.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_add_up_and_a_drain_takes_them_all() {
        let event = EventFd::new(true).unwrap();
        assert_eq!(event.drain().unwrap(), Drained::Empty);
        for _ in 0..3 {
            assert_eq!(event.notify().unwrap(), Notified::Counted);
        }
        assert_eq!(event.drain().unwrap(), Drained::Count(3));
        assert_eq!(event.drain().unwrap(), Drained::Empty);
    }

    #[test]
    fn a_full_counter_says_saturated_and_loses_nothing() {
        let event = EventFd::new(true).unwrap();
        assert_eq!(event.add(u64::MAX - 1).unwrap(), Notified::Counted);
        assert_eq!(event.notify().unwrap(), Notified::Saturated);
        assert_eq!(event.drain().unwrap(), Drained::Count(u64::MAX - 1));
        assert_eq!(event.notify().unwrap(), Notified::Counted);
    }

    #[test]
    fn a_blocking_drain_waits_for_another_thread() {
        let event = EventFd::new(false).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| event.drain().unwrap());
            assert_eq!(event.notify().unwrap(), Notified::Counted);
            assert_eq!(reader.join().unwrap(), Drained::Count(1));
        });
    }

    #[test]
    fn it_does_not_leak_into_children() {
        let event = EventFd::new(true).unwrap();
        let flags = rustix::io::fcntl_getfd(&event).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}
