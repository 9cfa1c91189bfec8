//! The runtime builder.

use super::Runtime;
use super::error::BuildError;
use crate::goroutine::class_of;
use crate::limits::{
    BLOCKING_THREADS_DEFAULT, RING_ENTRIES_DEFAULT, STACK_BYTES_DEFAULT, STACK_BYTES_MAX,
    WORKERS_MAX,
};
use crate::sched::{self, StartPlan};
use urgo_sys::cpu::CpuSet;
use urgo_uring::{Capabilities, Config};

/// Says what a runtime is to be like.
///
/// The defaults: one worker for each CPU that the process may use (its affinity mask, and no more than its cgroups' CPU
/// quota allows, rounded up), each pinned to its CPU.
///
/// ```
/// # fn main() -> Result<(), urgo::BuildError> {
/// let runtime = urgo::Runtime::builder().workers(2).stack_size(64 * 1024).build()?;
/// runtime.run(|| assert_eq!(urgo::Handle::current().workers(), 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    workers: Option<usize>,
    cpus: Option<Vec<usize>>,
    pin: bool,
    stack_bytes: usize,
    ring_entries: u32,
    blocking_threads: usize,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            workers: None,
            cpus: None,
            pin: true,
            stack_bytes: STACK_BYTES_DEFAULT,
            ring_entries: RING_ENTRIES_DEFAULT,
            blocking_threads: BLOCKING_THREADS_DEFAULT,
        }
    }

    /// Sets the number of workers, 1 to 4,096. With more workers than CPUs they share CPUs in turn.
    pub fn workers(mut self, n: usize) -> Builder {
        self.workers = Some(n);
        self
    }

    /// Names the CPUs to use, in the order of workers. Each must be in the process's affinity mask. Without
    /// [`workers`](Self::workers) there is one worker per CPU named.
    pub fn cpus(mut self, cpus: &[usize]) -> Builder {
        self.cpus = Some(cpus.to_vec());
        self
    }

    /// Whether each worker is pinned to its CPU (the default) or only keeps the process's mask.
    pub fn pin(mut self, pin: bool) -> Builder {
        self.pin = pin;
        self
    }

    /// Sets the stack reserve in bytes of goroutines whose builder does not say otherwise, rounded up to a power of two of
    /// at least 16 KiB. 256 KiB unless said. Only touched pages cost memory.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_bytes = bytes;
        self
    }

    /// Sets the submission entries of each worker's ring, 1 to 32,768; the kernel rounds up to a power of two. 1,024 unless
    /// said. A full queue holds goroutines back, it loses nothing.
    pub fn ring_entries(mut self, n: u32) -> Builder {
        self.ring_entries = n;
        self
    }

    /// Caps the threads of the blocking pool, 1 or more. 512 unless said; they are started on demand.
    pub fn blocking_threads(mut self, n: usize) -> Builder {
        self.blocking_threads = n;
        self
    }

    /// Starts the workers. Blocks the calling thread for about a millisecond.
    ///
    /// # Errors
    ///
    /// [`BuildError`], with cause and remedy; nothing is left behind then.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let plan = self.plan()?;
        let (shared, threads) = sched::start(plan).map_err(BuildError::from_start)?;
        Ok(Runtime { shared, threads })
    }

    fn plan(self) -> Result<StartPlan, BuildError> {
        let option = |option, value: usize, allowed| {
            Err(BuildError::InvalidOption {
                option,
                value,
                allowed,
            })
        };
        if let Some(workers) = self.workers.filter(|n| !(1..=WORKERS_MAX).contains(n)) {
            const _: () = assert!(WORKERS_MAX == 4096);
            return option("workers", workers, "1 to 4096");
        }
        if self.stack_bytes == 0 || class_of(self.stack_bytes).is_none() {
            const _: () = assert!(STACK_BYTES_MAX == 1 << 30);
            return option("stack_size", self.stack_bytes, "1 byte to 1 GiB");
        }
        if !(1..=32_768).contains(&self.ring_entries) {
            return option("ring_entries", self.ring_entries as usize, "1 to 32768");
        }
        if self.blocking_threads == 0 {
            return option("blocking_threads", 0, "1 or more");
        }
        let mask = urgo_sys::cpu::affinity().map_err(BuildError::Affinity)?;
        let cpus = self.chosen_cpus(&mask)?;
        let workers = self.workers.unwrap_or_else(|| match &self.cpus {
            Some(cpus) => cpus.len(),
            None => default_workers(cpus.len()),
        });
        Ok(StartPlan {
            cpus: (0..workers)
                .map(|i| self.pin.then(|| cpus[i % cpus.len()]))
                .collect(),
            mask: Some(mask),
            stack_bytes: self.stack_bytes,
            ring: Config {
                entries: self.ring_entries,
                disable: Capabilities::disabled_by_environment(),
                ..Config::default()
            },
            blocking_threads: self.blocking_threads,
        })
    }

    fn chosen_cpus(&self, mask: &CpuSet) -> Result<Vec<usize>, BuildError> {
        let cpus = self.cpus.clone().unwrap_or_else(|| mask.iter().collect());
        if let Some(&cpu) = cpus.iter().find(|&&cpu| !mask.contains(cpu)) {
            return Err(BuildError::CpuNotAllowed {
                cpu,
                allowed: mask.to_string(),
            });
        }
        if cpus.is_empty() {
            Err(BuildError::NoCpus)
        } else {
            Ok(cpus)
        }
    }
}

/// One worker per CPU, as far as the quota lets them all run.
fn default_workers(cpus: usize) -> usize {
    let quota = urgo_sys::quota::cpu_quota().map_or(f64::INFINITY, urgo_sys::quota::Quota::cpus);
    // At least one; a quota of 1.5 CPUs keeps two workers busy some of the time.
    cpus.min((quota.ceil().min(1e6) as usize).max(1))
}
