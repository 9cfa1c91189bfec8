//! `done` in a select, and the calls that a context has of its own.

use crate::support::runtime;
use std::time::{Duration, Instant};
use urgo::chan::{bounded, unbounded};
use urgo::context::{Context, ContextError, RecvError, SendError};
use urgo::sync::{Mutex, RwLock};

const LONG: Duration = Duration::from_secs(3600);

/// Gives those that were spawned time to wait. Promises hold whether they do or not.
fn let_them_wait() {
    urgo::sleep(Duration::from_millis(5));
}

#[test]
fn a_select_sees_the_end_of_a_context_by_cancellation_and_by_deadline() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let (_s, r) = unbounded::<u32>();
            let context = Context::background().with_cancel();
            let (inner, jobs) = (context.with_cancel(), r.clone());
            let waits = urgo::spawn(move || {
                urgo::select! {
                    recv(jobs) -> _ => unreachable!(),
                    recv(inner.done()) -> end => end,
                }
            });
            let_them_wait();
            context.cancel();
            assert!(waits.join().unwrap().is_err());
            let context = Context::background().with_timeout(Duration::from_millis(3));
            let done = context.done();
            let start = Instant::now();
            urgo::select! {
                recv(r) -> _ => unreachable!(),
                recv(done) -> _ => {}
            }
            assert!(start.elapsed() >= Duration::from_millis(2));
            assert!(context.done().recv().is_err(), "for ever");
            assert!(done.try_recv().is_err());
            assert!(!done.close(), "nobody but the context closes it");
        });
    }
}

#[test]
fn a_done_channel_belongs_to_all_who_ask_and_stays_open_till_then() {
    runtime(1).run(|| {
        let context = Context::background().with_cancel();
        let (a, b) = (context.done(), context.done());
        assert!(a.same_channel(&b));
        assert!(!a.close());
        assert_eq!(a.try_recv(), Err(urgo::chan::TryRecvError::Empty));
        context.cancel();
        assert_eq!(b.try_recv(), Err(urgo::chan::TryRecvError::Disconnected));
        let over = context.with_cancel().done();
        assert_eq!(over.try_recv(), Err(urgo::chan::TryRecvError::Disconnected));
    });
}

#[test]
fn waits_of_every_kind_end_with_the_context_they_are_given() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let cancelled = ContextError::Cancelled;
            let context = Context::background().with_cancel();
            let mutex = std::sync::Arc::new(Mutex::new(()));
            let lock = std::sync::Arc::new(RwLock::new(()));
            let (full, keep) = bounded(1);
            full.send(0).unwrap();
            let (meet, _nobody) = bounded(0);
            let (_never, empty) = unbounded::<u32>();
            let (_hold, held) = (mutex.lock(), lock.write());
            let never_ends = urgo::spawn(|| urgo::sleep(LONG));
            let mut all = Vec::new();
            let mut start = |f: Box<dyn FnOnce(Context) + Send>| {
                let context = context.clone();
                all.push(urgo::spawn(move || f(context)));
            };
            let m = mutex.clone();
            start(Box::new(move |c| {
                assert_eq!(c.lock(&m).err(), Some(cancelled))
            }));
            let l = lock.clone();
            start(Box::new(move |c| {
                assert_eq!(c.read(&l).err(), Some(cancelled))
            }));
            let l = lock.clone();
            start(Box::new(move |c| {
                assert_eq!(c.write(&l).err(), Some(cancelled))
            }));
            start(Box::new(move |c| {
                assert_eq!(c.send(&full, 1), Err(SendError::Context(1, cancelled)));
            }));
            start(Box::new(move |c| {
                assert_eq!(c.send(&meet, 2), Err(SendError::Context(2, cancelled)));
            }));
            start(Box::new(move |c| {
                assert_eq!(c.recv(&empty), Err(RecvError::Context(cancelled)));
            }));
            start(Box::new(move |c| assert_eq!(c.sleep(LONG), Err(cancelled))));
            start(Box::new(move |c| {
                let interrupted = c.join(never_ends).unwrap_err();
                assert_eq!(interrupted.error, cancelled);
            }));
            let_them_wait();
            assert!(context.cancel());
            for waiter in all {
                waiter.join().unwrap();
            }
            drop(held);
            // Nobody is left in a line, and no permit was lost.
            assert!(lock.try_write().is_some());
            assert_eq!(keep.try_recv(), Ok(0));
            assert!(keep.try_recv().is_err());
        });
    }
}

#[test]
fn a_call_under_a_live_context_works_as_the_one_without() {
    runtime(2).run(|| {
        let context = Context::background().with_timeout(LONG);
        let (s, r) = bounded(2);
        let sender = {
            let context = context.clone();
            urgo::spawn(move || {
                for n in 0..1000 {
                    context.send(&s, n).unwrap();
                }
            })
        };
        for n in 0..1000 {
            assert_eq!(context.recv(&r), Ok(n));
        }
        assert_eq!(context.join(sender).unwrap().unwrap(), ());
        assert_eq!(context.recv(&r), Err(RecvError::Disconnected));
        assert_eq!(context.sleep(Duration::from_millis(1)), Ok(()));
        let background = Context::background();
        assert_eq!(background.recv(&r), Err(RecvError::Disconnected));
        assert_eq!(background.sleep(Duration::from_millis(1)), Ok(()));
        assert_eq!(background.join(urgo::spawn(|| 3)).unwrap().unwrap(), 3);
    });
}

#[test]
fn plain_waits_are_not_cut_short() {
    runtime(1).run(|| {
        let (s, r) = bounded(1);
        let context = Context::background().with_cancel();
        let waits = context.enter(|| urgo::spawn(move || r.recv()));
        let_them_wait();
        context.cancel();
        urgo::yield_now();
        assert!(!waits.is_finished());
        s.send(8).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(8));
    });
}
