//! The two kinds of callers that every promise is made to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use urgo::net::{TcpListener, TcpStream};

/// Who makes the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Goroutines,
    Threads,
}

pub(crate) enum Task<T> {
    Goroutine(urgo::JoinHandle<T>),
    Thread(std::thread::JoinHandle<T>),
}

impl Side {
    pub(crate) fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        match self {
            Side::Goroutines => Task::Goroutine(urgo::spawn(f)),
            Side::Threads => Task::Thread(std::thread::spawn(f)),
        }
    }

    pub(crate) fn sleep(self, duration: Duration) {
        match self {
            Side::Goroutines => urgo::sleep(duration),
            Side::Threads => std::thread::sleep(duration),
        }
    }

    /// Joins `task` from a caller of this kind. A goroutine polls for a thread's end: a plain `join` would hold up its worker,
    /// which other goroutines of the test may need.
    pub(crate) fn join<T>(self, task: Task<T>) -> T {
        if let (Side::Goroutines, Task::Thread(handle)) = (self, &task) {
            self.wait_until("the thread's end", || handle.is_finished());
        }
        task.join()
    }

    /// Waits for a condition that is promised to come; the limit only ends a test that has failed already.
    pub(crate) fn wait_until(self, what: &str, mut condition: impl FnMut() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{what}: did not come on {self:?}"
            );
            self.sleep(Duration::from_millis(1));
        }
    }
}

impl<T> Task<T> {
    pub(crate) fn join(self) -> T {
        match self {
            Task::Goroutine(handle) => handle
                .join()
                .map_err(|_| ())
                .expect("the goroutine panicked"),
            Task::Thread(handle) => handle.join().expect("the thread panicked"),
        }
    }
}

/// Runs `body` as the main goroutine of a runtime, to its end.
pub(crate) fn on_goroutines(body: impl FnOnce(Side) + Send + 'static) {
    let is_finished = Arc::new(AtomicBool::new(false));
    let finished = Arc::clone(&is_finished);
    urgo::run(move || {
        body(Side::Goroutines);
        finished.store(true, Ordering::SeqCst);
    });
    assert!(
        is_finished.load(Ordering::SeqCst),
        "the main goroutine did not come to its end"
    );
}

/// Runs `body` on goroutines, then on plain threads.
pub(crate) fn on_both(body: impl Fn(Side) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let on_goroutine = Arc::clone(&body);
    on_goroutines(move |side| on_goroutine(side));
    body(Side::Threads);
}

/// Runs `body(main, waiting, closing)` with every pair of callers; `main` is the kind of the one who runs it.
pub(crate) fn on_all_pairs(body: impl Fn(Side, Side, Side) + Send + Sync + 'static) {
    use Side::{Goroutines, Threads};
    let body = Arc::new(body);
    let mixed = Arc::clone(&body);
    on_goroutines(move |main| {
        mixed(main, Goroutines, Goroutines);
        mixed(main, Goroutines, Threads);
        mixed(main, Threads, Goroutines);
    });
    body(Threads, Threads, Threads);
}

/// A listener on a free port of the loopback interface.
pub(crate) fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Both ends of one connection: connecting, accepted.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = listen();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    (client, server)
}
