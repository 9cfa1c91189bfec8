//! `JoinHandle::cancel`: from any thread, at any time, whatever the goroutine is at.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use urgo::go::{Builder, Current, Placement};
use urgo::net::{TcpListener, TcpStream};
use urgo::sync::{Barrier, Condvar, Mutex, RwLock, Semaphore, WaitGroup};
use urgo::{JoinError, JoinHandle};

use crate::support::{Drops, Log, OnDrop, Random, runtime, seed, wait_until};

/// A place where a goroutine waits for ever if nobody ends it.
type Wait = (&'static str, fn());

const WAITS: &[Wait] = &[
    ("sleep", || urgo::sleep(Duration::from_secs(3600))),
    ("sleep for ever", || urgo::sleep(Duration::MAX)),
    ("join", || {
        drop(urgo::spawn(|| urgo::sleep(Duration::MAX)).join())
    }),
    ("accept", || {
        drop(TcpListener::bind("127.0.0.1:0").unwrap().accept())
    }),
    ("read", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _b = listener.accept().unwrap();
        let _ = a.read(&mut [0; 16]);
    }),
    ("read with a deadline", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        a.set_read_timeout(Some(Duration::from_secs(3600))).unwrap();
        let _b = listener.accept().unwrap();
        let _ = a.read(&mut [0; 16]);
    }),
    ("yields", || {
        loop {
            urgo::yield_now();
        }
    }),
    ("recv", || {
        let (_sender, receiver) = urgo::chan::unbounded::<u8>();
        let _ = receiver.recv();
    }),
    ("recv with a deadline", || {
        let (_sender, receiver) = urgo::chan::unbounded::<u8>();
        let _ = receiver.recv_timeout(Duration::from_secs(3600));
    }),
    ("send", || {
        let (sender, _receiver) = urgo::chan::bounded(1);
        sender.send(1).unwrap();
        let _ = sender.send(2);
    }),
    ("rendezvous", || {
        let (sender, _receiver) = urgo::chan::bounded(0);
        let _ = sender.send(1);
    }),
    ("rendezvous, receiving", || {
        let (_sender, receiver) = urgo::chan::bounded::<u8>(0);
        let _ = receiver.recv();
    }),
    ("after", || {
        let _ = urgo::chan::after(Duration::from_secs(3600)).recv();
    }),
    ("select", || {
        let (_a, a) = urgo::chan::bounded::<u8>(0);
        let (_b, b) = urgo::chan::unbounded::<u8>();
        urgo::select! {
            recv(a) -> _ => {},
            recv(b) -> _ => {},
        }
    }),
    ("mutex with a deadline", || {
        let mutex = Mutex::new(());
        let _held = mutex.lock();
        drop(mutex.try_lock_for(Duration::from_secs(3600)));
    }),
    ("rwlock with a deadline", || {
        let lock = RwLock::new(());
        let _held = lock.read();
        drop(lock.try_write_for(Duration::from_secs(3600)));
    }),
    ("condvar", || {
        let mutex = Mutex::new(());
        Condvar::new().wait(&mut mutex.lock());
    }),
    ("semaphore", || drop(Semaphore::new(0).acquire())),
    ("barrier", || {
        let _ = Barrier::new(2).wait();
    }),
    ("wait group", || {
        let group = WaitGroup::new();
        group.add(1);
        group.wait();
    }),
    ("futex", || {
        let _ = urgo::sync::futex::wait(&AtomicU32::new(7), 7);
    }),
    ("scope", || {
        urgo::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| urgo::sleep(Duration::MAX));
            }
        });
    }),
    ("room in a scope", || {
        urgo::scope(|s| {
            s.limit(1);
            for _ in 0..3 {
                s.spawn(|| urgo::sleep(Duration::MAX));
            }
        });
    }),
];

