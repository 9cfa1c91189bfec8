//! What is counted about operations outside.

/// Counts of operations that outside threads carry out (see [`host`](crate::host)).
///
/// Once nothing is out, `registered` is `completed + cancelled + faulted + leaked`. The last four count answers that came to nothing;
/// each is counted in one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostCounters {
    /// Operations registered.
    pub registered: u64,
    /// Operations handed to the outside.
    pub submitted: u64,
    /// Operations that ended with their value.
    pub completed: u64,
    /// Operations that ended because their goroutine was cancelled, their deadline passed, or nobody waited for them; and those
    /// that were never submitted.
    pub cancelled: u64,
    /// Operations that ended with a fault.
    pub faulted: u64,
    /// Operations that were forgotten (`mem::forget`), known when their worker ends.
    pub leaked: u64,
    /// Answers to operations that had been answered.
    pub dup: u64,
    /// Answers to operations that had ended.
    pub stale: u64,
    /// Answers to what was never registered, or with a value of another type.
    pub foreign: u64,
    /// Answers to owners that have ended.
    pub retired: u64,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With its value.
    Completed,
    /// Without one, since nobody wanted it any more.
    Cancelled,
    /// With a fault.
    Faulted,
}

impl HostCounters {
    /// Operations that are registered and have not ended.
    #[must_use]
    pub fn out(&self) -> u64 {
        let ended = self.completed + self.cancelled + self.faulted + self.leaked;
        self.registered - ended
    }

    pub(super) fn count_end(&mut self, ended: Ended) {
        match ended {
            Ended::Completed => self.completed += 1,
            Ended::Cancelled => self.cancelled += 1,
            Ended::Faulted => self.faulted += 1,
        }
    }

    pub(crate) fn add(&mut self, other: &HostCounters) {
        self.registered += other.registered;
        self.submitted += other.submitted;
        self.completed += other.completed;
        self.cancelled += other.cancelled;
        self.faulted += other.faulted;
        self.leaked += other.leaked;
        self.dup += other.dup;
        self.stale += other.stale;
        self.foreign += other.foreign;
        self.retired += other.retired;
    }
}
