//! Cancels that are in flight when something else ends.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use urgo::net::TcpListener;

use crate::streams::{pair, wait_until_in_flight};
use crate::support::{Drops, alone, runtime};

/// Scenario 16: all goroutines are cancelled, and main returns in the same turn, a thousand times.
#[test]
fn main_returns_while_all_cancels_are_in_flight() {
    alone!(|| {
        for round in 0..1000 {
            let drops = Drops::default();
            runtime(1 + round % 2).run(|| {
                let started = Arc::new(AtomicUsize::new(0));
                let handles = Vec::from_iter((0..12).map(|n| {
                    let (started, guard) = (started.clone(), drops.guard());
                    urgo::spawn(move || {
                        let _guard = guard;
                        if n % 3 == 0 {
                            urgo::sleep(Duration::MAX);
                        }
                        let (mut stream, _other) = pair();
                        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                        started.fetch_add(1, Ordering::SeqCst);
                        if n % 3 == 1 {
                            drop(stream.read(&mut [0; 8]));
                        }
                        drop(listener.accept());
                    })
                }));
                if round % 4 == 0 {
                    wait_until_in_flight(&started, 8);
                } else {
                    for _ in 0..round % 30 {
                        urgo::yield_now();
                    }
                }
                for handle in &handles {
                    handle.cancel();
                }
            });
            assert_eq!(drops.count(), 12);
        }
    });
}

/// Scenario 15, with cancels: ten times the submission queue is in flight, and all of it is cancelled at once.
#[test]
fn cancelling_ten_times_the_submission_queue_is_backpressure_only() {
    for workers in [1, 2] {
        let builder = urgo::Runtime::builder().workers(workers).ring_entries(8);
        builder.build().unwrap().run(|| {
            let started = Arc::new(AtomicUsize::new(0));
            let handles = Vec::from_iter((0..160).map(|_| {
                let started = started.clone();
                urgo::spawn(move || {
                    let (mut stream, _other) = pair();
                    started.fetch_add(1, Ordering::SeqCst);
                    drop(stream.read(&mut [0; 8]));
                })
            }));
            wait_until_in_flight(&started, 160);
            for handle in &handles {
                handle.cancel();
            }
            for handle in handles {
                assert!(handle.join().unwrap_err().is_cancelled());
            }
        });
    }
}
