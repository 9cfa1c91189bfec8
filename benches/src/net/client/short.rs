//! The client of short connections: connects, sends one message, gets it back, ends the connection; never asleep.
//!
//! # Algorithm
//! Plain calls, since each of them is done at once on the loopback interface: the whole handshake runs inside `connect`, and
//! what the server has answered lies in the socket. Connections that have no answer yet are looked at in turn. They are ended
//! with a reset (`SO_LINGER` of 0), so that no port stays in use afterwards and the client never runs out of them.

use crate::cell::{Latencies, latencies};
use socket2::Socket;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A server that says nothing for so long is taken for stuck.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

/// What was seen in one window.
#[derive(Debug)]
pub(crate) struct Lives {
    /// Connections that were opened, answered and ended.
    pub(crate) connections: u64,
    /// From before `connect` to the answer.
    pub(crate) latencies: Latencies,
}

/// Connections of one message each, a fixed number at a time.
#[derive(Debug)]
pub(crate) struct Short<'a> {
    address: SocketAddr,
    message: &'a [u8],
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    stream: TcpStream,
    born: Instant,
}

impl<'a> Short<'a> {
    /// Opens the first `at_a_time` connections.
    pub(crate) fn start(address: SocketAddr, message: &'a [u8], at_a_time: usize) -> Short<'a> {
        Short {
            address,
            message,
            open: (0..at_a_time).map(|_| open(address, message)).collect(),
        }
    }

    /// Runs for `length`, or longer until there is a first answer, and counts.
    ///
    /// # Panics
    /// If the server answers something else than it was sent, or nothing.
    pub(crate) fn run(&mut self, length: Duration) -> Lives {
        let mut lives = Lives {
            connections: 0,
            latencies: latencies(),
        };
        let mut answer = vec![0; self.message.len()];
        let start = Instant::now();
        let mut now = start;
        while now - start < length || lives.connections == 0 {
            for place in &mut self.open {
                let is_answered = match place.stream.read(&mut answer) {
                    Ok(bytes) => bytes == answer.len() && answer == self.message,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        assert!(now - place.born < ANSWER_TIME_MAX, "no answer");
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                assert!(is_answered, "a wrong answer");
                now = Instant::now();
                lives.connections += 1;
                let age = now - place.born;
                lives.latencies.saturating_record(age.as_nanos() as u64);
                // The old one ends here.
                *place = open(self.address, self.message);
            }
            now = Instant::now();
        }
        lives
    }
}

fn open(address: SocketAddr, message: &[u8]) -> Open {
    let born = Instant::now();
    let stream = TcpStream::connect(address).expect("the server listens");
    let socket = Socket::from(stream);
    socket.set_linger(Some(Duration::ZERO)).expect("SO_LINGER");
    socket
        .set_nonblocking(true)
        .expect("a socket that does not block");
    let mut stream = TcpStream::from(socket);
    stream
        .write_all(message)
        .expect("a fresh socket takes a message");
    Open { stream, born }
}
