//! Faults that were found, one test each.

use crate::calls::pair;
use crate::support::{PATIENCE, Random, hush_planned_panics, runtime, seed, wait_until};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use urgo::JoinHandle;
use urgo::chan::{self, Receiver, Sender, TryRecvError, bounded};
use urgo::context::{self, Context, ContextError, RecvError};
use urgo::net::{TcpListener, TcpStream};
use urgo::sync::{Mutex, RwLock};

const LONG: Duration = Duration::from_secs(3600);
const CANCELLED: ContextError = ContextError::Cancelled;

/// Lets those who were spawned come to their wait.
fn let_them_wait() {
    urgo::sleep(Duration::from_millis(5));
}

#[track_caller]
fn ends<T: Send>(waits: JoinHandle<T>) -> T {
    wait_until("the wait is cut short", || waits.is_finished());
    waits.join().unwrap()
}

/// Who is woken, finds that another was faster, and waits again, sees a cancellation that came in between.
#[test]
fn a_waiter_that_was_robbed_is_still_cut_short() {
    runtime(1).run(|| {
        let context = Context::background().with_cancel();
        let (s, r) = bounded(1);
        let (own, theirs) = (context.clone(), r.clone());
        let receiver = urgo::spawn(move || own.recv(&theirs));
        let mutex = Arc::new(Mutex::new(()));
        let (own, theirs) = (context.clone(), mutex.clone());
        let held = mutex.lock();
        let locker = urgo::spawn(move || own.lock(&theirs).err());
        let lock = Arc::new(RwLock::new(()));
        let (own, theirs) = (context.clone(), lock.clone());
        let written = lock.write();
        let writer = urgo::spawn(move || own.write(&theirs).err());
        let_them_wait();
        s.send(1).unwrap();
        assert_eq!(r.try_recv(), Ok(1));
        drop(held);
        let _held = mutex.try_lock().expect("faster than who was woken");
        drop(written);
        let _written = lock.try_write();
        context.cancel();
        assert_eq!(ends(receiver), Err(RecvError::Context(CANCELLED)));
        assert_eq!(ends(locker), Some(CANCELLED));
        assert!(matches!(ends(writer), Some(CANCELLED) | None));
    });
}

/// The same at random moments, with many who compete.
#[test]
fn waiters_that_compete_are_all_cut_short() {
    let mut random = Random::new(seed());
    for workers in [1, 2] {
        runtime(workers).run(|| {
            for _ in 0..300 {
                let context = Context::background().with_cancel();
                let mutex = Arc::new(Mutex::new(()));
                let (s, r) = bounded::<u32>(random.below(3) as usize);
                let waiters: Vec<_> = (0..6)
                    .map(|at| {
                        let (own, mutex, s, r) =
                            (context.clone(), mutex.clone(), s.clone(), r.clone());
                        urgo::spawn(move || {
                            for round in 0.. {
                                let error = match at % 3 {
                                    0 => own.lock(&mutex).map(drop).err(),
                                    1 => own.recv(&r).err().map(|_| CANCELLED),
                                    _ => own.send(&s, round).err().map(|_| CANCELLED),
                                };
                                if error.is_some() {
                                    return;
                                }
                                if round % 4 == at {
                                    urgo::yield_now();
                                }
                            }
                        })
                    })
                    .collect();
                (0..random.below(30)).for_each(|_| urgo::yield_now());
                context.cancel();
                waiters.into_iter().for_each(ends);
            }
        });
    }
}

/// Receivers that the clock fills heed their context, on goroutines and on threads, and on threads without spinning.
#[test]
fn waits_for_the_clock_are_cut_short() {
    fn recv(context: &Context, kind: usize) -> bool {
        match kind {
            0 => context.recv(&chan::never::<()>()).is_err(),
            1 => context.recv(&chan::after(LONG)).is_err(),
            2 => context.recv(&chan::tick(LONG)).is_err(),
            _ => context
                .recv(&Context::background().with_timeout(LONG).done())
                .is_err(),
        }
    }
    for kind in 0..4 {
        runtime(1).run(|| {
            let context = Context::background().with_cancel();
            let own = context.clone();
            let waits = urgo::spawn(move || recv(&own, kind));
            let_them_wait();
            context.cancel();
            assert!(ends(waits));
        });
        let context = Context::background().with_cancel();
        let own = context.clone();
        let thread = std::thread::spawn(move || recv(&own, kind));
        std::thread::sleep(Duration::from_millis(2));
        context.cancel();
        wait_until("the thread is cut short", || thread.is_finished());
        assert!(thread.join().unwrap());
    }
}

