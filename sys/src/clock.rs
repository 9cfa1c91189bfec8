//! What time it is: the monotonic clock for deadlines, the CPU's counter for ageing decisions.
//!
//! # Safety
//! `unsafe` for `clock_gettime` of the C library (2 ns of 26 less than through `rustix`, and every timer pays it), and for the
//! counter register: `rdtsc` on x86_64 (unprivileged unless the process set `PR_TSC_SIGSEGV` itself),
//! `cntvct_el0` on aarch64 (Linux always lets user space read it).
#![allow(unsafe_code)]

const NS_PER_S: u64 = 1_000_000_000;

/// `clock_gettime(CLOCK_MONOTONIC)` in nanoseconds, through the vDSO. Blocks nothing.
///
/// The clock the runtime's deadlines, the ring's timeouts and [`crate::futex::wait`] share. Saturates after 584 years of
/// uptime.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: because the answer goes into a record of ours; until the call returns. It cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64)
        .saturating_mul(NS_PER_S)
        .saturating_add(now.tv_nsec as u64)
}

/// The CPU's time counter, in ticks of [`ticks_per_us`]: `rdtsc` or `mrs cntvct_el0`, not serialised.
///
/// For ageing decisions only ("has this waited longer than 50 µs?"): it may be reordered with its neighbours, may differ by
/// a little between CPUs, and may jump when a virtual machine moves. Subtract with `saturating_sub`. Never make a
/// deadline of it.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: because rdtsc only reads a counter; established by every x86_64 CPU; holds without end.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: because reading cntvct_el0 touches no memory and no flags; established by Linux, which enables it for
        // user space at boot; holds without end.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
        }
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    monotonic_ns()
}

/// How many [`ticks`] make a microsecond, at least 1.
///
/// The first call on x86_64 measures the counter against the clock for a fifth of a millisecond, spinning; later calls
/// read a word. On aarch64 the CPU states its frequency.
pub fn ticks_per_us() -> u64 {
    static RATE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *RATE.get_or_init(|| measure_rate().max(1))
}

#[cfg(target_arch = "x86_64")]
fn measure_rate() -> u64 {
    const SPAN_NS: u64 = 200_000;
    let (first_ns, first_ticks) = paired_reading();
    let mut now_ns = first_ns;
    while now_ns - first_ns < SPAN_NS {
        core::hint::spin_loop();
        now_ns = monotonic_ns().max(first_ns);
    }
    let (last_ns, last_ticks) = paired_reading();
    let elapsed_ns = last_ns.saturating_sub(first_ns).max(1);
    let elapsed_ticks = last_ticks.saturating_sub(first_ticks);
    (elapsed_ticks.saturating_mul(1_000) + elapsed_ns / 2) / elapsed_ns
}

/// The clock and the counter at one moment: the tightest of several brackets, so that losing the CPU between the two
/// reads does not spoil the rate.
#[cfg(target_arch = "x86_64")]
fn paired_reading() -> (u64, u64) {
    let mut tightest = (u64::MAX, 0, 0);
    for _ in 0..8 {
        let before = ticks();
        let ns = monotonic_ns();
        let after = ticks();
        let width = after.saturating_sub(before);
        if width < tightest.0 {
            tightest = (width, ns, before + width / 2);
        }
    }
    (tightest.1, tightest.2)
}

#[cfg(target_arch = "aarch64")]
fn measure_rate() -> u64 {
    let hz: u64;
    // SAFETY: because reading cntfrq_el0 touches no memory and no flags; established by Linux, which enables it for user
    // space at boot; holds without end.
    unsafe {
        core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags));
    }
    (hz + 500_000) / 1_000_000
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn measure_rate() -> u64 {
    1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let mut last = monotonic_ns();
        for _ in 0..10_000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_rate_of_the_counter_agrees_with_the_clock() {
        let rate = ticks_per_us();
        assert_eq!(rate, ticks_per_us(), "the rate is measured once");
        // Read the counter inside a bracket of clock reads at both ends: whatever delay strikes widens a bracket.
        let before_start_ns = monotonic_ns();
        let start = ticks();
        let after_start_ns = monotonic_ns();
        let mut before_end_ns = after_start_ns;
        while before_end_ns - after_start_ns < 20_000_000 {
            before_end_ns = monotonic_ns();
        }
        let elapsed_us = (ticks() - start) / rate;
        let low_us = (before_end_ns - after_start_ns) / 1_000;
        let high_us = (monotonic_ns() - before_start_ns) / 1_000;
        assert!(elapsed_us >= low_us * 8 / 10, "{elapsed_us} below {low_us}");
        assert!(
            elapsed_us <= high_us * 12 / 10,
            "{elapsed_us} above {high_us}"
        );
    }
}
