//! Workers that sleep are roused, and those that are not roused sleep. Nothing here has a timer, so that a wake-up that is
//! lost stays lost: the test hangs, and is ended as failed.

use std::io::{Read, Write};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use urgo::go::{Builder, Placement};
use urgo::net::TcpStream;

use crate::support::{alone, runtime, wait_until};

fn on_worker<T: Send + 'static>(
    index: usize,
    f: impl FnOnce() -> T + Send + 'static,
) -> urgo::JoinHandle<T> {
    let builder = Builder::new().placement(Placement::Worker(index));
    builder.spawn(f).unwrap()
}

/// Goroutines of two workers, and a plain thread, hand over to each other; the others sleep meanwhile.
fn hand_overs(rounds: usize) {
    let runtime = runtime(2);
    let handle = runtime.handle();
    let plain = std::thread::spawn(move || {
        for round in 0..rounds / 4 {
            let there = handle.spawn(move || on_worker(round % 2, move || round).join().unwrap());
            assert_eq!(there.join().unwrap(), round);
        }
    });
    runtime.run(move || {
        let pairs: Vec<_> = (0..2)
            .map(|here| {
                on_worker(here, move || {
                    for round in 0..rounds {
                        let me = urgo::current().worker();
                        assert_eq!(me, here);
                        let there = on_worker(1 - here, move || (urgo::current().worker(), round));
                        assert_eq!(there.join().unwrap(), (1 - here, round));
                    }
                })
            })
            .collect();
        for pair in pairs {
            pair.join().unwrap();
        }
        urgo::blocking(|| plain.join().unwrap());
    });
}

/// Scenario 25.
#[test]
fn hand_overs_between_workers_and_threads_lose_no_wake() {
    alone!(|| hand_overs(10_000));
}

/// Scenario 25, where workers are roused through the sleep word only.
#[test]
fn hand_overs_lose_no_wake_without_messages() {
    alone!(&[("URGO_DISABLE", "msg_ring")], || hand_overs(10_000));
}

/// Scenario 25, where workers are roused through an eventfd only.
#[test]
fn hand_overs_lose_no_wake_through_eventfds() {
    alone!(&[("URGO_DISABLE", "msg_ring,futex_op")], || hand_overs(
        10_000
    ));
}

/// Both ends of a TCP connection.
fn connection() -> (StdStream, StdStream) {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// A runtime that is roused many times from outside and then left alone, its main goroutine in a read.
fn sleeps_when_left_alone() {
    let (mut outside, inside) = connection();
    let runtime = runtime(2);
    let handle = runtime.handle();
    let running = std::thread::spawn(move || {
        runtime.run(|| TcpStream::from(inside).read_exact(&mut [0]).unwrap());
    });
    for number in 0..200 {
        assert_eq!(handle.spawn(move || number).join().unwrap(), number);
    }
    let sleeps = || {
        handle
            .metrics()
            .workers
            .iter()
            .map(|w| w.sleeps)
            .sum::<u64>()
    };
    // It comes to rest; stacks may be trimmed and the like, so not at once.
    let mut growth = u64::MAX;
    wait_until("the workers to stay asleep", || {
        let before = sleeps();
        std::thread::sleep(std::time::Duration::from_millis(200));
        growth = sleeps() - before;
        growth <= 2
    });
    outside.write_all(b"!").unwrap();
    running.join().unwrap();
}

/// Scenario 24.
#[test]
fn a_worker_roused_by_its_sleep_word_sleeps_again() {
    alone!(sleeps_when_left_alone);
}

/// Scenario 24, where an eventfd that stays readable would keep the worker awake.
#[test]
fn a_worker_roused_by_its_eventfd_sleeps_again() {
    alone!(
        &[("URGO_DISABLE", "msg_ring,futex_op")],
        sleeps_when_left_alone
    );
}

static HEARD_AT: AtomicI32 = AtomicI32::new(-1);

extern "C" fn tell(_: libc::c_int) {
    // SAFETY: `write` may be called in a handler; the byte is a constant.
    unsafe { libc::write(HEARD_AT.load(Ordering::SeqCst), b"s".as_ptr().cast(), 1) };
}

/// Scenario 27: the signal comes while every worker waits in its ring, and the goroutine that waits for word of it gets it.
#[test]
fn a_signal_while_all_workers_wait_reaches_the_goroutine_that_waits_for_it() {
    alone!(|| {
        let (tells, hears) = connection();
        HEARD_AT.store(tells.into_raw_fd(), Ordering::SeqCst);
        // SAFETY: the handler writes one byte to a descriptor that stays open.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = tell as *const () as usize;
            assert_eq!(
                libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
                0
            );
        }
        let runtime = runtime(2);
        let handle = runtime.handle();
        let (workers, told) = (Arc::new(Barrier::new(3)), Arc::new(AtomicUsize::new(0)));
        let ids: Arc<[AtomicI32; 2]> = Arc::default();
        let (of_workers, of_ids, hearing) = (workers.clone(), ids.clone(), told.clone());
        let running = std::thread::spawn(move || {
            runtime.run(move || {
                for index in 0..2 {
                    let (ids, workers) = (of_ids.clone(), of_workers.clone());
                    drop(on_worker(index, move || {
                        // SAFETY: takes nothing.
                        ids[index].store(unsafe { libc::gettid() }, Ordering::SeqCst);
                        workers.wait();
                    }));
                }
                let mut stream = TcpStream::from(hears);
                for _ in 0..100 {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    assert_eq!(&byte, b"s");
                    hearing.fetch_add(1, Ordering::SeqCst);
                }
            });
        });
        workers.wait();
        for number in 0..100 {
            let sleeps = || {
                handle
                    .metrics()
                    .workers
                    .iter()
                    .map(|w| w.sleeps)
                    .sum::<u64>()
            };
            let mut before = u64::MAX;
            wait_until("the workers to come to rest", || {
                std::mem::replace(&mut before, sleeps()) == before
            });
            let id = ids[number % 2].load(Ordering::SeqCst);
            // SAFETY: a thread of this process; one that is gone is an error, not a fault.
            let sent =
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGUSR1) };
            assert_eq!(sent, 0);
            wait_until("the goroutine to hear of it", || {
                told.load(Ordering::SeqCst) > number
            });
        }
        running.join().unwrap();
    });
}
