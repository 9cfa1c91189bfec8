//! A TCP connection.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use socket2::SockRef;

use crate::io::{Description, Descriptor, NEVER, nonzero_ns};
use crate::net::{accept, connect, lookup, receive, send};
use crate::sched;

/// A TCP connection between a local and a remote socket, as [`std::net::TcpStream`].
///
/// Reading and writing parks the goroutine, or blocks the plain thread, until the kernel has a result. Both `TcpStream`
/// and `&TcpStream` read and write, so one goroutine can read while another writes. Dropping the last handle closes the
/// connection; dropping with bytes unread resets it, so the peer may lose the end of what was sent. To end gracefully,
/// [`shutdown`](Self::shutdown) the writing half and read until the peer is done.
///
/// A write to a connection that the peer has reset fails with `BrokenPipe` or `ConnectionReset`; it never raises `SIGPIPE`.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use urgo::net::{TcpListener, TcpStream};
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (mut server, _) = listener.accept()?;
/// client.write_all(b"ping")?;
/// let mut buffer = [0; 4];
/// server.read_exact(&mut buffer)?;
/// assert_eq!(&buffer, b"ping");
/// # Ok(())
/// # }
/// ```
pub struct TcpStream {
    descriptor: Descriptor,
}

impl TcpStream {
    /// Opens a connection to the first of `addr`'s addresses that accepts one.
    ///
    /// Parks the goroutine, or blocks the plain thread, for the lookup (on the blocking pool) and for each attempt.
    ///
    /// # Errors
    /// Of the lookup; of the last attempt if all fail; `InvalidInput` if `addr` yields no address.
    pub fn connect<A: ToSocketAddrs + Sync>(addr: A) -> io::Result<TcpStream> {
        lookup::first_that_works(&addr, |address| {
            connect::connect(address, NEVER).map(TcpStream::fresh)
        })
    }

