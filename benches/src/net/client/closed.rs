//! The closed-loop client: one thread, one ring, one request outstanding on each connection.
//!
//! # Algorithm
//! A complete answer leads to the next request. It polls and never sleeps ([`Wire`]), so a server never pays for waking it
//! (about 13 us of the waker's time per wake across virtual CPUs). Only where the server is to have all CPUs it sleeps.

use super::Exchange;
use super::wire::Wire;
use crate::cell::{Latencies, latencies};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A server that says nothing for so long is taken for stuck.
const ANSWER_NS_MAX: u64 = 20_000_000_000;

/// A running client.
pub(crate) struct Closed {
    wire: Wire,
    /// When the request that has no answer yet was sent, by connection.
    sent_ns: Vec<u64>,
    /// Whether it has been answered at all, by connection.
    heard: Vec<bool>,
    /// Connections with a request on which nothing has been heard yet.
    unheard: usize,
    sleeps: bool,
    /// Connections whose answers have become complete; empty between turns.
    whole: Vec<usize>,
    epoch: Instant,
}

/// What was seen in one window.
#[derive(Debug)]
pub(crate) struct Window {
    /// Answers received.
    pub(crate) requests: u64,
    /// True length of the window.
    pub(crate) elapsed: Duration,
    /// Time not spent polling in vain.
    pub(crate) busy: Duration,
    /// Times that the client entered the kernel.
    pub(crate) enters: u64,
    /// Latencies.
    pub(crate) latencies: Latencies,
}

impl Closed {
    /// Connects, and prepares the first request on each connection.
    pub(crate) fn connect(address: SocketAddr, connections: usize, exchange: Exchange) -> Closed {
        Closed::start(address, connections, exchange, 1, false)
    }

    /// Connects, and prepares the first request on the connections 0, `step`, 2 `step` and so on, in the order in which they
    /// were opened; nothing is ever sent on the others. It sleeps while there is nothing to do.
    pub(crate) fn connect_sleepy(
        address: SocketAddr,
        connections: usize,
        exchange: Exchange,
        step: usize,
    ) -> Closed {
        Closed::start(address, connections, exchange, step, true)
    }

    fn start(
        address: SocketAddr,
        connections: usize,
        exchange: Exchange,
        step: usize,
        sleeps: bool,
    ) -> Closed {
        let mut wire = Wire::connect(address, connections, exchange);
        (0..connections).step_by(step).for_each(|at| wire.send(at));
        Closed {
            sent_ns: vec![0; wire.connections()],
            heard: vec![false; wire.connections()],
            unheard: (0..connections).step_by(step).len(),
            wire,
            sleeps,
            whole: Vec::new(),
            epoch: Instant::now(),
        }
    }

    /// Runs for `length`, and on until every connection has been answered once: a server that is slow to accept does not pass for
    /// one with fewer connections.
    ///
    /// # Panics
    /// As [`run`](Self::run), and if a connection waits for its first answer for too long.
    pub(crate) fn warm_up(&mut self, length: Duration) {
        let start_ns = self.now_ns();
        self.run(length);
        while self.unheard > 0 {
            let unheard = self.unheard;
            assert!(
                self.now_ns() - start_ns < ANSWER_NS_MAX,
                "{unheard} connections have never been answered"
            );
            self.run(length);
        }
    }

    /// Runs for `length`, or longer until there is a first answer, and counts.
    ///
    /// # Panics
    /// If the server closes a connection, answers something else than it should, or nothing.
    pub(crate) fn run(&mut self, length: Duration) -> Window {
        let mut window = Window {
            requests: 0,
            elapsed: Duration::ZERO,
            busy: Duration::ZERO,
            enters: 0,
            latencies: latencies(),
        };
        let start_ns = self.now_ns();
        let length_ns = length.as_nanos() as u64;
        let (mut now_ns, mut idle_ns) = (start_ns, 0);
        while now_ns - start_ns < length_ns || window.requests == 0 {
            assert!(
                now_ns - start_ns < length_ns + ANSWER_NS_MAX,
                "no answer on any of {} connections for {} s",
                self.sent_ns.len(),
                ANSWER_NS_MAX / 1_000_000_000
            );
            self.wire.reap(&mut self.whole);
            let is_idle = self.whole.is_empty() && !self.turn_to_the_kernel(&mut window);
            let later_ns = self.now_ns();
            if is_idle {
                idle_ns += later_ns - now_ns;
            }
            now_ns = later_ns;
            self.answer_all(now_ns, &mut window);
        }
        window.elapsed = Duration::from_nanos(now_ns - start_ns);
        window.busy = window.elapsed - Duration::from_nanos(idle_ns);
        window
    }

    /// Says whether there was a reason to enter the kernel.
    fn turn_to_the_kernel(&mut self, window: &mut Window) -> bool {
        if self.sleeps {
            self.wire.sleep();
        } else if !self.wire.enter() {
            return false;
        }
        window.enters += 1;
        true
    }

    fn answer_all(&mut self, now_ns: u64, window: &mut Window) {
        for at in self.whole.drain(..) {
            window.requests += 1;
            window
                .latencies
                .saturating_record(now_ns - self.sent_ns[at]);
            self.unheard -= usize::from(!std::mem::replace(&mut self.heard[at], true));
            self.sent_ns[at] = now_ns;
            self.wire.send(at);
        }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}
