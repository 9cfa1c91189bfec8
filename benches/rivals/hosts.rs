//! Runs jobs on goroutines, on threads, on may, and futures on tokio.

use crate::harness::{Lap, Sample, pin, pin_to};
use std::future::Future;
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

/// What is to be done: by how many operations the time is divided, and what all jobs together must return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) operations: usize,
    pub(crate) sum: u64,
}

impl Work {
    /// Stops the clock, then checks the result.
    fn done(self, lap: Lap, sum: u64) -> Sample {
        let sample = lap.stop(self.operations);
        assert_eq!(sum, self.sum, "the work was not done, or done twice");
        sample
    }
}

/// One worker per CPU. The jobs are made on a goroutine, so channels are born where they will be used.
pub(crate) fn goroutines(
    cpus: &[usize],
    work: Work,
    jobs: impl FnOnce() -> Vec<Job> + Send,
) -> Sample {
    let runtime = urgo::Runtime::builder()
        .workers(cpus.len())
        .cpus(cpus)
        .build()
        .expect("a runtime");
    runtime.run(|| {
        let jobs = jobs();
        let lap = Lap::start();
        let handles: Vec<_> = jobs
            .into_iter()
            .map(|job| match job.place {
                None => urgo::spawn(job.body),
                Some(worker) => Builder::new()
                    .placement(Placement::Worker(worker))
                    .spawn(job.body)
                    .expect("a worker with this index"),
            })
            .collect();
        // The main goroutine waits here, so it takes no turn of its own.
        let sum = handles
            .into_iter()
            .map(|handle| handle.join().expect("no panic"))
            .sum();
        work.done(lap, sum)
    })
}

/// One thread per job, on these CPUs.
pub(crate) fn threads(cpus: &[usize], work: Work, jobs: Vec<Job>) -> Sample {
    pin_to(cpus);
    let gate = Arc::new(Barrier::new(jobs.len() + 1));
    let handles: Vec<_> = jobs
        .into_iter()
        .map(|job| {
            let gate = gate.clone();
            let cpu = job.place.map(|place| cpus[place]);
            std::thread::spawn(move || {
                if let Some(cpu) = cpu {
                    pin(cpu);
                }
                gate.wait();
                (job.body)()
            })
        })
        .collect();
    let lap = Lap::start();
    gate.wait();
    let sum = handles
        .into_iter()
        .map(|handle| handle.join().expect("no panic"))
        .sum();
    work.done(lap, sum)
}

/// One coroutine of may per job. Its scheduler is made once per process, here; it takes no placement.
pub(crate) fn coroutines(cpus: &[usize], work: Work, jobs: Vec<Job>) -> Sample {
    pin_to(cpus);
    may::config().set_workers(cpus.len());
    let lap = Lap::start();
    let handles: Vec<_> = jobs.into_iter().map(|job| may::go!(job.body)).collect();
    let sum = handles
        .into_iter()
        .map(|handle| handle.join().expect("no panic"))
        .sum();
    work.done(lap, sum)
}

/// The future that `main` makes, on tokio: its current-thread scheduler for one CPU, else the other one. It takes no
/// placement. `main` spawns the tasks and waits for them.
pub(crate) fn tasks<F: Future<Output = u64>>(
    cpus: &[usize],
    work: Work,
    main: impl FnOnce() -> F,
) -> Sample {
    pin_to(cpus);
    let mut builder = if cpus.len() == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder
        .worker_threads(cpus.len())
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let lap = Lap::start();
        let sum = main().await;
        work.done(lap, sum)
    })
}
