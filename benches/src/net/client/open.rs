//! The open-loop client: requests are sent when they are due, whether earlier ones have been answered or not.
//!
//! # Algorithm
//! Requests are dealt to the connections in turn. One that is due while its connection still waits for an answer is queued
//! there and sent as soon as that has come. Its latency counts from the moment it was due, so a server that stops for a while
//! pays for every request that it has kept waiting, and nothing has to be corrected afterwards.

use super::Exchange;
use super::schedule::{Schedule, Spacing};
use super::wire::Wire;
use crate::cell::{Latencies, latencies};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A server that has not answered everything this long after the last request was due does not keep up.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// A client that keeps a schedule.
pub(crate) struct Open {
    wire: Wire,
    /// Moments at which unanswered requests were due, for each connection; the first one's has been sent.
    waiting: Vec<VecDeque<u64>>,
}

/// What was seen in one run.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Requests, all of them answered.
    pub(crate) requests: u64,
    /// From the moment a request was due until its answer was there.
    pub(crate) latencies: Latencies,
    /// From the moment a request was due until this client saw that it was: how well it kept the schedule.
    pub(crate) late: Latencies,
}

impl Open {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr, connections: usize, exchange: Exchange) -> Open {
        let wire = Wire::connect(address, connections, exchange);
        Open {
            waiting: vec![VecDeque::new(); wire.connections()],
            wire,
        }
    }

    /// Sends requests for `length`, then waits for the last answers.
    ///
    /// # Panics
    /// If the answers do not come, or wrong ones.
    pub(crate) fn run(&mut self, per_second: f64, spacing: Spacing, length: Duration) -> Kept {
        let mut schedule = Schedule::new(per_second, spacing, length).peekable();
        let mut kept = Kept {
            requests: 0,
            latencies: latencies(),
            late: latencies(),
        };
        let (mut sent, mut whole) = (0_u64, Vec::new());
        let give_up_ns = (length + DRAIN_TIME_MAX).as_nanos() as u64;
        let start = Instant::now();
        loop {
            self.wire.reap(&mut whole);
            let now_ns = start.elapsed().as_nanos() as u64;
            for at in whole.drain(..) {
                self.answered(at, now_ns, &mut kept);
            }
            while let Some(due_ns) = schedule.next_if(|&due_ns| due_ns <= now_ns) {
                kept.late.saturating_record(now_ns - due_ns);
                self.due(sent as usize % self.waiting.len(), due_ns);
                sent += 1;
            }
            if kept.requests == sent && schedule.peek().is_none() {
                return kept;
            }
            let missing = sent - kept.requests;
            assert!(
                now_ns < give_up_ns,
                "{missing} of {sent} requests unanswered after {DRAIN_TIME_MAX:?}"
            );
            self.wire.enter();
        }
    }

    fn due(&mut self, at: usize, due_ns: u64) {
        self.waiting[at].push_back(due_ns);
        if self.waiting[at].len() == 1 {
            self.wire.send(at);
        }
    }

    fn answered(&mut self, at: usize, now_ns: u64, kept: &mut Kept) {
        let due_ns = self.waiting[at].pop_front().expect("it was asked for");
        kept.requests += 1;
        kept.latencies.saturating_record(now_ns - due_ns);
        if !self.waiting[at].is_empty() {
            self.wire.send(at);
        }
    }
}
