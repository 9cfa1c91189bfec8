//! What every bench shares: options, machine facts, clocks, pairs taken in turn, medians and ratios.
//!
//! # Purpose
//! Run contenders A B A B ... in one process on one pinned CPU and print what was measured, with the machine it was measured
//! on. Nothing here asserts a time: a number is read by a person, beside its rival of the same round.
//!
//! # Algorithm
//! 1. Each contender runs once and its sample is thrown away (caches, lazy mappings, first faults).
//! 2. Every round runs all contenders once, in order; the order is reversed in every second round, so that a slow drift of
//!    the machine does not always hit the same one.
//! 3. A ratio is formed inside each round (first contender / other), then the median of these ratios is taken. So noise
//!    that lasts longer than a round cancels out.
//!
//! # Safety
//! This file calls libc for clocks and affinity, which take plain integers and structs of our own.

#![allow(
    dead_code,
    reason = "each bench is its own crate and uses its own part of this file"
)]

mod facts;
mod report;

pub(crate) use facts::Facts;
#[allow(unused_imports, reason = "not every bench has a rival from a crate")]
pub(crate) use facts::locked_version;
#[allow(
    unused_imports,
    reason = "only whole-process benches use these themselves"
)]
pub(crate) use report::{Report, Summary, ratios};

use std::fs::File;
use std::process::Command;
use std::time::Instant;

/// Command line of every bench. `cargo bench` passes `--bench`, which is ignored, and so are unknown words.
#[derive(Debug)]
pub(crate) struct Options {
    /// Tiny sizes: shows that the bench works, measures nothing.
    pub(crate) quick: bool,
    /// Rounds per table.
    pub(crate) rounds: usize,
    /// One JSON object per contender and table is appended here.
    pub(crate) json: Option<File>,
    /// Only contenders whose name contains this run.
    pub(crate) only: Option<String>,
    /// Only tables whose heading contains this are made.
    pub(crate) case: Option<String>,
    /// The number of workers that this process is for; see [`each_in_a_process`].
    pub(crate) workers: Option<usize>,
}

impl Options {
    /// Reads the process's arguments.
    ///
    /// # Panics
    /// If an option lacks its value or the JSON file cannot be opened.
    pub(crate) fn from_args(rounds_default: usize) -> Options {
        let mut options = Options {
            quick: false,
            rounds: 0,
            json: None,
            only: None,
            case: None,
            workers: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--rounds" => options.rounds = value().parse().expect("--rounds takes a count"),
                "--only" => options.only = Some(value()),
                "--case" => options.case = Some(value()),
                "--workers" => {
                    options.workers = Some(value().parse().expect("--workers takes a count"));
                }
                "--json" => {
                    let path = value();
                    let file = File::options().create(true).append(true).open(&path);
                    options.json = Some(file.unwrap_or_else(|e| panic!("{path}: {e}")));
                }
                // `cargo test --benches` passes no `--bench`: then the point is that it runs, not how fast.
                "--bench" => {}
                _ => {}
            }
        }
        if !std::env::args().any(|arg| arg == "--bench") && cfg!(debug_assertions) {
            options.quick = true;
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 2 } else { rounds_default };
        }
        options
    }

    /// `full`, or `tiny` under `--quick`.
    pub(crate) fn size(&self, full: usize, tiny: usize) -> usize {
        if self.quick { tiny } else { full }
    }

    /// Whether the contender called `name` was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|part| name.contains(part))
    }

    /// Whether the table with this heading was asked for.
    pub(crate) fn wants_case(&self, case: &str) -> bool {
        self.case.as_deref().is_none_or(|part| case.contains(part))
    }
}

/// The clock by which a table is judged: its budget and its ratios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// CPU time of the process: for work on one CPU, where it is not hurt by neighbours.
    Cpu,
    /// Wall time: for work on several CPUs at once, where the sum of their times hides how much went on side by side.
    Wall,
}

/// One measurement of one contender, per operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// CPU time of the whole process, all threads, in ns per operation.
    pub(crate) cpu_ns: f64,
    /// Wall time in ns per operation.
    pub(crate) wall_ns: f64,
}

/// A running measurement.
#[derive(Debug)]
pub(crate) struct Lap {
    wall: Instant,
    cpu_ns: u64,
}

impl Lap {
    /// Starts the clocks. Costs one system call, so a lap should last milliseconds.
    pub(crate) fn start() -> Lap {
        Lap {
            wall: Instant::now(),
            cpu_ns: process_cpu_ns(),
        }
    }

    /// Stops the clocks and divides by the operations done.
    pub(crate) fn stop(self, operations: usize) -> Sample {
        let cpu_ns = process_cpu_ns() - self.cpu_ns;
        let wall_ns = self.wall.elapsed().as_nanos();
        Sample {
            cpu_ns: cpu_ns as f64 / operations as f64,
            wall_ns: wall_ns as f64 / operations as f64,
        }
    }
}

