//! Plain threads wait in the same way.

use std::time::Duration;

use urgo::host::{Completer, FaultKind, Operation, Token, WaitError, counters};

use crate::answers::{fault_of, submitted};
use crate::support::{runtime, wait_until};

#[test]
fn host_plain_thread_waits_for_a_thread() {
    let before = counters();
    for n in 0..100 {
        let (waiting, completer) = submitted();
        let outside = std::thread::spawn(move || completer.complete(n));
        assert_eq!(waiting.wait().unwrap(), n);
        outside.join().unwrap();
    }
    assert!(counters().completed >= before.completed + 100);
}

#[test]
fn host_plain_thread_waits_for_a_goroutine() {
    let runtime = runtime(1);
    let (waiting, completer) = submitted();
    runtime.handle().spawn(move || completer.complete(1));
    assert_eq!(waiting.wait().unwrap(), 1);
}

#[test]
fn host_plain_thread_gets_the_answer_of_a_runtime_that_has_ended() {
    let (waiting, completer) = submitted();
    runtime(1).run(move || completer.complete(1));
    assert_eq!(waiting.wait().unwrap(), 1);
}

#[test]
fn host_what_the_outside_gets_may_go_anywhere() {
    fn goes<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    goes::<Completer<std::cell::Cell<u8>>>();
    is_shared::<Token>();
    is_shared::<WaitError>();
}

#[test]
fn host_plain_thread_inline_answer_stands_at_once() {
    let submitted = Operation::register()
        .unwrap()
        .submit(|completer| completer.complete(1));
    assert!(submitted.is_finished());
    assert_eq!(submitted.wait_timeout(Duration::ZERO).unwrap(), 1);
}

#[test]
fn host_plain_thread_deadline_waits_for_the_ack() {
    let (waiting, completer) = submitted::<()>();
    let outside = std::thread::spawn(move || {
        wait_until("called off", || completer.is_cancelled());
        completer.ack();
    });
    let outcome = waiting.wait_timeout(Duration::from_millis(1));
    assert!(matches!(outcome, Err(WaitError::TimedOut)));
    outside.join().unwrap();
    let (abandoned, completer) = submitted::<()>();
    drop(completer);
    assert_eq!(fault_of(abandoned.wait()).kind(), FaultKind::Abandoned);
}
