//! Waiting until a number of things is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::sync::WaitGroup;

use crate::support::{hush_planned_panics, panic_of, runtime};

#[test]
fn wait_group_waits_for_all_and_publishes_what_they_did() {
    for workers in [1, 2, 4] {
        static GROUP: WaitGroup = WaitGroup::new();
        runtime(workers).run(|| {
            for _ in 0..50 {
                let sum = Arc::new(AtomicUsize::new(0));
                GROUP.add(20);
                for _ in 0..19 {
                    let sum = sum.clone();
                    drop(urgo::spawn(move || {
                        urgo::yield_now();
                        sum.fetch_add(1, Ordering::Relaxed);
                        GROUP.done();
                    }));
                }
                let other = sum.clone();
                let thread = std::thread::spawn(move || {
                    other.fetch_add(1, Ordering::Relaxed);
                    GROUP.done();
                });
                GROUP.wait();
                assert_eq!(sum.load(Ordering::Relaxed), 20);
                GROUP.wait();
                thread.join().unwrap();
            }
        });
    }
}

#[test]
fn wait_group_lets_all_waiters_go_though_more_is_added_at_once() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let group = Arc::new(WaitGroup::new());
            for _ in 0..100 {
                let first = group.guard_owned();
                let begun = Arc::new(AtomicUsize::new(0));
                let waiters: Vec<_> = (0..10)
                    .map(|_| {
                        let (group, begun) = (group.clone(), begun.clone());
                        urgo::spawn(move || {
                            begun.fetch_add(1, Ordering::SeqCst);
                            group.wait();
                        })
                    })
                    .collect();
                if workers == 1 {
                    while begun.load(Ordering::SeqCst) < 10 {
                        urgo::yield_now();
                    }
                    // They wait. The number is 0 for a moment only, which is enough.
                    drop(first);
                    group.add(1);
                    for waiter in waiters {
                        waiter.join().unwrap();
                    }
                    group.done();
                } else {
                    drop(first);
                    for waiter in waiters {
                        waiter.join().unwrap();
                    }
                }
            }
        });
    }
}

#[test]
fn wait_group_refuses_a_negative_number_and_stays_usable() {
    let group = WaitGroup::default();
    let text = panic_of(|| group.done());
    assert!(text.contains("negative"), "{text}");
    group.wait();
    group.add(1);
    let text = panic_of(|| group.add(usize::MAX));
    assert!(text.contains("too much"), "{text}");
    let text = panic_of(|| group.add(usize::MAX / 2));
    assert!(text.contains("too much"), "{text}");
    group.done();
    group.wait();
}

#[test]
fn wait_group_guards_are_done_also_by_a_panic() {
    hush_planned_panics();
    runtime(2).run(|| {
        let group = Arc::new(WaitGroup::new());
        let guard = group.guard_owned();
        let handle = urgo::spawn(move || {
            let _guard = guard;
            panic!("planned");
        });
        group.wait();
        assert!(handle.join().is_err());
        {
            let _one = group.guard();
            assert!(!group.wait_for(Duration::from_millis(1)));
        }
        group.wait();
    });
}

#[test]
fn wait_group_waits_until_a_deadline_only() {
    let check = || {
        let group = WaitGroup::new();
        group.add(2);
        let start = Instant::now();
        let pause = Duration::from_millis(3);
        assert!(!group.wait_for(pause));
        assert!(start.elapsed() >= pause);
        assert!(!group.wait_until(start));
        assert!(!group.wait_until(urgo::time::Instant::now() + pause));
        group.done();
        assert!(!group.wait_for(pause));
        group.done();
        assert!(group.wait_until(start), "done is done, whatever the time");
        assert!(group.wait_for(Duration::MAX));
    };
    check();
    runtime(1).run(check);
}

#[test]
fn wait_group_outlives_waiters_that_were_cancelled() {
    static GROUP: WaitGroup = WaitGroup::new();
    let unwound = Arc::new(AtomicBool::new(false));
    GROUP.add(1);
    runtime(1).run(|| {
        let (begun, unwound) = (Arc::new(AtomicBool::new(false)), unwound.clone());
        let said = begun.clone();
        drop(urgo::spawn(move || {
            let _unwound = crate::support::OnDrop(|| unwound.store(true, Ordering::SeqCst));
            said.store(true, Ordering::SeqCst);
            GROUP.wait();
        }));
        while !begun.load(Ordering::SeqCst) {
            urgo::yield_now();
        }
    });
    assert!(unwound.load(Ordering::SeqCst));
    let thread = std::thread::spawn(|| GROUP.wait());
    GROUP.done();
    thread.join().unwrap();
}
