//! The clocks around the measured part.

use super::Sample;
use crate::machine::{Usage, inherited_count, process_cpu_ns};
use std::time::Instant;

/// A running measurement of this process, all its threads.
#[derive(Debug)]
pub(crate) struct Lap {
    wall: Instant,
    cpu_ns: u64,
    usage: Usage,
    syscalls: Option<u64>,
}

impl Lap {
    /// Starts the clocks. Costs three system calls, so a lap should last milliseconds.
    pub(crate) fn start() -> Lap {
        Lap {
            usage: Usage::now(),
            syscalls: inherited_count(),
            cpu_ns: process_cpu_ns(),
            wall: Instant::now(),
        }
    }

    /// Stops the clocks and divides by the operations done. `checksum` says what was computed; the runner compares those of
    /// contenders that did the same work.
    ///
    /// Sets `wall_ns`, `cpu_ns`, `switches`, `faults` and, where they are counted, `syscalls`, all per operation.
    pub(crate) fn stop(self, ops: usize, checksum: u64) -> Sample {
        let wall_ns = self.wall.elapsed().as_nanos() as f64;
        let cpu_ns = (process_cpu_ns() - self.cpu_ns) as f64;
        // Reading the counter is one call, and so was reading the CPU clock.
        let syscalls = inherited_count()
            .zip(self.syscalls)
            .map(|(now, then)| now - then);
        let usage = Usage::now();
        let mut sample = Sample::new(ops as u64, checksum);
        let each = |value: f64| value / ops.max(1) as f64;
        sample.set("wall_ns", each(wall_ns));
        sample.set("cpu_ns", each(cpu_ns));
        sample.set(
            "switches",
            each((usage.switches - self.usage.switches) as f64),
        );
        sample.set("faults", each((usage.faults - self.usage.faults) as f64));
        if let Some(syscalls) = syscalls {
            sample.set("syscalls", each(syscalls.saturating_sub(3) as f64));
        }
        sample
    }
}
