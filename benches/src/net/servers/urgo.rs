//! The server under test, as a Go programmer would write it.

use super::read_bytes;
use crate::cell::Cell;
use crate::hosts::runtime;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;

/// Echo: an accept loop, one goroutine per connection.
pub(crate) fn echo(cell: &Cell, listener: TcpListener) {
    let bytes = read_bytes(cell);
    runtime(cell).run(move || {
        let listener = urgo::net::TcpListener::from(OwnedFd::from(listener));
        loop {
            let (stream, _) = listener.accept().expect("a connection");
            // One that ends with an error is one that the client has ended.
            drop(urgo::spawn(move || echo_one(stream, bytes)));
        }
    })
}

fn echo_one(mut stream: urgo::net::TcpStream, bytes: usize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if bytes <= 1024 {
        // On the stack, as one would write it for small messages.
        return answer(&mut stream, &mut [0; 1024]);
    }
    answer(&mut stream, &mut vec![0; bytes])
}

fn answer(stream: &mut urgo::net::TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        match stream.read(buffer)? {
            0 => return Ok(()),
            bytes => stream.write_all(&buffer[..bytes])?,
        }
    }
}
