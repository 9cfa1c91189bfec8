//! What does it cost to fork and to join, when there is nothing else to do?

use crate::catalogue::{Case, Contender, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, coroutines, goroutines, pooled, tasks};
use std::future::Future;
use std::pin::Pin;

pub(super) const WORKLOAD: Workload = Workload {
    name: "fib",
    question: "What does it cost to fork and to join, when there is nothing else to do?",
    work: "Fibonacci numbers by the definition: fib(n) spawns a goroutine for fib(n - 1), computes fib(n - 2) itself, and \
           joins. There is no size below which it would stop to spawn. fib(24) is 75,024 spawns, and is computed 16 times (by \
           may once, to save time); the sum of the results is checked. One operation is one spawn with its join and its \
           addition. rayon's join does not even make a task of its own where nobody steals it.",
    is_not: "a measure of how well computations scale, since a sensible program stops to spawn where the work is smaller than \
             the spawn.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO,
        Contender::alone("tokio", tokio_tasks).of_crate("tokio"),
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(16),
        Contender::alone("rayon", rayon_join).of_crate("rayon"),
    ],
    client: None,
};

fn cases(size: Size) -> Vec<Case> {
    let (n, times) = (size.of(24, 10), size.of(16, 1));
    let case = |name, workers| Case::new(name, workers, times * spawns(n)).param("n", n);
    vec![case("1 worker", 1), case("2 workers", 2)]
}

/// fib(n), by addition.
fn number(n: usize) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// Goroutines that fib(n) spawns.
fn spawns(n: usize) -> usize {
    number(n + 1) as usize - 1
}

/// How often fib(n) is computed for `ops` spawns.
fn times(n: usize, ops: usize) -> u64 {
    (ops / spawns(n)).max(1) as u64
}

fn urgo(cell: &Cell) -> Sample {
    fn fib(n: usize) -> u64 {
        if n < 2 {
            return n as u64;
        }
        let left = urgo::spawn(move || fib(n - 1));
        let right = fib(n - 2);
        left.join().expect("no panic") + right
    }
    let n = cell.get("n");
    let sum = |ops| times(n, ops) * number(n);
    goroutines(cell, sum, |ops| {
        vec![Job::new(None, move || {
            (0..times(n, ops)).map(|_| fib(n)).sum()
        })]
    })
}

fn tokio_tasks(cell: &Cell) -> Sample {
    /// A future that contains itself has to be boxed.
    fn fib(n: usize) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if n < 2 {
                return n as u64;
            }
            let left = tokio::spawn(fib(n - 1));
            let right = fib(n - 2).await;
            left.await.expect("no panic") + right
        })
    }
    let n = cell.get("n");
    let sum = |ops| times(n, ops) * number(n);
    tasks(cell, sum, |ops| async move {
        let mut sum = 0;
        for _ in 0..times(n, ops) {
            sum += fib(n).await;
        }
        sum
    })
}

fn may_coroutines(cell: &Cell) -> Sample {
    fn fib(n: usize) -> u64 {
        if n < 2 {
            return n as u64;
        }
        let left = may::go!(move || fib(n - 1));
        let right = fib(n - 2);
        left.join().expect("no panic") + right
    }
    let n = cell.get("n");
    let sum = |ops| times(n, ops) * number(n);
    coroutines(cell, sum, |ops| {
        vec![Job::new(None, move || {
            (0..times(n, ops)).map(|_| fib(n)).sum()
        })]
    })
}

fn rayon_join(cell: &Cell) -> Sample {
    fn fib(n: usize) -> u64 {
        if n < 2 {
            return n as u64;
        }
        let (right, left) = rayon::join(|| fib(n - 2), || fib(n - 1));
        left + right
    }
    let n = cell.get("n");
    let sum = |ops| times(n, ops) * number(n);
    pooled(cell, sum, |ops| (0..times(n, ops)).map(|_| fib(n)).sum())
}