/// Spawns a goroutine per wait, and returns when all of them are at it, as far as can be told.
fn waiting(placement: Placement, drops: &Drops) -> Vec<(&'static str, JoinHandle<()>)> {
    let at_it = Arc::new(AtomicUsize::new(0));
    let handles = Vec::from_iter(WAITS.iter().map(|&(name, wait)| {
        let (at_it, guard) = (at_it.clone(), drops.guard());
        let body = move || {
            let _guard = guard;
            at_it.fetch_add(1, Ordering::SeqCst);
            wait();
        };
        let handle = Builder::new().placement(placement).spawn(body).unwrap();
        (name, handle)
    }));
    wait_until("all have started", || {
        at_it.load(Ordering::SeqCst) == WAITS.len()
    });
    urgo::sleep(Duration::from_millis(5));
    handles
}

#[track_caller]
fn all_cancelled(handles: Vec<(&'static str, JoinHandle<()>)>, drops: &Drops) {
    for (name, handle) in handles {
        let joined = handle.join();
        assert!(matches!(joined, Err(JoinError::Cancelled)), "{name}");
    }
    assert_eq!(drops.count(), WAITS.len());
}

#[test]
fn whatever_a_goroutine_waits_for_a_goroutine_can_cut_it_short() {
    for (workers, placement) in [
        (1, Placement::Auto),
        (2, Placement::Worker(0)),
        (2, Placement::Worker(1)),
        (2, Placement::Auto),
    ] {
        let drops = Drops::default();
        runtime(workers).run(|| {
            let handles = waiting(placement, &drops);
            for (_, handle) in &handles {
                handle.cancel();
            }
            all_cancelled(handles, &drops);
        });
    }
}

/// Scenario 88: from a plain thread, on goroutines that wait, run and have ended.
#[test]
fn whatever_a_goroutine_waits_for_a_plain_thread_can_cut_it_short() {
    for workers in [1, 2] {
        let drops = Drops::default();
        runtime(workers).run(|| {
            let handles = waiting(Placement::Auto, &drops);
            let handles = urgo::blocking(move || {
                let thread = std::thread::spawn(move || {
                    for (_, handle) in &handles {
                        handle.cancel();
                    }
                    handles
                });
                thread.join().unwrap()
            });
            all_cancelled(handles, &drops);
        });
    }
}

/// Scenario 88, from another runtime.
#[test]
fn a_goroutine_of_another_runtime_can_cut_it_short() {
    let (other, drops) = (runtime(2), Drops::default());
    let there = other.handle();
    runtime(1).run(|| {
        let drops_there = drops.clone();
        let handles = there.spawn(move || waiting(Placement::Auto, &drops_there));
        let handles = handles.join().unwrap();
        for (_, handle) in &handles {
            handle.cancel();
        }
        all_cancelled(handles, &drops);
    });
    other.run(|| {});
}

#[test]
fn one_that_has_not_started_never_runs_and_drops_its_closure_on_a_stack_of_its_own() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let ran = Arc::new(AtomicUsize::new(0));
            let dropped_on = Log::new();
            for n in 0..100 {
                let (of, log) = (ran.clone(), dropped_on.clone());
                let guard = OnDrop(move || log.add(Current::try_current().map(|g| g.id())));
                let placement = match n % 2 {
                    0 => Placement::Auto,
                    _ => Placement::Local,
                };
                let body = move || {
                    let _guard = guard;
                    of.fetch_add(1, Ordering::SeqCst);
                    urgo::sleep(Duration::MAX);
                };
                let handle = Builder::new().placement(placement).spawn(body).unwrap();
                let id = handle.id();
                handle.cancel();
                assert!(handle.join().unwrap_err().is_cancelled());
                assert_eq!(dropped_on.entries().last(), Some(&Some(id)));
            }
            if workers == 1 {
                assert_eq!(ran.load(Ordering::SeqCst), 0);
            }
        });
    }
}

