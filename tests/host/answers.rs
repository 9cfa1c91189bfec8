//! What the outside says, and how it reaches the waiter.

use std::error::Error;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use urgo::host::{Completer, Fault, FaultKind, HostCounters, Operation, WaitError};

use crate::support::{Drops, hush_planned_panics, runtime, wait_until};

pub(crate) fn here() -> HostCounters {
    urgo::debug::metrics().host
}

/// Registered and submitted; the completer is the test's.
pub(crate) fn submitted<T: Send>() -> (urgo::host::Submitted<'static, T>, Completer<T>) {
    let mut kept = None;
    let submitted = Operation::register()
        .unwrap()
        .submit(|completer| kept = Some(completer));
    (submitted, kept.unwrap())
}

pub(crate) fn fault_of<T: std::fmt::Debug>(outcome: Result<T, WaitError>) -> Fault {
    match outcome {
        Err(WaitError::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn host_value_comes_from_a_thread() {
    runtime(2).run(|| {
        let (submitted, completer) = submitted();
        let outside = std::thread::spawn(move || completer.complete(String::from("value")));
        assert_eq!(submitted.wait().unwrap(), "value");
        outside.join().unwrap();
        let counters = here();
        assert_eq!(
            (
                counters.registered,
                counters.submitted,
                counters.completed,
                counters.out()
            ),
            (1, 1, 1, 0)
        );
    });
}

#[test]
fn host_inline_answer_is_seen_by_the_wait_only() {
    runtime(1).run(|| {
        let submitted = Operation::register()
            .unwrap()
            .submit(|completer| completer.complete(5));
        // Applied between dispatches, not before.
        assert!(!submitted.is_finished());
        assert_eq!(submitted.wait().unwrap(), 5);
    });
}

#[test]
fn host_answer_stands_without_being_waited_for() {
    runtime(1).run(|| {
        let (submitted, completer) = submitted();
        std::thread::spawn(move || completer.complete(5))
            .join()
            .unwrap();
        wait_until("the answer stands", || submitted.is_finished());
        // No deadline takes it back.
        assert_eq!(submitted.wait_timeout(Duration::ZERO).unwrap(), 5);
    });
}

#[test]
fn host_answers_are_applied_in_the_order_in_which_they_came() {
    runtime(1).run(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let (send, completers) = mpsc::channel();
        let goroutines: Vec<_> = (0..100)
            .map(|n| {
                let (order, send) = (order.clone(), send.clone());
                urgo::spawn(move || {
                    let (submitted, completer) = submitted();
                    send.send((n, completer)).unwrap();
                    submitted.wait().unwrap();
                    order.lock().unwrap().push(n);
                })
            })
            .collect();
        drop(send);
        wait_until("all are registered", || here().submitted == 100);
        let mut completers: Vec<_> = completers.try_iter().collect();
        crate::support::Random::new(1).shuffle(&mut completers);
        let answered: Vec<usize> = completers.iter().map(|(n, _)| *n).collect();
        // The worker is here, in this goroutine, so that all answers are in its mailbox when it looks.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (_, completer) in completers {
                    completer.complete(());
                }
            });
        });
        for goroutine in goroutines {
            goroutine.join().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), answered);
    });
}

#[test]
fn host_goroutines_answer_each_other() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            for n in 0..200 {
                let (submitted, completer) = submitted();
                let answering = urgo::spawn(move || completer.complete(n));
                assert_eq!(submitted.wait().unwrap(), n);
                answering.join().unwrap();
            }
        });
    }
}

#[test]
fn host_faults_say_what_happened() {
    hush_planned_panics();
    runtime(1).run(|| {
        let (reported, completer) = submitted::<()>();
        completer.fault(Fault::caused_by("broken", std::io::Error::other("cause")));
        let fault = fault_of(reported.wait());
        assert_eq!(
            (fault.kind(), fault.to_string().as_str()),
            (FaultKind::Reported, "broken")
        );
        assert_eq!(fault.source().unwrap().to_string(), "cause");

        let (abandoned, completer) = submitted::<()>();
        drop(completer);
        assert_eq!(fault_of(abandoned.wait()).kind(), FaultKind::Abandoned);

        let (panicked, completer) = submitted::<()>();
        let outside = std::thread::spawn(move || {
            let _completer = completer;
            panic!("planned");
        });
        let fault = fault_of(panicked.wait());
        assert_eq!(fault.kind(), FaultKind::Abandoned);
        assert!(fault.to_string().contains("panicked"));
        outside.join().unwrap_err();

        let (let_go, completer) = submitted::<()>();
        completer.ack();
        assert_eq!(fault_of(let_go.wait()).kind(), FaultKind::LetGo);

        let counters = here();
        assert_eq!((counters.faulted, counters.out()), (4, 0));
    });
}

#[test]
fn host_submission_that_fails_undoes_the_registration() {
    runtime(1).run(|| {
        let outcome = Operation::<()>::register()
            .unwrap()
            .on_cancel(|| panic!("nothing is out"))
            .try_submit(|_completer| Err("refused"));
        assert_eq!(outcome.unwrap_err(), "refused");
        drop(Operation::<()>::register().unwrap());
        let counters = here();
        assert_eq!(
            (counters.registered, counters.submitted, counters.out()),
            (2, 1, 0)
        );
    });
}

#[test]
fn host_submission_that_panics_lets_go_first() {
    hush_planned_panics();
    runtime(1).run(|| {
        let goroutine = urgo::spawn(|| {
            let _submitted = Operation::<()>::register()
                .unwrap()
                .submit(|_completer| panic!("planned"));
        });
        goroutine.join().unwrap_err();
        assert_eq!(here().out(), 0);
    });
}

#[test]
fn host_values_are_dropped_once_wherever_they_end() {
    let drops = Drops::default();
    runtime(1).run(|| {
        let (taken, completer) = submitted();
        completer.complete(drops.guard());
        let value = taken.wait().unwrap();
        assert_eq!(drops.count(), 0);
        drop(value);
        assert_eq!(drops.count(), 1);

        let (dropped, completer) = submitted();
        completer.complete(drops.guard());
        drop(dropped);
        assert_eq!(drops.count(), 2);
        // It was called off before its answer was applied.
        assert_eq!((here().completed, here().cancelled), (1, 1));

        let (standing, completer) = submitted();
        completer.complete(drops.guard());
        wait_until("the answer stands", || standing.is_finished());
        drop(standing);
        assert_eq!(drops.count(), 3);
        assert_eq!((here().completed, here().cancelled), (2, 1));
    });
}

#[test]
fn host_a_worker_with_other_work_hears_of_answers() {
    runtime(1).run(|| {
        let (submitted, completer) = submitted();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let busy = urgo::spawn({
            let stop = stop.clone();
            move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    urgo::yield_now();
                }
            }
        });
        std::thread::spawn(move || completer.complete(()));
        submitted.wait().unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.join().unwrap();
    });
}
