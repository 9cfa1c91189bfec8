//! A panic stays in its goroutine, whatever panics and whenever.

use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use urgo::JoinError;

use crate::support::{
    Drops, OnDrop, hush_planned_panics, in_child, message, runtime, test_name, wait_until,
};

#[track_caller]
fn payload_of<T>(result: Result<T, JoinError>) -> Box<dyn std::any::Any + Send> {
    match result {
        Err(JoinError::Panic(payload)) => payload,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("no panic came"),
    }
}

#[test]
fn join_returns_the_payload() {
    hush_planned_panics();
    runtime(2).run(|| {
        let text = urgo::spawn(|| panic!("planned")).join();
        assert_eq!(message(&*payload_of(text)), "planned");
        let n = 7;
        let formatted = urgo::spawn(move || panic!("planned {n}")).join();
        assert_eq!(message(&*payload_of(formatted)), "planned 7");
        let number = urgo::spawn(|| panic_any(42_u64)).join();
        assert_eq!(payload_of(number).downcast_ref(), Some(&42_u64));
        let ended: Result<(), _> = urgo::spawn(|| panic!("planned")).join();
        let text = ended.unwrap_err();
        assert!(text.is_panic() && text.to_string().contains("planned"));
    });
}

#[test]
fn one_of_a_thousand_panics_and_the_others_finish() {
    hush_planned_panics();
    for workers in [1, 4] {
        runtime(workers).run(|| {
            let handles: Vec<_> = (0..1000)
                .map(|n| {
                    urgo::spawn(move || {
                        urgo::yield_now();
                        assert_ne!(n, 500, "planned");
                        urgo::yield_now();
                        n
                    })
                })
                .collect();
            for (n, handle) in handles.into_iter().enumerate() {
                match handle.join() {
                    Ok(value) => assert_eq!((value, n != 500), (n, true)),
                    Err(error) => assert!(n == 500 && error.is_panic(), "{n}: {error}"),
                }
            }
        });
    }
}

#[test]
fn a_captured_value_whose_drop_panics_is_the_goroutines_panic() {
    hush_planned_panics();
    runtime(1).run(|| {
        let captured = OnDrop(|| panic!("planned, in a drop"));
        let handle = urgo::spawn(move || {
            let _captured = captured;
            1
        });
        assert_eq!(message(&*payload_of(handle.join())), "planned, in a drop");
        assert_eq!(urgo::spawn(|| 2).join().unwrap(), 2);
    });
}

#[test]
fn an_unwanted_result_whose_drop_panics_leaves_the_worker_alive() {
    hush_planned_panics();
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let dropped = Arc::new(AtomicUsize::new(0));
            for is_late in [false, true] {
                for _ in 0..10 {
                    let dropped = dropped.clone();
                    let handle = urgo::spawn(move || {
                        OnDrop(move || {
                            dropped.fetch_add(1, Ordering::SeqCst);
                            panic!("planned, in a result's drop");
                        })
                    });
                    if is_late {
                        wait_until("its end", || handle.is_finished());
                    }
                    drop(handle);
                }
            }
            wait_until("all drops", || dropped.load(Ordering::SeqCst) == 20);
            assert_eq!(urgo::spawn(|| 2).join().unwrap(), 2);
        });
    }
}

/// A payload whose drop panics with a payload whose drop panics, and so on, `0` deep.
struct Nested(u32, Arc<AtomicUsize>);

impl Drop for Nested {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        if self.0 > 0 {
            panic_any(Nested(self.0 - 1, self.1.clone()));
        }
    }
}

fn nested_payloads(depth: u32) {
    hush_planned_panics();
    runtime(1).run(move || {
        let dropped = Arc::new(AtomicUsize::new(0));
        for is_late in [false, true] {
            let own = dropped.clone();
            let handle = urgo::spawn(move || panic_any(Nested(depth, own)));
            if is_late {
                wait_until("its end", || handle.is_finished());
            }
            drop(handle);
        }
        // A payload that panics in turn may be left undropped: nobody is there to see its panic.
        wait_until("the first drops", || dropped.load(Ordering::SeqCst) >= 2);
        assert_eq!(urgo::spawn(|| 2).join().unwrap(), 2);
    });
}

#[test]
fn a_payload_whose_drop_panics_leaves_the_worker_alive() {
    crate::support::alone!(|| nested_payloads(1));
}

#[test]
fn a_payload_whose_drops_panic_three_deep_leaves_the_worker_alive() {
    crate::support::alone!(|| nested_payloads(3));
}

#[test]
fn closures_that_never_start_may_panic_in_their_drop() {
    hush_planned_panics();
    let drops = Drops::default();
    for _ in 0..20 {
        let before = drops.count();
        runtime(1).run(|| {
            for _ in 0..10 {
                let guard = drops.guard();
                let captured = OnDrop(|| panic!("planned, of a closure that never ran"));
                drop(urgo::spawn(move || {
                    let (_captured, _guard) = (&captured, &guard);
                }));
            }
        });
        assert_eq!(drops.count(), before + 10);
    }
}

