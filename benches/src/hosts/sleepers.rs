//! Many that sleep until one moment.
//!
//! # Algorithm
//!
//! One spawns all (`ops` of them), each of which counts itself in, sleeps until the moment and counts itself out. The last one
//! in and the last one out tell the one that spawned, so nobody polls meanwhile. A moment that came before all slept counts
//! for nothing; then the next attempt gives twice the time. With `repeats`, the values are means over so many moments.
//!
//! Values of the sample, each divided by the number of sleepers:
//!
//! - `cpu_ns`: CPU time from the time when all sleep until the last one has run;
//! - `late_ns`: time from the moment until the last one has run;
//! - `park_ns`: CPU time from the first spawn until all sleep;
//! - with `memory=1`: `bytes_each`, what the process has become larger by, page tables included, while all sleep.
//!
//! And, with `memory=1`, undivided: `vmas`, mappings more than before; with `left_ms`, so long after the last one has run:
//! `left_fraction`, the process's memory over what it was while all slept.

use super::{Green, Put, Take, tokio_runtime};
use crate::cell::{Cell, Lap, Sample};
use crate::machine::{process_cpu_ns, resident_bytes_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use urgo_sys::memory::vma_count;

/// Time to spawn them all at the first attempt: so much, and so much for each.
const LEAD: Duration = Duration::from_millis(1);
const LEAD_EACH: Duration = Duration::from_micros(5);
/// Attempts in which the machine may be too slow. The last one has 32 times the time of the first one.
const MISSES_MAX: u32 = 5;

/// Sleepers on urgo or may.
pub(crate) fn sleepers<G: Green>(cell: &Cell) -> Sample {
    let own = cell.clone();
    G::run(cell, move || {
        let mut sums = Sums::new(&own);
        while let Some(lead) = sums.lead() {
            let (tell, told) = G::channel();
            let meeting = Arc::new(Meeting::new(sums.count, lead, tell));
            let moment = G::moment(meeting.moment);
            let parking_ns = process_cpu_ns();
            for _ in 0..sums.count {
                let meeting = meeting.clone();
                drop(G::spawn(move || {
                    if meeting.come() {
                        meeting.tell.put(0);
                    }
                    G::sleep_until(moment);
                    if meeting.go() {
                        meeting.tell.put(meeting.late_ns());
                    }
                }));
            }
            let received = || told.take().expect("the last one tells");
            received();
            let lap = sums.all_sleep(parking_ns);
            let late_ns = received();
            sums.all_ran(lap, late_ns, meeting.was_full());
        }
        if let Some(wait) = sums.left_after {
            G::sleep(wait);
        }
        sums.end()
    })
}

/// Sleepers on tokio.
pub(crate) fn sleeping_tasks(cell: &Cell) -> Sample {
    let own = cell.clone();
    let main = async move {
        let mut sums = Sums::new(&own);
        while let Some(lead) = sums.lead() {
            let (tell, mut told) = tokio::sync::mpsc::channel::<u64>(2);
            let meeting = Arc::new(Meeting::new(sums.count, lead, tell));
            let parking_ns = process_cpu_ns();
            for _ in 0..sums.count {
                let meeting = meeting.clone();
                tokio::spawn(async move {
                    if meeting.come() {
                        meeting.tell.try_send(0).expect("two slots");
                    }
                    tokio::time::sleep_until(meeting.moment.into()).await;
                    if meeting.go() {
                        meeting.tell.try_send(meeting.late_ns()).expect("two slots");
                    }
                });
            }
            told.recv().await.expect("the last one tells");
            let lap = sums.all_sleep(parking_ns);
            let late_ns = told.recv().await.expect("the last one tells");
            sums.all_ran(lap, late_ns, meeting.was_full());
        }
        if let Some(wait) = sums.left_after {
            tokio::time::sleep(wait).await;
        }
        sums.end()
    };
    tokio_runtime(cell)
        .block_on(async { tokio::spawn(main).await })
        .expect("no panic")
}

/// All who sleep until one moment, and how to tell the one who waits for them.
struct Meeting<T> {
    moment: Instant,
    count: usize,
    came: AtomicUsize,
    went: AtomicUsize,
    /// How many had come when the first one went.
    came_in_time: AtomicUsize,
    tell: T,
}

impl<T> Meeting<T> {
    fn new(count: usize, lead: Duration, tell: T) -> Meeting<T> {
        Meeting {
            moment: Instant::now() + lead,
            count,
            came: AtomicUsize::new(0),
            went: AtomicUsize::new(0),
            came_in_time: AtomicUsize::new(0),
            tell,
        }
    }

    /// True for the last one. Relaxed, as below: what the last one tells goes through a channel.
    fn come(&self) -> bool {
        self.came.fetch_add(1, Ordering::Relaxed) + 1 == self.count
    }

    /// True for the last one.
    fn go(&self) -> bool {
        let went = self.went.fetch_add(1, Ordering::Relaxed);
        if went == 0 {
            let came = self.came.load(Ordering::Relaxed);
            self.came_in_time.store(came, Ordering::Relaxed);
        }
        went + 1 == self.count
    }

    fn late_ns(&self) -> u64 {
        self.moment.elapsed().as_nanos() as u64
    }

    /// Whether all slept before the first one ran again.
    fn was_full(&self) -> bool {
        self.came_in_time.load(Ordering::Relaxed) == self.count
    }
}

/// What was seen so far.
struct Sums {
    count: usize,
    repeats: usize,
    repeats_done: usize,
    misses: u32,
    sees_memory: bool,
    left_after: Option<Duration>,
    bytes_before: u64,
    vmas_before: usize,
    bytes: u64,
    vmas: usize,
    /// Of the attempt under way, which may count for nothing.
    parking_ns: u64,
    park_ns: f64,
    late_ns: f64,
    cpu_ns: f64,
}

impl Sums {
    fn new(cell: &Cell) -> Sums {
        let sees_memory = cell.find::<u8>("memory") == Some(1);
        let mut sums = Sums {
            count: cell.ops(),
            repeats: cell.find("repeats").unwrap_or(1),
            repeats_done: 0,
            misses: 0,
            sees_memory,
            left_after: cell.find("left_ms").map(Duration::from_millis),
            bytes_before: 0,
            vmas_before: 0,
            bytes: 0,
            vmas: 0,
            parking_ns: 0,
            park_ns: 0.0,
            late_ns: 0.0,
            cpu_ns: 0.0,
        };
        if sees_memory {
            (sums.bytes_before, sums.vmas_before) = memory();
        }
        sums
    }

    /// Time from now to the next moment, until there were enough of them.
    fn lead(&self) -> Option<Duration> {
        let lead = LEAD + LEAD_EACH * self.count as u32;
        (self.repeats_done < self.repeats).then(|| lead * (1 << self.misses))
    }

    /// Starts the clocks of waking.
    fn all_sleep(&mut self, parking_ns: u64) -> Lap {
        self.parking_ns = process_cpu_ns() - parking_ns;
        if self.sees_memory {
            (self.bytes, self.vmas) = memory();
        }
        Lap::start()
    }

    fn all_ran(&mut self, lap: Lap, late_ns: u64, was_full: bool) {
        let sample = lap.stop(1, 0);
        if !was_full {
            self.misses += 1;
            assert!(
                self.misses <= MISSES_MAX,
                "the machine is too slow: some woke before all slept, again and again"
            );
            return;
        }
        self.repeats_done += 1;
        self.park_ns += self.parking_ns as f64;
        self.late_ns += late_ns as f64;
        self.cpu_ns += sample.metrics["cpu_ns"];
    }

    fn end(self) -> Sample {
        let ops = self.count * self.repeats;
        let mut sample = Sample::new(ops as u64, ops as u64);
        sample.set("cpu_ns", self.cpu_ns / ops as f64);
        sample.set("late_ns", self.late_ns / ops as f64);
        sample.set("park_ns", self.park_ns / ops as f64);
        if self.sees_memory {
            let more = self.bytes.saturating_sub(self.bytes_before);
            sample.set("bytes_each", more as f64 / self.count as f64);
            sample.set("vmas", self.vmas.saturating_sub(self.vmas_before) as f64);
        }
        if self.left_after.is_some() {
            let (left, _) = memory();
            sample.set("left_fraction", left as f64 / self.bytes as f64);
        }
        sample
    }
}

/// Bytes of this process, and its mappings.
fn memory() -> (u64, usize) {
    let bytes = resident_bytes_of(std::process::id()).expect("/proc is there");
    (bytes, vma_count().expect("/proc is there"))
}
