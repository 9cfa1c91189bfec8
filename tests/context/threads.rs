//! Plain threads under a context.

use crate::calls::assert_cut_short;
use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use urgo::chan::bounded;
use urgo::context::{Context, ContextError, RecvError};
use urgo::net::{TcpListener, TcpStream};
use urgo::sync::Mutex;

const LONG: Duration = Duration::from_secs(3600);

/// Calls `wait` on a thread of its own and cancels its context a little later, several times over.
fn cancelled(wait: impl Fn(&Context) + Send + Sync) {
    for round in 0..20 {
        let context = Context::background().with_cancel();
        thread::scope(|scope| {
            let (started, starts) = mpsc::channel();
            let wait = &wait;
            let inner = context.clone();
            scope.spawn(move || {
                started.send(()).unwrap();
                wait(&inner);
            });
            starts.recv().unwrap();
            if round % 2 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(context.cancel());
        });
    }
}

#[test]
fn a_threads_read_and_accept_end_with_its_context() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _server = listener.accept().unwrap();
    cancelled(|context| {
        let error = context.enter(|| (&client).read(&mut [0; 8])).unwrap_err();
        assert_cut_short(&error, ContextError::Cancelled);
    });
    cancelled(|context| {
        let error = context.enter(|| listener.accept()).unwrap_err();
        assert_cut_short(&error, ContextError::Cancelled);
    });
    let context = Context::background().with_timeout(Duration::from_millis(3));
    let error = context.enter(|| (&client).read(&mut [0; 8])).unwrap_err();
    assert_cut_short(&error, ContextError::DeadlineExceeded);
}

#[test]
fn a_threads_own_calls_of_a_context_end_with_it() {
    let (_s, r) = bounded::<u32>(0);
    let mutex = Mutex::new(());
    cancelled(|context| {
        assert_eq!(
            context.recv(&r),
            Err(RecvError::Context(ContextError::Cancelled))
        )
    });
    cancelled(|context| assert_eq!(context.sleep(LONG), Err(ContextError::Cancelled)));
    let _held = mutex.lock();
    cancelled(|context| assert_eq!(context.lock(&mutex).err(), Some(ContextError::Cancelled)));
    let context = Context::background().with_timeout(Duration::from_millis(3));
    assert_eq!(
        context.lock(&mutex).err(),
        Some(ContextError::DeadlineExceeded)
    );
    assert_eq!(context.sleep(LONG), Err(ContextError::DeadlineExceeded));
    let context = Context::background().with_timeout(LONG);
    assert_eq!(context.sleep(Duration::from_millis(1)), Ok(()));
    cancelled(|context| {
        urgo::select! {
            recv(r) -> _ => unreachable!(),
            recv(context.done()) -> _ => {}
        }
    });
}
