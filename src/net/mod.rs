//! TCP for goroutines and plain threads, call by call as in [`std::net`].
//!
//! A call that waits parks the goroutine; its worker runs others meanwhile. On a plain thread the same call blocks the
//! thread. One listener or stream may be used by goroutines of several runtimes and by plain threads at once.
//!
//! # How it differs from `std::net`
//!
//! * [`TcpStream::close`] and [`TcpListener::close`] end every call that waits on the handle, from anywhere, as in Go.
//! * A timeout is reported as [`TimedOut`](std::io::ErrorKind::TimedOut), on every road; std reports `WouldBlock`.
//! * [`TcpListener::set_accept_timeout`] and [`TcpStream::set_linger`] exist.
//! * Names are looked up on the blocking pool, so address arguments must be `Sync`. All of std's are. A lookup of a type of one's own is
//!   not cut short by a [context](crate::context); those of std's types are, and go on by themselves.
//! * `O_NONBLOCK` in a descriptor from outside is not an answer to the question whether calls wait: they do, unless
//!   [`TcpStream::set_nonblocking`] was called on the handle or a clone of it.
//!
//! No byte and no connection is lost to a timeout or a cancelled goroutine: if the kernel had a result, the caller gets
//! it; the end of waiting is reported only when there was none.
//!
//! # Examples
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use urgo::net::TcpListener;
//!
//! urgo::run(|| -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:7000")?;
//!     for stream in listener.incoming() {
//!         let mut stream = stream?;
//!         urgo::spawn(move || {
//!             let mut buffer = [0; 4096];
//!             while let Ok(read @ 1..) = stream.read(&mut buffer) {
//!                 if stream.write_all(&buffer[..read]).is_err() {
//!                     break;
//!                 }
//!             }
//!         });
//!     }
//!     Ok(())
//! });
//! ```
//!
//! # Imports
//!
//! `io`, `blocking` (lookups), `limits`, `park` (reasons); io-uring, libc, socket2.

mod accept;
mod connect;
mod descriptors;
mod incoming;
mod literal;
mod lookup;
mod receive;
mod send;
mod tcp_listener;
mod tcp_stream;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
    ToSocketAddrs,
};

pub use crate::io::ClosedError;
pub use incoming::{Incoming, IntoIncoming};
pub use tcp_listener::TcpListener;
pub use tcp_stream::TcpStream;
