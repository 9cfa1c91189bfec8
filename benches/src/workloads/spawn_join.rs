//! What do the birth and the death of a goroutine cost, in the numbers in which a server makes them?

use crate::catalogue::{Budget, Case, Contender, Size, Workload};
use crate::cell::{Cell, Lap, Sample};
use crate::hosts::{Job, coroutines, goroutines, tasks, threads, warm_up};

pub(super) const WORKLOAD: Workload = Workload {
    name: "spawn_join",
    question: "What do the birth and the death of a goroutine cost, in the numbers in which a server makes them?",
    work: "One goroutine spawns batches of 1000 that each return their index, and joins them in order; the sum is checked. One \
           operation is one goroutine: control block, closure, queue, a stack at its first run, return value, join. Go has no \
           join: its goroutines write their index into a slice, and a WaitGroup waits for the batch. Threads come in batches \
           of 100. monoio has one thread per runtime, so it takes part on one worker only.",
    is_not: "the cost of a goroutine that waits, which keeps a stack of its own (see scale).",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO.fewer(4),
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(2),
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(4),
        Contender::alone("monoio", monoio_tasks)
            .of_crate("monoio")
            .fewer(2),
        Contender::alone("threads", std_threads).fewer(1000),
    ],
    client: None,
};

const BATCH: usize = 1000;
const THREAD_BATCH: usize = 100;

fn cases(size: Size) -> Vec<Case> {
    let ops = size.of(2_000_000, 8_000);
    let case = |name, workers| Case::new(name, workers, ops);
    vec![
        case("batches of 1000, 1 worker", 1).budget(Budget::AtMost(45.0)),
        case("batches of 1000, 2 workers", 2).only(&["urgo", "go", "tokio", "may", "threads"]),
    ]
}

/// Sizes of the batches: all are full but perhaps the last one.
fn batches(ops: usize, batch: usize) -> impl Iterator<Item = u64> {
    (0..ops)
        .step_by(batch)
        .map(move |done| batch.min(ops - done) as u64)
}

/// What the goroutines return, all together.
fn sum(ops: usize, batch: usize) -> u64 {
    batches(ops, batch).map(|size| size * (size - 1) / 2).sum()
}

fn spawner<H>(
    ops: usize,
    batch: usize,
    spawn: impl Fn(u64) -> H + Send + 'static,
    join: impl Fn(H) -> u64 + Send + 'static,
) -> Vec<Job> {
    vec![Job::new(None, move || {
        let mut handles = Vec::with_capacity(batch);
        let mut sum = 0;
        for size in batches(ops, batch) {
            handles.extend((0..size).map(&spawn));
            sum += handles.drain(..).map(&join).sum::<u64>();
        }
        sum
    })]
}

fn urgo(cell: &Cell) -> Sample {
    goroutines(
        cell,
        |ops| sum(ops, BATCH),
        |ops| {
            let spawn = |index| urgo::spawn(move || index);
            let join = |handle: urgo::JoinHandle<u64>| handle.join().expect("no panic");
            spawner(ops, BATCH, spawn, join)
        },
    )
}

fn may_coroutines(cell: &Cell) -> Sample {
    coroutines(
        cell,
        |ops| sum(ops, BATCH),
        |ops| {
            let spawn = |index| may::go!(move || index);
            let join = |handle: may::coroutine::JoinHandle<u64>| handle.join().expect("no panic");
            spawner(ops, BATCH, spawn, join)
        },
    )
}

fn std_threads(cell: &Cell) -> Sample {
    threads(
        cell,
        |ops| sum(ops, THREAD_BATCH),
        |ops| {
            let spawn = |index| std::thread::spawn(move || index);
            let join = |handle: std::thread::JoinHandle<u64>| handle.join().expect("no panic");
            spawner(ops, THREAD_BATCH, spawn, join)
        },
    )
}

fn tokio_tasks(cell: &Cell) -> Sample {
    tasks(
        cell,
        |ops| sum(ops, BATCH),
        |ops| async move {
            let mut handles = Vec::with_capacity(BATCH);
            let mut sum = 0;
            for size in batches(ops, BATCH) {
                handles.extend((0..size).map(|index| tokio::spawn(async move { index })));
                for handle in handles.drain(..) {
                    sum += handle.await.expect("no panic");
                }
            }
            sum
        },
    )
}

fn monoio_tasks(cell: &Cell) -> Sample {
    let mut runtime = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new()
        .build()
        .expect("a runtime of monoio");
    let mut once = |ops: usize| {
        let lap = Lap::start();
        let result = runtime.block_on(async {
            let mut handles = Vec::with_capacity(BATCH);
            let mut sum = 0;
            for size in batches(ops, BATCH) {
                handles.extend((0..size).map(|index| monoio::spawn(async move { index })));
                for handle in handles.drain(..) {
                    sum += handle.await;
                }
            }
            sum
        });
        let sample = lap.stop(ops, result);
        assert_eq!(
            result,
            sum(ops, BATCH),
            "the work was not done, or done twice"
        );
        sample
    };
    once(warm_up(cell.ops()));
    once(cell.ops())
}
