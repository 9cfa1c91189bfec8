//! A runtime that has ended leaves no descriptor, mapping or thread behind, wherever it was built, run or dropped.

use std::io::{Read, Write};
use std::time::Duration;

use urgo::net::{TcpListener, TcpStream};
use urgo_sys::memory::{fd_count, thread_count, vma_count};

use crate::support::{alone, runtime, wait_until};

/// Descriptors, mappings and threads of this process.
fn belongings() -> (usize, usize, usize) {
    (
        fd_count().unwrap(),
        vma_count().unwrap(),
        thread_count().unwrap(),
    )
}

/// A little of everything: goroutines, sleeps, a connection, and some that are cut short.
fn life() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let echo = urgo::spawn(move || {
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).unwrap();
        server.write_all(&bytes).unwrap();
        server
    });
    client.write_all(b"ping").unwrap();
    client.read_exact(&mut [0; 4]).unwrap();
    drop(urgo::spawn(move || {
        let mut server = echo.join().unwrap();
        let _ = server.read(&mut [0]);
        drop(client);
    }));
    drop(urgo::spawn(|| urgo::sleep(Duration::MAX)));
    drop(urgo::spawn(move || drop(listener.accept())));
    urgo::yield_now();
}

/// After a first part that lets caches and lazy mappings fill, `rounds` further ones leave nothing more.
fn leaves_nothing(rounds: usize, mut round: impl FnMut(usize)) {
    let threads = thread_count().unwrap();
    // A thread that was joined is counted for an instant longer.
    let settle = || wait_until("threads to be gone", || thread_count().unwrap() <= threads);
    for n in 0..50 {
        round(n);
    }
    settle();
    let before = belongings();
    for n in 0..rounds {
        round(n);
    }
    settle();
    let after = belongings();
    assert_eq!(
        (after.0, after.2),
        (before.0, before.2),
        "(descriptors, threads)"
    );
    // The allocator may map a few arenas; a runtime that left one mapping would show a thousand.
    assert!(
        after.1 <= before.1 + rounds / 50,
        "mappings: {} before, {} after",
        before.1,
        after.1
    );
}

#[test]
fn a_thousand_runtimes_built_and_dropped_leave_nothing() {
    alone!(|| leaves_nothing(1000, |n| drop(runtime(1 + n % 2))));
}

#[test]
fn three_hundred_runtimes_that_ran_leave_nothing() {
    alone!(|| leaves_nothing(300, |n| runtime(1 + n % 2).run(life)));
}

#[test]
fn a_runtime_built_on_one_thread_runs_on_another() {
    alone!(|| {
        leaves_nothing(50, |_| {
            let built = std::thread::spawn(|| runtime(2)).join().unwrap();
            let ran = std::thread::spawn(move || {
                built.run(|| {
                    // More completions than one look at the ring takes.
                    let handles: Vec<_> = (0..100)
                        .map(|_| urgo::spawn(|| urgo::sleep(Duration::from_micros(100))))
                        .collect();
                    for handle in handles {
                        handle.join().unwrap();
                    }
                    life();
                    5
                })
            });
            assert_eq!(ran.join().unwrap(), 5);
        });
    });
}

#[test]
fn a_runtime_dropped_by_one_of_its_own_goroutines_ends_and_leaves_nothing() {
    alone!(|| {
        let round = |_| {
            let runtime = runtime(2);
            let handle = runtime.handle();
            let dropped = handle.spawn(move || drop(runtime));
            // It may be cut short by the end that it began itself, or come through it.
            let _ = dropped.join();
        };
        for n in 0..20 {
            round(n);
        }
        wait_until("the workers to leave", || thread_count().unwrap() <= 2);
        let before = belongings();
        for n in 0..100 {
            round(n);
        }
        wait_until("the workers to leave", || {
            thread_count().unwrap() <= before.2
        });
        let after = belongings();
        assert_eq!(
            (after.0, after.2),
            (before.0, before.2),
            "(descriptors, threads)"
        );
        // Threads that overlap cost the allocator an arena each; a mapping left by each runtime would show 100.
        assert!(after.1 <= before.1 + 50, "{before:?} {after:?}");
    });
}

#[test]
fn blocking_threads_are_gone_when_run_has_returned() {
    alone!(|| {
        leaves_nothing(50, |_| {
            runtime(1).run(|| {
                let handles: Vec<_> = (0..8)
                    .map(|n| urgo::spawn(move || urgo::blocking(|| n)))
                    .collect();
                for handle in handles {
                    handle.join().unwrap();
                }
            });
        });
    });
}
