//! Question: what does a short critical section cost that many want?
//!
//! Workload: 64 goroutines each lock one mutex, add one to the number in it and unlock it, over and over; the number is
//! checked. One operation is one lock and unlock. Nothing else is done between two of them.
//!
//! Beside it, in the same run: 64 threads with the mutexes of parking_lot and std, on the same CPUs; 64 tasks with
//! `tokio::sync::Mutex`; 64 coroutines with `may::sync::Mutex`.
//!
//! Printed: machine, kernel, commit; ns per lock and unlock, CPU time on one worker and wall time on two; ratio round by
//! round.
//!
//! It is not: a measure of waiting on one CPU, where a holder is seldom preempted and nobody else looks meanwhile; nor of
//! fairness: a mutex that lets its last holder in again gets the best figure here, and all of them do so to some degree.
//!
//! Options: those of every bench; `--case PART-OF-A-HEADING`; `--workers N` for one number of workers, in this process.

#[path = "harness/mod.rs"]
mod harness;
#[path = "rivals/mod.rs"]
mod rivals;

use harness::{
    Clock, Contender, Options, Report, compare_by, each_in_a_process, locked_version, pin_to,
};
use rivals::{Job, Work, coroutines, goroutines, tasks, threads};
use std::sync::Arc;

const CROWD: usize = 64;

fn main() {
    each_in_a_process(tables);
}

fn tables(options: &mut Options, allowed: &[usize], cpus: &[usize]) {
    let mut report = Report::open("mutex", allowed, options);
    pin_to(cpus);
    let (clock, place, budget_ns) = match cpus.len() {
        1 => (Clock::Cpu, "1 worker", 14.0),
        _ => (Clock::Wall, "2 workers", 26.0),
    };
    let many = work(options.size(1 << 22, 64 * 50));
    let some = work(options.size(1 << 19, 64 * 50));
    let versions = ["parking_lot", "may", "tokio"].map(locked_version);
    let contenders = vec![
        Contender::new("urgo", move || {
            goroutines(cpus, many, || {
                let number = Arc::new(urgo::sync::Mutex::new(0));
                crowd(
                    many,
                    number,
                    |number| *number.lock() += 1,
                    |number| *number.lock(),
                )
            })
        }),
        Contender::new(format!("parking_lot {}", versions[0]), move || {
            let number = Arc::new(parking_lot::Mutex::new(0));
            let jobs = crowd(
                many,
                number,
                |number| *number.lock() += 1,
                |number| *number.lock(),
            );
            threads(cpus, many, jobs)
        }),
        Contender::new("std::sync::Mutex", move || {
            let number = Arc::new(std::sync::Mutex::new(0));
            let jobs = crowd(
                many,
                number,
                |number| *number.lock().expect("no panic") += 1,
                |number| *number.lock().expect("no panic"),
            );
            threads(cpus, many, jobs)
        }),
        Contender::new(format!("may {}", versions[1]), move || {
            let number = Arc::new(may::sync::Mutex::new(0));
            let jobs = crowd(
                some,
                number,
                |number| *number.lock().expect("no panic") += 1,
                |number| *number.lock().expect("no panic"),
            );
            coroutines(cpus, some, jobs)
        }),
        Contender::new(format!("tokio {}", versions[2]), move || {
            tasks(cpus, some, || tokio_crowd(some.operations))
        }),
    ];
    let case = format!("mutex, {CROWD} at it, {place}");
    compare_by(
        clock,
        &mut report,
        options,
        &case,
        Some(budget_ns),
        contenders,
    );
}

/// The last to end returns the number, the others nothing; see [`crowd`].
fn work(locks: usize) -> Work {
    Work {
        operations: locks,
        sum: locks as u64,
    }
}

/// Everyone keeps a handle to the mutex; whoever finds that he holds the last one reads the number.
fn crowd<M: Send + Sync + 'static>(
    work: Work,
    mutex: Arc<M>,
    add_one: impl Fn(&M) + Copy + Send + 'static,
    read: impl Fn(&M) -> u64 + Copy + Send + 'static,
) -> Vec<Job> {
    let share = work.operations / CROWD;
    vec![mutex; CROWD]
        .into_iter()
        .map(|mutex| {
            Job::new(None, move || {
                (0..share).for_each(|_| add_one(&mutex));
                Arc::into_inner(mutex).map_or(0, |mutex| read(&mutex))
            })
        })
        .collect()
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
