//! The closed-loop client: one thread, one ring, one request outstanding per connection, never asleep.
//!
//! # Algorithm
//! Multishot recv with a buffer ring; a completed answer leads to the next request. It polls the completion queue and the
//! TASKRUN flag, both in memory, and enters the kernel only when there is something to hand over or to run. So a server
//! never pays for waking it (about 13 us of the waker's time per wake across virtual CPUs).
//!
//! # Safety
//! Requests are sent from one leaked, constant buffer; answers land in a buffer ring, which lives as long as the process.

use super::Exchange;
use crate::cell::{Latencies, latencies};
use crate::net::buffer_ring::BufferRing;
use crate::net::servers::raw_oneshot::{operation, push, ring};
use io_uring::{IoUring, cqueue, opcode, squeue, types::Fd};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const BUFFERS: u16 = 1024;
const BUFFER_BYTES: usize = 4096;
const GROUP: u16 = 0;
const RECV: u64 = 1;
const SEND: u64 = 2;

/// A running client.
pub(crate) struct Closed {
    ring: IoUring,
    buffers: BufferRing,
    peers: Vec<Peer>,
    exchange: Exchange,
    completions: Vec<cqueue::Entry>,
    epoch: Instant,
}

struct Peer {
    stream: TcpStream,
    sent_ns: u64,
    missing_bytes: usize,
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
    /// Connects, and sends the first request on each connection.
    pub(crate) fn connect(address: SocketAddr, connections: usize, exchange: Exchange) -> Closed {
        let ring = ring();
        let buffers = BufferRing::register(&ring, GROUP, BUFFERS, BUFFER_BYTES);
        let peers = (0..connections)
            .map(|_| {
                let stream = TcpStream::connect(address).expect("the server listens");
                stream.set_nodelay(true).expect("TCP_NODELAY");
                Peer {
                    stream,
                    sent_ns: 0,
                    missing_bytes: 0,
                }
            })
            .collect();
        let mut client = Closed {
            ring,
            buffers,
            peers,
            exchange,
            completions: Vec::new(),
            epoch: Instant::now(),
        };
        for at in 0..connections {
            client.recv(at);
            client.send(at, 0);
        }
        client
    }

    /// Runs for `length` and counts.
    ///
    /// # Panics
    /// If the server closes a connection or answers something else than it should.
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
        while now_ns - start_ns < length_ns {
            self.completions.extend(self.ring.completion());
            if self.completions.is_empty() {
                if self.has_something_for_the_kernel() {
                    self.ring.submit().expect("enter");
                    window.enters += 1;
                } else {
                    std::hint::spin_loop();
                    let later_ns = self.now_ns();
                    idle_ns += later_ns - now_ns;
                    now_ns = later_ns;
                    continue;
                }
            }
            now_ns = self.now_ns();
            self.answer_all(now_ns, &mut window);
        }
        window.elapsed = Duration::from_nanos(now_ns - start_ns);
        window.busy = window.elapsed - Duration::from_nanos(idle_ns);
        window
    }

    fn answer_all(&mut self, now_ns: u64, window: &mut Window) {
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            let at = (completion.user_data() >> 8) as usize;
            let (result, flags) = (completion.result(), completion.flags());
            if result == -libc::ENOBUFS {
                self.recv(at);
                continue;
            }
            assert!(
                result > 0,
                "connection {at}: {}",
                std::io::Error::from_raw_os_error(-result)
            );
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
            let (is_whole, sent_ns) = (peer.missing_bytes == 0, peer.sent_ns);
            self.buffers.give_back(id);
            if !cqueue::more(flags) {
                self.recv(at);
            }
            if is_whole {
                window.requests += 1;
                window.latencies.saturating_record(now_ns - sent_ns);
                self.send(at, now_ns);
            }
        }
        self.completions = completions;
        self.buffers.publish();
    }

    fn recv(&mut self, at: usize) {
        let fd = Fd(self.peers[at].stream.as_raw_fd());
        push(
            &mut self.ring,
            &opcode::RecvMulti::new(fd, GROUP)
                .build()
                .user_data(operation(at as i32, RECV)),
        );
    }

    fn send(&mut self, at: usize, now_ns: u64) {
        let peer = &mut self.peers[at];
        peer.sent_ns = now_ns;
        peer.missing_bytes = self.exchange.answer_bytes();
        let fd = Fd(peer.stream.as_raw_fd());
        let request = self.exchange.request;
        let entry = opcode::Send::new(fd, request.as_ptr(), request.len() as u32)
            .flags(libc::MSG_WAITALL)
            .build();
        push(
            &mut self.ring,
            &entry
                .flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(operation(at as i32, SEND)),
        );
    }

    fn has_something_for_the_kernel(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}