/// A wait for another context's end that is cut short does not end that context.
#[test]
fn a_wait_for_an_end_that_is_cut_short_ends_nothing() {
    runtime(1).run(|| {
        let outer = Context::background().with_timeout(LONG);
        let inner = outer.with_cancel();
        let done = outer.done();
        let (own, theirs) = (inner.clone(), done.clone());
        let waits = urgo::spawn(move || own.recv(&theirs));
        let_them_wait();
        inner.cancel();
        assert_eq!(ends(waits), Err(RecvError::Context(CANCELLED)));
        assert_eq!(done.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(outer.err(), None);
    });
}

#[test]
fn the_end_of_a_context_reaches_a_channel_whose_context_was_dropped() {
    let parent = Context::background().with_cancel();
    let done = parent.with_value(1u32).with_timeout(LONG).done();
    assert_eq!(done.try_recv(), Err(TryRecvError::Empty));
    parent.cancel();
    assert_eq!(done.try_recv(), Err(TryRecvError::Disconnected));
}

#[test]
fn the_background_that_was_entered_is_the_background() {
    let context = Context::background().with_value(1u32);
    context.enter(|| {
        Context::background().enter(|| {
            assert_eq!(context::current(), Context::background());
            assert!(!context::current().cancel());
            assert_eq!(context::current().err(), None);
            runtime(1).run(|| assert_eq!(context::current(), Context::background()));
        });
        assert_eq!(context::current(), context);
    });
}

/// What the values of contexts do when they are dropped.
struct AtDrop(Box<dyn Fn() + Send + Sync>);

impl Drop for AtDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn valued(at_drop: impl Fn() + Send + Sync + 'static) -> Context {
    Context::background().with_value(AtDrop(Box::new(at_drop)))
}

#[test]
fn a_value_whose_drop_panics_ends_no_process() {
    hush_planned_panics();
    runtime(1).run(|| {
        let context = valued(|| panic!("planned"));
        let last = context.enter(|| urgo::spawn(let_them_wait));
        drop(context);
        last.join().unwrap();
    });
}

#[test]
fn a_value_whose_drop_waits_at_the_end_of_a_runtime_ends_no_process() {
    let (s, r): (Sender<u32>, Receiver<u32>) = bounded(1);
    s.send(0).unwrap();
    runtime(1).run(move || {
        let context = valued(move || assert!(s.send(1).is_err()));
        for _ in 0..3 {
            drop(context.enter(|| urgo::spawn(|| urgo::sleep(LONG))));
        }
        drop(context);
        let_them_wait();
    });
    assert_eq!(r.try_recv(), Ok(0));
}

#[test]
fn a_goroutine_that_never_starts_and_whose_drop_enters_a_context_lets_go_of_its_own() {
    let value = Arc::new(());
    let context = Context::background().with_value(value.clone());
    runtime(1).run(|| {
        context.enter(|| {
            for _ in 0..10 {
                let captured = AtDrop(Box::new(|| {
                    urgo::time::timeout(Duration::from_millis(1), || ());
                }));
                drop(urgo::spawn(move || drop(captured)));
            }
        });
    });
    drop(context);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// A loop of accepts that never has to wait sees its deadline.
#[test]
fn a_deadline_ends_a_loop_of_accepts_that_do_not_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let floods = [(); 2].map(|()| {
        let is_over = is_over.clone();
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                drop(std::net::TcpStream::connect(address));
            }
        })
    });
    runtime(1).run(|| {
        let context = Context::background().with_timeout(Duration::from_millis(20));
        let start = Instant::now();
        let error = context.enter(|| {
            loop {
                if let Err(error) = listener.accept() {
                    break error;
                }
                assert!(start.elapsed() < PATIENCE, "the deadline was not seen");
            }
        });
        assert_eq!(
            ContextError::of(&error),
            Some(ContextError::DeadlineExceeded)
        );
    });
    is_over.store(true, Ordering::Relaxed);
    drop(listener);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}

