//! Do the costs stay what they are, from ten goroutines to a million?

use crate::catalogue::{Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Lap, Sample};
use crate::hosts::{
    Coroutines, Goroutines, Green, Put, Take, sleepers, sleeping_tasks, tokio_runtime, warm_up,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const WORKLOAD: Workload = Workload {
    name: "scale",
    question: "Do the costs of goroutines stay flat from ten of them to a million?",
    work: "One worker, N = 10 to 1,000,000. \"spawn\": spawn and join in batches of 1000 while N others wait at channels; one \
           operation is one that is born and ends. \"wake\": N wait, each at a channel of its own, and are sent a value each; \
           one operation is one that is woken, runs and waits again. \"park\": N are spawned and sleep; one operation is one \
           that is born, runs and sleeps, CPU time from the first spawn until all sleep. \"timer\": the same N are woken by \
           their timers; one operation is one that wakes and ends, CPU time from all asleep until the last has run. For small \
           N the worker goes idle and comes back for each N, which is divided by N; that is a cost of being idle. may takes \
           part up to 10,000, because its stacks are a mapping and a guard page each, and the kernel limits mappings to 65,530.",
    is_not: "a measure of goroutines with deep stacks, nor of several workers (see spawn_join, sleep).",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO,
        Contender::alone("tokio", tokio_tasks).of_crate("tokio"),
        Contender::alone("may", may_coroutines).of_crate("may"),
    ],
    client: None,
};

const PARKING: Judge = Judge {
    metric: "park_ns",
    unit: "ns",
    what: "CPU time",
};
const AXIS: &str = "goroutines";
const BATCH: usize = 1000;

fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    for count in [10, 100, 1000, 10_000, 100_000, 1_000_000] {
        let here = size.of(count, count.min(1000));
        let case = |kind: &str, title, ops| {
            let case = Case::new(format!("{kind}, {count}"), 1, ops)
                .param("kind", kind)
                .param("goroutines", here)
                .rounds_max(if count == 1_000_000 { 1 } else { usize::MAX })
                .plot(title, AXIS, count);
            if count > 10_000 {
                case.only(&["urgo", "go", "tokio"])
            } else {
                case
            }
        };
        // One meeting lasts 1 ms and more, most of it asleep.
        let repeats = size.of((100_000 / count).clamp(1, 50), 1);
        let spawned = size.of(500_000, 2000);
        let woken = size.of(1_000_000, 2000).max(here);
        cases.extend([
            case("spawn", "spawn + join against goroutines alive", spawned),
            case("wake", "wake + wait again against goroutines", woken),
            case("park", "spawn + park against goroutines", here)
                .param("repeats", repeats)
                .judged_by(PARKING),
            case("timer", "wake-up by a timer against goroutines", here).param("repeats", repeats),
        ]);
    }
    cases
}

fn urgo(cell: &Cell) -> Sample {
    green::<Goroutines>(cell)
}

fn may_coroutines(cell: &Cell) -> Sample {
    green::<Coroutines>(cell)
}

fn green<G: Green>(cell: &Cell) -> Sample {
    match cell.get::<String>("kind").as_str() {
        "spawn" => among::<G>(cell, spawn_and_join::<G>),
        "wake" => among::<G>(cell, Crowd::wake),
        _ => sleepers::<G>(cell),
    }
}

/// What is sent to the crowd is worth nothing; what counts is who got it.
fn woken(lap: Lap, ops: usize, left: usize) -> Sample {
    let sample = lap.stop(ops, ops as u64);
    assert_eq!(left, 0, "somebody did not run, or ran twice");
    sample
}

fn spawned(lap: Lap, ops: usize, ended: u64) -> Sample {
    let sample = lap.stop(ops, ended);
    assert_eq!(ended, ops as u64, "somebody did not run, or ran twice");
    sample
}

/// Green threads that wait, each at a channel of its own.
struct Crowd<G: Green> {
    doors: Vec<G::Put>,
    /// How many of those called are still to run.
    left: Arc<AtomicUsize>,
    /// The last one tells.
    told: G::Take,
}

