//! What does one turn through the scheduler cost?

use crate::catalogue::{Budget, Case, Contender, Size, Workload};
use crate::cell::{Cell, Lap, Sample};
use crate::hosts::{may_on, runtime, tasks, warm_up};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use std::collections::VecDeque;

pub(super) const WORKLOAD: Workload = Workload {
    name: "yield_now",
    question: "What does one turn through the scheduler cost?",
    work: "2 or 1024 goroutines call yield_now in a loop until all have done their share. One operation is one yield: leave the \
           goroutine, one pass of the worker's loop, enter the next one. corosensei is the least that any runtime could do: \
           coroutines resumed round robin from a `VecDeque`, without preemption, fairness, rings, timers or stealing; it has \
           no second worker.",
    is_not: "a measure of cold stacks: each goroutine touches one or two cache lines of its stack, and with 1024 of them the \
             working set fits the second-level cache.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::alone("corosensei", queue_over_corosensei).of_crate("corosensei"),
        Contender::GO.fewer(4),
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(4),
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(4),
    ],
    client: None,
};

const STACK_BYTES: usize = 64 << 10;

fn cases(size: Size) -> Vec<Case> {
    let ops = size.of(1 << 23, 1 << 14);
    let case = |goroutines: usize, workers: usize| {
        let plural = if workers == 1 { "" } else { "s" };
        let name = format!("{goroutines} goroutines, {workers} worker{plural}");
        Case::new(name, workers, ops).param("goroutines", goroutines)
    };
    vec![
        case(2, 1).budget(Budget::AtMost(10.0)),
        case(1024, 1).budget(Budget::AtMost(22.0)),
        case(1024, 2).only(&["urgo", "go", "tokio", "may"]),
    ]
}

/// Every yield counts one. Numbers of goroutines divide numbers of operations.
fn sum(ops: usize) -> u64 {
    ops as u64
}

/// Spawned as a program would, without the box around a job: its frame and its indirect call would be touched at each yield.
fn urgo(cell: &Cell) -> Sample {
    let goroutines: usize = cell.get("goroutines");
    let ops = cell.ops();
    let once = |ops: usize| {
        let yields = ops / goroutines;
        let body = move || {
            (0..yields).for_each(|_| urgo::yield_now());
            yields as u64
        };
        let lap = Lap::start();
        let handles: Vec<_> = (0..goroutines).map(|_| urgo::spawn(body)).collect();
        // The main goroutine waits here, so it takes no turn of its own.
        let join = |handle: urgo::go::JoinHandle<u64>| handle.join().expect("no panic");
        done(lap, ops, handles.into_iter().map(join).sum())
    };
    runtime(cell).run(|| {
        once(warm_up(ops));
        once(ops)
    })
}

fn may_coroutines(cell: &Cell) -> Sample {
    let coroutines: usize = cell.get("goroutines");
    may_on(cell);
    let once = |ops: usize| {
        let yields = ops / coroutines;
        let body = move || {
            (0..yields).for_each(|_| may::coroutine::yield_now());
            yields as u64
        };
        let lap = Lap::start();
        let handles: Vec<_> = (0..coroutines).map(|_| may::go!(body)).collect();
        let join = |handle: may::coroutine::JoinHandle<u64>| handle.join().expect("no panic");
        done(lap, ops, handles.into_iter().map(join).sum())
    };
    once(warm_up(cell.ops()));
    once(cell.ops())
}

fn done(lap: Lap, ops: usize, yields: u64) -> Sample {
    let sample = lap.stop(ops, yields);
    assert_eq!(
        yields,
        sum(ops),
        "somebody did not yield as often as it should"
    );
    sample
}

fn tokio_tasks(cell: &Cell) -> Sample {
    let tasks_count: usize = cell.get("goroutines");
    tasks(cell, sum, |ops| turns(tasks_count, ops / tasks_count))
}

async fn turns(tasks: usize, yields: usize) -> u64 {
    let spawn = |_| {
        tokio::spawn(async move {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            yields as u64
        })
    };
    let handles: Vec<_> = (0..tasks).map(spawn).collect();
    let mut sum = 0;
    for handle in handles {
        sum += handle.await.expect("no panic");
    }
    sum
}

fn queue_over_corosensei(cell: &Cell) -> Sample {
    let once = |ops: usize| {
        let count: usize = cell.get("goroutines");
        let yields = ops / count;
        let coroutine = |_| {
            let stack = DefaultStack::new(STACK_BYTES).expect("a 64 KiB stack");
            Coroutine::with_stack(stack, move |yielder, ()| {
                for _ in 0..yields {
                    yielder.suspend(());
                }
            })
        };
        let mut coroutines: Vec<Coroutine<(), (), ()>> = (0..count).map(coroutine).collect();
        // A queue of indices: moving the coroutines themselves, several words each, through it more than doubles the cost.
        let mut queue: VecDeque<usize> = (0..count).collect();
        let mut seen = 0;
        let lap = Lap::start();
        while let Some(at) = queue.pop_front() {
            match coroutines[at].resume(()) {
                CoroutineResult::Yield(()) => {
                    seen += 1;
                    queue.push_back(at);
                }
                CoroutineResult::Return(()) => {}
            }
        }
        let sample = lap.stop(ops, seen);
        assert_eq!(
            seen,
            sum(ops),
            "a coroutine did not yield as often as it should"
        );
        sample
    };
    once(warm_up(cell.ops()));
    once(cell.ops())
}
