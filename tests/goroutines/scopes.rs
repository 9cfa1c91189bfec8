//! Scopes: goroutines that borrow have ended when the scope has, whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use urgo::JoinError;
use urgo::go::Builder;

use crate::support::{Drops, OnDrop, hush_planned_panics, panic_of, runtime, wait_until};

#[test]
fn children_borrow_and_change_what_is_outside() {
    for workers in [1, 4] {
        runtime(workers).run(|| {
            let mut cells = [0_u64; 500];
            let words = String::from("borrowed");
            urgo::scope(|s| {
                for (n, cell) in cells.iter_mut().enumerate() {
                    let words = &words;
                    s.spawn(move || {
                        urgo::yield_now();
                        *cell = n as u64 + words.len() as u64;
                    });
                }
            });
            assert!(cells.iter().zip(8..).all(|(cell, n)| *cell == n));
        });
    }
}

#[test]
fn a_scope_returns_its_closures_value_and_its_childrens() {
    runtime(2).run(|| {
        let text = String::from("abc");
        let length = urgo::scope(|s| {
            let child = s.spawn(|| &text[1..]);
            assert_eq!(child.join().unwrap(), "bc");
            let named = Builder::new().name("scoped");
            let child = s.spawn_with(named, || urgo::current().name() == Some("scoped"));
            assert!(child.unwrap().join().unwrap());
            text.len()
        });
        assert_eq!(length, 3);
    });
}

#[test]
fn a_childs_panic_is_the_scopes_panic_after_all_have_ended() {
    hush_planned_panics();
    runtime(2).run(|| {
        let ended = AtomicUsize::new(0);
        let message = panic_of(|| {
            urgo::scope(|s| {
                s.spawn(|| panic!("planned"));
                for _ in 0..20 {
                    s.spawn(|| {
                        urgo::sleep(Duration::from_millis(1));
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        });
        assert!(message.contains("scoped goroutine panicked"), "{message}");
        assert_eq!(ended.load(Ordering::SeqCst), 20);
    });
}

#[test]
fn a_childs_panic_that_is_joined_is_the_joiners_business() {
    hush_planned_panics();
    runtime(2).run(|| {
        let value = urgo::scope(|s| {
            let child = s.spawn(|| -> u8 { panic!("planned") });
            let Err(JoinError::Panic(_)) = child.join() else {
                panic!("no panic came");
            };
            5
        });
        assert_eq!(value, 5);
    });
}

#[test]
fn if_the_scopes_closure_panics_its_children_end_first() {
    hush_planned_panics();
    runtime(2).run(|| {
        let ended = AtomicUsize::new(0);
        let message = panic_of(|| {
            urgo::scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        urgo::sleep(Duration::from_millis(1));
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                }
                panic!("planned, of the scope");
            });
        });
        assert_eq!(message, "planned, of the scope");
        assert_eq!(ended.load(Ordering::SeqCst), 20);
    });
}

#[test]
fn scopes_nest() {
    runtime(4).run(|| {
        let sum = AtomicUsize::new(0);
        urgo::scope(|outer| {
            for n in 0..10 {
                let sum = &sum;
                outer.spawn(move || {
                    let local = n;
                    urgo::scope(|inner| {
                        for m in 0..10 {
                            let local = &local;
                            inner.spawn(move || {
                                sum.fetch_add(local * 10 + m, Ordering::SeqCst);
                            });
                            // A child of the outer scope, spawned from inside the inner one.
                            outer.spawn(move || {
                                sum.fetch_add(1000, Ordering::SeqCst);
                            });
                        }
                    });
                });
            }
        });
        assert_eq!(sum.load(Ordering::SeqCst), 99 * 100 / 2 + 100 * 1000);
    });
}

#[test]
fn a_handle_that_is_forgotten_does_not_free_the_scope() {
    runtime(2).run(|| {
        let mut done = vec![false; 50];
        urgo::scope(|s| {
            for flag in &mut done {
                std::mem::forget(s.spawn(move || {
                    urgo::sleep(Duration::from_millis(1));
                    *flag = true;
                }));
            }
        });
        assert!(done.iter().all(|flag| *flag));
    });
}

/// Results that borrow from outside are dropped before the scope returns, joined or not.
#[test]
fn a_result_that_borrows_is_dropped_before_its_lender() {
    runtime(2).run(|| {
        for round in 0..50 {
            let alive = Arc::new(AtomicBool::new(true));
            let drops = AtomicUsize::new(0);
            let lender = alive.clone();
            let end_of_lender = OnDrop(move || lender.store(false, Ordering::SeqCst));
            urgo::scope(|s| {
                for n in 0..4 {
                    let (alive, drops, round) = (&alive, &drops, &round);
                    let handle = s.spawn(move || {
                        if n % 2 == round % 2 {
                            urgo::yield_now();
                        }
                        OnDrop(move || {
                            assert!(alive.load(Ordering::SeqCst), "outlived its lender");
                            drops.fetch_add(1, Ordering::SeqCst);
                        })
                    });
                    match n {
                        0 => drop(handle),
                        1 => drop(handle.join()),
                        2 => {
                            wait_until("the child", || handle.is_finished());
                            drop(handle);
                        }
                        _ => {}
                    }
                }
            });
            assert_eq!(drops.load(Ordering::SeqCst), 4);
            drop(end_of_lender);
        }
    });
}

#[test]
fn a_child_that_exits_has_no_value_and_does_not_hang_the_scope() {
    runtime(2).run(|| {
        let drops = Drops::default();
        urgo::scope(|s| {
            let guard = drops.guard();
            let child = s.spawn(move || -> u8 {
                let _guard = guard;
                urgo::exit_goroutine()
            });
            assert!(matches!(child.join(), Err(JoinError::Exited)));
        });
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn an_empty_scope_returns_at_once() {
    runtime(1).run(|| assert_eq!(urgo::scope(|_| 1), 1));
}

#[test]
fn on_a_plain_thread_a_scope_cannot_spawn() {
    hush_planned_panics();
    let message = panic_of(|| urgo::scope(|s| drop(s.spawn(|| ()))));
    assert!(message.contains("not called from a goroutine"), "{message}");
}