#[test]
fn to_one_that_has_ended_nothing_happens() {
    let runtime = runtime(2);
    let handle = runtime.handle();
    let (ended, left, kept) = runtime.run(|| {
        let ended = urgo::spawn(|| 5);
        wait_until("its end", || ended.is_finished());
        for _ in 0..3 {
            ended.cancel();
        }
        let kept = urgo::spawn(|| String::from("kept"));
        wait_until("its end", || kept.is_finished());
        (ended, urgo::spawn(|| urgo::sleep(Duration::MAX)), kept)
    });
    // The runtime has ended.
    kept.cancel();
    left.cancel();
    let refused = handle.spawn(|| 1);
    refused.cancel();
    drop(handle);
    kept.cancel();
    left.cancel();
    assert_eq!(ended.join().unwrap(), 5);
    assert_eq!(kept.join().unwrap(), "kept");
    assert!(left.join().unwrap_err().is_cancelled());
    assert!(refused.join().unwrap_err().is_cancelled());
}

/// Scenario 85: one that catches its unwinding and goes on ends at its next wait again, and so ends in the end.
#[test]
fn one_that_catches_the_unwinding_in_a_loop_is_cut_short_again_and_again() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let caught = Arc::new(AtomicUsize::new(0));
            let of = caught.clone();
            let handle = urgo::spawn(move || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let (_sender, receiver) = urgo::chan::unbounded::<u8>();
                for n in 0..60 {
                    let wait = || match n % 6 {
                        0 => urgo::sleep(Duration::MAX),
                        1 => urgo::yield_now(),
                        2 => drop(listener.accept()),
                        3 => urgo::safepoint(),
                        4 => drop(receiver.recv()),
                        _ => drop(Semaphore::new(0).acquire()),
                    };
                    if catch_unwind(AssertUnwindSafe(wait)).is_err() {
                        of.fetch_add(1, Ordering::SeqCst);
                    }
                }
                urgo::sleep(Duration::MAX);
            });
            urgo::sleep(Duration::from_millis(1));
            handle.cancel();
            assert!(handle.join().unwrap_err().is_cancelled());
            let caught = caught.load(Ordering::SeqCst);
            // The first `sleep` may not have been reached before; then nothing of it ran.
            assert!(caught == 60 || caught == 0, "{caught}");
        });
    }
}

#[test]
fn a_goroutine_may_cancel_itself_and_unwinds_from_its_next_wait() {
    runtime(1).run(|| {
        let (to_itself, own) = urgo::chan::bounded::<JoinHandle<()>>(1);
        let went_on = Arc::new(AtomicBool::new(false));
        let passed = went_on.clone();
        let drops = Drops::default();
        let guard = drops.guard();
        let handle = urgo::spawn(move || {
            let _guard = guard;
            let me = own.recv().unwrap();
            me.cancel();
            passed.store(true, Ordering::SeqCst);
            urgo::sleep(Duration::MAX);
        });
        to_itself.send(handle).unwrap();
        wait_until("its end", || drops.count() == 1);
        assert!(went_on.load(Ordering::SeqCst));
    });
}

/// The other one of two workers.
fn elsewhere() -> Placement {
    Placement::Worker(1 - urgo::current().worker())
}

#[test]
fn one_that_comes_to_no_wait_keeps_its_value() {
    runtime(2).run(|| {
        let (started, cancelled) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (of, until) = (started.clone(), cancelled.clone());
        let builder = Builder::new().placement(elsewhere());
        let handle = builder.spawn(move || {
            of.store(true, Ordering::SeqCst);
            while !until.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            7
        });
        let handle = handle.unwrap();
        while !started.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        handle.cancel();
        cancelled.store(true, Ordering::SeqCst);
        match handle.join() {
            Ok(value) => assert_eq!(value, 7),
            Err(error) => panic!("it came to no wait, and yet {error}"),
        }
    });
}

#[test]
fn one_that_only_computes_ends_at_a_safe_point() {
    runtime(2).run(|| {
        let started = Arc::new(AtomicBool::new(false));
        let of = started.clone();
        let builder = Builder::new().placement(elsewhere());
        let handle = builder.spawn(move || {
            of.store(true, Ordering::SeqCst);
            loop {
                urgo::safepoint();
            }
        });
        let handle = handle.unwrap();
        wait_until("it runs", || started.load(Ordering::SeqCst));
        handle.cancel();
        assert!(handle.join().unwrap_err().is_cancelled());
    });
}

