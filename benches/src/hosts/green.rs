//! One set of verbs over goroutines and coroutines of may, for work in which the order of spawning, waiting and measuring is
//! the question. Where it is not, jobs do.

use super::{Put, Take, may_on, runtime};
use crate::cell::Cell;
use std::time::{Duration, Instant};

/// Green threads of one crate.
pub(crate) trait Green: 'static {
    /// Sending end of a channel with at least one slot.
    type Put: Put + Sync;
    /// Its other end.
    type Take: Take;
    /// What is joined.
    type Handle: Send;
    /// A moment of the crate's own clock.
    type Moment: Copy + Send + 'static;

    /// Runs `main` as a green thread, on one worker per CPU of the cell.
    fn run<T: Send + 'static>(cell: &Cell, main: impl FnOnce() -> T + Send + 'static) -> T;
    /// Starts one.
    fn spawn(body: impl FnOnce() + Send + 'static) -> Self::Handle;
    /// Waits for its end.
    fn join(handle: Self::Handle);
    /// A channel.
    fn channel() -> (Self::Put, Self::Take);
    /// Sleeps.
    fn sleep(duration: Duration);
    /// `instant` by the crate's own clock.
    fn moment(instant: Instant) -> Self::Moment;
    /// Sleeps.
    fn sleep_until(moment: Self::Moment);
}

/// urgo.
pub(crate) struct Goroutines;

impl Green for Goroutines {
    type Put = urgo::chan::Sender<u64>;
    type Take = urgo::chan::Receiver<u64>;
    type Handle = urgo::JoinHandle<()>;
    type Moment = urgo::time::Instant;

    fn run<T: Send + 'static>(cell: &Cell, main: impl FnOnce() -> T + Send + 'static) -> T {
        runtime(cell).run(main)
    }

    fn spawn(body: impl FnOnce() + Send + 'static) -> Self::Handle {
        urgo::spawn(body)
    }

    fn join(handle: Self::Handle) {
        handle.join().expect("no panic");
    }

    fn channel() -> (Self::Put, Self::Take) {
        urgo::chan::bounded(1)
    }

    fn sleep(duration: Duration) {
        urgo::sleep(duration);
    }

    fn moment(instant: Instant) -> Self::Moment {
        urgo::time::Instant::now() + instant.saturating_duration_since(Instant::now())
    }

    fn sleep_until(moment: Self::Moment) {
        urgo::sleep_until(moment);
    }
}

/// may. Its channels have no bound, and its sleep takes a duration only. Each channel here has one receiver, so it is may's
/// `mpsc`, the lightest one that has a receive with a time limit, too.
pub(crate) struct Coroutines;

impl Green for Coroutines {
    type Put = may::sync::mpsc::Sender<u64>;
    type Take = may::sync::mpsc::Receiver<u64>;
    type Handle = may::coroutine::JoinHandle<()>;
    type Moment = Instant;

    fn run<T: Send + 'static>(cell: &Cell, main: impl FnOnce() -> T + Send + 'static) -> T {
        may_on(cell);
        may::go!(main).join().expect("no panic")
    }

    fn spawn(body: impl FnOnce() + Send + 'static) -> Self::Handle {
        may::go!(body)
    }

    fn join(handle: Self::Handle) {
        handle.join().expect("no panic");
    }

    fn channel() -> (Self::Put, Self::Take) {
        may::sync::mpsc::channel()
    }

    fn sleep(duration: Duration) {
        may::coroutine::sleep(duration);
    }

    fn moment(instant: Instant) -> Self::Moment {
        instant
    }

    fn sleep_until(moment: Self::Moment) {
        may::coroutine::sleep(moment.saturating_duration_since(Instant::now()));
    }
}
