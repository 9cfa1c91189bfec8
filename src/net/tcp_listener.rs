//! A TCP socket that takes connections.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use socket2::SockRef;

use crate::io::{Description, Descriptor};
use crate::limits;
use crate::net::{Incoming, IntoIncoming, TcpStream, accept, connect, lookup};

/// A TCP socket that listens for connections, as [`std::net::TcpListener`].
///
/// Any number of goroutines and plain threads may accept on one listener at once. Dropping the last handle frees the
/// port; [`close`](Self::close) frees it while others still wait in `accept`.
///
/// On a plain thread, `accept` sets `O_NONBLOCK` in the descriptor and keeps the promise to wait by itself; giving the
/// descriptor away takes it back.
///
/// # Examples
///
/// ```
/// use urgo::net::{TcpListener, TcpStream};
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let client = TcpStream::connect(listener.local_addr()?)?;
/// let (server, peer) = listener.accept()?;
/// assert_eq!(peer, client.local_addr()?);
/// assert_eq!(server.peer_addr()?, peer);
/// # Ok(())
/// # }
/// ```
pub struct TcpListener {
    descriptor: Descriptor,
}

impl TcpListener {
    /// Listens on the first of `addr`'s addresses that can be bound. Port 0 asks the kernel for a free one. The port can
    /// be bound again while connections of an earlier listener linger (`SO_REUSEADDR`, as std sets it).
    ///
    /// Parks the goroutine, or blocks the plain thread, for the lookup only.
    ///
    /// # Errors
    /// Of the lookup; of the last attempt if all fail (`AddrInUse`, `PermissionDenied`...); `InvalidInput` if `addr` yields
    /// no address.
    pub fn bind<A: ToSocketAddrs + Sync>(addr: A) -> io::Result<TcpListener> {
        lookup::first_that_works(&addr, |address| {
            let socket = connect::stream_socket(address)?;
            socket.set_reuse_address(true)?;
            socket.bind(&(*address).into())?;
            socket.listen(limits::LISTEN_BACKLOG)?;
            Ok(TcpListener {
                descriptor: Descriptor::new(OwnedFd::from(socket), Description::ours()),
            })
        })
    }

    /// Over a descriptor from outside.
    pub(super) fn adopt(fd: OwnedFd) -> TcpListener {
        TcpListener {
            descriptor: Descriptor::new(fd, Description::foreign()),
        }
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.descriptor.into_parts().0
    }

    fn option<T>(&self, call: impl FnOnce(&SockRef<'_>) -> io::Result<T>) -> io::Result<T> {
        self.descriptor.while_open(|fd| call(&SockRef::from(&fd)))
    }

    /// The address that the listener is bound to.
    ///
    /// # Errors
    /// A [`ClosedError`](crate::net::ClosedError) after `close`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.option(|options| options.local_addr())?
            .as_socket()
            .ok_or_else(accept::not_internet)
    }

    /// A second handle of the same socket: each connection goes to one of those who accept. Shares timeout and mode.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`; a [`ClosedError`](crate::net::ClosedError) after `close`.
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        Ok(TcpListener {
            descriptor: self.descriptor.try_clone()?,
        })
    }

    /// Waits for the next connection; returns it with the peer's address. Parks the goroutine, or blocks the plain thread.
    ///
    /// No connection is lost: if the kernel took one off the queue, the caller gets it, deadline or not.
    ///
    /// # Errors
    /// `TimedOut` if there is an accept timeout; `WouldBlock` on a nonblocking listener; `EMFILE`, `ENFILE` when the process
    /// is out of descriptors (the connection stays queued); `ConnectionAborted`; a [`ClosedError`](crate::net::ClosedError)
    /// after `close`.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (connection, peer) = accept::accept(&self.descriptor)?;
        Ok((TcpStream::fresh(connection), peer))
    }

    /// The connections as they come. The iterator ends only when the listener is closed; other errors are items.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// As [`incoming`](Self::incoming), with the listener inside.
    pub fn into_incoming(self) -> IntoIncoming {
        IntoIncoming { listener: self }
    }

    /// Closes this handle, as Go's `Close`: every `accept` that waits on it, in a goroutine or a plain thread, returns with
    /// a [`ClosedError`](crate::net::ClosedError), and so does every later call. Any thread; never waits.
    ///
    /// If this is the only handle of the socket, the port is free when the call returns, and connections that nobody
    /// accepted are reset. If there are clones, or the descriptor came from outside, the others go on listening. The
    /// descriptor number stays taken until the handle is dropped.
    ///
    /// # Errors
    /// A [`ClosedError`](crate::net::ClosedError) if it was closed before.
    pub fn close(&self) -> io::Result<()> {
        self.descriptor.close()
    }

    /// How long `accept` may wait; `None` for ever (also `Some(Duration::MAX)`). Shared with clones. Calls that wait already
    /// keep their deadline.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_accept_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
        self.descriptor.check_open()?;
        self.descriptor.description().read_timeout.set(dur)
    }

    /// The accept timeout.
    ///
    /// # Errors
    /// A [`ClosedError`](crate::net::ClosedError) after `close`.
    pub fn accept_timeout(&self) -> io::Result<Option<Duration>> {
        self.descriptor.check_open()?;
        Ok(self.descriptor.description().read_timeout.get())
    }

    /// Sets `IP_TTL` of the listener and of the connections that it accepts.
    ///
    /// # Errors
    /// What `setsockopt(2)` says.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.option(|options| options.set_ttl_v4(ttl))
    }

    /// The value of `IP_TTL`.
    ///
    /// # Errors
    /// What `getsockopt(2)` says.
    pub fn ttl(&self) -> io::Result<u32> {
        self.option(|options| options.ttl_v4())
    }

    /// Takes the pending error of the listener (`SO_ERROR`), if there is one.
    ///
    /// # Errors
    /// What `getsockopt(2)` says.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.option(|options| options.take_error())
    }

    /// With `true`, `accept` returns `WouldBlock` instead of waiting. Shared with clones; accepted connections wait.
    ///
    /// # Errors
    /// What `fcntl(2)` says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        // `accept` on plain threads needs the flag in the file and keeps the promise to wait by itself.
        let in_file = nonblocking || self.descriptor.description().is_file_lent();
        self.descriptor.set_file_nonblocking(in_file)?;
        self.descriptor.description().set_nonblocking(nonblocking);
        Ok(())
    }

    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut record = f.debug_struct("TcpListener");
        if let Ok(addr) = self.local_addr() {
            record.field("addr", &addr);
        }
        record.field("fd", &self.descriptor.as_raw_fd()).finish()
    }
}
