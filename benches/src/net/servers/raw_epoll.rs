//! The floor without a ring: one thread, level-triggered epoll, one read and one write per readiness.
//!
//! # Algorithm
//! Sockets are not blocking. One `epoll_wait` finds all that are ready; each gets one turn. A write that the socket does not
//! take whole is kept, and the connection waits until it is writable. After a turn that took everything there was, no second
//! read is made to see that nothing is left: readiness is level-triggered, so `epoll_wait` says if there is more.
//!
//! # Safety
//! `accept4` takes a descriptor that is open, and null where no address is wanted.

use super::raw_oneshot::no_delay;
use super::{FLOW_BYTES, flow_block, read_bytes};
use crate::cell::Cell;
use crate::net::epoll::{Epoll, READ, WRITE};
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};

/// Echo.
pub(crate) fn echo(cell: &Cell, listener: TcpListener) {
    serve(
        &listener,
        Echo {
            buffer: vec![0; read_bytes(cell)],
            unsent: Vec::new(),
        },
    );
}

/// Bytes one way, as fast as they go.
pub(crate) fn flow(cell: &Cell, listener: TcpListener) {
    if cell.get::<String>("way") == "source" {
        let (block, sent) = (flow_block(), Vec::new());
        return serve(&listener, Source { block, sent });
    }
    let (buffer, counts) = (vec![0; FLOW_BYTES], Vec::new());
    serve(&listener, Sink { buffer, counts });
}

/// What a connection waits for after its turn.
enum Next {
    Same,
    Readable,
    Writable,
    End,
}

/// What is done at a connection, which is named by its descriptor's number.
trait Turn {
    const INTEREST: u32;
    fn opened(&mut self, at: usize);
    fn turn(&mut self, at: usize, stream: &TcpStream) -> Result<Next>;
}

fn serve(listener: &TcpListener, mut server: impl Turn) {
    listener
        .set_nonblocking(true)
        .expect("a listener that does not block");
    // Accepted sockets inherit it.
    no_delay(listener.as_raw_fd());
    let mut epoll = Epoll::new();
    let listening = listener.as_raw_fd() as u64;
    epoll.add(listener.as_raw_fd(), READ, listening);
    let mut streams = Vec::new();
    let mut ready = Vec::new();
    loop {
        epoll.ready(true, &mut ready);
        for &data in &ready {
            if data == listening {
                accept_all(listener, &epoll, &mut streams, &mut server);
            } else {
                take_turn(data as usize, &epoll, &mut streams, &mut server);
            }
        }
    }
}

fn take_turn<T: Turn>(at: usize, epoll: &Epoll, streams: &mut [Option<TcpStream>], server: &mut T) {
    let stream = streams[at].as_ref().expect("only open ones are ready");
    let interest = match server.turn(at, stream) {
        Ok(Next::Same) => return,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return,
        Ok(Next::Readable) => READ,
        Ok(Next::Writable) => WRITE,
        // The client has ended it, one way or another.
        Ok(Next::End) | Err(_) => return streams[at] = None,
    };
    epoll.modify(stream.as_raw_fd(), interest, at as u64);
}

fn accept_all<T: Turn>(
    listener: &TcpListener,
    epoll: &Epoll,
    streams: &mut Vec<Option<TcpStream>>,
    server: &mut T,
) {
    while let Some(stream) = accept(listener) {
        let fd = stream.as_raw_fd();
        let at = fd as usize;
        if streams.len() <= at {
            streams.resize_with(at + 1, || None);
        }
        server.opened(at);
        epoll.add(fd, T::INTEREST, at as u64);
        streams[at] = Some(stream);
    }
}

/// As `TcpListener::accept`, but the socket does not block from the start, which saves a call.
fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: both null: no address is wanted.
    let fd = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            flags,
        )
    };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "accept: {error}");
        return None;
    }
    // SAFETY: the descriptor is new and nobody else's.
    Some(unsafe { TcpStream::from_raw_fd(fd) })
}

struct Echo {
    /// One for all: what is read is written before the next turn, or kept in `unsent`.
    buffer: Vec<u8>,
    unsent: Vec<Vec<u8>>,
}

impl Turn for Echo {
    const INTEREST: u32 = READ;

    fn opened(&mut self, at: usize) {
        reset(&mut self.unsent, at);
    }

    fn turn(&mut self, at: usize, mut stream: &TcpStream) -> Result<Next> {
        let unsent = &mut self.unsent[at];
        if !unsent.is_empty() {
            let sent = stream.write(unsent)?;
            unsent.drain(..sent);
            return Ok(if unsent.is_empty() {
                Next::Readable
            } else {
                Next::Same
            });
        }
        let got = stream.read(&mut self.buffer)?;
        if got == 0 {
            return Ok(Next::End);
        }
        let sent = match stream.write(&self.buffer[..got]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            sent => sent?,
        };
        unsent.extend_from_slice(&self.buffer[sent..got]);
        Ok(if sent == got {
            Next::Same
        } else {
            Next::Writable
        })
    }
}

struct Source {
    block: Vec<u8>,
    /// How much of the block was sent already.
    sent: Vec<usize>,
}

impl Turn for Source {
    const INTEREST: u32 = WRITE;

    fn opened(&mut self, at: usize) {
        reset(&mut self.sent, at);
    }

    fn turn(&mut self, at: usize, mut stream: &TcpStream) -> Result<Next> {
        let sent = &mut self.sent[at];
        *sent = (*sent + stream.write(&self.block[*sent..])?) % FLOW_BYTES;
        Ok(Next::Same)
    }
}

struct Sink {
    buffer: Vec<u8>,
    counts: Vec<u64>,
}

impl Turn for Sink {
    const INTEREST: u32 = READ;

    fn opened(&mut self, at: usize) {
        reset(&mut self.counts, at);
    }

    fn turn(&mut self, at: usize, mut stream: &TcpStream) -> Result<Next> {
        let got = stream.read(&mut self.buffer)?;
        if got == 0 {
            // Its send buffer is empty, so it takes these whole.
            stream.write_all(&self.counts[at].to_le_bytes())?;
            return Ok(Next::End);
        }
        self.counts[at] += got as u64;
        Ok(Next::Same)
    }
}

/// Sets the element of a new connection.
fn reset<T: Default>(all: &mut Vec<T>, at: usize) {
    if all.len() <= at {
        all.resize_with(at + 1, T::default);
    }
    all[at] = T::default();
}
