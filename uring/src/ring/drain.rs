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
/// How long an op that outlived a cancel is left alone before it is asked again.
const RENEW_NS: u64 = 10_000_000;

impl Ring {
    /// Ends everything the kernel could still write for. See [`Ring`] on dropping.
    fn drain(&mut self) {
        self.cancel_all();
        self.disarm();
        while self.in_flight() > 0 || self.is_armed() {
            if self.wait(Some(host::monotonic_ns() + DRAIN_RETRY_NS)) == Waited::TimedOut {
                self.renew_cancels();
                self.disarm();
            }
            self.poll();
            self.reap(|_, _, _| {});
        }
    }

    /// A cancel found its op between two states (`-EALREADY`: a kernel helper runs it) or not at all (`-ENOENT`: it may be on
    /// its way from one list to another). Usually the op ends by itself then; if it does not, it is asked again.
    #[cold]
    pub(super) fn plan_renewal(&mut self) {
        if self.renew_at_ns.is_none() {
            self.renew_at_ns = Some(host::monotonic_ns() + RENEW_NS);
        }
    }

    /// Sends cancels again if it is time to; stops when no cancelled op is left.
    #[cold]
    pub(super) fn renew_if_due(&mut self, at_ns: u64) {
        if host::monotonic_ns() >= at_ns {
            let renewed = self.renew_cancels();
            self.renew_at_ns = (renewed > 0).then(|| host::monotonic_ns() + RENEW_NS);
        }
    }

    /// Sends the cancel of every op again that has outlived one. Returns how many.
    fn renew_cancels(&mut self) -> usize {
        let mut renewed = 0;
        for index in 0..self.table.used() {
            if let Some((token, _)) = self.table.unfinished_at(index)
                && self.table.is_cancel_marked(token)
                && self.table.renew_cancel(token)
            {
                self.send_cancel(token);
                renewed += 1;
            }
        }
        renewed
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
