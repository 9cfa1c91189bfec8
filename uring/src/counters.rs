//! What happened on one ring since it was made. Plain numbers, written by the owner thread only.

/// Running totals of one ring. Every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Ops registered.
    pub registered: u64,
    /// Ops whose SQE was published.
    pub submitted: u64,
    /// Ops that ended with a result of their own (errors included).
    pub completed: u64,
    /// Ops that ended with `-ECANCELED` or `-EINTR` after they had been marked for cancellation.
    pub cancelled: u64,
    /// Ops that ended with `-EFAULT`: the kernel could not reach memory that the caller had promised.
    pub faulted: u64,
    /// Ops withdrawn before their SQE was published.
    pub withdrawn: u64,
    /// Ops given up by [`Ring::abandon`](crate::Ring::abandon) while the kernel could still write their memory.
    pub leaked: u64,
    /// Records for an op that had already ended.
    pub dup: u64,
    /// Records of an earlier generation of a slot.
    pub stale: u64,
    /// Records that no request of this ring can have caused.
    pub foreign: u64,
    /// Records of ops whose owner was retired ([`Ring::retire`](crate::Ring::retire)), or for a slot that is out of service
    /// because its generations are used up.
    pub retired: u64,
    /// Records with `F_MORE`, handed on as [`Event::Record`](crate::Event).
    pub records: u64,
    /// Zero-copy results that had to wait for their notification.
    pub notification_waits: u64,
    /// Cancel requests written.
    pub cancels_sent: u64,
    /// Cancel requests that found their op and ended it.
    pub cancels_hit: u64,
    /// Cancel requests that found nothing (`-ENOENT`): the op had ended.
    pub cancels_missed: u64,
    /// Cancel requests that came while the op ran (`-EALREADY`): the op ends by itself.
    pub cancels_late: u64,
    /// SQEs written, control requests included.
    pub sqes: u64,
    /// CQEs taken, control records included.
    pub cqes: u64,
    /// `io_uring_enter` calls.
    pub enters: u64,
    /// Those of them that were allowed to sleep.
    pub waits: u64,
    /// Enters that a signal interrupted.
    pub interrupts: u64,
    /// Enters refused for want of memory or because completions were backed up; the SQEs stayed queued.
    pub stalls: u64,
    /// Times the submission queue was full when an op was to be queued.
    pub sq_full: u64,
    /// Times the kernel was seen holding completions back because the completion queue was full.
    pub overflows: u64,
    /// Kicks sent to other rings.
    pub kicks_sent: u64,
    /// Of those, the ones the kernel refused.
    pub kicks_failed: u64,
    /// Kicks that arrived: from other rings, by the sleep word or by the eventfd.
    pub kicks_received: u64,
}

impl Counters {
    /// Ops that have ended, one way or another.
    pub fn ended(&self) -> u64 {
        self.completed + self.cancelled + self.faulted + self.withdrawn + self.leaked
    }

    /// Ops that are queued or in the kernel.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.submitted - (self.completed + self.cancelled + self.faulted + self.leaked)
    }

    /// Records that were counted and not applied.
    pub fn discarded(&self) -> u64 {
        self.dup + self.stale + self.foreign + self.retired
    }
}
