//! Calls that return an `io::Result` end with the current context.

use crate::support::runtime;
use std::error::Error;
use std::io::{self, Read, Write};
use std::time::Duration;
use urgo::chan::bounded;
use urgo::context::{self, Context, ContextError};
use urgo::net::{TcpListener, TcpStream};

pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[track_caller]
pub(crate) fn assert_cut_short(error: &io::Error, by: ContextError) {
    let kind = match by {
        ContextError::Cancelled => io::ErrorKind::Other,
        ContextError::DeadlineExceeded => io::ErrorKind::TimedOut,
    };
    assert_eq!(error.kind(), kind);
    let source = error.source().and_then(|source| source.downcast_ref());
    assert_eq!(source, Some(&by));
    assert_eq!(ContextError::of(error), Some(by));
}

/// Runs `call` on a goroutine of its own under a context that is cancelled when the goroutine waits, most likely.
#[track_caller]
fn cancelled<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Error {
    let context = Context::background().with_cancel();
    let (begins, begun) = bounded(0);
    let waits = context.enter(|| {
        urgo::spawn(move || {
            begins.send(()).unwrap();
            call()
        })
    });
    begun.recv().unwrap();
    urgo::sleep(Duration::from_millis(2));
    assert!(context.cancel());
    waits.join().unwrap().map(|_| ()).unwrap_err()
}

#[test]
fn a_read_an_accept_and_a_write_end_with_a_cancelled_context() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let (mut client, server) = pair();
            let error = cancelled(move || client.read(&mut [0; 8]));
            assert_cut_short(&error, ContextError::Cancelled);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let error = cancelled(move || listener.accept());
            assert_cut_short(&error, ContextError::Cancelled);
            let mut server = server;
            let error = cancelled(move || server.write_all(&vec![7; 64 << 20]));
            // The peer is gone: either the end of the context or of the connection came first.
            assert!(
                ContextError::of(&error).is_some()
                    || error.kind() == io::ErrorKind::ConnectionReset
                    || error.kind() == io::ErrorKind::BrokenPipe,
                "{error}"
            );
        });
    }
}

#[test]
fn a_full_write_ends_with_a_cancelled_context() {
    runtime(2).run(|| {
        let (mut client, _server) = pair();
        let error = cancelled(move || client.write_all(&vec![7; 64 << 20]));
        assert_cut_short(&error, ContextError::Cancelled);
    });
}

#[test]
fn every_call_ends_at_the_deadline_and_the_next_one_fails_at_once() {
    runtime(1).run(|| {
        let (mut client, _server) = pair();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let context = Context::background().with_timeout(Duration::from_millis(5));
        context.enter(|| {
            for _ in 0..3 {
                let error = client.read(&mut [0; 8]).unwrap_err();
                assert_cut_short(&error, ContextError::DeadlineExceeded);
                let error = listener.accept().unwrap_err();
                assert_cut_short(&error, ContextError::DeadlineExceeded);
            }
        });
        assert_eq!(context.err(), Some(ContextError::DeadlineExceeded));
    });
}

#[test]
fn the_earlier_of_the_calls_own_timeout_and_the_contexts_deadline_counts() {
    runtime(1).run(|| {
        let (mut client, _server) = pair();
        client
            .set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        let context = Context::background().with_timeout(Duration::from_secs(60));
        let error = context.enter(|| client.read(&mut [0; 8])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(ContextError::of(&error), None, "its own");
        client
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let context = Context::background().with_timeout(Duration::from_millis(2));
        let error = context.enter(|| client.read(&mut [0; 8])).unwrap_err();
        assert_cut_short(&error, ContextError::DeadlineExceeded);
    });
}

#[test]
fn a_call_under_a_cancelled_context_does_nothing() {
    runtime(1).run(|| {
        let (mut client, mut server) = pair();
        server.write_all(b"abc").unwrap();
        let context = Context::background().with_cancel();
        context.cancel();
        let mut buffer = [0; 8];
        let error = context.enter(|| client.read(&mut buffer)).unwrap_err();
        assert_cut_short(&error, ContextError::Cancelled);
        let error = context.enter(|| client.write(b"lost?")).unwrap_err();
        assert_cut_short(&error, ContextError::Cancelled);
        assert_eq!(client.read(&mut buffer).unwrap(), 3);
        drop(client);
        assert_eq!(
            server.read(&mut buffer).unwrap_or(0),
            0,
            "nothing was written"
        );
    });
}

#[test]
fn a_loop_that_never_waits_ends_with_its_context_too() {
    runtime(2).run(|| {
        let (mut client, mut server) = pair();
        let flood = urgo::spawn(move || {
            let bytes = vec![1; 1 << 20];
            while server.write_all(&bytes).is_ok() {}
        });
        let context = Context::background().with_timeout(Duration::from_millis(20));
        let mut buffer = vec![0; 4096];
        let (error, total) = context.enter(|| {
            let mut total = 0;
            loop {
                match client.read(&mut buffer) {
                    Ok(count) => total += count,
                    Err(error) => break (error, total),
                }
            }
        });
        assert_ne!(total, 0);
        assert_cut_short(&error, ContextError::DeadlineExceeded);
        drop(client);
        flood.join().unwrap();
    });
}

#[test]
fn a_timeout_covers_what_is_called_and_what_is_spawned_in_it() {
    runtime(2).run(|| {
        let (mut client, _server) = pair();
        let (own, spawned) = urgo::time::timeout(Duration::from_millis(5), || {
            let (mut other, _peer) = pair();
            let spawned = urgo::spawn(move || other.read(&mut [0; 1]));
            (client.read(&mut [0; 1]), spawned.join().unwrap())
        });
        assert_cut_short(&own.unwrap_err(), ContextError::DeadlineExceeded);
        assert_cut_short(&spawned.unwrap_err(), ContextError::DeadlineExceeded);
        assert_eq!(context::current(), Context::background());
        // Too far away to say, and what comes back is what the closure returned.
        assert_eq!(urgo::time::timeout(Duration::MAX, || 7), 7);
    });
}
