//! What does a short critical section cost that many want?

use crate::catalogue::{Budget, Case, Contender, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, coroutines, goroutines, tasks, threads};
use std::sync::Arc;

pub(super) const WORKLOAD: Workload = Workload {
    name: "mutex",
    question: "What does a short critical section cost that many want?",
    work: "64 goroutines, threads, coroutines or tasks each lock one mutex, add one to the number in it and unlock it, over and \
           over; the number is checked. One operation is one lock and unlock. Nothing else is done between two of them. On two workers the schedulers place all, or all in turn are bound to the two (\"spread\"), where only goroutines and threads can be bound.",
    is_not: "a measure of waiting on one CPU, where a holder is seldom preempted and nobody else looks meanwhile; nor of \
             fairness: a mutex that lets its last holder in again gets the best figure here, and all of them do so to some \
             degree.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO.fewer(4),
        Contender::alone("parking_lot", parking_lot_threads).of_crate("parking_lot"),
        Contender::alone("std", std_threads),
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(8),
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(8),
    ],
    client: None,
};

const CROWD: usize = 64;

fn cases(size: Size) -> Vec<Case> {
    let case = |workers, place, budget_ns| {
        Case::new(
            format!("{CROWD} at it, {place}"),
            workers,
            size.of(1 << 23, 32 << 10),
        )
        .budget(Budget::AtMost(budget_ns))
    };
    vec![
        case(1, "1 worker", 14.0),
        case(2, "2 workers, as placed", 26.0),
        case(2, "2 workers, spread", 26.0)
            .param("spread", 1)
            .only(&["urgo", "parking_lot", "std"]),
    ]
}

/// What the number is in the end. The last to end returns it, the others nothing; see [`crowd`].
fn sum(locks: usize) -> u64 {
    (locks / CROWD * CROWD) as u64
}

fn urgo(cell: &Cell) -> Sample {
    goroutines(cell, sum, |locks| {
        crowd(
            locks,
            urgo::sync::Mutex::new(0),
            |number| *number.lock() += 1,
            urgo::sync::Mutex::into_inner,
        )
    })
}

fn parking_lot_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |locks| {
        crowd(
            locks,
            parking_lot::Mutex::new(0),
            |number| *number.lock() += 1,
            parking_lot::Mutex::into_inner,
        )
    })
}

fn std_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |locks| {
        crowd(
            locks,
            std::sync::Mutex::new(0),
            |number| *number.lock().expect("no panic") += 1,
            |number| number.into_inner().expect("no panic"),
        )
    })
}

fn may_coroutines(cell: &Cell) -> Sample {
    coroutines(cell, sum, |locks| {
        crowd(
            locks,
            may::sync::Mutex::new(0),
            |number| *number.lock().expect("no panic") += 1,
            |number| number.into_inner().expect("no panic"),
        )
    })
}

fn tokio_tasks(cell: &Cell) -> Sample {
    tasks(cell, sum, tokio_crowd)
}

/// Everyone keeps a handle to the mutex; whoever finds that he holds the last one takes the number out.
fn crowd<M: Send + Sync + 'static>(
    locks: usize,
    mutex: M,
    add_one: impl Fn(&M) + Copy + Send + 'static,
    take_out: impl Fn(M) -> u64 + Copy + Send + 'static,
) -> Vec<Job> {
    let (share, mutex) = (locks / CROWD, Arc::new(mutex));
    let job = |mutex: Arc<M>| {
        Job::new(None, move || {
            (0..share).for_each(|_| add_one(&mutex));
            Arc::into_inner(mutex).map_or(0, take_out)
        })
    };
    vec![mutex; CROWD].into_iter().map(job).collect()
}

async fn tokio_crowd(locks: usize) -> u64 {
    let number = Arc::new(tokio::sync::Mutex::new(0));
    let handles: Vec<_> = (0..CROWD)
        .map(|_| {
            let number = number.clone();
            tokio::spawn(async move {
                for _ in 0..locks / CROWD {
                    *number.lock().await += 1;
                }
            })
        })
        .collect();
    for handle in handles {
        handle.await.expect("no panic");
    }
    *number.lock().await
}
