//! Channels under the model checker: the very same source, with its threads in place of goroutines.
//!
//! Thread tokens make every lock take on and lose its bias at once, so the models are about that, too.

use super::select::{Case, engine};
use super::{RecvTimeoutError, SendTimeoutError, bounded, oneshot, unbounded};
use crate::sched::become_worker;
use crate::time::Instant;
use loom::thread;

/// A deadline that may pass at any moment.
fn some_time() -> Instant {
    Instant::now() + core::time::Duration::from_secs(1)
}

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Every operation takes several locks, and each of them may be biased.
    builder.max_branches = 20_000;
    builder.check(f);
}

/// With three threads: one preemption less than the others, to end within minutes.
fn model_of_three(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    builder.preemption_bound = builder
        .preemption_bound
        .map(|bound| bound.saturating_sub(1));
    builder.check(f);
}

#[test]
fn loom_rendezvous_hands_each_value_over_once() {
    model(|| {
        let (s, r) = bounded::<Box<u32>>(0);
        let sender = thread::spawn(move || {
            become_worker(1);
            s.send_deadline(Box::new(7), some_time())
        });
        become_worker(2);
        let received = r.recv();
        match sender.join().unwrap() {
            Ok(()) => assert_eq!(received.as_deref(), Ok(&7)),
            Err(SendTimeoutError::Timeout(value)) => assert!(*value == 7 && received.is_err()),
            Err(SendTimeoutError::Disconnected(_)) => unreachable!("the receiver is here"),
        }
    });
}

#[test]
fn loom_rendezvous_close_tells_the_one_who_waits() {
    model_of_three(|| {
        let (s, r) = bounded::<u32>(0);
        let closer = r.clone();
        let sender = thread::spawn(move || {
            become_worker(1);
            s.send(7)
        });
        let receiver = thread::spawn(move || {
            become_worker(2);
            r.recv()
        });
        closer.close();
        // Nobody hangs, and both sides agree.
        assert_eq!(
            sender.join().unwrap().is_ok(),
            receiver.join().unwrap().is_ok()
        );
    });
}

#[test]
fn loom_select_commit_takes_one_and_leaves_the_other() {
    model(|| {
        let (s1, r1) = bounded::<u32>(0);
        let (s2, r2) = bounded::<u32>(0);
        let first = thread::spawn(move || s1.send_deadline(1, some_time()).is_ok());
        let second = thread::spawn(move || s2.send_deadline(2, some_time()).is_ok());
        let operation = engine::select(&[Case::recv(&r1), Case::recv(&r2)], true);
        let (which, value) = match operation.index() {
            0 => (0, operation.recv(&r1)),
            _ => (1, operation.recv(&r2)),
        };
        let sent = [first.join().unwrap(), second.join().unwrap()];
        if let Ok(value) = value {
            assert_eq!(value, which + 1);
        }
        // A sender got through if and only if its value was taken.
        assert_eq!(sent[which as usize], value.is_ok());
        assert!(!sent[1 - which as usize]);
    });
}

#[test]
fn loom_two_selects_on_one_channel_always_pair() {
    model(|| {
        let (s, r) = bounded::<u32>(0);
        let (s2, r2) = (s.clone(), r.clone());
        let turn = |s: &super::Sender<u32>, r: &super::Receiver<u32>, mine| {
            let operation = engine::select(&[Case::send(s), Case::recv(r)], true);
            match operation.index() {
                0 => {
                    operation.send(s, mine).unwrap();
                    None
                }
                _ => Some(operation.recv(r).unwrap()),
            }
        };
        let other = thread::spawn(move || {
            become_worker(1);
            turn(&s2, &r2, 1)
        });
        become_worker(2);
        let here = turn(&s, &r, 2);
        let there = other.join().unwrap();
        assert!(matches!((here, there), (Some(1), None) | (None, Some(2))));
    });
}

#[test]
fn loom_select_gives_up_a_claim_that_it_does_not_use() {
    model(|| {
        let (s, r) = bounded::<u32>(0);
        let receiver = thread::spawn(move || r.recv_deadline(some_time()));
        if let Some(operation) =
            engine::select_timeout(&[Case::send(&s)], core::time::Duration::from_secs(1), true)
        {
            // As when its message's expression panics.
            operation.call_off();
        }
        let sent = s.send_deadline(5, some_time()).is_ok();
        let received = receiver.join().unwrap();
        assert_eq!(sent, received == Ok(5));
    });
}

#[test]
fn loom_buffered_wakes_who_waits_for_room_and_for_values() {
    model(|| {
        let (s, r) = bounded::<u32>(1);
        let sender = thread::spawn(move || {
            become_worker(1);
            s.send(1).unwrap();
            s.send(2).unwrap();
        });
        become_worker(2);
        assert_eq!(r.recv(), Ok(1));
        assert_eq!(r.recv(), Ok(2));
        sender.join().unwrap();
        assert!(r.recv().is_err());
    });
}

#[test]
fn loom_buffered_wake_is_not_lost_with_a_waiter_that_gives_up() {
    model(|| {
        let (s, r) = unbounded::<u32>();
        let r2 = r.clone();
        let impatient = thread::spawn(move || match r2.recv_deadline(some_time()) {
            Ok(value) => Some(value),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is left"),
        });
        let keep = s.clone();
        let sender = thread::spawn(move || {
            become_worker(1);
            s.send(7).unwrap();
        });
        sender.join().unwrap();
        if impatient.join().unwrap().is_none() {
            assert_eq!(r.recv(), Ok(7));
        }
        drop(keep);
    });
}

#[test]
fn loom_buffered_patient_receiver_gets_what_the_impatient_left() {
    model_of_three(|| {
        let (s, r) = bounded::<u32>(1);
        let r2 = r.clone();
        let impatient = thread::spawn(move || r2.recv_deadline(some_time()).is_ok());
        let patient = thread::spawn(move || r.recv().is_ok());
        become_worker(1);
        s.send(7).unwrap();
        drop(s);
        let (a, b) = (impatient.join().unwrap(), patient.join().unwrap());
        // Whoever was woken and did not take it has left it for the other.
        assert!(a != b);
    });
}

#[test]
fn loom_buffered_close_keeps_what_was_sent() {
    model(|| {
        let (s, r) = bounded::<u32>(2);
        let closer = s.clone();
        let sender = thread::spawn(move || {
            become_worker(1);
            s.send(1).is_ok()
        });
        become_worker(2);
        assert!(closer.close());
        let received = r.recv().is_ok();
        assert_eq!(sender.join().unwrap(), received);
    });
}

#[test]
fn loom_buffered_close_tells_the_one_who_waits() {
    model(|| {
        let (s, r) = bounded::<u32>(2);
        let receiver = thread::spawn(move || {
            become_worker(1);
            (r.recv(), r.recv().is_err())
        });
        become_worker(2);
        s.send(1).unwrap();
        s.close();
        assert_eq!(receiver.join().unwrap(), (Ok(1), true));
    });
}

#[test]
fn loom_oneshot_tells_everyone_of_its_end() {
    // It takes a preemption more (LOOM_MAX_PREEMPTIONS=3, minutes) to see one of them left waiting, where that can be;
    // tests/channels/regressions.rs shows it by running.
    model_of_three(|| {
        let (s, r) = oneshot::<u32>();
        let r2 = r.clone();
        let one = thread::spawn(move || r.recv().is_ok());
        let other = thread::spawn(move || r2.recv().is_ok());
        s.send(7).unwrap();
        drop(s);
        let (one, other) = (one.join().unwrap(), other.join().unwrap());
        assert!(one != other);
    });
}
