//! Who is connected, and how everybody is told to stop.
//!
//! A connection is either busy with a request or waiting for the next one. `stop` lets the busy ones finish and wakes
//! the waiting ones by shutting down the read side of their sockets: a read that waits then sees the end, while bytes
//! that had already arrived are still delivered. So no request that was there is lost.

use std::collections::HashMap;
use std::net::Shutdown;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use urgo::net::{TcpListener, TcpStream};

/// The listener and everybody who came through it.
pub(crate) struct Server {
    pub(crate) listener: TcpListener,
    is_stopping: AtomicBool,
    /// Open connections by the address of their record. A plain std mutex: nobody waits while holding it.
    open: Mutex<HashMap<usize, Arc<Connection>>>,
}

/// One open connection, shared by the goroutine that serves it and by `Server::stop`.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// | value | means | who changes it |
    /// |---|---|---|
    /// | `BUSY` | a request is in work | its goroutine, from `WAITING` |
    /// | `WAITING` | waits for the first byte of a request | its goroutine, from `BUSY` |
    /// | `STOPPING` | the answer in work is the last one | `stop` (or `welcome`), from any; final |
    ///
    /// Relaxed is enough: the word publishes nothing but itself, and each change is one atomic read-modify-write.
    /// Either `stop` comes second, finds `WAITING` and wakes the reader, or the goroutine comes second and does not wait.
    phase: AtomicU8,
}

const BUSY: u8 = 0;
const WAITING: u8 = 1;
const STOPPING: u8 = 2;

impl Server {
    pub(crate) fn new(listener: TcpListener) -> Server {
        Server {
            listener,
            is_stopping: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }

    /// Takes an accepted connection into the book; it is struck off when the `Guest` is dropped.
    pub(crate) fn welcome(self: &Arc<Self>, stream: TcpStream) -> Guest {
        let mut open = self.open();
        // Under the lock, as `stop` sets it: either `stop` finds the connection in the book, or we find the flag.
        let phase = if self.is_stopping() { STOPPING } else { BUSY };
        let connection = Arc::new(Connection {
            stream,
            phase: AtomicU8::new(phase),
        });
        open.insert(key(&connection), Arc::clone(&connection));
        drop(open);
        Guest {
            server: Arc::clone(self),
            connection,
        }
    }

    /// Number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.open().len()
    }

    /// True as soon as `stop` has been called.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    /// Frees the port, wakes the connections that wait for a request, and lets each of the others give one last answer.
    /// From any thread.
    pub(crate) fn stop(&self) {
        // Marked under the lock, woken outside of it.
        let mut waiting = Vec::new();
        {
            let open = self.open();
            if self.is_stopping.swap(true, Relaxed) {
                return;
            }
            for connection in open.values() {
                if connection.phase.swap(STOPPING, Relaxed) == WAITING {
                    waiting.push(Arc::clone(connection));
                }
            }
        }
        // Errors are those of sockets that are closed already, which is what we want.
        let _ = self.listener.close();
        for connection in waiting {
            let _ = connection.stream.shutdown(Shutdown::Read);
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<usize, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// The goroutine is about to wait for a request. False: the server stops, there is nothing to wait for.
    pub(crate) fn start_waiting(&self) -> bool {
        self.phase
            .compare_exchange(BUSY, WAITING, Relaxed, Relaxed)
            .is_ok()
    }

    /// The wait is over. (Does nothing if the server stops.)
    pub(crate) fn end_waiting(&self) {
        let _ = self.phase.compare_exchange(WAITING, BUSY, Relaxed, Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.phase.load(Relaxed) == STOPPING
    }
}

/// A connection in the book of its server. Dropping it, also by a panic, strikes it off and closes the socket.
pub(crate) struct Guest {
    pub(crate) server: Arc<Server>,
    connection: Arc<Connection>,
}

impl Deref for Guest {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let struck = self.server.open().remove(&key(&self.connection));
        drop(struck);
    }
}

fn key(connection: &Arc<Connection>) -> usize {
    Arc::as_ptr(connection).addr()
}