fn unwound_in_the_order_of_the_calls(workers: usize, by_thread: bool) {
    let mut random = Random::new(seed());
    for _ in 0..20 {
        let order = Log::new();
        let expected = runtime(workers).run(|| {
            let at_it = Arc::new(AtomicUsize::new(0));
            let mut handles = Vec::from_iter((0..40).map(|n| {
                let (order, at_it) = (order.clone(), at_it.clone());
                let body = move || {
                    let _guard = OnDrop(|| order.add(n));
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    at_it.fetch_add(1, Ordering::SeqCst);
                    match n % 4 {
                        0 => drop(listener.accept()),
                        1 => urgo::sleep(Duration::MAX),
                        2 => drop(Semaphore::new(0).acquire()),
                        _ => {
                            let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                            drop(a.read(&mut [0; 8]));
                        }
                    }
                };
                let last = Placement::Worker(workers - 1);
                (n, Builder::new().placement(last).spawn(body).unwrap())
            }));
            wait_until("all wait", || at_it.load(Ordering::SeqCst) == 40);
            urgo::sleep(Duration::from_millis(3));
            random.shuffle(&mut handles);
            let cancel_all = || handles.iter().for_each(|(_, handle)| handle.cancel());
            if by_thread {
                std::thread::scope(|s| drop(s.spawn(cancel_all)));
            } else {
                cancel_all();
            }
            let expected = Vec::from_iter(handles.iter().map(|(n, _)| *n));
            for (_, handle) in handles {
                assert!(handle.join().unwrap_err().is_cancelled());
            }
            expected
        });
        assert_eq!(order.entries(), expected);
    }
}

#[test]
fn goroutines_of_one_worker_unwind_in_the_order_in_which_a_goroutine_cancels_them() {
    unwound_in_the_order_of_the_calls(1, false);
    unwound_in_the_order_of_the_calls(2, false);
}

#[test]
fn goroutines_of_one_worker_unwind_in_the_order_in_which_a_thread_cancels_them() {
    unwound_in_the_order_of_the_calls(1, true);
    unwound_in_the_order_of_the_calls(2, true);
}

/// Beside one that computes, the line does not go on by one goroutine per turn of that one; and it keeps its order.
#[test]
fn a_line_that_waits_for_the_kernel_ends_together_beside_a_busy_goroutine() {
    const WAITING: usize = 600;
    runtime(1).run(|| {
        let (order, at_it) = (Log::new(), Arc::new(AtomicUsize::new(0)));
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let mut handles = Vec::from_iter((0..WAITING).map(|n| {
            let (order, at_it, listener) = (order.clone(), at_it.clone(), listener.clone());
            let handle = urgo::spawn(move || {
                let _guard = OnDrop(|| order.add(n));
                at_it.fetch_add(1, Ordering::SeqCst);
                drop(listener.accept());
            });
            (n, handle)
        }));
        wait_until("all wait", || at_it.load(Ordering::SeqCst) == WAITING);
        urgo::sleep(Duration::from_millis(3));
        Random::new(seed()).shuffle(&mut handles);
        let turns = Arc::new(AtomicUsize::new(0));
        let (is_over, counted) = (Arc::new(AtomicBool::new(false)), turns.clone());
        let over = is_over.clone();
        let busy = urgo::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_micros(100) {
                    std::hint::spin_loop();
                }
                counted.fetch_add(1, Ordering::SeqCst);
                urgo::yield_now();
            }
        });
        wait_until("the busy one", || turns.load(Ordering::SeqCst) > 3);
        let before = turns.load(Ordering::SeqCst);
        handles.iter().for_each(|(_, handle)| handle.cancel());
        let expected = Vec::from_iter(handles.iter().map(|(n, _)| *n));
        for (_, handle) in handles {
            assert!(handle.join().unwrap_err().is_cancelled());
        }
        let turns = turns.load(Ordering::SeqCst) - before;
        is_over.store(true, Ordering::SeqCst);
        busy.join().unwrap();
        assert_eq!(order.entries(), expected);
        assert!(turns < WAITING / 2, "{turns} turns for {WAITING}");
    });
}

