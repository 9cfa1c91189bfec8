//! Receivers whose messages the clock makes: no sender, no queue, no thread. A message exists from its time on, and
//! whoever takes it first has it.

use super::error::{RecvTimeoutError, TryRecvError};
use crate::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::park::{Outcome, WaitReason};
use crate::sched;
use crate::time::{DeadlineNs, duration_ns};
use std::time::{Duration, Instant};

/// One message at one moment.
#[derive(Debug)]
pub(super) struct At {
    /// The message, where the user gave it; else it is made of `due_ns` when somebody takes it. To make it at once would take a
    /// second look at the clock, which is half the cost of a timer that nobody waits for.
    moment: Option<Instant>,
    /// When it is due, by the scheduler's clock.
    due_ns: u64,
    /// Relaxed: nothing but the message goes with it, and that never changes.
    is_taken: AtomicBool,
}

impl At {
    pub(super) fn due(moment: Instant) -> At {
        At {
            moment: Some(moment),
            due_ns: moment.deadline_ns(),
            is_taken: AtomicBool::new(false),
        }
    }

    /// `None` if that is too far away to say.
    pub(super) fn after(duration: Duration) -> Option<At> {
        let due_ns = sched::now_ns().saturating_add(duration_ns(duration));
        (due_ns != sched::NEVER).then_some(At {
            moment: None,
            due_ns,
            is_taken: AtomicBool::new(false),
        })
    }

    pub(super) fn try_recv(&self) -> Result<Instant, TryRecvError> {
        if sched::now_ns() < self.due_ns || self.is_taken.swap(true, Ordering::Relaxed) {
            return Err(TryRecvError::Empty);
        }
        Ok(self.moment.unwrap_or_else(|| instant_of(self.due_ns)))
    }

    pub(super) fn recv(&self, deadline_ns: u64) -> Result<Instant, RecvTimeoutError> {
        recv_due(deadline_ns, || self.try_recv(), || self.next_ns())
    }

    /// When to look again.
    pub(super) fn next_ns(&self) -> u64 {
        if self.is_taken.load(Ordering::Relaxed) {
            sched::NEVER
        } else {
            self.due_ns
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed) || sched::now_ns() < self.due_ns
    }
}

/// The moment `due_ns` in std's clock. Std's clock is read after the scheduler's: so the result is no earlier than `due_ns`, and no
/// later than the present. Read again if the thread was held up in between, a few times at most.
#[cold]
fn instant_of(due_ns: u64) -> Instant {
    let mut now_ns = sched::now_ns();
    let mut now = Instant::now();
    for _ in 0..INSTANT_TRIES {
        let later_ns = sched::now_ns();
        if later_ns - now_ns <= INSTANT_ERROR_NS {
            break;
        }
        (now_ns, now) = (later_ns, Instant::now());
    }
    now.checked_sub(Duration::from_nanos(now_ns - due_ns))
        .unwrap_or(now)
}

/// By how much an instant may be late.
const INSTANT_ERROR_NS: u64 = 1_000;
const INSTANT_TRIES: usize = 5;

/// One message per beat. Beats that nobody took in time are skipped; those to come keep their times.
#[derive(Debug)]
pub(super) struct Tick {
    /// The first beat.
    first: Instant,
    /// The same by the scheduler's clock, or a little later.
    first_ns: u64,
    /// Not 0.
    period_ns: u64,
    /// The beat that is delivered next, by the scheduler's clock. Relaxed: nothing else goes with it.
    due_ns: AtomicU64,
}

impl Tick {
    /// `None` if the first beat is too far away to say.
    pub(super) fn every(period: Duration) -> Option<Tick> {
        let first = Instant::now().checked_add(period)?;
        let period_ns = duration_ns(period).max(1);
        let first_ns = sched::now_ns().saturating_add(period_ns);
        Some(Tick {
            first,
            first_ns,
            period_ns,
            due_ns: AtomicU64::new(first_ns),
        })
    }

