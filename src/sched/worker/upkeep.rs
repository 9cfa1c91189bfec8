//! Housekeeping of a worker: giving memory back, and counts for others to read.

use super::Worker;
use crate::atomic::{AtomicU64, Ordering};
use crate::limits::TRIM_DELAY_NS;

impl Worker {
    #[inline]
    pub(super) fn plan_trim(&self) {
        if self.trim_at.get() == u64::MAX && self.with_stacks(|stacks| stacks.wants_trim()) {
            self.trim_at
                .set(self.shared.clock.now_ns().saturating_add(TRIM_DELAY_NS));
        }
    }

    /// The earliest moment at which this worker must look around by itself.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.plan_trim();
        let timer = self
            .with_timers(|timers| timers.earliest())
            .unwrap_or(u64::MAX);
        let cancels = self.with_cancels(|line| line.hold_until());
        Some(timer.min(self.trim_at.get()).min(cancels)).filter(|&at| at != u64::MAX)
    }

    /// Gives memory back after a peak, one batch at a time.
    pub(super) fn trim_if_due(&self) {
        if self.trim_at.get() > self.shared.clock.now_ns() {
            return;
        }
        if self.with_stacks(|stacks| stacks.trim()) {
            self.trim_at.set(0);
        } else {
            self.trim_at.set(u64::MAX);
            self.run_queue.trim();
            self.fresh.trim();
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.with_driver(|driver| driver.in_flight())
    }

    /// Copies the ring's counters to where others can read them.
    pub(super) fn publish_counts(&self) {
        let counts = &self.remote.counts;
        self.with_driver(|driver| {
            let ring = driver.counters();
            counts.operations.store(ring.registered, Ordering::Relaxed);
            counts.completions.store(ring.ended(), Ordering::Relaxed);
            counts.enters.store(ring.enters, Ordering::Relaxed);
            counts.overflows.store(ring.overflows, Ordering::Relaxed);
            counts
                .in_flight
                .store(driver.in_flight(), Ordering::Relaxed);
        });
        counts
            .dispatched
            .store(u64::from(self.ticks.get()), Ordering::Relaxed);
    }
}

/// Owner worker only: adds to a count that others read.
#[inline]
pub(crate) fn bump(count: &AtomicU64, by: u64) {
    // Release pairs with the loads in `Shared::alive`; the owner is the only writer, so no read-modify-write is needed.
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Release);
}
