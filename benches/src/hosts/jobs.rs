//! Jobs on goroutines, on threads and on coroutines of may.

use super::warm_up;
use crate::cell::{Cell, Lap, Sample};
use crate::machine::pin_to;
use std::sync::{Arc, Barrier};
use urgo::go::{Builder, Placement};

/// One goroutine, thread or coroutine.
pub(crate) struct Job {
    /// Index of the worker that it is bound to; `None` leaves the choice to the scheduler.
    place: Option<usize>,
    body: Box<dyn FnOnce() -> u64 + Send>,
}

impl Job {
    /// `body` returns its share of the result.
    pub(crate) fn new(place: Option<usize>, body: impl FnOnce() -> u64 + Send + 'static) -> Job {
        Job {
            place,
            body: Box::new(body),
        }
    }
}

/// urgo with one worker on each of the cell's CPUs, and with stacks of the parameter `stack_bytes`, if it is there.
pub(crate) fn runtime(cell: &Cell) -> urgo::Runtime {
    let mut builder = urgo::Runtime::builder()
        .workers(cell.workers())
        .cpus(&cell.cpus);
    if let Some(bytes) = cell.find("stack_bytes") {
        builder = builder.stack_size(bytes);
    }
    builder.build().expect("a runtime on the CPUs of the cell")
}

/// may with one worker for each of the cell's CPUs. Its scheduler is made once per process, here; it takes no placement.
pub(crate) fn may_on(cell: &Cell) {
    may::config().set_workers(cell.workers());
}

/// Index of the worker for the job with this index: the one that it is bound to, else, in a case with `spread=1`, all in turn.
fn place_of(cell: &Cell, at: usize, job: &Job) -> Option<usize> {
    let is_spread = cell.find::<u8>("spread") == Some(1);
    job.place.or(is_spread.then(|| at % cell.workers()))
}

/// Jobs that do a number of operations, on urgo. They are made on a goroutine, so channels are born where they will be used.
///
/// # Panics
/// If the results of the jobs do not add up to `sum` of the operations.
pub(crate) fn goroutines(
    cell: &Cell,
    sum: impl Fn(usize) -> u64 + Sync,
    jobs: impl Fn(usize) -> Vec<Job> + Sync,
) -> Sample {
    let ops = cell.ops();
    runtime(cell).run(|| {
        let once = |ops: usize| {
            let jobs = jobs(ops);
            let lap = Lap::start();
            let spawn = |(at, job): (usize, Job)| match place_of(cell, at, &job) {
                None => urgo::spawn(job.body),
                Some(worker) => Builder::new()
                    .placement(Placement::Worker(worker))
                    .spawn(job.body)
                    .expect("a worker with this index"),
            };
            let handles: Vec<_> = jobs.into_iter().enumerate().map(spawn).collect();
            // The main goroutine waits here, so it takes no turn of its own.
            let join = |handle: urgo::go::JoinHandle<u64>| handle.join().expect("no panic");
            let result = handles.into_iter().map(join).sum();
            done(lap, ops, result, sum(ops))
        };
        once(warm_up(ops));
        once(ops)
    })
}

/// The same, one thread per job.
pub(crate) fn threads(
    cell: &Cell,
    sum: impl Fn(usize) -> u64,
    jobs: impl Fn(usize) -> Vec<Job>,
) -> Sample {
    let once = |ops: usize| {
        let jobs = jobs(ops);
        let gate = Arc::new(Barrier::new(jobs.len() + 1));
        let start = |(at, job): (usize, Job)| {
            let gate = gate.clone();
            let cpu = place_of(cell, at, &job).map(|place| cell.cpus[place]);
            std::thread::spawn(move || {
                if let Some(cpu) = cpu {
                    pin_to(&[cpu]).expect("a CPU of the cell");
                }
                // All are there, and then the clocks run.
                gate.wait();
                gate.wait();
                (job.body)()
            })
        };
        let handles: Vec<_> = jobs.into_iter().enumerate().map(start).collect();
        gate.wait();
        let lap = Lap::start();
        gate.wait();
        let join = |handle: std::thread::JoinHandle<u64>| handle.join().expect("no panic");
        let result = handles.into_iter().map(join).sum();
        done(lap, ops, result, sum(ops))
    };
    once(warm_up(cell.ops()));
    once(cell.ops())
}

/// The same, one coroutine of may per job.
pub(crate) fn coroutines(
    cell: &Cell,
    sum: impl Fn(usize) -> u64,
    jobs: impl Fn(usize) -> Vec<Job>,
) -> Sample {
    may_on(cell);
    let once = |ops: usize| {
        let jobs = jobs(ops);
        // From a coroutine, as urgo's are spawned from a goroutine: from outside they would go through may's global queue.
        let (lap, result) = may::go!(move || {
            let lap = Lap::start();
            let handles: Vec<_> = jobs.into_iter().map(|job| may::go!(job.body)).collect();
            let join = |handle: may::coroutine::JoinHandle<u64>| handle.join().expect("no panic");
            (lap, handles.into_iter().map(join).sum())
        })
        .join()
        .expect("no panic");
        done(lap, ops, result, sum(ops))
    };
    once(warm_up(cell.ops()));
    once(cell.ops())
}

/// Stops the clocks, then checks the result.
pub(super) fn done(lap: Lap, ops: usize, result: u64, expected: u64) -> Sample {
    let sample = lap.stop(ops, result);
    assert_eq!(result, expected, "the work was not done, or done twice");
    sample
}
