//! Calls that block a thread, on threads of their own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::support::{Drops, hush_planned_panics, panic_of, runtime, wait_until};

#[test]
fn a_blocking_call_borrows_and_returns() {
    runtime(1).run(|| {
        let text = String::from("borrowed");
        let mut changed = 0;
        let here = std::thread::current().id();
        let length = urgo::blocking(|| {
            assert_ne!(std::thread::current().id(), here);
            assert!(urgo::go::Current::try_current().is_none());
            changed = 5;
            text.len()
        });
        assert_eq!((length, changed), (8, 5));
    });
}

#[test]
fn a_blocking_call_holds_its_goroutine_only() {
    runtime(1).run(|| {
        let release = Arc::new(AtomicBool::new(false));
        let of = release.clone();
        let blocked = urgo::spawn(move || {
            urgo::blocking(|| {
                while !of.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        });
        // The only worker goes on; if it did not, this would not get to release the other.
        for _ in 0..1000 {
            urgo::yield_now();
        }
        urgo::sleep(Duration::from_millis(2));
        assert!(!blocked.is_finished());
        release.store(true, Ordering::SeqCst);
        blocked.join().unwrap();
    });
}

#[test]
fn a_panic_of_a_blocking_call_is_its_callers() {
    hush_planned_panics();
    runtime(1).run(|| {
        let message = panic_of(|| urgo::blocking(|| panic!("planned, off the worker")));
        assert_eq!(message, "planned, off the worker");
        assert_eq!(urgo::blocking(|| 3), 3);
        let joined = urgo::spawn(|| urgo::blocking(|| panic!("planned"))).join();
        assert!(joined.is_err_and(|error| error.is_panic()));
    });
}

#[test]
fn a_thousand_blocking_calls_share_four_threads() {
    let runtime = urgo::Runtime::builder()
        .workers(2)
        .blocking_threads(4)
        .build()
        .unwrap();
    runtime.run(|| {
        let now = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..1000_usize)
            .map(|n| {
                let (now, most) = (now.clone(), most.clone());
                urgo::spawn(move || {
                    urgo::blocking(|| {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(100));
                        now.fetch_sub(1, Ordering::SeqCst);
                        n
                    })
                })
            })
            .collect();
        let sum: usize = handles.into_iter().map(|h| h.join().unwrap()).sum();
        assert_eq!(sum, 999 * 1000 / 2);
        let most = most.load(Ordering::SeqCst);
        assert!((1..=4).contains(&most), "{most} at once");
        assert!(urgo::debug::metrics().blocking_threads <= 4);
    });
}

/// Eight calls that each need the other seven: the pool has grown to eight.
#[test]
fn the_pool_grows_on_demand() {
    runtime(1).run(|| {
        let barrier = Arc::new(Barrier::new(8));
        let handles: Vec<_> = (0..8)
            .map(|_| {
                let barrier = barrier.clone();
                urgo::spawn(move || urgo::blocking(|| barrier.wait().is_leader()))
            })
            .collect();
        let leaders = handles
            .into_iter()
            .filter(|_| true)
            .map(|h| h.join().unwrap());
        assert_eq!(leaders.filter(|is_leader| *is_leader).count(), 1);
    });
}

#[test]
fn on_a_plain_thread_a_blocking_call_is_a_call() {
    let here = std::thread::current().id();
    assert_eq!(urgo::blocking(|| std::thread::current().id()), here);
}

#[test]
fn at_the_runtimes_end_a_blocking_call_runs_to_its_end() {
    let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let drops = Drops::default();
    runtime(2).run(|| {
        urgo::scope(|s| {
            // The scope's children are what waits when the main goroutine exits.
            for _ in 0..4 {
                let guard = drops.guard();
                let (started, ended) = (&started, &ended);
                s.spawn(move || {
                    let _guard = guard;
                    urgo::blocking(|| {
                        started.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(5));
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                });
            }
            wait_until("one has started", || started.load(Ordering::SeqCst) > 0);
        });
    });
    assert_eq!(started.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
    assert_eq!(drops.count(), 4);
}
