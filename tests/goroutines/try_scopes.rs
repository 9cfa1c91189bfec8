//! Scopes whose goroutines may fail: the first error ends the others and is what the scope returns.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use urgo::go::Builder;
use urgo::net::TcpListener;
use urgo::try_scope;

use crate::support::{DropGuard, Drops, hush_planned_panics, panic_of, runtime, wait_until};

#[test]
fn without_an_error_it_returns_the_value_of_its_closure() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let mut squares = [0_usize; 50];
            let sum: Result<usize, String> = try_scope(|s| {
                for (n, square) in squares.iter_mut().enumerate() {
                    s.spawn(move || {
                        urgo::yield_now();
                        *square = n * n;
                        Ok(())
                    });
                }
                Ok(5)
            });
            assert_eq!(sum, Ok(5));
            assert!(
                squares
                    .iter()
                    .enumerate()
                    .all(|(n, square)| *square == n * n)
            );
        });
    }
}

#[test]
fn the_first_error_cancels_the_others_and_is_returned() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let (at_it, ended) = (AtomicUsize::new(0), Drops::default());
            let failed: Result<(), String> = try_scope(|s| {
                for n in 0..30 {
                    let (at_it, guard) = (&at_it, ended.guard());
                    s.spawn(move || {
                        let _guard = guard;
                        at_it.fetch_add(1, Ordering::SeqCst);
                        match n % 3 {
                            0 => urgo::sleep(Duration::MAX),
                            1 => drop(TcpListener::bind("127.0.0.1:0").unwrap().accept()),
                            _ => drop(urgo::chan::never::<u8>().recv()),
                        }
                        Err(String::from("went on"))
                    });
                }
                wait_until("all wait", || at_it.load(Ordering::SeqCst) == 30);
                let named = Builder::new().name("failing");
                s.spawn_with(named, || Err(urgo::current().name().unwrap().to_owned()))
                    .unwrap();
                Ok(())
            });
            assert_eq!(failed, Err(String::from("failing")));
            assert_eq!(ended.count(), 30);
        });
    }
}

#[test]
fn an_error_of_its_own_closure_cancels_them_too() {
    runtime(2).run(|| {
        let ended = Drops::default();
        let failed: Result<u8, &str> = try_scope(|s| {
            for _ in 0..10 {
                let guard = ended.guard();
                s.spawn(move || {
                    let _guard = guard;
                    urgo::sleep(Duration::MAX);
                    Ok(())
                });
            }
            Err("of the closure")
        });
        assert_eq!(failed, Err("of the closure"));
        assert_eq!(ended.count(), 10);
    });
}

#[test]
fn of_many_errors_one_is_returned_and_the_others_are_dropped() {
    for workers in [1, 4] {
        runtime(workers).run(|| {
            for _ in 0..20 {
                let drops = Drops::default();
                let failed: Result<(), DropGuard> = try_scope(|s| {
                    for _ in 0..50 {
                        let error = drops.guard();
                        s.spawn(move || {
                            urgo::yield_now();
                            Err(error)
                        });
                    }
                    Ok(())
                });
                assert_eq!(drops.count(), 49);
                drop(failed.unwrap_err());
                assert_eq!(drops.count(), 50);
            }
        });
    }
}

#[test]
fn its_closure_sees_that_it_was_cancelled_and_what_it_spawns_later_never_runs() {
    runtime(2).run(|| {
        let ran = AtomicBool::new(false);
        let failed: Result<(), u32> = try_scope(|s| {
            assert!(!s.is_cancelled());
            s.spawn(|| Err(1));
            wait_until("the error", || s.is_cancelled());
            s.spawn(|| {
                ran.store(true, Ordering::SeqCst);
                Err(2)
            });
            Err(3)
        });
        assert_eq!(failed, Err(1));
        assert!(!ran.into_inner());
    });
}

#[test]
fn a_panic_cancels_the_others_and_is_the_scopes() {
    hush_planned_panics();
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let ended = Drops::default();
            let message = panic_of(|| {
                let _: Result<(), u8> = try_scope(|s| {
                    for _ in 0..10 {
                        let guard = ended.guard();
                        s.spawn(move || {
                            let _guard = guard;
                            urgo::sleep(Duration::MAX);
                            Ok(())
                        });
                    }
                    s.spawn(|| panic!("planned"));
                    Ok(())
                });
            });
            assert!(message.contains("scoped goroutine panicked"), "{message}");
            assert_eq!(ended.count(), 10);
        });
    }
}

