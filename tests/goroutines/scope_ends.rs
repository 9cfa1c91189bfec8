//! Scopes that are cut short, and scopes with a limit: their goroutines have ended when the scope has, whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Drops, Log, OnDrop, Random, panic_of, runtime, seed, wait_until};

/// What the parent is at when it is cancelled.
#[derive(Clone, Copy, Debug)]
enum At {
    TheBody,
    TheEnd,
}

#[test]
fn a_cancelled_parents_children_are_cancelled_and_end_before_it() {
    for (workers, at) in [
        (1, At::TheBody),
        (2, At::TheBody),
        (1, At::TheEnd),
        (2, At::TheEnd),
    ] {
        runtime(workers).run(|| {
            let order = Log::new();
            let at_it = Arc::new(AtomicUsize::new(0));
            let (of, begun) = (order.clone(), at_it.clone());
            let parent = urgo::spawn(move || {
                let _guard = OnDrop(|| of.add("parent"));
                let lent = AtomicUsize::new(0);
                urgo::scope(|s| {
                    for n in 0..4 {
                        let handle = s.spawn(|| {
                            let _guard = OnDrop(|| {
                                urgo::sleep(Duration::from_millis(1));
                                lent.fetch_add(1, Ordering::SeqCst);
                                of.add("child");
                            });
                            begun.fetch_add(1, Ordering::SeqCst);
                            urgo::sleep(Duration::MAX);
                        });
                        if n % 2 == 0 {
                            std::mem::forget(handle);
                        }
                    }
                    if let At::TheBody = at {
                        urgo::sleep(Duration::MAX);
                    }
                });
                of.add("went on");
            });
            wait_until("the children", || at_it.load(Ordering::SeqCst) == 4);
            urgo::sleep(Duration::from_millis(1));
            parent.cancel();
            assert!(parent.join().unwrap_err().is_cancelled());
            let expected = ["child", "child", "child", "child", "parent"];
            assert_eq!(order.entries(), expected, "{workers} {at:?}");
        });
    }
}

#[test]
fn a_cancelled_parents_children_that_have_not_started_never_run() {
    runtime(1).run(|| {
        let ran = AtomicUsize::new(0);
        let drops = Drops::default();
        urgo::scope(|outer| {
            let (ran, drops) = (&ran, &drops);
            // On one worker its children start only when it waits.
            let parent = outer.spawn(move || {
                urgo::scope(|s| {
                    for _ in 0..10 {
                        let guard = drops.guard();
                        s.spawn(move || {
                            let _guard = guard;
                            ran.fetch_add(1, Ordering::SeqCst);
                        });
                    }
                    s.cancel();
                    assert!(s.is_cancelled());
                });
            });
            parent.join().unwrap();
            assert_eq!((ran.load(Ordering::SeqCst), drops.count()), (0, 10));
        });
    });
}

#[test]
fn a_cancellation_goes_down_a_tree_of_scopes() {
    fn tree(depth: usize, leaves: &AtomicUsize, ended: &AtomicUsize) {
        let _guard = OnDrop(|| {
            ended.fetch_add(1, Ordering::SeqCst);
        });
        if depth == 0 {
            leaves.fetch_add(1, Ordering::SeqCst);
            urgo::sleep(Duration::MAX);
        }
        urgo::scope(|s| {
            for _ in 0..3 {
                s.spawn(move || tree(depth - 1, leaves, ended));
            }
        });
    }
    for workers in [1, 2, 4] {
        runtime(workers).run(|| {
            let (leaves, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            urgo::scope(|s| {
                let root = s.spawn(|| tree(4, &leaves, &ended));
                wait_until("the leaves", || leaves.load(Ordering::SeqCst) == 81);
                root.cancel();
                assert!(root.join().unwrap_err().is_cancelled());
            });
            assert_eq!(ended.load(Ordering::SeqCst), 1 + 3 + 9 + 27 + 81);
        });
    }
}

#[test]
fn in_an_uncancellable_part_a_scope_is_waited_for_and_its_children_go_on() {
    runtime(2).run(|| {
        let (finished, at_it) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (of, begun) = (finished.clone(), at_it.clone());
        let parent = urgo::spawn(move || {
            urgo::uncancellable(|| {
                urgo::scope(|s| {
                    for _ in 0..4 {
                        s.spawn(|| {
                            begun.store(true, Ordering::SeqCst);
                            urgo::sleep(Duration::from_millis(3));
                            of.fetch_add(1, Ordering::SeqCst);
                        });
                    }
                });
            });
            urgo::yield_now();
        });
        wait_until("the children", || at_it.load(Ordering::SeqCst));
        parent.cancel();
        assert!(parent.join().unwrap_err().is_cancelled());
        assert_eq!(finished.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn one_child_is_cancelled_and_the_others_go_on() {
    runtime(2).run(|| {
        let finished = AtomicUsize::new(0);
        urgo::scope(|s| {
            let handles = Vec::from_iter((0..5).map(|n| {
                let finished = &finished;
                s.spawn(move || {
                    if n == 2 {
                        urgo::sleep(Duration::MAX);
                    }
                    urgo::sleep(Duration::from_millis(1));
                    finished.fetch_add(1, Ordering::SeqCst);
                    n
                })
            }));
            handles[2].cancel();
            for (n, handle) in handles.into_iter().enumerate() {
                match handle.join() {
                    Ok(value) => assert_eq!((value, n == 2), (n, false)),
                    Err(error) => assert!(n == 2 && error.is_cancelled()),
                }
            }
        });
        assert_eq!(finished.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn a_scope_that_is_cancelled_ends_its_children_and_starts_no_more() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let (at_it, late) = (AtomicUsize::new(0), AtomicBool::new(false));
            let value = urgo::scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        at_it.fetch_add(1, Ordering::SeqCst);
                        urgo::sleep(Duration::MAX);
                    });
                }
                wait_until("all wait", || at_it.load(Ordering::SeqCst) == 20);
                assert!(!s.is_cancelled());
                s.cancel();
                let refused = s.spawn(|| late.store(true, Ordering::SeqCst));
                assert!(refused.join().unwrap_err().is_cancelled());
                7
            });
            assert_eq!((value, late.into_inner()), (7, false));
        });
    }
}

