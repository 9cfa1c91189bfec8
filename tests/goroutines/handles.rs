//! Spawning from threads that are no workers, while the runtime runs and after its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use urgo::JoinError;
use urgo::go::{Builder, Placement, SpawnError};

use crate::support::{Drops, runtime, wait_until};

#[test]
fn plain_threads_spawn_while_the_runtime_runs() {
    let runtime = runtime(2);
    let handle = runtime.handle();
    let before = handle.spawn(|| urgo::current().worker());
    let sum = runtime.run(move || {
        let ran = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (handle, ran) = (handle.clone(), ran.clone());
                std::thread::spawn(move || {
                    let handles: Vec<_> = (0..500)
                        .map(|n| {
                            let ran = ran.clone();
                            handle.spawn(move || {
                                ran.fetch_add(1, Ordering::SeqCst);
                                n
                            })
                        })
                        .collect();
                    handles
                        .into_iter()
                        .map(|h| h.join().unwrap())
                        .sum::<usize>()
                })
            })
            .collect();
        wait_until("the threads", || threads.iter().all(|t| t.is_finished()));
        assert_eq!(ran.load(Ordering::SeqCst), 4 * 500);
        threads
            .into_iter()
            .map(|t| t.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!(sum, 4 * (499 * 500 / 2));
    assert!(before.join().unwrap() < 2);
}

#[test]
fn a_plain_thread_places_on_a_worker() {
    let runtime = runtime(3);
    let handle = runtime.handle();
    for index in 0..3 {
        let builder = Builder::new().placement(Placement::Worker(index));
        let spawned = handle
            .spawn_with(builder, || urgo::current().worker())
            .unwrap();
        assert_eq!(spawned.join().unwrap(), index);
    }
    let error = handle
        .spawn_with(Builder::new().placement(Placement::Worker(3)), || ())
        .unwrap_err();
    assert!(
        matches!(
            error,
            SpawnError::NoSuchWorker {
                index: 3,
                workers: 3
            }
        ),
        "{error}"
    );
}

#[test]
fn after_the_end_a_spawn_counts_as_cancelled_and_drops_its_closure() {
    let runtime = runtime(2);
    let handle = runtime.handle();
    runtime.run(|| ());
    let drops = Drops::default();
    let guard = drops.guard();
    let late = handle.spawn(move || drop(guard));
    assert_eq!(drops.count(), 1);
    assert!(late.is_finished());
    assert!(matches!(late.join(), Err(JoinError::Cancelled)));
    let guard = drops.guard();
    let refused = handle.spawn_with(Builder::new(), move || drop(guard));
    assert!(matches!(refused, Err(SpawnError::Stopped)));
    assert_eq!(drops.count(), 2);
}

/// Threads spawn as fast as they can while the runtime ends: each handle tells the truth about its closure.
#[test]
fn spawning_while_the_runtime_ends_loses_nothing() {
    for _ in 0..30 {
        let runtime = runtime(2);
        let ran = Arc::new(AtomicUsize::new(0));
        let drops = Drops::default();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, ran, drops) = (runtime.handle(), ran.clone(), drops.clone());
                std::thread::spawn(move || {
                    let mut handles = Vec::new();
                    // Until well after the end was seen.
                    let mut after_end = 0;
                    while after_end < 10 {
                        let (ran, guard) = (ran.clone(), drops.guard());
                        let spawned = handle.spawn(move || {
                            ran.fetch_add(1, Ordering::SeqCst);
                            drop(guard);
                        });
                        let refused = handle.spawn_with(Builder::new(), || ());
                        after_end += usize::from(matches!(refused, Err(SpawnError::Stopped)));
                        handles.push(spawned);
                    }
                    let total = handles.len();
                    let finished = handles.into_iter().filter_map(|h| h.join().ok()).count();
                    (total, finished)
                })
            })
            .collect();
        runtime.run(|| wait_until("some spawns", || ran.load(Ordering::SeqCst) > 20));
        let (mut total, mut finished) = (0, 0);
        for thread in threads {
            let (t, f) = thread.join().unwrap();
            total += t;
            finished += f;
        }
        assert_eq!(finished, ran.load(Ordering::SeqCst));
        assert_eq!(total, drops.count());
    }
}
