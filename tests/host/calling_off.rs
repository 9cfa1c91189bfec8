//! Deadlines, cancellation and drops: asked first, reported after the outside has let go.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::ThreadId;
use std::time::Duration;

use urgo::host::{Operation, Submitted, Token, WaitError};

use crate::answers::{fault_of, here, submitted};
use crate::support::{Drops, hush_planned_panics, runtime, wait_until};

const SOON: Duration = Duration::from_millis(2);

#[test]
fn host_deadline_is_reported_after_the_outside_has_let_go() {
    runtime(1).run(|| {
        let (asked, let_go) = (Cell::new(0), Arc::new(AtomicBool::new(false)));
        let (stop, stopped) = mpsc::channel();
        let is_let_go = let_go.clone();
        let operation = Operation::<()>::register().unwrap().on_cancel(|| {
            asked.set(asked.get() + 1);
            assert!(!let_go.load(Ordering::SeqCst));
            stop.send(()).unwrap();
        });
        let submitted = operation.submit(|completer| {
            std::thread::spawn(move || {
                stopped.recv().unwrap();
                assert!(completer.is_cancelled());
                std::thread::sleep(SOON);
                is_let_go.store(true, Ordering::SeqCst);
                completer.ack();
            });
        });
        let outcome = submitted.wait_timeout(SOON);
        assert!(let_go.load(Ordering::SeqCst), "reported before the ack");
        assert!(matches!(outcome, Err(WaitError::TimedOut)));
        assert_eq!(asked.get(), 1);
        assert_eq!((here().cancelled, here().out()), (1, 0));
    });
}

#[test]
fn host_deadlines_are_moments_of_either_clock() {
    runtime(1).run(|| {
        for is_std in [true, false] {
            let (waiting, completer) = submitted::<()>();
            let outside = std::thread::spawn(move || {
                wait_until("called off", || completer.is_cancelled());
                completer.ack();
            });
            let outcome = if is_std {
                waiting.wait_deadline(std::time::Instant::now() + SOON)
            } else {
                waiting.wait_deadline(urgo::time::Instant::now() + SOON)
            };
            assert!(matches!(outcome, Err(WaitError::TimedOut)));
            outside.join().unwrap();
        }
    });
}

struct SaysWhere(mpsc::Sender<ThreadId>);

impl Drop for SaysWhere {
    fn drop(&mut self) {
        self.0.send(std::thread::current().id()).unwrap();
    }
}

#[test]
fn host_late_value_is_dropped_on_the_goroutine() {
    runtime(1).run(|| {
        let (waiting, completer) = submitted();
        let (send, dropped_on) = mpsc::channel();
        std::thread::spawn(move || {
            wait_until("called off", || completer.is_cancelled());
            completer.complete(SaysWhere(send));
        });
        assert!(matches!(
            waiting.wait_timeout(SOON),
            Err(WaitError::TimedOut)
        ));
        assert_eq!(dropped_on.recv().unwrap(), std::thread::current().id());
        assert_eq!((here().cancelled, here().completed), (1, 0));
    });
}

#[test]
fn host_fault_wins_over_a_deadline() {
    runtime(1).run(|| {
        let (waiting, completer) = submitted::<()>();
        std::thread::spawn(move || {
            wait_until("called off", || completer.is_cancelled());
            completer.fault("late, and broken");
        });
        let fault = fault_of(waiting.wait_timeout(SOON));
        assert_eq!(fault.to_string(), "late, and broken");
        assert_eq!((here().faulted, here().cancelled), (1, 0));
    });
}

#[test]
fn host_deadline_and_answer_at_one_time_have_one_winner() {
    runtime(1).run(|| {
        let (waiting, completer) = submitted();
        completer.complete(1);
        let deadline = urgo::time::Instant::now();
        let outcome = waiting.wait_deadline(deadline);
        // Which of the two the worker sees first is its own affair.
        match outcome {
            Ok(1) => assert_eq!(here().completed, 1),
            Err(WaitError::TimedOut) => assert_eq!(here().cancelled, 1),
            other => panic!("{other:?}"),
        }
        assert_eq!(here().out(), 0);
    });
}

#[test]
fn host_without_ack_the_deadline_is_reported_at_once() {
    runtime(1).run(|| {
        let (send, dropped_on) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let asked = Cell::new(false);
        let mut outside = None;
        let waiting = Operation::register()
            .unwrap()
            .without_ack()
            .on_cancel(|| asked.set(true))
            .submit(|completer| {
                outside = Some(std::thread::spawn(move || {
                    may_go_on.recv().unwrap();
                    completer.complete(SaysWhere(send));
                }));
            });
        assert!(matches!(
            waiting.wait_timeout(SOON),
            Err(WaitError::TimedOut)
        ));
        assert!(asked.get());
        assert_eq!((here().cancelled, here().out(), here().stale), (1, 0, 0));
        go_on.send(()).unwrap();
        let outside = outside.unwrap();
        assert_eq!(dropped_on.recv().unwrap(), outside.thread().id());
        outside.join().unwrap();
        assert_eq!(here().stale, 1);
    });
}

