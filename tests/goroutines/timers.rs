//! Timers: never early, in the order of deadlines and then of calls, and cut short by the runtime's end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use urgo::time::{Instant, sleep_until};

use crate::support::{Drops, Log, Random, runtime, seed, wait_until};

#[test]
fn sleepers_wake_in_the_order_of_deadlines_then_of_calls() {
    let mut random = Random::new(seed());
    // On a loaded machine a deadline may pass before everybody sleeps; then the round says nothing and is taken again.
    for attempt in 0.. {
        let ahead = Duration::from_millis(50 << attempt.min(6));
        let choices: Vec<u64> = (0..300).map(|_| random.below(10)).collect();
        let (calls, wakes, is_valid) = runtime(1).run(|| {
            let (calls, wakes) = (Log::new(), Log::new());
            let base = Instant::now() + ahead;
            let handles: Vec<_> = choices
                .iter()
                .map(|&choice| {
                    let (calls, wakes) = (calls.clone(), wakes.clone());
                    urgo::spawn(move || {
                        let me = urgo::current().id();
                        calls.add((choice, me));
                        sleep_until(base + Duration::from_micros(choice));
                        wakes.add((choice, me));
                    })
                })
                .collect();
            while calls.len() < 300 {
                urgo::yield_now();
            }
            let is_valid = Instant::now() < base;
            for handle in handles {
                handle.join().unwrap();
            }
            (calls.entries(), wakes.entries(), is_valid)
        });
        if is_valid {
            let mut expected = calls;
            expected.sort_by_key(|entry| entry.0); // stable: by deadline, then by call
            assert_eq!(wakes, expected);
            return;
        }
    }
}

#[test]
fn ten_thousand_sleepers_all_wake_and_none_early() {
    let mut random = Random::new(seed());
    runtime(4).run(|| {
        let handles: Vec<_> = (0..10_000)
            .map(|_| {
                let us = random.below(30_000);
                urgo::spawn(move || {
                    let before = std::time::Instant::now();
                    urgo::sleep(Duration::from_micros(us));
                    let slept = before.elapsed();
                    assert!(slept >= Duration::from_micros(us), "{slept:?} of {us} us");
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

#[test]
fn a_sleep_is_never_early_by_the_systems_clock() {
    runtime(1).run(|| {
        for ns in [1, 999, 1_000, 25_000, 50_001, 123_456, 1_000_000, 3_333_333] {
            for _ in 0..20 {
                let before = std::time::Instant::now();
                urgo::sleep(Duration::from_nanos(ns));
                assert!(before.elapsed() >= Duration::from_nanos(ns), "{ns} ns");
            }
        }
    });
    // A plain thread keeps the promise, too.
    let before = std::time::Instant::now();
    urgo::sleep(Duration::from_millis(3));
    assert!(before.elapsed() >= Duration::from_millis(3));
}

#[test]
fn a_deadline_that_has_passed_does_not_wait() {
    runtime(1).run(|| {
        let past = Instant::now();
        for _ in 0..1000 {
            sleep_until(past);
        }
        // Zero lets the others run.
        let ran = Arc::new(AtomicUsize::new(0));
        let of = ran.clone();
        drop(urgo::spawn(move || of.fetch_add(1, Ordering::SeqCst)));
        let mut turns = 0;
        while ran.load(Ordering::SeqCst) == 0 {
            urgo::sleep(Duration::ZERO);
            turns += 1;
            assert!(turns < 1000, "sleep(0) does not let others run");
        }
    });
}

#[test]
fn sleeping_for_ever_parks_and_is_cut_short_at_the_end() {
    let drops = Drops::default();
    let woken = Arc::new(AtomicUsize::new(0));
    for workers in [1, 2] {
        let before = drops.count();
        runtime(workers).run(|| {
            let parked = Arc::new(AtomicUsize::new(0));
            for n in 0..30 {
                let (guard, parked, woken) = (drops.guard(), parked.clone(), woken.clone());
                drop(urgo::spawn(move || {
                    let _guard = guard;
                    parked.fetch_add(1, Ordering::SeqCst);
                    match n % 3 {
                        0 => urgo::sleep(Duration::MAX),
                        1 => sleep_until(Instant::NEVER),
                        _ => urgo::sleep(Duration::from_secs(u64::MAX / 1_000_000_000)),
                    }
                    woken.fetch_add(1, Ordering::SeqCst);
                }));
            }
            wait_until("all park", || parked.load(Ordering::SeqCst) == 30);
            // A few turns of the timers meanwhile.
            for _ in 0..5 {
                urgo::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(drops.count(), before + 30);
    }
    assert_eq!(woken.load(Ordering::SeqCst), 0);
}
