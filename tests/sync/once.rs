//! Doing something once, and values that are set or made once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use urgo::sync::{LazyLock, Once, OnceLock};

use crate::support::{Drops, hush_planned_panics, panic_of, runtime, wait_until};

#[test]
fn once_runs_one_closure_and_all_see_what_it_did() {
    for workers in [1, 2, 4] {
        for _ in 0..50 {
            let once = Arc::new(Once::new());
            let (runs, value) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let work = {
                let (runs, value) = (runs.clone(), value.clone());
                move || {
                    once.call_once(|| {
                        runs.fetch_add(1, Ordering::Relaxed);
                        urgo::yield_now();
                        value.store(7, Ordering::Relaxed);
                    });
                    assert!(once.is_completed());
                    assert_eq!(value.load(Ordering::Relaxed), 7);
                }
            };
            let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(work.clone())).collect();
            runtime(workers).run(|| {
                let handles: Vec<_> = (0..20).map(|_| urgo::spawn(work.clone())).collect();
                for handle in handles {
                    handle.join().unwrap();
                }
            });
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(runs.load(Ordering::Relaxed), 1);
        }
    }
}

#[test]
fn once_is_poisoned_by_a_panic_and_forced() {
    hush_planned_panics();
    let once = Once::new();
    assert!(!once.is_completed());
    panic_of(|| once.call_once(|| panic!("planned")));
    for _ in 0..2 {
        let text = panic_of(|| once.call_once(|| unreachable!()));
        assert!(text.contains("poisoned"), "{text}");
    }
    assert!(panic_of(|| once.wait()).contains("poisoned"));
    panic_of(|| once.call_once_force(|_| panic!("planned")));
    assert!(!once.is_completed());
    once.call_once_force(|state| assert!(state.is_poisoned()));
    once.call_once_force(|_| unreachable!());
    once.call_once(|| unreachable!());
    once.wait();
    once.wait_force();
    Once::new().call_once_force(|state| assert!(!state.is_poisoned()));
}