fn aborts_by_a_second_panic(name: &str, on_goroutine: bool) {
    let body = move || {
        let double = || {
            let _second = OnDrop(|| panic!("planned: second"));
            panic!("planned: first");
        };
        if on_goroutine {
            let _: Result<(), _> = runtime(1).run(|| urgo::spawn(double).join());
        } else {
            let _: Result<(), _> = std::thread::spawn(double).join();
        }
    };
    if let Some(output) = crate::support::run_in_child(name, &[], body) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
        assert!(
            stderr.contains("in a destructor during cleanup"),
            "{stderr}"
        );
    }
}

#[test]
fn a_panic_in_a_drop_while_unwinding_aborts_as_on_a_thread() {
    aborts_by_a_second_panic(test_name!(), true);
}

#[test]
fn a_panic_in_a_drop_while_unwinding_aborts_on_a_thread() {
    aborts_by_a_second_panic(test_name!(), false);
}

#[test]
fn a_panic_caught_inside_a_drop_while_unwinding_is_caught() {
    hush_planned_panics();
    runtime(1).run(|| {
        let inner = Arc::new(Mutex::new(String::new()));
        let seen = inner.clone();
        let handle = urgo::spawn(move || {
            let _guard = OnDrop(|| {
                let caught = catch_unwind(|| panic!("planned: inner")).unwrap_err();
                *seen.lock().unwrap() = message(&*caught).to_owned();
                urgo::yield_now();
            });
            panic!("planned: outer");
        });
        assert_eq!(message(&*payload_of(handle.join())), "planned: outer");
        assert_eq!(*inner.lock().unwrap(), "planned: inner");
    });
}

/// A hundred goroutines unwind at once, each waiting in its drops: each keeps its own payload.
#[test]
fn unwinding_goroutines_that_wait_in_their_drops_keep_their_own_panics() {
    hush_planned_panics();
    for workers in [1, 4] {
        runtime(workers).run(|| {
            let handles: Vec<_> = (0..100_u32)
                .map(|n| {
                    urgo::spawn(move || {
                        let _guard = OnDrop(|| {
                            for _ in 0..n % 5 {
                                urgo::yield_now();
                            }
                            urgo::sleep(std::time::Duration::from_micros(u64::from(n) * 7 % 100));
                            assert!(std::thread::panicking(), "goroutine {n} still unwinds");
                        });
                        urgo::yield_now();
                        panic_any(n);
                    })
                })
                .collect();
            for (n, handle) in (0_u32..).zip(handles) {
                assert_eq!(payload_of(handle.join()).downcast_ref(), Some(&n));
            }
        });
    }
}

/// One goroutine waits in a drop while it unwinds. Another of the same thread is not panicking meanwhile: std's mutexes
/// are not poisoned by it, and `panicking` says no.
#[test]
fn a_goroutine_that_waits_while_it_unwinds_leaves_the_others_unpanicked() {
    hush_planned_panics();
    runtime(1).run(|| {
        let is_unwinding = Arc::new(AtomicBool::new(false));
        let may_end = Arc::new(AtomicBool::new(false));
        let (unwinding, end) = (is_unwinding.clone(), may_end.clone());
        let handle = urgo::spawn(move || {
            let _guard = OnDrop(|| {
                unwinding.store(true, Ordering::SeqCst);
                while !end.load(Ordering::SeqCst) {
                    urgo::yield_now();
                }
            });
            panic!("planned");
        });
        let lock = Mutex::new(());
        let guard = lock.lock().unwrap();
        while !is_unwinding.load(Ordering::SeqCst) {
            urgo::yield_now();
        }
        let panicking = std::thread::panicking();
        drop(guard);
        let poisoned = lock.is_poisoned();
        may_end.store(true, Ordering::SeqCst);
        assert!(handle.join().unwrap_err().is_panic());
        assert_eq!(
            (panicking, poisoned),
            (false, false),
            "(panicking, poisoned)"
        );
        assert!(!std::thread::panicking());
    });
}

#[test]
fn a_caught_panic_lets_the_goroutine_go_on() {
    hush_planned_panics();
    runtime(1).run(|| {
        let handle = urgo::spawn(|| {
            let mut caught = 0;
            for _ in 0..100 {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    urgo::yield_now();
                    panic!("planned");
                }));
                caught += usize::from(result.is_err());
                urgo::yield_now();
            }
            caught
        });
        assert_eq!(handle.join().unwrap(), 100);
    });
}

#[test]
fn a_panic_across_deep_frames_runs_every_drop() {
    hush_planned_panics();
    fn deep(n: usize, drops: &Drops) {
        let _guard = drops.guard();
        if n == 0 {
            urgo::yield_now();
            panic!("planned");
        }
        deep(n - 1, drops);
    }
    runtime(1).run(|| {
        let drops = Drops::default();
        let of = drops.clone();
        let handle = urgo::spawn(move || deep(200, &of));
        assert!(handle.join().unwrap_err().is_panic());
        assert_eq!(drops.count(), 201);
    });
}

/// The test harness's own name for an abort test is found by [`test_name`].
#[test]
fn a_child_process_that_aborts_is_seen_to_abort() {
    let output = in_child!(|| std::process::abort());
    assert_eq!(output.unwrap().status.signal(), Some(libc::SIGABRT));
}
