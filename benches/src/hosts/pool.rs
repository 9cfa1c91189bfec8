//! Work on rayon's pool.

use super::jobs::done;
use super::warm_up;
use crate::cell::{Cell, Lap, Sample};

/// What `main` does with a number of operations, on a pool with one thread for each of the cell's CPUs. It runs on a thread
/// of the pool.
///
/// # Panics
/// If its result is not `sum` of the operations.
pub(crate) fn pooled(
    cell: &Cell,
    sum: impl Fn(usize) -> u64,
    main: impl Fn(usize) -> u64 + Sync,
) -> Sample {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(cell.workers())
        .build()
        .expect("a pool of threads");
    let once = |ops: usize| {
        let lap = Lap::start();
        let result = pool.install(|| main(ops));
        done(lap, ops, result, sum(ops))
    };
    once(warm_up(cell.ops()));
    once(cell.ops())
}