    pub(super) fn try_recv(&self) -> Result<Instant, TryRecvError> {
        let mut due_ns = self.due_ns.load(Ordering::Relaxed);
        loop {
            let now_ns = sched::now_ns();
            if now_ns < due_ns {
                return Err(TryRecvError::Empty);
            }
            let missed = (now_ns - due_ns) / self.period_ns;
            let next_ns = due_ns.saturating_add((missed + 1).saturating_mul(self.period_ns));
            match self.due_ns.compare_exchange(
                due_ns,
                next_ns,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(self.first + Duration::from_nanos(due_ns - self.first_ns)),
                Err(other_ns) => due_ns = other_ns,
            }
        }
    }

    pub(super) fn recv(&self, deadline_ns: u64) -> Result<Instant, RecvTimeoutError> {
        recv_due(deadline_ns, || self.try_recv(), || self.next_ns())
    }

    /// When to look again.
    pub(super) fn next_ns(&self) -> u64 {
        self.due_ns.load(Ordering::Relaxed)
    }

    pub(super) fn is_empty(&self) -> bool {
        sched::now_ns() < self.due_ns.load(Ordering::Relaxed)
    }
}

/// Nothing ever comes. Blocks until the deadline.
pub(super) fn recv_never(deadline_ns: u64) -> RecvTimeoutError {
    loop {
        // Not only at the deadline: a context may end the wait.
        if wait_until(deadline_ns) == Outcome::TimedOut {
            return RecvTimeoutError::Timeout;
        }
    }
}

fn recv_due(
    deadline_ns: u64,
    try_recv: impl Fn() -> Result<Instant, TryRecvError>,
    next_ns: impl Fn() -> u64,
) -> Result<Instant, RecvTimeoutError> {
    loop {
        if let Ok(moment) = try_recv() {
            sched::spend_turn();
            return Ok(moment);
        }
        if deadline_ns <= sched::now_ns() {
            return Err(RecvTimeoutError::Timeout);
        }
        let until = next_ns().min(deadline_ns);
        if wait_until(until) == Outcome::TimedOut && sched::now_ns() < until {
            // A context has ended the wait.
            return Err(RecvTimeoutError::Timeout);
        }
    }
}

/// Blocks the calling goroutine or thread.
fn wait_until(deadline_ns: u64) -> Outcome {
    let waiter = sched::new_parked_waiter();
    let outcome = sched::wait_parked(&waiter, WaitReason::ChanRecv, deadline_ns);
    if outcome == Outcome::Cancelled {
        sched::unwind_if_cancelled();
    }
    outcome
}

#[cfg(all(test, not(urgo_loom)))]
mod tests {
    use super::*;

    #[test]
    fn timed_moments_come_once_and_not_early() {
        let start = Instant::now();
        let at = At::after(Duration::from_millis(5)).unwrap();
        let due = loop {
            match at.try_recv() {
                Ok(due) => break due,
                Err(_) => std::hint::spin_loop(),
            }
        };
        assert!(due >= start + Duration::from_millis(5) && Instant::now() >= due);
        assert!(at.is_empty());
        assert_eq!(at.next_ns(), sched::NEVER);
        assert_eq!(at.recv(sched::now_ns()), Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn timed_beats_keep_to_the_multiples_of_the_period() {
        let period = Duration::from_millis(2);
        let tick = Tick::every(period).unwrap();
        let first = tick.recv(sched::NEVER).unwrap();
        std::thread::sleep(period * 4);
        // One beat waits; those after it were missed.
        let waiting = tick.try_recv().unwrap();
        let next = tick.recv(sched::NEVER).unwrap();
        assert!(Instant::now() >= next);
        assert!(next - waiting >= period * 3);
        for beat in [waiting, next] {
            assert_eq!((beat - first).as_nanos() % period.as_nanos(), 0);
        }
    }

    #[test]
    fn timed_beats_go_to_one_receiver_each() {
        let tick = Tick::every(Duration::from_millis(1)).unwrap();
        let mut beats: Vec<Instant> = std::thread::scope(|scope| {
            let threads = [(); 4]
                .map(|()| scope.spawn(|| [(); 10].map(|()| tick.recv(sched::NEVER).unwrap())));
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        beats.sort();
        assert!(beats.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn timed_periods_may_be_zero_or_for_ever() {
        let tick = Tick::every(Duration::ZERO).unwrap();
        assert!(tick.recv(sched::NEVER).unwrap() < tick.recv(sched::NEVER).unwrap());
        assert!(Tick::every(Duration::MAX).is_none());
        assert!(At::after(Duration::MAX).is_none());
    }
}
