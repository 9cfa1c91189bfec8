//! Meeting at a barrier: rounds, leaders, cancelled waiters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use urgo::sync::Barrier;

use crate::support::runtime;

#[test]
fn barrier_of_none_or_one_lets_everybody_lead() {
    for n in [0, 1] {
        let barrier = Barrier::new(n);
        for _ in 0..3 {
            assert!(barrier.wait().is_leader());
        }
    }
}

/// Nobody is a round ahead, and every round has one leader, with threads and goroutines of two runtimes together.
#[test]
fn barrier_keeps_the_rounds_apart() {
    const ROUNDS: usize = 200;
    for workers in [1, 2, 4] {
        const SIZE: usize = 20;
        let barrier = Arc::new(Barrier::new(SIZE));
        let came = Arc::new(AtomicUsize::new(0));
        let led = Arc::new(AtomicUsize::new(0));
        let work = {
            let (came, led) = (came.clone(), led.clone());
            move || {
                for round in 0..ROUNDS {
                    came.fetch_add(1, Ordering::Relaxed);
                    if barrier.wait().is_leader() {
                        led.fetch_add(1, Ordering::Relaxed);
                    }
                    // All of this round have come, and at most all have gone on to the next.
                    let seen = came.load(Ordering::Relaxed);
                    assert!((round + 1) * SIZE <= seen && seen <= (round + 2) * SIZE);
                }
            }
        };
        let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(work.clone())).collect();
        let other = runtime(1);
        let handles: Vec<_> = (0..3).map(|_| other.handle().spawn(work.clone())).collect();
        runtime(workers).run(|| {
            let handles: Vec<_> = (0..15).map(|_| urgo::spawn(work.clone())).collect();
            for handle in handles {
                handle.join().unwrap();
            }
        });
        for handle in handles {
            handle.join().unwrap();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(led.load(Ordering::Relaxed), ROUNDS);
    }
}

#[test]
fn barrier_does_not_count_whom_the_end_of_its_runtime_cancelled() {
    static BARRIER: Barrier = Barrier::new(3);
    let waiting = Arc::new(AtomicUsize::new(0));
    let wait = |waiting: Arc<AtomicUsize>| {
        move || {
            waiting.fetch_add(1, Ordering::SeqCst);
            BARRIER.wait().is_leader()
        }
    };
    runtime(1).run(|| {
        drop(urgo::spawn(wait(waiting.clone())));
        drop(urgo::spawn(wait(waiting.clone())));
        // One worker: who has said so waits when we run again.
        while waiting.load(Ordering::SeqCst) < 2 {
            urgo::yield_now();
        }
    });
    runtime(1).run(|| {
        let waiting = Arc::new(AtomicUsize::new(0));
        let two = [
            urgo::spawn(wait(waiting.clone())),
            urgo::spawn(wait(waiting.clone())),
        ];
        while waiting.load(Ordering::SeqCst) < 2 {
            urgo::yield_now();
        }
        assert!(two.iter().all(|handle| !handle.is_finished()));
        assert!(BARRIER.wait().is_leader());
        for handle in two {
            assert!(!handle.join().unwrap());
        }
    });
}

#[test]
fn barrier_publishes_what_was_done_before_it() {
    for workers in [1, 2] {
        let barrier = Arc::new(Barrier::new(8));
        let slots: Arc<Vec<AtomicUsize>> = Arc::new((0..8).map(|_| AtomicUsize::new(0)).collect());
        runtime(workers).run(|| {
            let handles: Vec<_> = (0..8)
                .map(|i| {
                    let (barrier, slots) = (barrier.clone(), slots.clone());
                    urgo::spawn(move || {
                        for round in 1..100 {
                            slots[i].store(round, Ordering::Relaxed);
                            barrier.wait();
                            assert!(slots.iter().all(|s| s.load(Ordering::Relaxed) == round));
                            barrier.wait();
                        }
                    })
                })
                .collect();
            for handle in handles {
                handle.join().unwrap();
            }
        });
    }
}
