//! How long does a tree of a million goroutines take, from the first to the last?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, goroutines, pooled, tasks};
use std::array::from_fn;
use std::future::Future;
use std::pin::Pin;

pub(super) const WORKLOAD: Workload = Workload {
    name: "skynet",
    question: "How long does a tree of a million goroutines take, from the first to the last?",
    work: "A goroutine spawns ten, each of them ten, and so on for six levels: 1,000,000 leaves, 1,111,111 goroutines in all. \
           Each leaf returns its number, each other goroutine waits for its ten and returns their sum; the sum of all numbers \
           is checked. One operation is one goroutine, but what is judged is the whole. The warm-up is a tree of one level \
           less, so most of the memory is touched for the first time, as in the program that this is known from. In Go the \
           results come by one channel per parent, elsewhere by join handles. rayon's tasks are no coroutines: one that waits \
           runs others on its own stack. may is not here: each of its coroutines is two memory mappings, so that a tree of \
           100,000 already exceeds the 65,530 that a process may have by default.",
    is_not: "a measure of goroutines that wait for long, or for anything but each other.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO,
        Contender::alone("tokio", tokio_tasks).of_crate("tokio"),
        Contender::alone("rayon", rayon_tasks).of_crate("rayon"),
    ],
    client: None,
};

/// Children of a goroutine that is no leaf.
const CHILDREN: usize = 10;

const WHOLE: Judge = Judge {
    metric: "whole_s",
    unit: "s",
    what: "wall time of the whole",
};
const WHOLE_CPU: Judge = Judge {
    metric: "whole_cpu_s",
    unit: "s",
    what: "CPU time of the whole",
};

fn cases(size: Size) -> Vec<Case> {
    let ops = goroutines_below(CHILDREN.pow(size.of(6, 3) as u32));
    let case = |name, workers, judge| {
        Case::new(name, workers, ops)
            .judged_by(judge)
            .budget(Budget::AtMost(0.2))
            .rounds_max(5)
    };
    vec![case("1 worker", 1, WHOLE_CPU), case("2 workers", 2, WHOLE)]
}

/// Goroutines of a tree with so many leaves.
fn goroutines_below(leaves: usize) -> usize {
    std::iter::successors(Some(leaves), |&n| (n > 1).then_some(n / CHILDREN)).sum()
}

/// Leaves of the largest tree that has no more than `ops` goroutines.
fn leaves(ops: usize) -> u64 {
    let sizes = std::iter::successors(Some(1), |n| Some(n * CHILDREN));
    let fits = sizes.take_while(|&leaves| goroutines_below(leaves) <= ops);
    fits.last().unwrap_or(1) as u64
}

/// Of the numbers of the leaves.
fn sum(ops: usize) -> u64 {
    let leaves = leaves(ops);
    leaves * (leaves - 1) / 2
}

/// Adds what the judges want.
fn whole(mut sample: Sample) -> Sample {
    for (each, all) in [("wall_ns", WHOLE), ("cpu_ns", WHOLE_CPU)] {
        let seconds = sample.metrics[each] * sample.ops as f64 / 1e9;
        sample.set(all.metric, seconds);
    }
    sample
}

fn urgo(cell: &Cell) -> Sample {
    fn grow(first: u64, leaves: u64) -> u64 {
        if leaves == 1 {
            return first;
        }
        let below = leaves / CHILDREN as u64;
        let children: [_; CHILDREN] = from_fn(|i| {
            let first = first + i as u64 * below;
            urgo::spawn(move || grow(first, below))
        });
        let sums = children.into_iter().map(|child| child.join());
        sums.map(|sum| sum.expect("no panic")).sum()
    }
    whole(goroutines(cell, sum, |ops| {
        vec![Job::new(None, move || grow(0, leaves(ops)))]
    }))
}

fn tokio_tasks(cell: &Cell) -> Sample {
    /// A future that contains itself has to be boxed.
    fn grow(first: u64, leaves: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if leaves == 1 {
                return first;
            }
            let below = leaves / CHILDREN as u64;
            let children: [_; CHILDREN] =
                from_fn(|i| tokio::spawn(grow(first + i as u64 * below, below)));
            let mut sum = 0;
            for child in children {
                sum += child.await.expect("no panic");
            }
            sum
        })
    }
    whole(tasks(cell, sum, |ops| grow(0, leaves(ops))))
}

fn rayon_tasks(cell: &Cell) -> Sample {
    fn grow(first: u64, leaves: u64) -> u64 {
        if leaves == 1 {
            return first;
        }
        let below = leaves / CHILDREN as u64;
        let mut sums = [0; CHILDREN];
        rayon::scope(|scope| {
            for (i, sum) in sums.iter_mut().enumerate() {
                scope.spawn(move |_| *sum = grow(first + i as u64 * below, below));
            }
        });
        sums.iter().sum()
    }
    whole(pooled(cell, sum, |ops| grow(0, leaves(ops))))
}
