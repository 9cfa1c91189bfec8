//! The clock seam.

/// Where time comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// `CLOCK_MONOTONIC` and the CPU's counter.
    Live,
}

impl Clock {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    #[inline]
    pub(crate) fn now_ns(self) -> u64 {
        match self {
            Clock::Live => urgo_sys::clock::monotonic_ns(),
        }
    }

    /// A coarse, cheap counter that decides only when to look again (ageing of submissions, spinning), never an order.
    #[inline]
    pub(crate) fn ticks(self) -> u64 {
        match self {
            Clock::Live => urgo_sys::clock::ticks(),
        }
    }

    /// `microseconds` in units of [`ticks`](Self::ticks).
    pub(crate) fn ticks_of_us(self, microseconds: u64) -> u64 {
        match self {
            Clock::Live => microseconds.saturating_mul(urgo_sys::clock::ticks_per_us()),
        }
    }
}