/// Bytes have come for them, in whatever order, so the kernel ends their calls in that order and before the first in line's: they unwind in
/// their turn all the same.
#[test]
fn those_whose_operation_is_over_before_their_turn_unwind_in_their_turn() {
    const READERS: usize = 8;
    for round in 0..20 {
        let order = Log::new();
        runtime(1).run(|| {
            let at_it = Arc::new(AtomicUsize::new(0));
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (begun, of) = (at_it.clone(), order.clone());
            let mut handles = vec![urgo::spawn(move || {
                let _guard = OnDrop(|| of.add(0));
                let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
                begun.fetch_add(1, Ordering::SeqCst);
                drop(nobody.accept());
            })];
            let mut writers = Vec::new();
            for n in 1..=READERS {
                // Of std: a write that lets no goroutine run.
                writers.push(std::net::TcpStream::connect(address).unwrap());
                let (mut stream, _) = listener.accept().unwrap();
                let (of, begun) = (order.clone(), at_it.clone());
                handles.push(urgo::spawn(move || {
                    let _guard = OnDrop(|| of.add(n));
                    begun.fetch_add(1, Ordering::SeqCst);
                    drop(stream.read(&mut [0]));
                    urgo::sleep(Duration::MAX);
                }));
            }
            wait_until("all wait", || at_it.load(Ordering::SeqCst) == 1 + READERS);
            urgo::sleep(Duration::from_millis(3));
            let mut bytes = Vec::from_iter(1..=READERS);
            Random::new(seed() + round).shuffle(&mut bytes);
            for n in bytes {
                writers[n - 1].write_all(&[1]).unwrap();
            }
            handles.iter().for_each(JoinHandle::cancel);
            for handle in handles {
                assert!(handle.join().unwrap_err().is_cancelled());
            }
        });
        assert_eq!(order.entries(), Vec::from_iter(0..=READERS));
    }
}

/// Goroutines that are fresh, starting, just parked or long parked when the cancellation comes: none is missed.
#[test]
fn a_cancellation_that_meets_the_start_is_not_lost() {
    let random = Random::new(seed());
    for workers in [1, 2, 4] {
        let (runtime, mut random) = (runtime(workers), random.clone());
        let (to_thread, on_thread) = mpsc::channel::<JoinHandle<()>>();
        let thread = std::thread::spawn(move || {
            let mut never_ran = 0;
            for handle in on_thread {
                for _ in 0..random.below(200) {
                    std::hint::spin_loop();
                }
                handle.cancel();
                never_ran += usize::from(handle.join().unwrap_err().is_cancelled());
            }
            never_ran
        });
        runtime.run(move || {
            for n in 0..20_000_u32 {
                to_thread
                    .send(urgo::spawn(|| urgo::sleep(Duration::MAX)))
                    .unwrap();
                if n % 7 == 0 {
                    urgo::yield_now();
                }
            }
            drop(to_thread);
            urgo::blocking(|| assert_eq!(thread.join().unwrap(), 20_000));
        });
    }
}

/// A command may still be under way when its goroutine has ended, and its block been given to another: which must not feel it.
#[test]
fn a_late_command_does_not_hit_the_next_goroutine_in_the_block() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let (to_thread, on_thread) = mpsc::sync_channel::<JoinHandle<()>>(64);
        let thread = std::thread::spawn(move || {
            for handle in on_thread {
                handle.cancel();
                drop(handle);
            }
        });
        runtime.run(move || {
            for n in 0..20_000_u32 {
                let short = urgo::spawn(move || {
                    for _ in 0..n % 3 {
                        urgo::yield_now();
                    }
                });
                to_thread.send(short).unwrap();
                let innocent = urgo::spawn(move || {
                    urgo::yield_now();
                    n
                });
                assert_eq!(innocent.join().unwrap(), n);
            }
            drop(to_thread);
            urgo::blocking(|| thread.join().unwrap());
        });
    }
}

