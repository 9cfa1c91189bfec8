//! Waits for other threads: operations of the host, and lookups of names.

use crate::calls::assert_cut_short;
use crate::support::{runtime, wait_until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use urgo::chan::bounded;
use urgo::context::{Context, ContextError};
use urgo::host::{Completer, Operation, WaitError};
use urgo::net::TcpStream;

/// The outside is asked to stop, and the wait ends when it has let go.
#[test]
fn an_operation_ends_with_its_context_after_the_outside_has_let_go() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            for by in [ContextError::Cancelled, ContextError::DeadlineExceeded] {
                let context = match by {
                    ContextError::Cancelled => Context::background().with_cancel(),
                    ContextError::DeadlineExceeded => {
                        Context::background().with_timeout(Duration::from_millis(3))
                    }
                };
                let (asks, asked) = mpsc::channel();
                let (hands_over, handed_over) = bounded(1);
                let has_let_go = Arc::new(AtomicBool::new(false));
                let lets_go = has_let_go.clone();
                let outside = std::thread::spawn(move || {
                    let completer: Completer<u32> = handed_over.recv().unwrap();
                    asked.recv().unwrap();
                    lets_go.store(true, Ordering::SeqCst);
                    completer.ack();
                });
                let waits = context.enter(|| {
                    urgo::spawn(move || {
                        let result = Operation::register()
                            .unwrap()
                            .on_cancel(move || asks.send(()).unwrap())
                            .submit(|completer| hands_over.send(completer).unwrap())
                            .wait();
                        (result, has_let_go.load(Ordering::SeqCst))
                    })
                });
                urgo::sleep(Duration::from_millis(2));
                if by == ContextError::Cancelled {
                    assert!(context.cancel());
                }
                let (result, has_let_go) = waits.join().unwrap();
                assert!(
                    matches!(result, Err(WaitError::Context(error)) if error == by),
                    "{result:?}"
                );
                assert!(has_let_go);
                outside.join().unwrap();
            }
        });
    }
}

#[test]
fn nothing_is_cut_short_where_it_must_not_be() {
    runtime(1).run(|| {
        let context = Context::background().with_timeout(Duration::from_millis(2));
        let (s, r) = bounded(0);
        let theirs = context.clone();
        let waits = context.enter(|| {
            urgo::spawn(move || {
                urgo::uncancellable(|| {
                    let own = theirs.recv(&r);
                    let answer = Operation::register()
                        .unwrap()
                        .submit(|completer| {
                            std::thread::spawn(move || {
                                std::thread::sleep(Duration::from_millis(5));
                                completer.complete(4)
                            });
                        })
                        .wait();
                    (own, answer.unwrap())
                })
            })
        });
        wait_until("the deadline has passed", || context.err().is_some());
        context.cancel();
        urgo::sleep(Duration::from_millis(2));
        s.send(3).unwrap();
        assert_eq!(waits.join().unwrap(), (Ok(3), 4));
    });
}

/// No server of names is asked: the context is over before.
#[test]
fn a_connection_by_name_fails_at_once_under_a_cancelled_context() {
    runtime(1).run(|| {
        let context = Context::background().with_cancel();
        context.cancel();
        for _ in 0..2 {
            let error = context
                .enter(|| TcpStream::connect("localhost:9"))
                .unwrap_err();
            assert_cut_short(&error, ContextError::Cancelled);
            let error = context
                .enter(|| TcpStream::connect(("localhost", 9)))
                .unwrap_err();
            assert_cut_short(&error, ContextError::Cancelled);
        }
    });
}

/// The pool's only thread is held, so the lookup is never begun; it ends with its context all the same.
#[test]
fn a_lookup_of_a_name_ends_with_its_context() {
    let runtime = urgo::Runtime::builder().workers(1).blocking_threads(1);
    runtime.build().unwrap().run(|| {
        let (release, released) = mpsc::channel::<()>();
        let holder = urgo::spawn(move || urgo::blocking(move || released.recv()));
        urgo::sleep(Duration::from_millis(2));
        let context = Context::background().with_timeout(Duration::from_millis(10));
        let error = context
            .enter(|| TcpStream::connect(String::from("localhost:9")))
            .unwrap_err();
        assert_cut_short(&error, ContextError::DeadlineExceeded);
        release.send(()).unwrap();
        holder.join().unwrap().unwrap();
    });
}

/// Lookups that nobody waits for any more do not keep the pool from others.
#[test]
fn lookups_that_were_given_up_are_not_made() {
    let runtime = urgo::Runtime::builder().workers(1).blocking_threads(1);
    runtime.build().unwrap().run(|| {
        let (release, released) = mpsc::channel::<()>();
        let holder = urgo::spawn(move || urgo::blocking(move || released.recv()));
        urgo::sleep(Duration::from_millis(2));
        let context = Context::background().with_timeout(Duration::from_millis(5));
        for _ in 0..100 {
            // A name of a reserved domain, which only a server of names could tell.
            let error = context
                .enter(|| TcpStream::connect("nobody.invalid:9"))
                .unwrap_err();
            assert_cut_short(&error, ContextError::DeadlineExceeded);
        }
        release.send(()).unwrap();
        holder.join().unwrap().unwrap();
        assert_eq!(urgo::blocking(|| 5), 5);
    });
}

#[test]
fn a_lookup_of_a_name_works_under_a_context() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime(1).run(move || {
        let context = Context::background().with_timeout(Duration::from_secs(60));
        context
            .enter(|| TcpStream::connect(("localhost", port)))
            .unwrap();
        context
            .enter(|| TcpStream::connect(format!("localhost:{port}")))
            .unwrap();
    });
}