/// A goroutine that ends by a panic while it has an operation out.
#[test]
fn host_unwinding_waits_for_the_outside() {
    hush_planned_panics();
    runtime(1).run(|| {
        let let_go = Arc::new(AtomicBool::new(false));
        let is_let_go = let_go.clone();
        let goroutine = urgo::spawn(move || {
            let (_waiting, completer) = submitted::<()>();
            std::thread::spawn(move || {
                wait_until("called off", || completer.is_cancelled());
                is_let_go.store(true, Ordering::SeqCst);
                completer.ack();
            });
            panic!("planned");
        });
        goroutine.join().unwrap_err();
        assert!(let_go.load(Ordering::SeqCst));
        assert_eq!(here().out(), 0);
    });
}

#[test]
fn host_hook_may_wait_and_borrow() {
    runtime(1).run(|| {
        let (asked, stop) = urgo::chan::bounded(0);
        let log = Cell::new(0);
        let outcome = Operation::<()>::register()
            .unwrap()
            .on_cancel(|| {
                urgo::sleep(SOON);
                asked.send(()).unwrap();
                log.set(1);
            })
            .submit(|completer| {
                std::thread::spawn(move || {
                    stop.recv().unwrap();
                    completer.ack();
                });
            })
            .wait_timeout(SOON);
        assert!(matches!(outcome, Err(WaitError::TimedOut)));
        assert_eq!(log.get(), 1);
    });
}

#[test]
fn host_hook_may_answer_by_itself() {
    runtime(1).run(|| {
        let token = Cell::new(None::<Token>);
        let outcome = Operation::<u32>::register()
            .unwrap()
            .on_cancel(|| token.get().unwrap().ack())
            .submit(|completer| token.set(Some(completer.into_token())))
            .wait_timeout(SOON);
        assert!(matches!(outcome, Err(WaitError::TimedOut)));
        token.get().unwrap().complete(1_u32);
        assert_eq!((here().cancelled, here().stale, here().out()), (1, 1, 0));
    });
}

#[test]
fn host_hook_that_panics_is_reported_after_the_outside_has_let_go() {
    hush_planned_panics();
    runtime(1).run(|| {
        for is_waited_for in [true, false] {
            let let_go = Arc::new(AtomicBool::new(false));
            let is_let_go = let_go.clone();
            let goroutine = urgo::spawn(move || {
                let waiting = Operation::<()>::register()
                    .unwrap()
                    .on_cancel(|| panic!("planned"))
                    .submit(|completer| {
                        std::thread::spawn(move || {
                            wait_until("called off", || completer.is_cancelled());
                            std::thread::sleep(SOON);
                            is_let_go.store(true, Ordering::SeqCst);
                            completer.ack();
                        });
                    });
                if is_waited_for {
                    let _ = waiting.wait_timeout(SOON);
                }
            });
            goroutine.join().unwrap_err();
            assert!(let_go.load(Ordering::SeqCst));
        }
        assert_eq!(here().out(), 0);
    });
}

#[test]
fn host_hook_that_panics_while_its_goroutine_unwinds_changes_nothing() {
    hush_planned_panics();
    runtime(1).run(|| {
        let goroutine = urgo::spawn(|| {
            let _waiting = Operation::<()>::register()
                .unwrap()
                .on_cancel(|| panic!("planned, the second"))
                .submit(|completer| {
                    std::thread::spawn(move || {
                        wait_until("called off", || completer.is_cancelled());
                        completer.ack();
                    });
                });
            panic!("planned, the first");
        });
        let error = goroutine.join().unwrap_err();
        assert!(format!("{error:?} {error}").contains("first"), "{error:?}");
    });
}

#[test]
fn host_hook_is_not_called_for_what_has_been_answered() {
    runtime(1).run(|| {
        let asked = AtomicUsize::new(0);
        let ask = || {
            asked.fetch_add(1, Ordering::SeqCst);
        };
        let answered: Submitted<'_, u32> = Operation::register()
            .unwrap()
            .on_cancel(ask)
            .submit(|completer| completer.complete(1));
        drop(answered);
        drop(Operation::<u32>::register().unwrap().on_cancel(ask));
        assert_eq!(asked.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn host_drops_of_late_values_may_wait() {
    struct Sleeps;
    impl Drop for Sleeps {
        fn drop(&mut self) {
            urgo::sleep(SOON);
        }
    }
    let drops = Drops::default();
    runtime(1).run(|| {
        let (waiting, completer) = submitted();
        let value = (Sleeps, drops.guard());
        std::thread::spawn(move || {
            wait_until("called off", || completer.is_cancelled());
            completer.complete(value);
        });
        assert!(waiting.wait_timeout(SOON).is_err());
        assert_eq!(drops.count(), 1);
    });
}