/// The runtime ends while a thread cancels its goroutines, and goes on doing so when it has ended.
#[test]
fn cancelling_while_the_runtime_ends_harms_nothing() {
    for round in 0..100_usize {
        let drops = Drops::default();
        let runtime = runtime(1 + round % 2);
        let (to_thread, on_thread) = mpsc::channel::<Vec<JoinHandle<()>>>();
        let thread = std::thread::spawn(move || {
            let handles = on_thread.recv().unwrap();
            for _ in 0..3 {
                handles.iter().for_each(JoinHandle::cancel);
            }
            handles
        });
        runtime.run(|| {
            let handles = (0..50).map(|_| {
                let guard = drops.guard();
                urgo::spawn(move || {
                    let _guard = guard;
                    urgo::sleep(Duration::MAX);
                })
            });
            let handles = Vec::from_iter(handles);
            for _ in 0..round % 4 {
                urgo::yield_now();
            }
            to_thread.send(handles).unwrap();
        });
        assert_eq!(drops.count(), 50);
        for handle in thread.join().unwrap() {
            handle.cancel();
            assert!(handle.join().unwrap_err().is_cancelled());
        }
    }
}

/// Scenario 93 with hard cancellation: a cancelled waiter neither keeps nor loses a permit.
#[test]
fn a_thousand_cancelled_waiters_leave_the_semaphores_permit() {
    let mut random = Random::new(seed());
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let semaphore = Arc::new(Semaphore::new(1));
            let mut handles = Vec::from_iter((0..1000).map(|_| {
                let semaphore = semaphore.clone();
                urgo::spawn(move || {
                    let _permit = semaphore.acquire();
                    urgo::yield_now();
                })
            }));
            random.shuffle(&mut handles);
            for (n, handle) in handles.iter().enumerate() {
                if n % 3 != 0 {
                    handle.cancel();
                }
                if n % 10 == 0 {
                    urgo::yield_now();
                }
            }
            for (n, handle) in handles.into_iter().enumerate() {
                let joined = handle.join();
                assert!(joined.is_ok() || n % 3 != 0, "one that nobody cancelled");
            }
            assert_eq!(semaphore.available_permits(), 1);
            drop(semaphore.acquire());
        });
    }
}

/// What a cancelled receiver has not taken is the next one's.
#[test]
fn cancelled_receivers_lose_no_message() {
    let mut random = Random::new(seed());
    for (workers, capacity) in [(1, 0), (1, 4), (2, 0), (2, 4)] {
        runtime(workers).run(|| {
            let (sender, receiver) = urgo::chan::bounded::<u64>(capacity);
            let sum = Arc::new(std::sync::atomic::AtomicU64::new(0));
            let producer = urgo::spawn(move || (1..=2000).for_each(|n| sender.send(n).unwrap()));
            while !producer.is_finished() {
                let handles = Vec::from_iter((0..4).map(|_| {
                    let (receiver, sum) = (receiver.clone(), sum.clone());
                    urgo::spawn(move || {
                        while let Ok(n) = receiver.recv() {
                            sum.fetch_add(n, Ordering::SeqCst);
                        }
                    })
                }));
                for _ in 0..random.below(20) {
                    urgo::yield_now();
                }
                for handle in handles {
                    handle.cancel();
                    let _ = handle.join();
                }
            }
            producer.join().unwrap();
            for n in receiver {
                sum.fetch_add(n, Ordering::SeqCst);
            }
            assert_eq!(sum.load(Ordering::SeqCst), 2000 * 2001 / 2);
        });
    }
}