/// A name and the work of one round.
pub(crate) struct Contender<'a> {
    name: String,
    work: Box<dyn FnMut() -> Sample + 'a>,
}

impl std::fmt::Debug for Contender<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contender")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<'a> Contender<'a> {
    /// `work` does one round and returns its sample.
    pub(crate) fn new(name: impl Into<String>, work: impl FnMut() -> Sample + 'a) -> Contender<'a> {
        Contender {
            name: name.into(),
            work: Box::new(work),
        }
    }
}

/// Runs the contenders in turn and prints one table, judged by CPU time. The first contender is the one whose ratio to
/// each other is shown.
pub(crate) fn compare(
    report: &mut Report,
    options: &Options,
    case: &str,
    budget: Option<f64>,
    contenders: Vec<Contender<'_>>,
) {
    compare_by(Clock::Cpu, report, options, case, budget, contenders);
}

/// [`compare`], judged by `clock`. Does nothing if the table or all its contenders were not asked for.
pub(crate) fn compare_by(
    clock: Clock,
    report: &mut Report,
    options: &Options,
    case: &str,
    budget: Option<f64>,
    contenders: Vec<Contender<'_>>,
) {
    if !options.wants_case(case) {
        return;
    }
    let mut contenders: Vec<_> = contenders
        .into_iter()
        .filter(|c| options.wants(&c.name))
        .collect();
    if contenders.is_empty() {
        return;
    }
    let mut samples: Vec<Vec<Sample>> = contenders
        .iter()
        .map(|_| Vec::with_capacity(options.rounds))
        .collect();
    for contender in &mut contenders {
        (contender.work)();
    }
    for round in 0..options.rounds {
        let count = contenders.len();
        for turn in 0..count {
            let at = if round % 2 == 0 {
                turn
            } else {
                count - 1 - turn
            };
            samples[at].push((contenders[at].work)());
        }
    }
    let rows: Vec<_> = contenders
        .iter()
        .zip(&samples)
        .map(|(c, s)| (c.name.as_str(), s.as_slice()))
        .collect();
    report.table(case, clock, budget, &rows);
}

/// Runs `tables` for 1 and for 2 workers, each in a process of its own, with the CPUs that they may use: some rivals have
/// one scheduler per process, made once. With `--workers N` there is no other process, which is what a profiler wants.
pub(crate) fn each_in_a_process(tables: impl FnOnce(&mut Options, &[usize], &[usize])) {
    let mut options = Options::from_args(9);
    let allowed = allowed_cpus();
    if let Some(workers) = options.workers {
        let cpus = allowed
            .get(..workers)
            .unwrap_or_else(|| panic!("{workers} workers on {} allowed CPUs", allowed.len()));
        return tables(&mut options, &allowed, cpus);
    }
    for workers in [1, 2] {
        if workers > allowed.len() {
            println!("\n-- 2 workers: left out, one CPU is allowed");
            continue;
        }
        let status = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(std::env::args().skip(1))
            .args(["--workers", &workers.to_string()])
            .status()
            .expect("the program starts again");
        assert!(status.success(), "with {workers} workers: {status}");
    }
}

/// CPU time used so far by all threads of this process, in ns.
pub(crate) fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time used so far by all threads of the process `pid`, in ns; `None` once it has been reaped.
pub(crate) fn cpu_ns_of(pid: u32) -> Option<u64> {
    let mut clock = 0;
    // SAFETY: `clock` is a valid place for the one integer that the call writes, for the length of the call.
    let error = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    (error == 0).then(|| clock_ns(clock))
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the one timespec that the call writes, for the length of the call.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(
        result,
        0,
        "clock {clock}: {}",
        std::io::Error::last_os_error()
    );
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// User and system time of the process `pid` in clock ticks. The tick is 10 ms, so only their proportion is used.
pub(crate) fn cpu_ticks_of(pid: u32) -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold spaces; utime and stime are the 12th and 13th fields after it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// CPUs that this process was allowed at its start. Call before the first [`pin`].
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: all zeroes is a valid, empty `cpu_set_t`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid place of the size that is passed, for the length of the call.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    assert_eq!(
        result,
        0,
        "sched_getaffinity: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: `cpu` stays below the number of bits in `set`, by the range.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Pins the calling thread, and the threads that it will start, to `cpu`.
pub(crate) fn pin(cpu: usize) {
    pin_to(&[cpu]);
}

/// Confines the calling thread, and the threads that it will start, to `cpus`.
pub(crate) fn pin_to(cpus: &[usize]) {
    // SAFETY: all zeroes is a valid, empty `cpu_set_t`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        assert!(cpu < libc::CPU_SETSIZE as usize);
        // SAFETY: `cpu` is below the number of bits in `set`, asserted one line above.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is valid and of the size that is passed, for the length of the call.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(
        result,
        0,
        "cannot pin to CPUs {cpus:?}: {}",
        std::io::Error::last_os_error()
    );
}