#[test]
fn once_panics_when_its_own_closure_calls_it() {
    let check = || {
        let once = Once::new();
        let text = panic_of(|| once.call_once(|| once.call_once(|| ())));
        assert!(text.contains("inside its own"), "{text}");
        let cell = OnceLock::new();
        let text = panic_of(|| *cell.get_or_init(|| *cell.get_or_init(|| 1)));
        assert!(text.contains("inside its own"), "{text}");
        assert_eq!(cell.get_or_init(|| 2), &2);
        static LAZY: LazyLock<u32> = LazyLock::new(|| *LAZY);
        let text = panic_of(|| *LAZY);
        assert!(
            text.contains("inside its own") || text.contains("poisoned"),
            "{text}"
        );
    };
    check();
    // The closure of one goroutine, waited for by another on the same thread, is no such call.
    runtime(1).run(|| {
        check();
        let once = Arc::new(Once::new());
        let handles: Vec<_> = (0..3)
            .map(|_| {
                let once = once.clone();
                urgo::spawn(move || once.call_once(urgo::yield_now))
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

#[test]
fn once_waiters_leave_the_worker_to_others() {
    runtime(1).run(|| {
        let once = Arc::new(Once::new());
        let go_on = Arc::new(AtomicBool::new(false));
        let waiters: Vec<_> = (0..3)
            .map(|i| {
                let (once, go_on) = (once.clone(), go_on.clone());
                urgo::spawn(move || match i {
                    0 => once.wait(),
                    _ => once.call_once(|| {
                        wait_until("the word", || go_on.load(Ordering::SeqCst));
                    }),
                })
            })
            .collect();
        for _ in 0..10 {
            urgo::yield_now();
        }
        assert!(!once.is_completed());
        go_on.store(true, Ordering::SeqCst);
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// The goroutine that initialises is cancelled: for `Once` and `LazyLock` that is a panic, and who waits for `OnceLock`
/// tries itself.
#[test]
fn cancelled_initialisers_poison_or_are_tried_again() {
    static ONCE: Once = Once::new();
    static CELL: OnceLock<u32> = OnceLock::new();
    static LAZY: LazyLock<u32> = LazyLock::new(|| {
        urgo::sleep(std::time::Duration::MAX);
        1
    });
    let begun = Arc::new(AtomicUsize::new(0));
    let waiters = runtime(2).run(|| {
        let (a, b) = (begun.clone(), begun.clone());
        drop(urgo::spawn(move || {
            ONCE.call_once(|| {
                a.fetch_add(1, Ordering::SeqCst);
                urgo::sleep(std::time::Duration::MAX);
            });
        }));
        drop(urgo::spawn(move || {
            CELL.get_or_init(|| {
                b.fetch_add(1, Ordering::SeqCst);
                urgo::sleep(std::time::Duration::MAX);
                1
            });
        }));
        drop(urgo::spawn(|| *LAZY));
        wait_until("both to begin", || begun.load(Ordering::SeqCst) == 2);
        for _ in 0..100 {
            urgo::yield_now();
        }
        (
            std::thread::spawn(|| catch_unwind(|| ONCE.call_once(|| ())).is_err()),
            std::thread::spawn(|| *CELL.get_or_init(|| 2)),
        )
    });
    assert!(waiters.0.join().unwrap());
    assert_eq!(waiters.1.join().unwrap(), 2);
    assert_eq!(CELL.get(), Some(&2));
}

/// Goroutines that wait for an initialiser are cancelled; the initialiser goes on undisturbed.
#[test]
fn cancelled_waiters_leave_no_trace() {
    static CELL: OnceLock<u32> = OnceLock::new();
    let go_on = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(AtomicBool::new(false));
    let (stop, said) = (go_on.clone(), begun.clone());
    let thread = std::thread::spawn(move || {
        *CELL.get_or_init(|| {
            said.store(true, Ordering::SeqCst);
            wait_until("the word", || stop.load(Ordering::SeqCst));
            3
        })
    });
    wait_until("the beginning", || begun.load(Ordering::SeqCst));
    for workers in [1, 2] {
        runtime(workers).run(|| {
            for i in 0..50 {
                drop(urgo::spawn(move || match i % 2 {
                    0 => *CELL.get_or_init(|| 4),
                    _ => *CELL.wait(),
                }));
            }
            for _ in 0..20 {
                urgo::yield_now();
            }
        });
    }
    assert_eq!(CELL.get(), None);
    go_on.store(true, Ordering::SeqCst);
    assert_eq!(thread.join().unwrap(), 3);
    assert_eq!(CELL.wait(), &3);
}

#[test]
fn once_lock_sets_gets_takes_and_drops_once() {
    let drops = Drops::default();
    let mut cell = OnceLock::new();
    assert!(cell.get().is_none() && cell.get_mut().is_none() && cell.take().is_none());
    assert!(cell.set(drops.guard()).is_ok());
    assert!(cell.set(drops.guard()).is_err());
    assert_eq!(drops.count(), 1, "the refused one");
    assert!(cell.get().is_some() && cell.get_mut().is_some());
    drop(cell.take().unwrap());
    assert_eq!(drops.count(), 2);
    assert!(cell.get().is_none());
    cell.get_or_init(|| drops.guard());
    drop(cell);
    assert_eq!(drops.count(), 3);
    drop(OnceLock::<crate::support::DropGuard>::new());
    drop(OnceLock::from(drops.guard()).into_inner());
    assert_eq!(drops.count(), 4);
}

#[test]
fn once_lock_has_std_traits() {
    let mut cell = OnceLock::from(5);
    assert_eq!(cell, cell.clone());
    assert_ne!(cell, OnceLock::default());
    assert_eq!(OnceLock::<u32>::new().clone(), OnceLock::new());
    assert_eq!(format!("{cell:?}"), "OnceLock(5)");
    assert_eq!(
        format!("{:?}", OnceLock::<u32>::new()),
        "OnceLock(<uninit>)"
    );
    *cell.get_mut().unwrap() += 1;
    assert_eq!(cell.into_inner(), Some(6));
    assert_eq!(OnceLock::<u32>::new().into_inner(), None);
}

#[test]
fn once_lock_initialises_once_for_all_and_again_after_a_panic() {
    hush_planned_panics();
    for workers in [1, 2, 4] {
        runtime(workers).run(|| {
            for _ in 0..50 {
                let cell = Arc::new(OnceLock::new());
                let tries = Arc::new(AtomicUsize::new(0));
                let handles: Vec<_> = (0..20)
                    .map(|_| {
                        let (cell, tries) = (cell.clone(), tries.clone());
                        urgo::spawn(move || {
                            *cell.get_or_init(|| {
                                let which = tries.fetch_add(1, Ordering::SeqCst);
                                urgo::yield_now();
                                assert!(which >= 2, "planned");
                                which
                            })
                        })
                    })
                    .collect();
                let mut panics = 0;
                for handle in handles {
                    match handle.join() {
                        Ok(value) => assert_eq!(value, 2),
                        Err(_) => panics += 1,
                    }
                }
                assert_eq!(panics, 2);
                assert_eq!(tries.load(Ordering::SeqCst), 3);
            }
        });
    }
}

#[test]
fn lazy_lock_makes_its_value_once_and_is_poisoned_by_a_panic() {
    hush_planned_panics();
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static LAZY: LazyLock<Vec<u32>> = LazyLock::new(|| {
        MADE.fetch_add(1, Ordering::SeqCst);
        urgo::yield_now();
        vec![1, 2, 3]
    });
    assert!(LazyLock::get(&LAZY).is_none());
    assert_eq!(format!("{LAZY:?}"), "LazyLock(<uninit>)");
    runtime(2).run(|| {
        let handles: Vec<_> = (0..20).map(|_| urgo::spawn(|| LAZY.len())).collect();
        for handle in handles {
            assert_eq!(handle.join().unwrap(), 3);
        }
    });
    assert_eq!(MADE.load(Ordering::SeqCst), 1);
    assert_eq!(format!("{LAZY:?}"), "LazyLock([1, 2, 3])");

    let bad: LazyLock<u32, _> = LazyLock::new(|| panic!("planned"));
    let text = panic_of(|| *bad);
    assert_eq!(text, "planned");
    for _ in 0..2 {
        let caught = catch_unwind(AssertUnwindSafe(|| *LazyLock::force(&bad)));
        assert!(crate::support::message(&*caught.unwrap_err()).contains("poisoned"));
    }
    let mut fresh = LazyLock::new(|| 1);
    *LazyLock::force_mut(&mut fresh) += 1;
    *LazyLock::get_mut(&mut fresh).unwrap() += 1;
    assert_eq!(*fresh, 3);
    assert_eq!(*LazyLock::<String>::default(), "");
}
