//! Where goroutines run, and that an idle worker takes the fresh ones of a busy one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use urgo::go::{Builder, Placement};

use crate::support::{PATIENCE, runtime, wait_until};

/// Spawns `n` goroutines that park until told; returns how many started on each worker.
fn spread_of(n: usize, placement: Placement) -> Vec<usize> {
    let workers = urgo::Handle::current().workers();
    let counts: Arc<Vec<AtomicUsize>> =
        Arc::new((0..workers).map(|_| AtomicUsize::new(0)).collect());
    let release = Arc::new(AtomicBool::new(false));
    let handles: Vec<_> = (0..n)
        .map(|_| {
            let (counts, release) = (counts.clone(), release.clone());
            let builder = Builder::new().placement(placement);
            let handle = builder.spawn(move || {
                counts[urgo::current().worker()].fetch_add(1, Ordering::SeqCst);
                wait_until("release", || release.load(Ordering::SeqCst));
            });
            urgo::yield_now(); // as an accept loop would
            handle.unwrap()
        })
        .collect();
    wait_until("all have started", || {
        counts
            .iter()
            .map(|c| c.load(Ordering::SeqCst))
            .sum::<usize>()
            == n
    });
    release.store(true, Ordering::SeqCst);
    for handle in handles {
        handle.join().unwrap();
    }
    counts.iter().map(|c| c.load(Ordering::SeqCst)).collect()
}

#[test]
fn a_local_goroutine_stays_with_its_spawner_whatever_the_load() {
    runtime(4).run(|| {
        let mut expected = vec![0; 4];
        expected[urgo::current().worker()] = 400;
        assert_eq!(spread_of(400, Placement::Local), expected);
    });
}

#[test]
fn a_goroutine_placed_on_a_worker_runs_there() {
    runtime(4).run(|| {
        for index in 0..4 {
            let mut expected = vec![0; 4];
            expected[index] = 100;
            assert_eq!(spread_of(100, Placement::Worker(index)), expected);
        }
    });
}

#[test]
fn spread_goroutines_reach_every_worker() {
    runtime(4).run(|| {
        let counts = spread_of(400, Placement::Spread);
        assert!(counts.iter().all(|&n| n >= 40), "{counts:?}");
    });
}

#[test]
fn one_goroutine_that_spawns_a_thousand_does_not_keep_them_all() {
    runtime(2).run(|| {
        let counts = spread_of(1000, Placement::Auto);
        assert!(counts.iter().all(|&n| n >= 200), "{counts:?}");
    });
}

/// The spawner computes on without a break until all its children have run: others must have taken them.
#[test]
fn fresh_goroutines_of_a_busy_worker_run_elsewhere() {
    for workers in [2, 4] {
        runtime(workers).run(|| {
            for _ in 0..20 {
                let busy = Builder::new().placement(Placement::Worker(0)).spawn(|| {
                    let ran = Arc::new(AtomicUsize::new(0));
                    let me = urgo::current().worker();
                    for _ in 0..100 {
                        let ran = ran.clone();
                        drop(urgo::spawn(move || {
                            assert_ne!(urgo::current().worker(), me);
                            ran.fetch_add(1, Ordering::SeqCst);
                        }));
                    }
                    let started = std::time::Instant::now();
                    while ran.load(Ordering::SeqCst) < 100 {
                        assert!(
                            started.elapsed() < PATIENCE,
                            "only {} of 100 were taken",
                            ran.load(Ordering::SeqCst)
                        );
                        std::hint::spin_loop();
                    }
                });
                busy.unwrap().join().unwrap();
            }
        });
    }
}

/// A goroutine that another worker took is at home there: it comes back there after every wait.
#[test]
fn a_started_goroutine_never_changes_its_worker() {
    runtime(4).run(|| {
        let handles: Vec<_> = (0..2000)
            .map(|n| {
                urgo::spawn(move || {
                    let (worker, thread) = (urgo::current().worker(), std::thread::current().id());
                    for i in 0..5 {
                        if (n + i) % 3 == 0 {
                            urgo::sleep(std::time::Duration::from_micros(50));
                        } else {
                            urgo::yield_now();
                        }
                        assert_eq!(urgo::current().worker(), worker);
                        assert_eq!(std::thread::current().id(), thread);
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}
