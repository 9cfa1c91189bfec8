//! Question: what do the birth and the death of a goroutine cost, in the numbers in which a server makes them?
//!
//! Workload: batches of 1000 goroutines that each return their index are spawned and then joined in order, on one worker. One
//! operation is one goroutine: control block, closure, queue, a stack at its first run, return value, join. Beside it in the
//! same run, for scale: `std::thread`, in batches of 100, on the same CPU.
//!
//! Printed: machine, kernel, commit; ns per goroutine, of CPU time and of wall time; ratio round by round.
//!
//! It is not: the cost of a goroutine that waits (it would need a stack of its own), nor of spawning to another worker.

#[path = "harness/mod.rs"]
mod harness;

use harness::{Contender, Lap, Options, Report, Sample, allowed_cpus, compare, pin};

const BATCH: usize = 1000;
const THREAD_BATCH: usize = 100;
const BUDGET_NS: f64 = 45.0;

fn main() {
    let mut options = Options::from_args(11);
    let cpus = allowed_cpus();
    let mut report = Report::open("spawn_join", &cpus, &mut options);
    let cpu = cpus[0];
    pin(cpu);
    let batches = options.size(1000, 2);
    let thread_batches = options.size(10, 1);
    let contenders = vec![
        Contender::new("urgo", move || goroutines(cpu, batches)),
        Contender::new("std::thread", move || threads(thread_batches)),
    ];
    compare(
        &mut report,
        &options,
        "spawn + join, batches of 1000",
        Some(BUDGET_NS),
        contenders,
    );
}

fn goroutines(cpu: usize, batches: usize) -> Sample {
    let runtime = urgo::Runtime::builder()
        .workers(1)
        .cpus(&[cpu])
        .build()
        .expect("a runtime");
    runtime.run(move || {
        let mut handles = Vec::with_capacity(BATCH);
        let mut sum = 0;
        let lap = Lap::start();
        for _ in 0..batches {
            handles.extend((0..BATCH).map(|index| urgo::spawn(move || index)));
            for handle in handles.drain(..) {
                sum += handle.join().expect("no panic");
            }
        }
        let sample = lap.stop(batches * BATCH);
        assert_eq!(sum, batches * BATCH * (BATCH - 1) / 2);
        sample
    })
}

fn threads(batches: usize) -> Sample {
    let mut handles = Vec::with_capacity(THREAD_BATCH);
    let mut sum = 0;
    let lap = Lap::start();
    for _ in 0..batches {
        handles.extend((0..THREAD_BATCH).map(|index| std::thread::spawn(move || index)));
        for handle in handles.drain(..) {
            sum += handle.join().expect("no panic");
        }
    }
    let sample = lap.stop(batches * THREAD_BATCH);
    assert_eq!(sum, batches * THREAD_BATCH * (THREAD_BATCH - 1) / 2);
    sample
}