impl<G: Green> Crowd<G> {
    fn new(count: usize) -> Crowd<G> {
        let left = Arc::new(AtomicUsize::new(0));
        let (tell, told) = G::channel();
        let member = |_| {
            let (door, inside) = G::channel();
            let (left, tell) = (left.clone(), tell.clone());
            drop(G::spawn(move || {
                while inside.take().is_some() {
                    // Relaxed: what the last one tells goes through a channel.
                    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        tell.put(0);
                    }
                }
            }));
            door
        };
        let mut crowd = Crowd {
            doors: (0..count).map(member).collect(),
            left,
            told,
        };
        // Now all have run once, and wait.
        crowd.wake(count);
        crowd
    }

    /// Wakes all of them once, over and over.
    fn wake(&mut self, ops: usize) -> Sample {
        let rounds = ops.div_ceil(self.doors.len());
        let lap = Lap::start();
        for _ in 0..rounds {
            self.left.store(self.doors.len(), Ordering::Relaxed);
            self.doors.iter().for_each(|door| door.put(0));
            self.told.take().expect("the last one tells");
        }
        let left = self.left.load(Ordering::Relaxed);
        woken(lap, rounds * self.doors.len(), left)
    }
}

/// Measures in a crowd of green threads that wait.
fn among<G: Green>(cell: &Cell, measure: fn(&mut Crowd<G>, usize) -> Sample) -> Sample {
    let (ops, count) = (cell.ops(), cell.get("goroutines"));
    G::run(cell, move || {
        let mut crowd = Crowd::<G>::new(count);
        measure(&mut crowd, warm_up(ops));
        measure(&mut crowd, ops)
    })
}

fn spawn_and_join<G: Green>(_: &mut Crowd<G>, ops: usize) -> Sample {
    let mut handles = Vec::with_capacity(BATCH);
    let mut ended = 0;
    let lap = Lap::start();
    while ended < ops as u64 {
        let size = BATCH.min(ops - ended as usize);
        handles.extend((0..size).map(|_| G::spawn(|| ())));
        for handle in handles.drain(..) {
            G::join(handle);
            ended += 1;
        }
    }
    spawned(lap, ops, ended)
}

fn tokio_tasks(cell: &Cell) -> Sample {
    let wakes = match cell.get::<String>("kind").as_str() {
        "spawn" => false,
        "wake" => true,
        _ => return sleeping_tasks(cell),
    };
    let (ops, count) = (cell.ops(), cell.get("goroutines"));
    let main = async move {
        let mut crowd = TaskCrowd::new(count).await;
        if wakes {
            crowd.wake(warm_up(ops)).await;
            crowd.wake(ops).await
        } else {
            spawn_and_join_tasks(warm_up(ops)).await;
            spawn_and_join_tasks(ops).await
        }
    };
    tokio_runtime(cell)
        .block_on(async { tokio::spawn(main).await })
        .expect("no panic")
}

/// The same with tasks.
struct TaskCrowd {
    doors: Vec<tokio::sync::mpsc::Sender<u64>>,
    left: Arc<AtomicUsize>,
    told: tokio::sync::mpsc::Receiver<u64>,
}

impl TaskCrowd {
    async fn new(count: usize) -> TaskCrowd {
        let left = Arc::new(AtomicUsize::new(0));
        let (tell, told) = tokio::sync::mpsc::channel(1);
        let member = |_| {
            let (door, mut inside) = tokio::sync::mpsc::channel(1);
            let (left, tell) = (left.clone(), tell.clone());
            tokio::spawn(async move {
                while inside.recv().await.is_some() {
                    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        tell.send(0).await.expect("the first one waits");
                    }
                }
            });
            door
        };
        let mut crowd = TaskCrowd {
            doors: (0..count).map(member).collect(),
            left,
            told,
        };
        crowd.wake(count).await;
        crowd
    }

    async fn wake(&mut self, ops: usize) -> Sample {
        let rounds = ops.div_ceil(self.doors.len());
        let lap = Lap::start();
        for _ in 0..rounds {
            self.left.store(self.doors.len(), Ordering::Relaxed);
            for door in &self.doors {
                door.send(0).await.expect("somebody waits");
            }
            self.told.recv().await.expect("the last one tells");
        }
        let left = self.left.load(Ordering::Relaxed);
        woken(lap, rounds * self.doors.len(), left)
    }
}

async fn spawn_and_join_tasks(ops: usize) -> Sample {
    let mut handles = Vec::with_capacity(BATCH);
    let mut ended = 0;
    let lap = Lap::start();
    while ended < ops as u64 {
        let size = BATCH.min(ops - ended as usize);
        handles.extend((0..size).map(|_| tokio::spawn(async {})));
        for handle in handles.drain(..) {
            handle.await.expect("no panic");
            ended += 1;
        }
    }
    spawned(lap, ops, ended)
}