/// A call in a `Drop` while its goroutine panics ends with its context.
#[test]
fn a_read_in_a_drop_of_a_panic_is_cut_short() {
    struct Reads(TcpStream);
    impl Drop for Reads {
        fn drop(&mut self) {
            let error = self.0.read(&mut [0; 1]).unwrap_err();
            assert_eq!(ContextError::of(&error), Some(CANCELLED));
        }
    }
    hush_planned_panics();
    runtime(1).run(|| {
        let (client, _server) = pair();
        let context = Context::background().with_cancel();
        let reader = context.enter(|| {
            urgo::spawn(move || {
                let _reads = Reads(client);
                panic!("planned");
            })
        });
        let_them_wait();
        context.cancel();
        wait_until("the read is cut short", || reader.is_finished());
        assert!(reader.join().unwrap_err().is_panic());
    });
}

/// Whoever was told that a deadline has passed is not told something else later.
#[test]
fn a_reason_does_not_change() {
    for _ in 0..2000 {
        let context = Context::background().with_timeout(Duration::from_micros(20));
        let other = context.clone();
        let canceller = std::thread::spawn(move || other.cancel());
        let first = loop {
            if let Some(error) = context.err() {
                break error;
            }
        };
        canceller.join().unwrap();
        assert_eq!(context.err(), Some(first));
        assert_eq!(context.with_cancel().err(), Some(first));
    }
}

/// The worker that is told of a cancellation is not the one to drop the context's value.
#[test]
fn a_value_whose_drop_panics_or_waits_does_not_reach_the_worker_that_is_told() {
    hush_planned_panics();
    runtime(1).run(|| {
        let (s, r) = bounded::<()>(0);
        let panics = valued(|| panic!("planned"));
        let waits = valued(move || {
            let _ = r.recv();
        });
        for context in [panics, waits] {
            let own = context.clone();
            urgo::spawn(move || own.enter(|| ())).join().unwrap();
            let dropper = std::thread::spawn(move || {
                context.cancel();
                drop(context);
            });
            // Busy, so that the command is taken when the thread has let go.
            for _ in 0..200 {
                urgo::yield_now();
            }
            if !dropper.is_finished() {
                let_them_wait();
                let _ = s.try_send(());
            }
            let_them_wait();
            drop(dropper);
        }
        drop(s);
        assert_eq!(urgo::spawn(|| 3).join().unwrap(), 3);
    });
}

/// The context's own calls in a `Drop` of a panic end with it, also if it was over before they began.
#[test]
fn a_contexts_own_waits_in_a_drop_of_a_panic_are_cut_short() {
    hush_planned_panics();
    for is_over_before in [false, true] {
        runtime(1).run(|| {
            let context = Context::background().with_cancel();
            let own = context.clone();
            let (_s, r) = bounded::<u32>(0);
            let waits = AtDrop(Box::new(move || {
                assert_eq!(own.recv(&r), Err(RecvError::Context(CANCELLED)));
                let asked = urgo::host::Operation::<u32>::register()
                    .unwrap()
                    .without_ack();
                let kept = std::sync::Mutex::new(None);
                let asked = asked.submit(|completer| *kept.lock().unwrap() = Some(completer));
                let answer = own.enter(|| asked.wait());
                assert!(matches!(
                    answer,
                    Err(urgo::host::WaitError::Context(CANCELLED))
                ));
            }));
            if is_over_before {
                context.cancel();
            }
            let goroutine = urgo::spawn(move || {
                let _waits = waits;
                panic!("planned");
            });
            let_them_wait();
            context.cancel();
            wait_until("the waits are cut short", || goroutine.is_finished());
            assert!(goroutine.join().unwrap_err().is_panic());
        });
    }
}
