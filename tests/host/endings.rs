//! The end of a runtime while operations are out.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use urgo::host::{Completer, Operation, Submitted};

use crate::answers::{here, submitted};
use crate::support::{Drops, runtime, wait_until};

#[test]
fn host_end_of_the_runtime_asks_and_waits() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (asked, let_go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let drops = Drops::default();
        runtime.run(|| {
            for _ in 0..50 {
                let (asked, let_go, guard) = (asked.clone(), let_go.clone(), drops.guard());
                urgo::spawn(move || {
                    let _guard = guard;
                    let (stop, stopped) = mpsc::channel();
                    let waiting = Operation::<()>::register()
                        .unwrap()
                        .on_cancel(move || {
                            asked.fetch_add(1, Ordering::SeqCst);
                            stop.send(()).unwrap();
                        })
                        .submit(|completer| {
                            std::thread::spawn(move || {
                                stopped.recv().unwrap();
                                let_go.fetch_add(1, Ordering::SeqCst);
                                completer.ack();
                            });
                        });
                    let _ = waiting.wait();
                    unreachable!("cancelled");
                });
            }
            wait_until("all are out", || here().submitted == 50);
        });
        assert_eq!(asked.load(Ordering::SeqCst), 50);
        assert_eq!(let_go.load(Ordering::SeqCst), 50);
        assert_eq!(drops.count(), 50);
        let counters = handle.metrics().host;
        assert_eq!((counters.cancelled, counters.out()), (50, 0));
    }
}

#[test]
fn host_end_of_the_runtime_waits_for_an_outside_that_takes_its_time() {
    let (send, completers) = mpsc::channel::<Completer<u32>>();
    let is_over = Arc::new(AtomicBool::new(false));
    let seen = is_over.clone();
    let outside = std::thread::spawn(move || {
        let completer = completers.recv().unwrap();
        wait_until("called off", || completer.is_cancelled());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!seen.load(Ordering::SeqCst), "the runtime did not wait");
        completer.complete(1);
    });
    runtime(2).run(move || {
        urgo::spawn(move || {
            let waiting = Operation::register()
                .unwrap()
                .submit(|completer| send.send(completer).unwrap());
            let _ = waiting.wait();
        });
        wait_until("it is out", || here().submitted == 1);
    });
    is_over.store(true, Ordering::SeqCst);
    outside.join().unwrap();
}

#[test]
fn host_end_of_the_runtime_does_not_wait_for_what_needs_no_ack() {
    let runtime = runtime(1);
    let handle = runtime.handle();
    let (send, completers) = mpsc::channel::<Completer<u32>>();
    let asked = Arc::new(AtomicUsize::new(0));
    runtime.run({
        let asked = asked.clone();
        move || {
            urgo::spawn(move || {
                let waiting = Operation::register()
                    .unwrap()
                    .without_ack()
                    .on_cancel(|| {
                        asked.fetch_add(1, Ordering::SeqCst);
                    })
                    .submit(|completer| send.send(completer).unwrap());
                let _ = waiting.wait();
            });
            wait_until("it is out", || here().submitted == 1);
        }
    });
    // The outside has not said a word.
    let completer = completers.recv().unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(
        (handle.metrics().host.cancelled, handle.metrics().host.out()),
        (1, 0)
    );
    completer.complete(1);
    assert_eq!(handle.metrics().host.retired, 1);
}

#[test]
fn host_answers_after_the_end_are_retired() {
    let runtime = runtime(1);
    let handle = runtime.handle();
    let drops = Drops::default();
    let completers: Vec<Completer<_>> = runtime.run(|| {
        (0..10)
            .map(|_| {
                let mut kept = None;
                drop(
                    Operation::register()
                        .unwrap()
                        .without_ack()
                        .submit(|completer| kept = Some(completer)),
                );
                kept.unwrap()
            })
            .collect()
    });
    for (n, completer) in completers.into_iter().enumerate() {
        assert!(completer.is_cancelled());
        match n % 3 {
            0 => completer.complete(drops.guard()),
            1 => completer.ack(),
            _ => drop(completer),
        }
    }
    assert_eq!(drops.count(), 4);
    let counters = handle.metrics().host;
    assert_eq!(
        (counters.retired, counters.cancelled, counters.out()),
        (10, 10, 0)
    );
}

#[test]
fn host_forgotten_operation_is_leaked() {
    let runtime = runtime(1);
    let handle = runtime.handle();
    let completers: Vec<Completer<u32>> = runtime.run(|| {
        let (first, completer) = submitted::<u32>();
        let _lost = completer.into_token();
        std::mem::forget(first);
        let (second, completer) = submitted::<u32>();
        std::mem::forget(second);
        vec![completer]
    });
    for completer in completers {
        completer.complete(1);
    }
    let counters = handle.metrics().host;
    assert_eq!(
        (
            counters.registered,
            counters.leaked,
            counters.retired,
            counters.out()
        ),
        (2, 2, 1, 0)
    );
}

thread_local! {
    static KEPT: RefCell<Vec<Submitted<'static, u32>>> = const { RefCell::new(Vec::new()) };
}

/// The destructor of the thread-local runs when the worker is none any more.
#[test]
fn host_operation_kept_in_a_thread_local_beyond_the_end_is_leaked() {
    let runtime = runtime(1);
    let handle = runtime.handle();
    let completer = runtime.run(|| {
        let (waiting, completer) = submitted::<u32>();
        KEPT.with_borrow_mut(|kept| kept.push(waiting));
        // Waited for by another goroutine of the worker: a goroutine stays on its thread, and so does this.
        let (waiting, other) = submitted::<u32>();
        KEPT.with_borrow_mut(|kept| kept.push(waiting));
        let waiter = urgo::spawn_local(|| {
            let waiting = KEPT.with_borrow_mut(|kept| kept.pop().unwrap());
            waiting.wait().unwrap()
        });
        other.complete(7);
        assert_eq!(waiter.join().unwrap(), 7);
        completer
    });
    assert_eq!(handle.metrics().host.leaked, 1);
    completer.complete(1);
    assert_eq!(handle.metrics().host.retired, 1);
}

#[test]
fn host_end_of_the_runtime_during_a_storm_of_answers() {
    for round in 0..30 {
        let runtime = runtime(2);
        let handle = runtime.handle();
        let drops = Drops::default();
        let (send, completers) = mpsc::channel::<Completer<_>>();
        let made = drops.clone();
        let outside = std::thread::spawn(move || {
            let mut answered = 0;
            for completer in completers {
                completer.complete(made.guard());
                answered += 1;
            }
            answered
        });
        runtime.run(|| {
            for _ in 0..20 {
                let send = send.clone();
                urgo::spawn(move || {
                    loop {
                        let waiting = Operation::register()
                            .unwrap()
                            .submit(|completer| send.send(completer).unwrap());
                        waiting.wait().unwrap();
                    }
                });
            }
            drop(send);
            wait_until("some are out", || here().submitted >= 20 + round);
        });
        assert_eq!(outside.join().unwrap(), drops.count(), "round {round}");
        let counters = handle.metrics().host;
        assert_eq!(counters.out(), 0, "{counters:?}");
        assert_eq!(
            counters.faulted + counters.leaked + counters.dup + counters.foreign,
            0
        );
    }
}
