//! Queues of the ring that are far too small.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::streams::{pair, raise_descriptor_limit, wait_until_in_flight};
use crate::support::alone;

/// Scenario 14: all completions come at once, while the worker is busy, into a completion queue of a few entries.
#[test]
fn thousands_of_completions_overflow_a_tiny_queue_and_none_is_lost() {
    alone!(|| {
        raise_descriptor_limit();
        let (streams, mut others): (Vec<_>, Vec<_>) = (0..2000).map(|_| pair()).unzip();
        let builder = urgo::Runtime::builder().workers(1).ring_entries(1);
        let runtime = builder.build().unwrap();
        let handle = runtime.handle();
        runtime.run(move || {
            let started = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = streams
                .into_iter()
                .map(|mut stream| {
                    let started = started.clone();
                    urgo::spawn(move || {
                        started.fetch_add(1, Ordering::SeqCst);
                        let mut bytes = [0; 4];
                        stream.read_exact(&mut bytes).unwrap();
                        u32::from_le_bytes(bytes)
                    })
                })
                .collect();
            wait_until_in_flight(&started, 2000);
            // Plain writes: the worker does not look at its ring before all are there.
            for (number, other) in others.iter_mut().enumerate() {
                other.write_all(&(number as u32).to_le_bytes()).unwrap();
            }
            for (number, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.join().unwrap() as usize, number);
            }
        });
        let overflows = handle.metrics().workers[0].ring.overflows;
        println!("note: {overflows} overflows");
        assert!(overflows > 0, "the queue was not too small");
    });
}

/// Scenario 15: a thousand goroutines in a row submit into a queue of one entry.
#[test]
fn a_burst_of_a_thousand_times_the_submission_queue_is_backpressure_only() {
    alone!(|| {
        raise_descriptor_limit();
        let (streams, others): (Vec<_>, Vec<_>) = (0..1000).map(|_| pair()).unzip();
        let builder = urgo::Runtime::builder().workers(1).ring_entries(1);
        let received = builder.build().unwrap().run(move || {
            let handles: Vec<_> = streams
                .into_iter()
                .enumerate()
                .map(|(number, mut stream)| {
                    urgo::spawn(move || stream.write_all(&(number as u32).to_le_bytes()).unwrap())
                })
                .collect();
            for handle in handles {
                handle.join().unwrap();
            }
            others
        });
        for (number, mut other) in received.into_iter().enumerate() {
            let mut bytes = [0; 4];
            other.read_exact(&mut bytes).unwrap();
            assert_eq!(u32::from_le_bytes(bytes) as usize, number);
        }
    });
}
