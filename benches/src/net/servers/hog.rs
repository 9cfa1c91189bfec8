//! Goroutines and tasks beside a server that want all the time they can get.
//!
//! # Algorithm
//! There is one on each worker. It computes for 100 µs, lets the others have a turn, and starts again: the case's parameter `hog`
//! says `polite`. Without the parameter there are none. `loop`, a hog that never yields, is for runtimes that take the CPU away
//! from it.
//!
//! monoio and may have none: their workers look for I/O only when nothing is ready to run, and a task that has just yielded is
//! ready, so such a server would never answer.

use crate::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};
use urgo::go::{Builder, Placement};

/// Computing time between two turns of the others.
const POLITE_TIME: Duration = Duration::from_micros(100);

fn is_wanted(cell: &Cell) -> bool {
    match cell.find::<String>("hog").as_deref() {
        None | Some("none") => false,
        Some("polite") => true,
        Some(other) => panic!("{}: no hog here is {other:?}", cell.workload),
    }
}

/// Starts the hogs of a server on urgo, from one of its goroutines.
pub(crate) fn goroutines(cell: &Cell) {
    if !is_wanted(cell) {
        return;
    }
    for worker in 0..cell.workers() {
        let hog = || loop {
            compute();
            urgo::yield_now();
        };
        let builder = Builder::new().placement(Placement::Worker(worker));
        drop(builder.spawn(hog).expect("a worker with this index"));
    }
}

/// Starts the hogs of a server on tokio, from within its runtime.
pub(crate) fn tasks(cell: &Cell) {
    if !is_wanted(cell) {
        return;
    }
    for _ in 0..cell.workers() {
        drop(tokio::spawn(async {
            loop {
                compute();
                tokio::task::yield_now().await;
            }
        }));
    }
}

/// Computes for [`POLITE_TIME`].
fn compute() {
    let start = Instant::now();
    let mut value = 1_u64;
    while start.elapsed() < POLITE_TIME {
        for _ in 0..1000 {
            value = black_box(value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
        }
    }
}
