//! Question: what does one turn through the scheduler cost?
//!
//! Workload: 2 and 1024 goroutines on one worker, each calling `yield_now` in a loop, until all have done their share. One
//! operation is one yield: leave the goroutine, one pass of the worker's loop, enter the next one. Beside it the least that
//! any runtime could do: coroutines of corosensei resumed round robin from a `VecDeque`, without preemption, fairness,
//! rings, timers or stealing.
//!
//! Printed: machine, kernel, commit; ns per yield, of CPU time and of wall time; ratio round by round.
//!
//! It is not: a measure of cold stacks. Each goroutine touches one or two cache lines of its stack; with 1024 of them the
//! working set fits the second-level cache.

#[path = "harness/mod.rs"]
mod harness;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use harness::{
    Contender, Lap, Options, Report, Sample, allowed_cpus, compare, locked_version, pin,
};
use std::collections::VecDeque;

fn main() {
    let mut options = Options::from_args(11);
    let cpus = allowed_cpus();
    let mut report = Report::open("yield_now", &cpus, &mut options);
    let cpu = cpus[0];
    pin(cpu);
    let rival = format!("queue over corosensei {}", locked_version("corosensei"));
    for (goroutines, budget) in [(2, 10.0), (1024, 22.0)] {
        let yields = options.size(4 << 20, 4096) / goroutines;
        let contenders = vec![
            Contender::new("urgo", move || {
                yields_of_goroutines(cpu, goroutines, yields)
            }),
            Contender::new(rival.as_str(), move || {
                queue_over_corosensei(goroutines, yields)
            }),
        ];
        compare(
            &mut report,
            &options,
            &format!("yield, {goroutines} goroutines"),
            Some(budget),
            contenders,
        );
    }
}

fn yields_of_goroutines(cpu: usize, goroutines: usize, yields: usize) -> Sample {
    let runtime = urgo::Runtime::builder()
        .workers(1)
        .cpus(&[cpu])
        .build()
        .expect("a runtime");
    runtime.run(move || {
        let lap = Lap::start();
        let body = move || (0..yields).for_each(|_| urgo::yield_now());
        let handles: Vec<_> = (0..goroutines).map(|_| urgo::spawn(body)).collect();
        // The main goroutine waits here, so it takes no turn of its own.
        handles
            .into_iter()
            .for_each(|handle| handle.join().expect("no panic"));
        lap.stop(goroutines * yields)
    })
}

fn queue_over_corosensei(coroutines: usize, yields: usize) -> Sample {
    let mut coroutines: Vec<Coroutine<(), (), ()>> = (0..coroutines)
        .map(|_| {
            let stack = DefaultStack::new(64 << 10).expect("a 64 KiB stack");
            Coroutine::with_stack(stack, move |yielder, ()| {
                for _ in 0..yields {
                    yielder.suspend(());
                }
            })
        })
        .collect();
    // A queue of indices: moving the coroutines themselves, several words each, through it more than doubles the cost.
    let mut queue: VecDeque<usize> = (0..coroutines.len()).collect();
    let lap = Lap::start();
    while let Some(at) = queue.pop_front() {
        match coroutines[at].resume(()) {
            CoroutineResult::Yield(()) => queue.push_back(at),
            CoroutineResult::Return(()) => {}
        }
    }
    lap.stop(coroutines.len() * yields)
}