/// A read that has its bytes returns them; one that has not leaves them in the socket.
#[test]
fn a_cancelled_read_loses_no_byte() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut taken = 0;
            for round in 0..200_usize {
                let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (stream, _) = listener.accept().unwrap();
                let stream = Arc::new(stream);
                let (of, got) = (stream.clone(), Arc::new(AtomicBool::new(false)));
                let has_got = got.clone();
                let reader = urgo::spawn(move || {
                    let mut byte = [0];
                    if (&*of).read(&mut byte).unwrap() == 1 {
                        has_got.store(true, Ordering::SeqCst);
                    }
                    urgo::sleep(Duration::MAX);
                });
                for _ in 0..round % 5 {
                    urgo::yield_now();
                }
                ours.write_all(&[7]).unwrap();
                reader.cancel();
                assert!(reader.join().unwrap_err().is_cancelled());
                if got.load(Ordering::SeqCst) {
                    taken += 1;
                } else {
                    let mut byte = [0];
                    (&*stream).read_exact(&mut byte).unwrap();
                    assert_eq!(byte, [7]);
                }
            }
            println!("note: {taken} of 200 reads ended with their byte");
        });
    }
}

#[test]
fn cleaning_up_may_wait_and_is_not_cut_short() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let log = Log::new();
            let at_it = Arc::new(AtomicUsize::new(0));
            let handles = Vec::from_iter((0..4).map(|n| {
                let (log, at_it) = (log.clone(), at_it.clone());
                urgo::spawn(move || {
                    let _guard = OnDrop(|| {
                        let started = Instant::now();
                        urgo::sleep(Duration::from_millis(2));
                        assert!(started.elapsed() >= Duration::from_millis(2));
                        urgo::yield_now();
                        assert_eq!(urgo::blocking(|| 5), 5);
                        assert_eq!(urgo::spawn(|| 6).join().unwrap(), 6);
                        log.add(n);
                    });
                    at_it.fetch_add(1, Ordering::SeqCst);
                    urgo::sleep(Duration::MAX);
                })
            }));
            wait_until("all wait", || at_it.load(Ordering::SeqCst) == 4);
            for handle in &handles {
                handle.cancel();
            }
            for handle in handles {
                // Once more, in the middle of its unwinding.
                handle.cancel();
                assert!(handle.join().unwrap_err().is_cancelled());
            }
            let mut ended = log.entries();
            ended.sort_unstable();
            assert_eq!(ended, [0, 1, 2, 3]);
        });
    }
}

/// A `Drop` that exits, or panics and is caught, while the goroutine unwinds: the cancellation goes on.
#[test]
fn what_a_drop_catches_while_unwinding_does_not_end_the_cancellation() {
    crate::support::hush_planned_panics();
    runtime(1).run(|| {
        let log = Log::new();
        let (of, at_it) = (log.clone(), Arc::new(AtomicBool::new(false)));
        let begun = at_it.clone();
        let handle = urgo::spawn(move || {
            let _guard = OnDrop(|| {
                let caught = catch_unwind(|| panic!("planned, in a drop"));
                of.add(caught.is_err());
                let caught = catch_unwind(|| urgo::exit_goroutine());
                of.add(caught.is_err());
                urgo::sleep(Duration::from_millis(1));
            });
            begun.store(true, Ordering::SeqCst);
            urgo::sleep(Duration::MAX);
        });
        wait_until("it waits", || at_it.load(Ordering::SeqCst));
        handle.cancel();
        assert!(handle.join().unwrap_err().is_cancelled());
        assert_eq!(log.entries(), [true, true]);
    });
}

#[test]
fn one_that_exits_or_panics_after_its_cancellation_ends_as_it_did() {
    crate::support::hush_planned_panics();
    runtime(1).run(|| {
        let ends: [fn(); 2] = [|| urgo::exit_goroutine(), || panic!("planned")];
        for (n, end) in ends.into_iter().enumerate() {
            let at_it = Arc::new(AtomicBool::new(false));
            let begun = at_it.clone();
            let handle = urgo::spawn(move || {
                begun.store(true, Ordering::SeqCst);
                let caught = catch_unwind(|| urgo::sleep(Duration::MAX));
                assert!(caught.is_err());
                end();
            });
            wait_until("it waits", || at_it.load(Ordering::SeqCst));
            handle.cancel();
            match handle.join() {
                Err(JoinError::Exited) => assert_eq!(n, 0),
                Err(JoinError::Panic(_)) => assert_eq!(n, 1),
                other => panic!("{n}: {other:?}"),
            }
        }
    });
}
