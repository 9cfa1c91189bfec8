//! Ends of contexts that race what they end.

use crate::calls::{assert_cut_short, pair};
use crate::support::{Random, runtime, seed};
use std::io::{self, Read, Write};
use std::time::Duration;
use urgo::chan::bounded;
use urgo::context::{Context, ContextError, RecvError};

/// Reads of the first test: `URGO_TEST_READS`, or as many as take a few seconds.
fn reads() -> usize {
    match std::env::var("URGO_TEST_READS") {
        Ok(text) => text.parse().expect("URGO_TEST_READS is a number"),
        Err(_) => 40_000,
    }
}

/// Scenario 3: a reader whose every call has a deadline that races the bytes sees each byte once, in order.
#[test]
fn a_reader_whose_deadlines_race_the_bytes_sees_each_byte_once() {
    let reads = reads();
    let seed = seed();
    runtime(2).run(move || {
        let (mut client, mut server) = pair();
        let writer = urgo::spawn(move || {
            let mut random = Random::new(seed);
            let mut next = 0u8;
            loop {
                let burst: Vec<u8> = (0..1 + random.below(64))
                    .map(|_| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .collect();
                if server.write_all(&burst).is_err() {
                    return;
                }
                if random.below(4) == 0 {
                    urgo::sleep(Duration::from_micros(random.below(300)));
                }
            }
        });
        let mut random = Random::new(seed ^ 1);
        let (mut next, mut late) = (0u8, 0);
        let mut buffer = [0; 256];
        for _ in 0..reads {
            let timeout = Duration::from_micros(random.below(200));
            let context = Context::background().with_timeout(timeout);
            match context.enter(|| client.read(&mut buffer)) {
                Ok(count) => {
                    assert_ne!(count, 0);
                    for byte in &buffer[..count] {
                        next = next.wrapping_add(1);
                        assert_eq!(*byte, next);
                    }
                }
                Err(error) => {
                    late += 1;
                    assert_cut_short(&error, ContextError::DeadlineExceeded);
                }
            }
        }
        println!("{late} of {reads} reads were late");
        drop(client);
        writer.join().unwrap();
    });
}

/// The same with cancellations from another worker.
#[test]
fn a_reader_whose_cancellations_race_the_bytes_sees_each_byte_once() {
    const ROUNDS: usize = 20_000;
    let seed = seed();
    runtime(2).run(move || {
        let (mut client, mut server) = pair();
        let (contexts, to_cancel) = bounded::<Context>(1);
        let writer = urgo::spawn(move || {
            let mut random = Random::new(seed);
            let mut next = 0u8;
            for context in to_cancel {
                if random.below(2) == 0 {
                    next = next.wrapping_add(1);
                    server.write_all(&[next]).unwrap();
                }
                for _ in 0..random.below(20) {
                    urgo::yield_now();
                }
                context.cancel();
            }
            next
        });
        let mut seen = 0u8;
        let mut buffer = [0; 8];
        let mut read = |client: &mut urgo::net::TcpStream| -> io::Result<usize> {
            let count = client.read(&mut buffer)?;
            for byte in &buffer[..count] {
                seen = seen.wrapping_add(1);
                assert_eq!(*byte, seen);
            }
            Ok(count)
        };
        for _ in 0..ROUNDS {
            let context = Context::background().with_cancel();
            contexts.send(context.clone()).unwrap();
            loop {
                match context.enter(|| read(&mut client)) {
                    Ok(count) => assert_ne!(count, 0),
                    Err(error) => {
                        assert_cut_short(&error, ContextError::Cancelled);
                        break;
                    }
                }
            }
        }
        drop(contexts);
        let last = writer.join().unwrap();
        while read(&mut client).unwrap() != 0 {}
        assert_eq!(seen, last);
    });
}

/// Messages are neither lost nor doubled when receives and sends are cut short.
#[test]
fn messages_survive_contexts_that_end_at_the_same_moment() {
    const MESSAGES: u64 = 20_000;
    let seed = seed();
    for capacity in [0, 1, 4] {
        runtime(2).run(move || {
            let (s, r) = bounded(capacity);
            let sender = urgo::spawn(move || {
                let mut random = Random::new(seed);
                for n in 0..MESSAGES {
                    let mut message = n;
                    loop {
                        let timeout = Duration::from_micros(random.below(20));
                        let context = Context::background().with_timeout(timeout);
                        match context.send(&s, message) {
                            Ok(()) => break,
                            Err(error) => message = error.into_inner(),
                        }
                    }
                }
            });
            let mut random = Random::new(seed ^ 2);
            let mut next = 0;
            loop {
                let timeout = Duration::from_micros(random.below(20));
                match Context::background().with_timeout(timeout).recv(&r) {
                    Ok(n) => {
                        assert_eq!(n, next);
                        next += 1;
                    }
                    Err(RecvError::Context(_)) => {}
                    Err(RecvError::Disconnected) => break,
                }
            }
            assert_eq!(next, MESSAGES);
            sender.join().unwrap();
        });
    }
}

/// A cancellation that comes while a goroutine enters, waits and leaves is seen by it.
#[test]
fn entering_and_cancelling_at_once_ends_every_wait() {
    runtime(2).run(|| {
        for round in 0..5_000 {
            let context = Context::background().with_cancel();
            let inner = context.clone();
            let waits = urgo::go::Builder::new()
                .placement(urgo::go::Placement::Worker(round % 2))
                .spawn(move || inner.sleep(Duration::from_secs(3600)))
                .unwrap();
            for _ in 0..round % 7 {
                urgo::yield_now();
            }
            context.cancel();
            assert_eq!(waits.join().unwrap(), Err(ContextError::Cancelled));
        }
    });
}
