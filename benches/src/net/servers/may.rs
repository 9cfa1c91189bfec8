//! may, as its documentation's echo server: an accept loop, one coroutine per connection, buffers on the heap since its stacks
//! are small.
//!
//! # Safety
//! may takes a listener by its descriptor only, which nobody else owns by then. Starting a coroutine is unsafe in may, because
//! one that overflows its stack or touches thread-locals goes wrong; `go!` hides that.

use super::{FLOW_BYTES, WORK_BYTES, flow_block, read_bytes, work};
use crate::cell::Cell;
use crate::hosts::may_on;
use may::net::TcpStream;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::sync::Arc;

/// Echo.
pub(crate) fn echo(cell: &Cell, listener: TcpListener) {
    let bytes = read_bytes(cell);
    serve(cell, listener, move |stream| echo_one(stream, bytes));
}

/// Bytes one way, as fast as they go.
pub(crate) fn flow(cell: &Cell, listener: TcpListener) {
    if cell.get::<String>("way") == "source" {
        let block: Arc<[u8]> = flow_block().into();
        return serve(cell, listener, move |stream| source(stream, &block));
    }
    serve(cell, listener, sink);
}

/// Answers that take some computing.
pub(crate) fn imbalance(cell: &Cell, listener: TcpListener) {
    let rounds = cell.get("hash_rounds");
    serve(cell, listener, move |stream| work_one(stream, rounds));
}

fn serve(
    cell: &Cell,
    listener: TcpListener,
    connection: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static,
) {
    may_on(cell);
    let accept_all = move || {
        // SAFETY: the descriptor is open and owned by nobody else any more.
        let listener = unsafe { may::net::TcpListener::from_raw_fd(listener.into_raw_fd()) };
        loop {
            let (stream, _) = listener.accept().expect("a connection");
            let connection = connection.clone();
            // One that ends with an error is one that the client has ended.
            may::go!(move || {
                stream.set_nodelay(true)?;
                connection(stream)
            });
        }
    };
    may::go!(accept_all).join().expect("it never ends")
}

fn echo_one(mut stream: TcpStream, bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; bytes];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            bytes => stream.write_all(&buffer[..bytes])?,
        }
    }
}

fn source(mut stream: TcpStream, block: &[u8]) -> io::Result<()> {
    loop {
        stream.write_all(block)?;
    }
}

fn sink(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; FLOW_BYTES];
    let mut count = 0_u64;
    loop {
        match stream.read(&mut buffer)? {
            0 => return stream.write_all(&count.to_le_bytes()),
            bytes => count += bytes as u64,
        }
    }
}

fn work_one(mut stream: TcpStream, rounds: usize) -> io::Result<()> {
    let mut message = [0; WORK_BYTES];
    loop {
        stream.read_exact(&mut message)?;
        work(&mut message, rounds);
        stream.write_all(&message)?;
    }
}