    /// Opens a connection to `addr`, for at most `timeout`. `Duration::MAX` means no limit.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero; `TimedOut`; what the kernel says.
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        let deadline = match nonzero_ns(timeout)? {
            NEVER => NEVER,
            timeout_ns => sched::now_ns().saturating_add(timeout_ns),
        };
        connect::connect(addr, deadline).map(TcpStream::fresh)
    }

    /// Over a connection that we opened or accepted.
    pub(super) fn fresh(fd: OwnedFd) -> TcpStream {
        TcpStream::over(Descriptor::new(fd, Description::ours()))
    }

    /// Over a descriptor from outside: its timeouts stay in force.
    pub(super) fn adopt(fd: OwnedFd) -> TcpStream {
        let description = Description::foreign();
        let options = SockRef::from(&fd);
        // A descriptor that is no socket has no timeouts; its calls will say what it is. Kernel timeouts are never zero.
        let _ = description
            .read_timeout
            .set(options.read_timeout().ok().flatten());
        let _ = description
            .write_timeout
            .set(options.write_timeout().ok().flatten());
        TcpStream::over(Descriptor::new(fd, description))
    }

    fn over(descriptor: Descriptor) -> TcpStream {
        TcpStream { descriptor }
    }

    /// Gives the descriptor away with its timeouts, which the kernel keeps from here on.
    pub(super) fn into_fd(self) -> OwnedFd {
        let (fd, description) = self.descriptor.into_parts();
        let (read_timeout, write_timeout) = (
            description.read_timeout.get(),
            description.write_timeout.get(),
        );
        if description.is_foreign || read_timeout.is_some() || write_timeout.is_some() {
            let options = SockRef::from(&fd);
            // As in `adopt`: what is no socket has no timeouts.
            let _ = options.set_read_timeout(read_timeout);
            let _ = options.set_write_timeout(write_timeout);
        }
        fd
    }

    fn option<T>(&self, call: impl FnOnce(&SockRef<'_>) -> io::Result<T>) -> io::Result<T> {
        self.descriptor.while_open(|fd| call(&SockRef::from(&fd)))
    }

    /// The address of the remote end.
    ///
    /// # Errors
    /// `NotConnected`; a [`ClosedError`](crate::net::ClosedError) after `close`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.option(|options| options.peer_addr())?
            .as_socket()
            .ok_or_else(accept::not_internet)
    }

    /// The address of this end.
    ///
    /// # Errors
    /// A [`ClosedError`](crate::net::ClosedError) after `close`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.option(|options| options.local_addr())?
            .as_socket()
            .ok_or_else(accept::not_internet)
    }

    /// Ends the reading half, the writing half or both, for all handles of the connection. Calls in flight on that half
    /// return: reads with what is there and then with `Ok(0)`, writes with an error. Never waits.
    ///
    /// # Errors
    /// `NotConnected` if the connection is gone already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.option(|options| options.shutdown(how))
    }

    /// Closes this handle, as Go's `Close`: every call that waits on it, in a goroutine or a plain thread, returns with a
    /// [`ClosedError`](crate::net::ClosedError), and so does every later call. Any thread; never waits.
    ///
    /// If this is the only handle of the connection, both halves are shut down at once, so the peer reads the end of the
    /// stream. If there are clones, or the descriptor came from outside, the connection lives on in the others. The
    /// descriptor number stays taken until the handle is dropped, so nobody else's file can be hit by mistake.
    ///
    /// # Errors
    /// A [`ClosedError`](crate::net::ClosedError) if it was closed before.
    pub fn close(&self) -> io::Result<()> {
        self.descriptor.close()
    }

    /// A second handle of the same connection, with the same timeouts and the same blocking mode.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`; a [`ClosedError`](crate::net::ClosedError) after `close`.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        self.descriptor.try_clone().map(TcpStream::over)
    }

    /// How long a read may wait; `None` for ever (also `Some(Duration::MAX)`). Shared with clones. Reads that wait already
    /// keep their deadline. After a timeout nothing is lost: the next read gets the bytes.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_read_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
        self.descriptor.check_open()?;
        self.descriptor.description().read_timeout.set(dur)
    }

    /// How long a write may wait; as [`set_read_timeout`](Self::set_read_timeout). A write that could send a part before
    /// the deadline returns its length.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_write_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
        self.descriptor.check_open()?;
        self.descriptor.description().write_timeout.set(dur)
    }

    /// The read timeout.
    ///
    /// # Errors
    /// A [`ClosedError`](crate::net::ClosedError) after `close`.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        self.descriptor.check_open()?;
        Ok(self.descriptor.description().read_timeout.get())
    }

    /// The write timeout.
    ///
    /// # Errors
    /// A [`ClosedError`](crate::net::ClosedError) after `close`.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        self.descriptor.check_open()?;
        Ok(self.descriptor.description().write_timeout.get())
    }

    /// Reads without taking the bytes: the next read or peek sees them again. Waits as a read does.
    ///
    /// # Errors
    /// As reads.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        receive::receive(&self.descriptor, buf, libc::MSG_PEEK)
    }

    /// Whether small writes go out at once (`TCP_NODELAY`) instead of waiting for the acknowledgement of earlier ones.
    ///
    /// # Errors
    /// What `setsockopt(2)` says.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.option(|options| options.set_tcp_nodelay(nodelay))
    }

    /// Whether small writes go out at once.
    ///
    /// # Errors
    /// What `getsockopt(2)` says.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.option(|options| options.tcp_nodelay())
    }

    /// What happens to unsent bytes when the last handle goes (`SO_LINGER`, whole seconds): `None`, the kernel sends them
    /// in the background; `Some(0)`, they are dropped and the peer sees a reset; longer, dropping the last handle **blocks
    /// its thread, not only the goroutine,** until they are sent or the time is over.
    ///
    /// # Errors
    /// What `setsockopt(2)` says.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.option(|options| options.set_linger(linger))
    }

    /// The `SO_LINGER` time.
    ///
    /// # Errors
    /// What `getsockopt(2)` says.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.option(|options| options.linger())
    }

    /// Sets `IP_TTL`, the number of hops after which packets are dropped.
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

    /// Takes the pending error of the connection (`SO_ERROR`), if there is one.
    ///
    /// # Errors
    /// What `getsockopt(2)` says.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.option(|options| options.take_error())
    }

    /// With `true`, calls return `WouldBlock` instead of waiting. Shared with clones. A goroutine needs it only for code
    /// that does its own polling; waiting costs the worker nothing.
    ///
    /// # Errors
    /// What `fcntl(2)` says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.descriptor.set_file_nonblocking(nonblocking)?;
        self.descriptor.description().set_nonblocking(nonblocking);
        Ok(())
    }

    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }
}

impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        receive::receive(&self.descriptor, buf, 0)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        receive::receive_vectored(&self.descriptor, bufs)
    }
}

impl Write for &TcpStream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        send::send(&self.descriptor, buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        send::send_vectored(&self.descriptor, bufs)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for TcpStream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut record = f.debug_struct("TcpStream");
        if let Ok(addr) = self.local_addr() {
            record.field("addr", &addr);
        }
        if let Ok(peer) = self.peer_addr() {
            record.field("peer", &peer);
        }
        record.field("fd", &self.descriptor.as_raw_fd()).finish()
    }
}
