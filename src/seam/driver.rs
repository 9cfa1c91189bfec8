//! The driver seam: kernel operations and their completions.
//!
//! # Safety
//!
//! Passes on the contracts of [`Ring::queue`] and [`Ring::arm_sleep_word`].

#![allow(unsafe_code)]

use crate::atomic::AtomicU32;
use std::os::fd::RawFd;
use urgo_uring::{
    Capabilities, Config, Counters, Event, Flushed, Kind, Outcome, Owner, Reaped, Ring, SetupError,
    SqFull, TableFull, Token, Waited, squeue,
};

/// Who carries out a worker's operations.
#[derive(Debug)]
pub(crate) enum Driver {
    /// The worker's own io_uring.
    Live(Ring),
}

macro_rules! forward {
    ($self:ident, $ring:ident => $call:expr) => {
        match $self {
            Driver::Live($ring) => $call,
        }
    };
}

impl Driver {
    /// A live driver for the calling thread.
    pub(crate) fn live(config: &Config) -> Result<Driver, SetupError> {
        Ring::new(config).map(Driver::Live)
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        forward!(self, ring => ring.capabilities())
    }

    pub(crate) fn fd(&self) -> RawFd {
        forward!(self, ring => ring.fd())
    }

    #[inline]
    pub(crate) fn register(
        &mut self,
        kind: Kind,
        fd: RawFd,
        owner: Owner,
    ) -> Result<Token, TableFull> {
        forward!(self, ring => ring.register(kind, fd, owner))
    }

    /// # Safety
    ///
    /// As [`Ring::queue`].
    #[inline]
    pub(crate) unsafe fn queue(
        &mut self,
        token: Token,
        entry: squeue::Entry,
    ) -> Result<(), SqFull> {
        // SAFETY: by this function's contract.
        forward!(self, ring => unsafe { ring.queue(token, entry) })
    }

    pub(crate) fn cancel(&mut self, token: Token) {
        forward!(self, ring => ring.cancel(token))
    }

    pub(crate) fn cancel_matching_fd(&mut self, fd: RawFd) -> usize {
        forward!(self, ring => ring.cancel_matching_fd(fd))
    }

    #[inline]
    pub(crate) fn outcome(&mut self, token: Token) -> Outcome {
        forward!(self, ring => ring.outcome(token))
    }

    #[inline]
    pub(crate) fn sq_pending(&self) -> u32 {
        forward!(self, ring => ring.sq_pending())
    }

    #[inline]
    pub(crate) fn flush(&mut self) -> Flushed {
        forward!(self, ring => ring.flush())
    }

    #[inline]
    pub(crate) fn flush_and_poll(&mut self) -> Flushed {
        forward!(self, ring => ring.flush_and_poll())
    }

    #[inline]
    pub(crate) fn cq_ready(&self) -> bool {
        forward!(self, ring => ring.cq_ready())
    }

    #[inline]
    pub(crate) fn has_work_flag(&self) -> bool {
        forward!(self, ring => ring.has_work_flag())
    }

    #[inline]
    pub(crate) fn poll(&mut self) {
        forward!(self, ring => ring.poll())
    }

    #[inline]
    pub(crate) fn wait(&mut self, deadline_ns: Option<u64>) -> Waited {
        forward!(self, ring => ring.wait(deadline_ns))
    }

    /// Every record that can be had without entering the kernel; `ready` is called once per operation that is over.
    #[inline]
    pub(crate) fn reap(&mut self, mut ready: impl FnMut(Owner)) -> Reaped {
        forward!(self, ring => ring.reap(|owner, _token, event| match event {
            Event::Ready => ready(owner),
            // No multishot operation is registered yet; a record of one would have nobody to take it.
            Event::Record { .. } => debug_assert!(false, "a multishot record without a multishot operation"),
        }))
    }

    /// `false`: the kernel refuses it for now, and it goes out with the next flush, whenever that is.
    pub(crate) fn kick(&mut self, target: RawFd) -> bool {
        forward!(self, ring => ring.kick(target) == Flushed::Done)
    }

    /// # Safety
    ///
    /// As [`Ring::arm_sleep_word`].
    pub(crate) unsafe fn arm_sleep_word(&mut self, word: &AtomicU32, expected: u32) -> bool {
        // SAFETY: by this function's contract.
        forward!(self, ring => unsafe { ring.arm_sleep_word(word, expected) })
    }

    pub(crate) fn arm_eventfd(&mut self, fd: RawFd) -> bool {
        forward!(self, ring => ring.arm_eventfd(fd))
    }

    pub(crate) fn in_flight(&self) -> usize {
        forward!(self, ring => ring.in_flight())
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        forward!(self, ring => ring.counters())
    }
}
