//! The end of a ring: nothing is given back before the kernel has let go of it.
//!
//! # Safety
//!
//! Ends the mappings by hand, because a forked child must not.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;

use super::{Ring, Waited};
use crate::host;

/// How long the last drain waits before it sends its cancels again.
const DRAIN_RETRY_NS: u64 = 1_000_000_000;

impl Ring {
    /// Ends everything the kernel could still write for. See [`Ring`] on dropping.
    fn drain(&mut self) {
        self.cancel_all();
        self.disarm();
        while self.in_flight() > 0 || self.is_armed() {
            if self.wait(Some(host::monotonic_ns() + DRAIN_RETRY_NS)) == Waited::TimedOut {
                self.renew_cancels();
            }
            self.poll();
            self.reap(|_, _, _| {});
        }
    }

    #[cold]
    fn renew_cancels(&mut self) {
        for index in 0..self.table.used() {
            if let Some((token, _)) = self.table.unfinished_at(index)
                && self.table.renew_cancel(token)
            {
                self.send_cancel(token);
            }
        }
        self.disarm();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if host::process_id() == self.process_id {
            self.drain();
            // SAFETY: because nothing uses the ring after this; established by being the last statement of drop.
            unsafe { ManuallyDrop::drop(&mut self.io) };
        } else {
            // The child has the descriptor, but never had the mappings: unmapping their addresses could hit another's.
            // SAFETY: because the descriptor is this ring's copy in this process, closed nowhere else.
            unsafe { libc::close(self.fd()) };
        }
    }
}
