//! The way in: writing SQEs, paying what is owed, flushing.
//!
//! Control requests that found no room are owed, oldest first, and go before any op queued later.
//!
//! # Safety
//!
//! The one write into the submission queue, for which [`Ring::queue`] and [`Ring::arm_sleep_word`] carry the promise.

#![allow(unsafe_code)]

use io_uring::squeue;

use super::{Flushed, Owed, Ring};
use crate::enter::{Entered, Mode};
use crate::kick;
use crate::table::Published;
use crate::token::Token;

impl Ring {
    /// SQEs that the kernel has not taken yet: written ones, and those that wait for room.
    #[inline]
    pub fn sq_pending(&self) -> u32 {
        self.pending + self.owed.len() as u32
    }

    /// SQEs that can be written before a flush is needed.
    #[inline]
    pub fn sq_space_left(&self) -> u32 {
        self.sq_entries - self.pending
    }

    #[inline]
    pub(super) fn push(&mut self, entry: &squeue::Entry) -> bool {
        let mut sq = self.io.submission();
        // SAFETY: because the memory the entry names is valid until its last record; established by the contracts of
        // `queue` and `arm_sleep_word` (the other entries name none); until that record is reaped, for which drop waits.
        let is_written = unsafe { sq.push(entry) }.is_ok();
        self.pending += u32::from(is_written);
        self.table.counters.sqes += u64::from(is_written);
        is_written
    }

    /// The caller has seen that there is room for all. No control request comes in between: cancels that were asked for
    /// earlier follow the chain.
    pub(super) fn push_chain(&mut self, chain: &[(Token, squeue::Entry)]) {
        let mut to_cancel = Vec::new();
        for (at, (token, entry)) in chain.iter().enumerate() {
            let mut entry = entry.clone().user_data(token.user_data());
            if at + 1 < chain.len() {
                entry = entry.flags(squeue::Flags::IO_LINK);
            }
            let is_written = self.push(&entry);
            assert!(
                is_written,
                "the submission queue has less room than it said"
            );
            match self.table.publish(*token, self.table.counters.sqes) {
                Published::Nothing => {}
                Published::SendCancel => to_cancel.push(*token),
            }
        }
        #[cfg(feature = "fault-injection")]
        if let Some(faults) = &mut self.faults {
            faults.note_chain(self.table.counters.sqes);
        }
        for token in to_cancel {
            self.send_cancel(token);
        }
    }

    pub(super) fn send_cancel(&mut self, token: Token) {
        if !self.owed.is_empty() || !self.pay(Owed::Cancel(token)) {
            self.owed.push_back(Owed::Cancel(token));
        }
    }

    /// Writes what is owed, oldest first, while there is room.
    #[cold]
    pub(super) fn pay_owed(&mut self) {
        while let Some(&first) = self.owed.front() {
            if !self.pay(first) {
                return;
            }
            self.owed.pop_front();
        }
    }

    /// False when there is no room. A cancel whose op has ended meanwhile is paid without an SQE.
    pub(super) fn pay(&mut self, owed: Owed) -> bool {
        if self.sq_space_left() == 0 {
            return false;
        }
        match owed {
            Owed::Cancel(token) => {
                if self.table.begin_cancel(token) {
                    self.table.counters.cancels_sent += 1;
                    self.push(&kick::cancel_entry(token.user_data(), token.slot()));
                }
            }
            Owed::Disarm(user_data) => {
                self.push(&kick::cancel_entry(user_data, 0));
            }
            Owed::Kick(target) => {
                self.table.counters.kicks_sent += 1;
                self.push(&kick::kick_entry(target));
            }
        }
        true
    }

    pub(super) fn enter(&mut self, to_submit: u32, mode: Mode) -> Entered {
        self.table.counters.enters += 1;
        #[cfg(not(feature = "fault-injection"))]
        let entered = crate::enter::enter(&self.io, to_submit, mode);
        #[cfg(feature = "fault-injection")]
        let entered = self.enter_or_fail(to_submit, mode);
        self.pending = self.io.submission().len() as u32;
        match entered {
            Entered::Interrupted => self.table.counters.interrupts += 1,
            Entered::Stalled => self.table.counters.stalls += 1,
            Entered::Taken(_) | Entered::TimedOut => {}
        }
        entered
    }

    /// Submits everything written. Never sleeps, and does not run deferred completions.
    #[inline]
    pub fn flush(&mut self) -> Flushed {
        if self.pending == 0 && self.owed.is_empty() {
            Flushed::Done
        } else {
            self.flush_slow(Mode::Submit)
        }
    }

    pub(super) fn flush_slow(&mut self, mode: Mode) -> Flushed {
        loop {
            if !self.owed.is_empty() {
                self.pay_owed();
            }
            let before = self.pending;
            let entered = self.enter(before, mode);
            if self.pending == 0 && self.owed.is_empty() {
                return Flushed::Done;
            }
            if entered == Entered::Stalled || self.pending >= before {
                return Flushed::Stalled;
            }
        }
    }
}
