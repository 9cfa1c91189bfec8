//! `uncancellable`: inside nothing is cut short, after it the next wait unwinds.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use urgo::net::{TcpListener, TcpStream};
use urgo::sync::Semaphore;
use urgo::uncancellable;

use crate::support::{Log, OnDrop, hush_planned_panics, panic_of, runtime, wait_until};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (a, listener.accept().unwrap().0)
}

#[test]
fn no_wait_inside_is_cut_short_and_the_next_one_after_it_is() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let log = Log::new();
            let (sender, receiver) = urgo::chan::bounded::<u8>(0);
            let (mut theirs, mut ours) = pair();
            let permits = Arc::new(Semaphore::new(0));
            let (of, permits_of) = (log.clone(), permits.clone());
            let handle = urgo::spawn(move || {
                uncancellable(|| {
                    let started = std::time::Instant::now();
                    urgo::sleep(Duration::from_millis(5));
                    assert!(started.elapsed() >= Duration::from_millis(5));
                    of.add("sleep");
                    assert_eq!(receiver.recv(), Ok(7));
                    of.add("recv");
                    let mut byte = [0];
                    theirs.read_exact(&mut byte).unwrap();
                    assert_eq!(byte, [9]);
                    of.add("read");
                    permits_of.acquire().unwrap().forget();
                    of.add("acquire");
                    for _ in 0..100 {
                        urgo::yield_now();
                        urgo::safepoint();
                    }
                    assert_eq!(urgo::spawn(|| 3).join().unwrap(), 3);
                    of.add("join");
                });
                urgo::sleep(Duration::MAX);
                of.add("went on");
            });
            wait_until("the first part", || log.len() == 1);
            handle.cancel();
            urgo::sleep(Duration::from_millis(1));
            sender.send(7).unwrap();
            urgo::sleep(Duration::from_millis(1));
            ours.write_all(&[9]).unwrap();
            urgo::sleep(Duration::from_millis(1));
            permits.add_permits(1);
            assert!(handle.join().unwrap_err().is_cancelled());
            let parts = ["sleep", "recv", "read", "acquire", "join"];
            assert_eq!(log.entries(), parts);
        });
    }
}

#[test]
fn it_nests() {
    runtime(1).run(|| {
        let inside = Arc::new(AtomicBool::new(false));
        let log = Log::new();
        let (of, started) = (log.clone(), inside.clone());
        let handle = urgo::spawn(move || {
            uncancellable(|| {
                started.store(true, Ordering::SeqCst);
                uncancellable(|| urgo::sleep(Duration::from_millis(3)));
                of.add("inner");
                urgo::sleep(Duration::from_millis(3));
                of.add("outer");
            });
            urgo::yield_now();
            of.add("went on");
        });
        wait_until("it is inside", || inside.load(Ordering::SeqCst));
        handle.cancel();
        assert!(handle.join().unwrap_err().is_cancelled());
        assert_eq!(log.entries(), ["inner", "outer"]);
    });
}

#[test]
fn a_panic_or_an_exit_inside_ends_it() {
    hush_planned_panics();
    let ends: [fn(); 2] = [|| panic!("planned"), || urgo::exit_goroutine()];
    for end in ends {
        runtime(1).run(move || {
            let log = Log::new();
            let at_it = Arc::new(AtomicBool::new(false));
            let (of, begun) = (log.clone(), at_it.clone());
            let handle = urgo::spawn(move || {
                let inside = || {
                    uncancellable(|| {
                        uncancellable(|| urgo::sleep(Duration::from_millis(1)));
                        end();
                    });
                };
                of.add(catch_unwind(AssertUnwindSafe(inside)).is_err());
                begun.store(true, Ordering::SeqCst);
                urgo::sleep(Duration::MAX);
                of.add(false);
            });
            wait_until("it is out again", || at_it.load(Ordering::SeqCst));
            handle.cancel();
            assert!(handle.join().unwrap_err().is_cancelled());
            assert_eq!(log.entries(), [true]);
        });
    }
}

#[test]
fn on_a_plain_thread_it_is_a_call() {
    hush_planned_panics();
    assert_eq!(uncancellable(|| uncancellable(|| 5) + 1), 6);
    let message = panic_of(|| uncancellable(|| panic!("planned, on a thread")));
    assert_eq!(message, "planned, on a thread");
}

/// Without it, calls in a `Drop` of a cancelled goroutine are not waited for.
#[test]
fn in_a_drop_of_a_cancelled_goroutine_calls_inside_it_wait() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let (mut theirs, mut ours) = pair();
            let log = Log::new();
            let at_it = Arc::new(AtomicBool::new(false));
            let (of, begun) = (log.clone(), at_it.clone());
            let handle = urgo::spawn(move || {
                let _guard = OnDrop(|| {
                    let mut byte = [0];
                    of.add(theirs.read(&mut byte).is_ok());
                    of.add(uncancellable(|| theirs.read(&mut byte)).is_ok_and(|n| n == 1));
                });
                begun.store(true, Ordering::SeqCst);
                urgo::sleep(Duration::MAX);
            });
            wait_until("it waits", || at_it.load(Ordering::SeqCst));
            handle.cancel();
            wait_until("the first read failed", || log.len() == 1);
            urgo::sleep(Duration::from_millis(1));
            ours.write_all(&[1]).unwrap();
            assert!(handle.join().unwrap_err().is_cancelled());
            assert_eq!(log.entries(), [false, true]);
        });
    }
}

#[test]
fn the_end_of_the_runtime_waits_for_it() {
    for workers in [1, 2] {
        let ended = Arc::new(AtomicUsize::new(0));
        runtime(workers).run(|| {
            let inside = Arc::new(AtomicUsize::new(0));
            for _ in 0..4 {
                let (begun, ended) = (inside.clone(), ended.clone());
                drop(urgo::spawn(move || {
                    uncancellable(|| {
                        begun.fetch_add(1, Ordering::SeqCst);
                        urgo::sleep(Duration::from_millis(5));
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                    urgo::sleep(Duration::MAX);
                }));
            }
            wait_until("all are inside", || inside.load(Ordering::SeqCst) == 4);
        });
        assert_eq!(ended.load(Ordering::SeqCst), 4);
    }
}
