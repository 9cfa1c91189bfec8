//! Where a scenario runs: on plain threads without a runtime, or as goroutines of a runtime with a few workers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;

use urgo::go::{Builder, Current, Placement};

use crate::support::{PATIENCE, message, runtime};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Plain threads, no runtime.
    Threads,
    /// Goroutines of a runtime with so many workers.
    Workers(usize),
}

pub(crate) const GROUNDS: [Ground; 4] = [
    Ground::Threads,
    Ground::Workers(1),
    Ground::Workers(2),
    Ground::Workers(4),
];

impl Ground {
    /// `n` rounds, or fewer where more workers than CPUs only cost time. In an emulator, which is ten times slower or more,
    /// URGO_TEST_SHARE says what part of them.
    pub(crate) fn rounds(self, n: usize) -> usize {
        static SHARE: OnceLock<usize> = OnceLock::new();
        let share = *SHARE.get_or_init(|| match std::env::var("URGO_TEST_SHARE") {
            Ok(text) => text.parse().expect("URGO_TEST_SHARE is a number"),
            Err(_) => 1,
        });
        let n = n.div_ceil(share).max(n.min(100));
        match self {
            Ground::Workers(4) => n.div_ceil(4),
            _ => n,
        }
    }

    /// Runs a scenario here. One that hangs ends the process with its ground's name, for a test that hangs says nothing.
    #[track_caller]
    pub(crate) fn run(self, scenario: impl FnOnce() + Send) {
        println!("ground: {self:?}");
        let caller = std::panic::Location::caller();
        let (done, over) = mpsc::channel::<()>();
        let watchdog = thread::spawn(move || {
            if over.recv_timeout(2 * PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the scenario at {caller} hangs on {self:?}");
                std::process::abort();
            }
        });
        let end = catch_unwind(AssertUnwindSafe(|| match self {
            Ground::Threads => scenario(),
            Ground::Workers(workers) => runtime(workers).run(scenario),
        }));
        drop(done);
        watchdog.join().unwrap();
        if let Err(payload) = end {
            resume_unwind(payload);
        }
    }
}

/// Runs a scenario on every ground.
#[track_caller]
pub(crate) fn everywhere(scenario: impl Fn(Ground) + Sync) {
    for ground in GROUNDS {
        ground.run(|| scenario(ground));
    }
}

/// What [`spawn`] started.
pub(crate) enum Task<T> {
    Thread(thread::JoinHandle<T>),
    Goroutine(urgo::JoinHandle<T>),
}

/// Starts `f` beside the caller: a goroutine of the caller's runtime, or a thread where there is none. Every other
/// goroutine is put on the next worker, so that both neighbours and strangers meet.
pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if Current::try_current().is_none() {
        return Task::Thread(thread::spawn(f));
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let placement = match count % 2 {
        0 => Placement::Auto,
        _ => Placement::Worker(count / 2 % urgo::Handle::current().workers()),
    };
    Task::Goroutine(Builder::new().placement(placement).spawn(f).unwrap())
}

impl<T> Task<T> {
    /// Waits for the end, which must not be a panic.
    #[track_caller]
    pub(crate) fn join(self) -> T {
        match self.end() {
            Ok(value) => value,
            Err(text) => panic!("what was spawned panicked: {text}"),
        }
    }

    /// Waits for the end: the value, or the panic's message.
    pub(crate) fn end(self) -> Result<T, String> {
        let end = match self {
            Task::Thread(handle) => handle.join(),
            Task::Goroutine(handle) => handle
                .join()
                .map_err(|error| error.try_into_panic().expect("only a panic ends it")),
        };
        end.map_err(|payload| message(&*payload).to_owned())
    }
}

/// Tasks that are waited for together.
pub(crate) struct Crew(Vec<Task<()>>);

impl Crew {
    pub(crate) fn new() -> Crew {
        Crew(Vec::new())
    }

    pub(crate) fn spawn(&mut self, f: impl FnOnce() + Send + 'static) {
        self.0.push(spawn(f));
    }

    #[track_caller]
    pub(crate) fn join(self) {
        for task in self.0 {
            task.join();
        }
    }
}
