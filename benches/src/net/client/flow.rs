//! The client of a stream of bytes: one thread that takes them in or gives them out at all its connections, never asleep.
//!
//! # Algorithm
//! It shall cost as little as it can, so that the server is what holds the stream up. It looks with epoll which connections
//! are ready, without waiting. What it takes in it throws away without copying it (`MSG_TRUNC`), after it has compared the
//! first bytes of each connection. What it gives out it sends from a file in memory (`sendfile`), whose pages are not copied
//! on this side. At the end of its own bytes it asks the server how many have arrived.
//!
//! # Safety
//! Calls of libc on descriptors that are open and on memory of our own, for the length of the call.

use crate::net::epoll::{Epoll, READ, WRITE};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Bytes asked for, or given out, in one call.
const CALL_BYTES: usize = 256 << 10;
/// A server that says nothing for so long is taken for stuck.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the server, which sends the numbers 0 to 255 over and over.
    In,
    /// To the server, which says how many bytes there were when there are no more.
    Out,
}

/// Connected.
#[derive(Debug)]
pub(crate) struct Flow {
    way: Way,
    streams: Vec<TcpStream>,
    /// Bytes given out so far, by connection.
    given: Vec<u64>,
    epoll: Epoll,
    ready: Vec<u64>,
    scratch: Vec<u8>,
    file: File,
}

impl Flow {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr, connections: usize, way: Way) -> Flow {
        let epoll = Epoll::new();
        let connect = |at: usize| {
            let stream = TcpStream::connect(address).expect("the server listens");
            stream
                .set_read_timeout(Some(ANSWER_TIME_MAX))
                .expect("a time limit");
            // Reading has a flag for it, sending a file has not.
            stream
                .set_nonblocking(way == Way::Out)
                .expect("a socket's mode");
            let interest = if way == Way::In { READ } else { WRITE };
            epoll.add(stream.as_raw_fd(), interest, at as u64);
            stream
        };
        Flow {
            way,
            streams: (0..connections).map(connect).collect(),
            given: vec![0; connections],
            epoll,
            ready: Vec::new(),
            scratch: vec![0; CALL_BYTES],
            file: file_in_memory(CALL_BYTES),
        }
    }

    /// Takes in the first `bytes` bytes of each connection and compares them.
    ///
    /// # Panics
    /// If one is wrong.
    pub(crate) fn check_first(&mut self, bytes: usize) {
        let mut got = vec![0; bytes];
        for mut stream in &self.streams {
            stream.read_exact(&mut got).expect("the server sends");
            let is_right = got.iter().enumerate().all(|(at, &byte)| byte == at as u8);
            assert!(is_right, "the server sent something else");
        }
    }

    /// Runs for `length`, or longer until a MiB has gone through; returns the number of bytes that went through.
    ///
    /// # Panics
    /// If the server ends a connection or does nothing.
    pub(crate) fn run(&mut self, length: Duration) -> u64 {
        let start = Instant::now();
        let mut ready = std::mem::take(&mut self.ready);
        let mut sum = 0;
        while start.elapsed() < length || sum < MIB {
            assert!(
                start.elapsed() < length + ANSWER_TIME_MAX,
                "nothing goes on"
            );
            self.epoll.ready(false, &mut ready);
            for &at in &ready {
                let at = at as usize;
                let bytes = match self.way {
                    Way::In => self.take_in(at),
                    Way::Out => self.give_out(at),
                };
                sum += match bytes {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    bytes => bytes.expect("the server goes on"),
                };
            }
        }
        self.ready = ready;
        sum
    }

    /// Ends the connections and compares what arrived with what was given out.
    ///
    /// # Panics
    /// If they differ.
    pub(crate) fn check_given(self) {
        for (mut stream, given) in self.streams.iter().zip(self.given) {
            stream.set_nonblocking(false).expect("a socket's mode");
            stream.shutdown(Shutdown::Write).expect("it is connected");
            let mut count = [0; 8];
            stream
                .read_exact(&mut count)
                .expect("the server says how many bytes there were");
            assert_eq!(u64::from_le_bytes(count), given, "bytes were lost");
        }
    }

    fn take_in(&mut self, at: usize) -> io::Result<u64> {
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        let (into, fd) = (self.scratch.as_mut_ptr(), self.streams[at].as_raw_fd());
        // SAFETY: `scratch` is CALL_BYTES long, so it is no matter that the kernel leaves it alone.
        let got = unsafe { libc::recv(fd, into.cast(), CALL_BYTES, flags) };
        match got {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            1.. => Ok(got as u64),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn give_out(&mut self, at: usize) -> io::Result<u64> {
        let sent = send_file(self.streams[at].as_raw_fd(), &self.file)?;
        self.given[at] += sent;
        Ok(sent)
    }
}

/// One call; as much as the socket takes, without waiting.
fn send_file(socket: RawFd, file: &File) -> io::Result<u64> {
    let mut offset = 0;
    // SAFETY: `offset` is a valid place for the one integer that the call writes.
    let sent = unsafe { libc::sendfile(socket, file.as_raw_fd(), &mut offset, CALL_BYTES) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(sent as u64)
}

fn file_in_memory(bytes: usize) -> File {
    // SAFETY: the name is a string that ends with zero.
    let fd = unsafe { libc::memfd_create(c"flow".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "memfd: {}", io::Error::last_os_error());
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(&vec![b'-'; bytes]).expect("memory");
    file
}