#[test]
fn one_that_exits_has_not_failed() {
    runtime(2).run(|| {
        let done: Result<u8, u8> = try_scope(|s| {
            s.spawn(|| urgo::exit_goroutine());
            s.spawn(|| {
                urgo::sleep(Duration::from_millis(1));
                Ok(())
            });
            Ok(4)
        });
        assert_eq!(done, Ok(4));
    });
}

#[test]
fn cancelled_without_an_error_it_returns_the_value() {
    runtime(2).run(|| {
        let done: Result<u8, u8> = try_scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    urgo::sleep(Duration::MAX);
                    Err(9)
                });
            }
            s.cancel();
            Ok(4)
        });
        assert_eq!(done, Ok(4));
    });
}

#[test]
fn a_cancelled_parent_unwinds_and_returns_no_error() {
    runtime(2).run(|| {
        let at_it = Arc::new(AtomicUsize::new(0));
        let drops = Drops::default();
        let (begun, guards) = (at_it.clone(), drops.clone());
        let parent = urgo::spawn(move || {
            let ended: Result<(), String> = try_scope(|s| {
                for _ in 0..5 {
                    let guard = guards.guard();
                    s.spawn(|| {
                        let _guard = guard;
                        begun.fetch_add(1, Ordering::SeqCst);
                        urgo::sleep(Duration::MAX);
                        Ok(())
                    });
                }
                Ok(())
            });
            ended
        });
        wait_until("all wait", || at_it.load(Ordering::SeqCst) == 5);
        parent.cancel();
        assert!(parent.join().unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 5);
    });
}

#[test]
fn under_a_limit_an_error_lets_the_spawner_go_on() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let seen = Mutex::new(Vec::new());
            let failed: Result<(), usize> = try_scope(|s| {
                s.limit(2);
                for n in 0..20 {
                    let seen = &seen;
                    s.spawn(move || {
                        seen.lock().unwrap().push(n);
                        if n == 5 {
                            return Err(n);
                        }
                        urgo::yield_now();
                        Ok(())
                    });
                }
                Ok(())
            });
            assert_eq!(failed, Err(5));
            let seen = seen.into_inner().unwrap();
            assert!(seen.contains(&5) && seen.len() < 20, "{seen:?}");
        });
    }
}

/// An error whose `Drop` panics, unless an unwinding is under way.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
            panic!("planned: an error's drop");
        }
    }
}

#[test]
fn no_child_outlives_it_if_a_further_errors_drop_panics() {
    hush_planned_panics();
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let (is_over, is_dropped) = (
                Arc::new(AtomicBool::new(false)),
                Arc::new(AtomicBool::new(false)),
            );
            let outlived = Arc::new(AtomicUsize::new(usize::MAX));
            let message = panic_of(|| {
                let ended = try_scope(|s| {
                    let at_it = Arc::new(AtomicBool::new(false));
                    let (begun, late) = (at_it.clone(), is_dropped.clone());
                    let (over, count) = (is_over.clone(), outlived.clone());
                    s.spawn(move || {
                        urgo::uncancellable(|| {
                            begun.store(true, Ordering::SeqCst);
                            wait_until("the panic", || late.load(Ordering::SeqCst));
                            urgo::sleep(Duration::from_millis(5));
                        });
                        count.store(usize::from(over.load(Ordering::SeqCst)), Ordering::SeqCst);
                        Ok(())
                    });
                    wait_until("the child", || at_it.load(Ordering::SeqCst));
                    let first = is_dropped.clone();
                    s.spawn(move || Err(Dropped(first)));
                    wait_until("the first error", || s.is_cancelled());
                    Err::<(), _>(Dropped(is_dropped.clone()))
                });
                std::mem::forget(ended);
            });
            is_over.store(true, Ordering::SeqCst);
            assert!(message.contains("an error's drop"), "{message}");
            wait_until("the child", || {
                outlived.load(Ordering::SeqCst) != usize::MAX
            });
            assert_eq!(outlived.load(Ordering::SeqCst), 0, "a child outlived it");
        });
    }
}
