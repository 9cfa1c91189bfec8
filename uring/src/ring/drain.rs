//! The end of a ring, or of the owners it served: nothing is given back before the kernel has let go of it.
//!
//! # Safety
//!
//! Ends the mappings by hand, because a forked child must not. [`Ring::abandon`] is unsafe because it does not wait.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;

use super::{Event, Ring, Waited};
use crate::counters::Counters;
use crate::host;
use crate::table::Outcome;
use crate::token::{Owner, Token};

/// How long the last drain waits before it sends its cancels again.
const DRAIN_RETRY_NS: u64 = 1_000_000_000;
/// How long an op that outlived a cancel is left alone before it is asked again.
const RENEW_NS: u64 = 10_000_000;

impl Ring {
    /// Ends every op for good, because their owners are about to be gone: afterwards the ring is as good as new for others,
    /// or may be dropped. Nobody is resumed. Ops never queued are withdrawn; the others are cancelled and waited for, and
    /// sleep word and eventfd disarmed. That wait has no bound, as in dropping; see [`Ring`].
    ///
    /// `release` gets every result that nobody will take: of ops that were finished, of those that end now, and each record
    /// of a multishot op. It closes what they brought, such as accepted descriptors. The owners are handed over as they
    /// were registered, for the caller to recognise, not to be resumed.
    ///
    /// Tokens issued before are void; records that still come for them are counted as [`retired`](Counters::retired).
    pub fn retire(&mut self, mut release: impl FnMut(Owner, Token, Outcome)) {
        self.table.withdraw_all();
        let mut over: Vec<(Token, Owner)> = (0..self.table.used())
            .filter_map(|index| self.table.finished_at(index))
            .collect();
        self.cancel_all();
        self.disarm();
        loop {
            for (token, owner) in over.drain(..) {
                let outcome = self.table.take(token);
                release(owner, token, outcome);
            }
            if self.in_flight() == 0 && !self.is_armed() {
                break;
            }
            if self.wait(Some(host::monotonic_ns() + DRAIN_RETRY_NS)) == Waited::TimedOut {
                self.renew_cancels();
                self.disarm();
            }
            self.poll();
            self.reap(|owner, token, event| match event {
                Event::Ready => over.push((token, owner)),
                Event::Record { res, flags } => {
                    let cancel_marked = true;
                    release(
                        owner,
                        token,
                        Outcome {
                            res,
                            flags,
                            cancel_marked,
                        },
                    );
                }
            });
        }
        self.table.retire();
    }

    /// Closes the ring without waiting for its ops, which are counted as [`leaked`](Counters::leaked). The last resort for
    /// ops that do not end, such as requests to a device that no longer answers, and the way for a forked child to have
    /// the final counts. Ops never queued are withdrawn; results not taken are lost.
    ///
    /// # Safety
    ///
    /// Memory that the unfinished ops and armed sleep words name is never used for anything else until the process ends: the
    /// kernel may write it at any time. In a forked child there is no such condition: the ops are the parent's.
    pub unsafe fn abandon(mut self) -> Counters {
        self.is_abandoned = self.table.leak() > 0 || self.is_armed();
        *self.counters()
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
            if !self.is_abandoned {
                self.retire(|_, _, _| {});
            }
            // SAFETY: because nothing uses the ring after this; established by being the last statement of drop.
            unsafe { ManuallyDrop::drop(&mut self.io) };
        } else {
            // The child has the descriptor, but never had the mappings: unmapping their addresses could hit another's.
            // SAFETY: because the descriptor is this ring's copy in this process, closed nowhere else.
            unsafe { libc::close(self.fd()) };
        }
    }
}
