//! How exactly, and at what cost, do many goroutines sleep?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Lap, Sample};
use crate::hosts::{
    Coroutines, Goroutines, Green, sleepers, sleeping_tasks, tokio_runtime, warm_up,
};
use std::future::Future;
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "sleep",
    question: "How late do many goroutines wake that sleep at the same time?",
    work: "Either 1000 goroutines are spawned, sleep 1 ms each and are joined; one operation is all of that, so no runtime can \
           need less than 1 ms. Or 100,000 and 1,000,000 goroutines sleep until one moment; counted is the time from that \
           moment until the last of them has run, divided by their number, and beside it the CPU time of waking them and their \
           memory. tokio and monoio round up to whole ms. may's stacks are a mapping and a guard page each, so the kernel's \
           limit of 65,530 mappings keeps it to 20,000 coroutines.",
    is_not: "a measure of one timer (see timers), nor of an idle machine's wake-up latency, which the kernel decides.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO,
        Contender::alone("tokio", tokio_tasks).of_crate("tokio"),
        Contender::alone("may", may_coroutines).of_crate("may"),
        Contender::alone("monoio", monoio_tasks).of_crate("monoio"),
    ],
    client: None,
};

const WHOLE: Judge = Judge {
    metric: "wall_ms",
    unit: "ms",
    what: "wall time of 1000 sleeps",
};
const LATE: Judge = Judge {
    metric: "late_ns",
    unit: "ns",
    what: "time from the moment until the last one has run",
};
const SLEEPERS: u64 = 1000;
const SLEEP: Duration = Duration::from_millis(1);

fn cases(size: Size) -> Vec<Case> {
    let whole = |name, workers| {
        Case::new(name, workers, size.of(100, 2))
            .param("whole", 1)
            .judged_by(WHOLE)
    };
    let moment = |count: usize, workers: usize| {
        let plural = if workers == 1 { "" } else { "s" };
        let name = format!("{count} until one moment, {workers} worker{plural}");
        Case::new(name, workers, count)
            .param("whole", 0)
            .param("memory", 1)
            .judged_by(LATE)
            .rounds_max(3)
            .only(&["urgo", "go", "tokio"])
    };
    let few = size.of(20_000, 500);
    vec![
        whole("1000 for 1 ms, 1 worker", 1).budget(Budget::AtMost(1.2)),
        whole("1000 for 1 ms, 2 workers", 2).only(&["urgo", "go", "tokio", "may"]),
        moment(few, 1).only(&["urgo", "go", "tokio", "may"]),
        moment(size.of(100_000, 1000), 1),
        moment(size.of(1_000_000, 2000), 1),
        moment(size.of(1_000_000, 2000), 2),
    ]
}

fn is_whole(cell: &Cell) -> bool {
    cell.get::<u8>("whole") == 1
}

fn urgo(cell: &Cell) -> Sample {
    match is_whole(cell) {
        true => whole::<Goroutines>(cell),
        false => sleepers::<Goroutines>(cell),
    }
}

fn may_coroutines(cell: &Cell) -> Sample {
    match is_whole(cell) {
        true => whole::<Coroutines>(cell),
        false => sleepers::<Coroutines>(cell),
    }
}

fn done(lap: Lap, ops: usize, slept: u64) -> Sample {
    let mut sample = lap.stop(ops, slept);
    assert_eq!(slept, ops as u64 * SLEEPERS, "somebody did not sleep");
    let wall_ns = sample.metrics["wall_ns"];
    sample.set("wall_ms", wall_ns / 1e6);
    sample
}

fn whole<G: Green>(cell: &Cell) -> Sample {
    let ops = cell.ops();
    G::run(cell, move || {
        let once = |ops: usize| {
            let mut slept = 0;
            let lap = Lap::start();
            for _ in 0..ops {
                let spawn = |_| G::spawn(|| G::sleep(SLEEP));
                let handles: Vec<_> = (0..SLEEPERS).map(spawn).collect();
                for handle in handles {
                    G::join(handle);
                    slept += 1;
                }
            }
            done(lap, ops, slept)
        };
        once(warm_up(ops));
        once(ops)
    })
}

fn tokio_tasks(cell: &Cell) -> Sample {
    if !is_whole(cell) {
        return sleeping_tasks(cell);
    }
    let ops = cell.ops();
    let main = whole_of_tasks(ops, || async {
        let spawn = |_| tokio::spawn(tokio::time::sleep(SLEEP));
        let handles: Vec<_> = (0..SLEEPERS).map(spawn).collect();
        let mut slept = 0;
        for handle in handles {
            handle.await.expect("no panic");
            slept += 1;
        }
        slept
    });
    // As a task, because the thread that calls `block_on` is none of the workers.
    tokio_runtime(cell)
        .block_on(async { tokio::spawn(main).await })
        .expect("no panic")
}

fn monoio_tasks(cell: &Cell) -> Sample {
    let mut runtime = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new()
        .enable_timer()
        .build()
        .expect("a runtime of monoio");
    runtime.block_on(whole_of_tasks(cell.ops(), || async {
        let spawn = |_| monoio::spawn(monoio::time::sleep(SLEEP));
        let handles: Vec<_> = (0..SLEEPERS).map(spawn).collect();
        let mut slept = 0;
        for handle in handles {
            handle.await;
            slept += 1;
        }
        slept
    }))
}

/// `sleeps` spawns all and waits for them.
async fn whole_of_tasks<F: Future<Output = u64>>(ops: usize, sleeps: impl Fn() -> F) -> Sample {
    for _ in 0..warm_up(ops) {
        sleeps().await;
    }
    let mut slept = 0;
    let lap = Lap::start();
    for _ in 0..ops {
        slept += sleeps().await;
    }
    done(lap, ops, slept)
}
