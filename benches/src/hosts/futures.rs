//! Tasks on tokio.

use super::jobs::done;
use super::warm_up;
use crate::cell::{Cell, Lap, Sample};
use std::future::Future;

/// tokio's current-thread scheduler for one CPU, else the other one with one worker per CPU.
pub(crate) fn tokio_runtime(cell: &Cell) -> tokio::runtime::Runtime {
    let mut builder = if cell.workers() == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let builder = builder.worker_threads(cell.workers()).enable_all();
    builder.build().expect("a runtime of tokio")
}

/// The future that `main` makes of a number of operations, on tokio. It takes no placement. The future spawns the tasks and
/// waits for them; it runs as a task itself, because the thread that called `block_on` is none of the workers.
///
/// # Panics
/// If the future's result is not `sum` of the operations.
pub(crate) fn tasks<F: Future<Output = u64> + Send + 'static>(
    cell: &Cell,
    sum: impl Fn(usize) -> u64,
    main: impl Fn(usize) -> F,
) -> Sample {
    let runtime = tokio_runtime(cell);
    let once = |ops: usize| {
        let future = main(ops);
        let lap = Lap::start();
        let result = runtime
            .block_on(async { tokio::spawn(future).await })
            .expect("no panic");
        done(lap, ops, result, sum(ops))
    };
    once(warm_up(cell.ops()));
    once(cell.ops())
}
