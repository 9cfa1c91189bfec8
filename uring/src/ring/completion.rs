//! The way out: polling, sleeping, reaping.

use super::{Event, Flushed, Owed, Reaped, Ring, Waited};
use crate::capabilities::Capabilities;
use crate::enter::{Entered, Mode};
use crate::host;
use crate::kick::Heard;
use crate::table::Applied;
use crate::token::{Address, Control, Owner, Token};

/// How long a wait lasts at most while the kernel refuses our SQEs for want of memory.
const STALL_NS: u64 = 1_000_000;

impl Ring {
    /// At least one record can be reaped without entering the kernel.
    #[inline]
    pub fn cq_ready(&self) -> bool {
        #[cfg(feature = "fault-injection")]
        if self.faults.as_ref().is_some_and(|f| f.is_holding()) {
            return true;
        }
        self.view.cq_ready()
    }

    /// The kernel has completions that only an enter brings out: call [`poll`](Self::poll).
    #[inline]
    pub fn has_work_flag(&self) -> bool {
        self.view.has_work_flag()
    }

    /// Brings out deferred completions, without sleeping and without submitting. Enters the kernel only if it asks for it,
    /// and again while that brings some out (one enter runs about 20 of them) and the completion queue is not full.
    #[inline]
    pub fn poll(&mut self) {
        if let Some(at_ns) = self.renew_at_ns {
            self.renew_if_due(at_ns);
        }
        while self.view.has_work_flag() && self.view.cq_len() < self.cq_entries {
            let before = self.view.cq_len();
            self.note_overflow();
            let _ = self.enter(0, Mode::Reap);
            // The flag may be stale: the kernel sets it after it has queued the work, and by then we may have run that.
            // It stays set until there is work again, so an enter that brought nothing out is the last.
            if self.view.cq_len() == before {
                break;
            }
        }
    }

    /// [`flush`](Self::flush) and one turn of [`poll`](Self::poll) in one enter, if either is called for.
    #[inline]
    pub fn flush_and_poll(&mut self) -> Flushed {
        let has_work = self.view.has_work_flag();
        if self.pending == 0 && self.owed.is_empty() && !has_work {
            return Flushed::Done;
        }
        self.note_overflow();
        self.flush_slow(Mode::Reap)
    }

    #[inline]
    fn note_overflow(&mut self) {
        self.table.counters.overflows += u64::from(self.view.has_overflow());
    }

    /// Submits everything written and sleeps until a record can be reaped, the deadline passes (`CLOCK_MONOTONIC`
    /// nanoseconds; `None`: never), a kick arrives or a signal is handled, in one enter. Returns at once, without
    /// entering, when records are there and nothing is to be submitted. Blocks the thread.
    pub fn wait(&mut self, deadline_ns: Option<u64>) -> Waited {
        let mut deadline_ns = deadline_ns;
        if let Some(at_ns) = self.renew_at_ns {
            self.renew_if_due(at_ns);
            let soon = self.renew_at_ns.unwrap_or(u64::MAX);
            deadline_ns =
                Some(deadline_ns.map_or(soon, |at| at.min(soon))).filter(|&at| at != u64::MAX);
        }
        if !self.owed.is_empty() && self.flush() == Flushed::Stalled {
            return self.wait_stalled(deadline_ns);
        }
        if self.cq_ready() && self.pending == 0 && !self.has_work_flag() {
            return Waited::Ready;
        }
        self.note_overflow();
        self.table.counters.waits += 1;
        let entered = self.enter(self.pending, self.sleep_mode(deadline_ns));
        if self.cq_ready() {
            return Waited::Ready;
        }
        match entered {
            Entered::TimedOut => Waited::TimedOut,
            Entered::Interrupted => Waited::Interrupted,
            Entered::Stalled => self.wait_stalled(deadline_ns),
            // The count hides why the wait ended.
            Entered::Taken(_) if deadline_ns.is_some_and(|at| host::monotonic_ns() >= at) => {
                Waited::TimedOut
            }
            Entered::Taken(_) => Waited::Interrupted,
        }
    }

    fn sleep_mode(&self, deadline_ns: Option<u64>) -> Mode {
        Mode::Sleep {
            deadline_ns,
            is_absolute: self.capabilities.contains(Capabilities::ABS_TIMER),
            no_iowait: self.capabilities.contains(Capabilities::NO_IOWAIT),
        }
    }

    /// The kernel takes no SQE now: sleep a little without submitting, so that the caller neither spins nor oversleeps.
    #[cold]
    fn wait_stalled(&mut self, deadline_ns: Option<u64>) -> Waited {
        let soon = host::monotonic_ns() + STALL_NS;
        let deadline_ns = deadline_ns.map_or(soon, |at| at.min(soon));
        let _ = self.enter(0, self.sleep_mode(Some(deadline_ns)));
        if self.cq_ready() {
            Waited::Ready
        } else {
            Waited::Stalled
        }
    }

    /// Takes every record visible now, in order, and calls `each` for those that mean something to an op's owner:
    /// [`Event::Ready`] exactly once per op, preceded by its [`Event::Record`]s if it is multishot. Records that do not fit
    /// any op are counted and dropped. Never enters the kernel (but to drain a fired kick eventfd).
    #[inline]
    pub fn reap(&mut self, mut each: impl FnMut(Owner, Token, Event)) -> Reaped {
        let mut reaped = Reaped::default();
        let mut missed_cancel = false;
        let records = self
            .io
            .completion()
            .map(|cqe| (cqe.user_data(), cqe.result(), cqe.flags()));
        #[cfg(feature = "fault-injection")]
        let records: Box<dyn ExactSizeIterator<Item = _>> = match &mut self.faults {
            Some(faults) => Box::new(faults.deliver(records)),
            None => Box::new(records),
        };
        self.table.counters.cqes += records.len() as u64;
        for (user_data, res, flags) in records {
            match Address::of(user_data) {
                Address::Op(token) => match self.table.apply(token, res, flags) {
                    Applied::Ready(owner) => {
                        reaped.ready += 1;
                        each(owner, token, Event::Ready);
                    }
                    Applied::Record(owner) => {
                        reaped.records += 1;
                        each(owner, token, Event::Record { res, flags });
                    }
                    Applied::Held | Applied::Discarded => {}
                },
                Address::Control(control) => {
                    missed_cancel |= matches!(control, Control::Cancel(_)) && res != 0;
                    match self
                        .kicks
                        .apply(control, res, flags, &mut self.table.counters)
                    {
                        Heard::Nothing => {}
                        Heard::Kicked => reaped.kicked = true,
                        Heard::KickAgain(target) => self.owed.push_back(Owed::Kick(target)),
                    }
                }
                Address::Foreign => self.table.counters.foreign += 1,
            }
        }
        if missed_cancel {
            self.plan_renewal();
        }
        if reaped.kicked {
            self.kicks.drain();
            if self.kicks.is_word_broken() {
                self.capabilities.remove(Capabilities::FUTEX_WAIT);
            }
        }
        reaped
    }
}
