//! Requests and answers over many connections and one ring, polled and never slept on.
//!
//! # Algorithm
//! Multishot recv with a buffer ring, one send at a time on each connection. The completion queue and the TASKRUN flag are
//! polled, both in memory; the kernel is entered only when there is something to hand over or to run.
//!
//! # Safety
//! The request is one leaked, constant buffer; answers land in a buffer ring, which lives as long as the process.

use super::Exchange;
use crate::net::buffer_ring::BufferRing;
use crate::net::servers::raw_oneshot::{enter, operation, push, ring};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Sizes of a receive buffer: the answer's, within these.
const BUFFER_BYTES: RangeInclusive<usize> = 4 << 10..=64 << 10;
/// Loopback connects at once, or the server's queue of connections is full and stays so.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);
/// Longest sleep, so that who sleeps can look at the clock now and then.
const SLEEP: Duration = Duration::from_millis(200);
const GROUP: u16 = 0;
const RECV: u64 = 1;
const SEND: u64 = 2;

/// Connections to a server, and what is said on them.
pub(super) struct Wire {
    ring: IoUring,
    buffers: BufferRing,
    peers: Vec<Peer>,
    exchange: Exchange,
    completions: Vec<cqueue::Entry>,
}

struct Peer {
    stream: TcpStream,
    missing_bytes: usize,
}

impl Wire {
    /// Connects.
    pub(super) fn connect(address: SocketAddr, connections: usize, exchange: Exchange) -> Wire {
        let ring = ring();
        let bytes = exchange
            .answer_bytes()
            .clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
        // Two for each connection, and enough for answers that come in pieces; not so many that they leave the cache.
        let count = (2 * connections).next_power_of_two().clamp(64, 1 << 13) as u16;
        let buffers = BufferRing::register(&ring, GROUP, count, bytes);
        let connect = |_| {
            let stream = TcpStream::connect_timeout(&address, CONNECT_TIME_MAX)
                .expect("the server listens and accepts");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            Peer {
                stream,
                missing_bytes: 0,
            }
        };
        let mut wire = Wire {
            ring,
            buffers,
            peers: (0..connections).map(connect).collect(),
            exchange,
            completions: Vec::new(),
        };
        (0..connections).for_each(|at| wire.recv(at));
        wire
    }

    /// Number of connections.
    pub(super) fn connections(&self) -> usize {
        self.peers.len()
    }

    /// Prepares the request on connection `at`, whose last one has been answered; [`enter`](Self::enter) sends it.
    pub(super) fn send(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        assert_eq!(peer.missing_bytes, 0, "connection {at} is busy");
        peer.missing_bytes = self.exchange.answer_bytes();
        let fd = Fd(peer.stream.as_raw_fd());
        // WAITALL: the kernel completes a short send itself.
        let request = self.exchange.request;
        let entry = opcode::Send::new(fd, request.as_ptr(), request.len() as u32)
            .flags(libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        push(&mut self.ring, &entry.user_data(operation(at as i32, SEND)));
    }

    /// Enters the kernel if there is something to hand over or to run, and says whether it did; else makes a pause of the
    /// processor's.
    pub(super) fn enter(&mut self) -> bool {
        let queue = self.ring.submission();
        let is_needed = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if is_needed {
            enter(&self.ring, 0);
        } else {
            std::hint::spin_loop();
        }
        is_needed
    }

    /// Hands over what there is and sleeps until something has happened, or for [`SLEEP`]: who waits for an answer looks at
    /// the clock in between, and gives up by it.
    pub(super) fn sleep(&mut self) {
        let limit = Timespec::from(SLEEP);
        let limits = SubmitArgs::new().timespec(&limit);
        match self.ring.submitter().submit_with_args(1, &limits) {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {}
            // Nothing is lost: what was not handed over is still in the queue.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            entered => drop(entered.expect("enter")),
        }
    }

    /// Adds the connections whose answers have become complete to `whole`.
    ///
    /// # Panics
    /// If the server closes a connection or answers something else than it should.
    pub(super) fn reap(&mut self, whole: &mut Vec<usize>) {
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(self.ring.completion());
        if !completions.is_empty() {
            for completion in completions.drain(..) {
                whole.extend(self.complete(&completion));
            }
            self.buffers.publish();
        }
        self.completions = completions;
    }

    fn complete(&mut self, completion: &cqueue::Entry) -> Option<usize> {
        let at = (completion.user_data() >> 8) as usize;
        let (result, flags) = (completion.result(), completion.flags());
        if result == -libc::ENOBUFS {
            self.recv(at);
            return None;
        }
        let error = Error::from_raw_os_error(-result);
        assert!(result > 0, "connection {at} ended: {error}");
        let bytes = result as usize;
        let id = cqueue::buffer_select(flags).expect("a received message names its buffer");
        let peer = &mut self.peers[at];
        let from = self.exchange.answer_bytes() - peer.missing_bytes;
        let received = self.buffers.received(id, bytes);
        assert!(
            self.exchange.is_answer(from, received),
            "connection {at}: a wrong answer: {}",
            received.escape_ascii()
        );
        peer.missing_bytes -= bytes;
        let is_whole = peer.missing_bytes == 0;
        self.buffers.give_back(id);
        if !cqueue::more(flags) {
            self.recv(at);
        }
        is_whole.then_some(at)
    }

    fn recv(&mut self, at: usize) {
        let fd = Fd(self.peers[at].stream.as_raw_fd());
        let entry = opcode::RecvMulti::new(fd, GROUP).build();
        push(&mut self.ring, &entry.user_data(operation(at as i32, RECV)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_sleep_at_a_server_that_says_nothing_ends() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let address = silent.local_addr().expect("it is bound");
        let mut wire = Wire::connect(address, 1, Exchange::echo(64));
        wire.send(0);
        wire.sleep();
        wire.sleep();
        let mut whole = Vec::new();
        wire.reap(&mut whole);
        assert!(whole.is_empty());
    }
}
