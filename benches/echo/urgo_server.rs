//! The server under test, as a Go programmer would write it.

use crate::READ_BYTES;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// Serves `listener` on one worker, pinned to `cpu`, until the process is killed.
pub(crate) fn serve(listener: std::net::TcpListener, cpu: usize) {
    let runtime = urgo::Runtime::builder()
        .workers(1)
        .cpus(&[cpu])
        .build()
        .expect("a runtime");
    runtime.run(move || {
        let listener = urgo::net::TcpListener::from(OwnedFd::from(listener));
        loop {
            let (stream, _) = listener.accept().expect("a connection");
            urgo::spawn(move || echo(stream));
        }
    })
}

fn echo(mut stream: urgo::net::TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; READ_BYTES];
    loop {
        let bytes = stream.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..bytes])?;
    }
}