#[test]
fn a_child_may_cancel_its_scope_and_so_itself() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            urgo::scope(|s| {
                for n in 0..10 {
                    s.spawn(move || {
                        if n == 5 {
                            s.cancel();
                        }
                        urgo::sleep(Duration::MAX);
                    });
                }
            });
        });
    }
}

#[test]
fn under_a_limit_there_are_never_more() {
    for workers in [1, 2, 4] {
        runtime(workers).run(|| {
            for limit in [1, 2, 7] {
                let (now, most, all) = (
                    AtomicUsize::new(0),
                    AtomicUsize::new(0),
                    AtomicUsize::new(0),
                );
                urgo::scope(|s| {
                    s.limit(limit);
                    for n in 0..300 {
                        let (now, most, all) = (&now, &most, &all);
                        s.spawn(move || {
                            let there = now.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(there, Ordering::SeqCst);
                            for _ in 0..n % 4 {
                                urgo::yield_now();
                            }
                            all.fetch_add(1, Ordering::SeqCst);
                            now.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
                let (most, all) = (most.into_inner(), all.into_inner());
                assert!((1..=limit).contains(&most), "{most} of {limit}");
                assert_eq!(all, 300);
            }
        });
    }
}

#[test]
fn a_limit_that_is_raised_lets_waiting_spawners_go_on() {
    runtime(2).run(|| {
        let at_it = AtomicUsize::new(0);
        urgo::scope(|s| {
            s.limit(2);
            let at_it = &at_it;
            let spawner = urgo::scope(|inner| {
                let spawner = inner.spawn(move || {
                    for _ in 0..10 {
                        s.spawn(move || {
                            at_it.fetch_add(1, Ordering::SeqCst);
                            urgo::sleep(Duration::MAX);
                        });
                    }
                });
                wait_until("two", || at_it.load(Ordering::SeqCst) == 2);
                urgo::sleep(Duration::from_millis(2));
                assert!(!spawner.is_finished());
                assert_eq!(at_it.load(Ordering::SeqCst), 2);
                s.limit(100);
                wait_until("ten", || at_it.load(Ordering::SeqCst) == 10);
                spawner.join()
            });
            spawner.unwrap();
            s.cancel();
        });
    });
}

#[test]
fn a_cancelled_scope_does_not_keep_a_spawner_waiting_for_room() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let ran = AtomicUsize::new(0);
            urgo::scope(|s| {
                s.limit(1);
                let ran = &ran;
                for n in 0..10 {
                    s.spawn(move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                        if n == 0 {
                            urgo::sleep(Duration::from_millis(2));
                            s.cancel();
                        }
                    });
                }
            });
            assert_eq!(ran.load(Ordering::SeqCst), 1);
        });
    }
}

#[test]
fn a_limit_of_nothing_is_a_callers_mistake() {
    crate::support::hush_planned_panics();
    let message = panic_of(|| urgo::scope(|s| s.limit(0)));
    assert!(message.contains("limit of 0"), "{message}");
}

/// Parents are cancelled at random moments; no child outlives what it borrows.
#[test]
fn no_child_outlives_its_lender_whenever_the_parent_is_cancelled() {
    // A child's own panic may be nobody's, so it only counts; and the flag is not in the frame that may be gone.
    static OUTLIVED: AtomicUsize = AtomicUsize::new(0);
    fn look(is_alive: &AtomicBool) {
        OUTLIVED.fetch_add(
            usize::from(!is_alive.load(Ordering::SeqCst)),
            Ordering::SeqCst,
        );
    }
    let mut random = Random::new(seed());
    for workers in [1, 2, 4] {
        runtime(workers).run(|| {
            for round in 0..300_u64 {
                let drops = Drops::default();
                let guard = drops.guard();
                let parent = urgo::spawn(move || {
                    let _guard = guard;
                    let is_alive = Arc::new(AtomicBool::new(true));
                    let lender = is_alive.clone();
                    let end_of_lender = OnDrop(move || lender.store(false, Ordering::SeqCst));
                    urgo::scope(|s| {
                        if round % 3 == 0 {
                            s.limit(2);
                        }
                        for n in 0..6 {
                            let (ending, returned) = (is_alive.clone(), is_alive.clone());
                            let handle = s.spawn(move || {
                                let _guard = OnDrop(|| {
                                    urgo::yield_now();
                                    look(&ending);
                                });
                                for _ in 0..(round + n) % 4 {
                                    urgo::yield_now();
                                }
                                OnDrop(move || look(&returned))
                            });
                            match n % 3 {
                                0 => drop(handle.join()),
                                1 => std::mem::forget(handle),
                                _ => drop(handle),
                            }
                        }
                    });
                    drop(end_of_lender);
                });
                for _ in 0..random.below(12) {
                    urgo::yield_now();
                }
                parent.cancel();
                if let Err(error) = parent.join() {
                    assert!(error.is_cancelled(), "{error}");
                }
                assert_eq!(drops.count(), 1);
            }
        });
    }
    assert_eq!(OUTLIVED.load(Ordering::SeqCst), 0, "children outlived it");
}
