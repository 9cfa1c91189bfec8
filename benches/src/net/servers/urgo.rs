//! The server under test, as a Go programmer would write it: an accept loop, one goroutine per connection.

use super::{FLOW_BYTES, WORK_BYTES, flow_block, hog, read_bytes, work};
use crate::cell::Cell;
use crate::hosts::runtime;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use urgo::net::TcpStream;

/// Echo.
pub(crate) fn echo(cell: &Cell, listener: TcpListener) {
    let bytes = read_bytes(cell);
    serve(cell, listener, move |stream| echo_one(stream, bytes));
}

/// Bytes one way, as fast as they go.
pub(crate) fn flow(cell: &Cell, listener: TcpListener) {
    if cell.get::<String>("way") == "source" {
        let block: &'static [u8] = flow_block().leak();
        return serve(cell, listener, move |stream| source(stream, block));
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
    connection: impl Fn(TcpStream) -> io::Result<()> + Copy + Send + 'static,
) {
    runtime(cell).run(move || {
        hog::goroutines(cell);
        let listener = urgo::net::TcpListener::from(OwnedFd::from(listener));
        loop {
            let (stream, _) = listener.accept().expect("a connection");
            // One that ends with an error is one that the client has ended.
            drop(urgo::spawn(move || {
                stream.set_nodelay(true)?;
                connection(stream)
            }));
        }
    })
}

fn echo_one(mut stream: TcpStream, bytes: usize) -> io::Result<()> {
    if bytes <= 1024 {
        // On the stack, as one would write it for small messages.
        return answer(&mut stream, &mut [0; 1024]);
    }
    answer(&mut stream, &mut vec![0; bytes])
}

fn answer(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        match stream.read(buffer)? {
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
