//! The floor without kernel-chosen buffers: one ring, one thread, recv and send per connection, no scheduler.
//!
//! # Algorithm
//! One `io_uring_enter` per turn: it submits what the last turn prepared, runs deferred task work, and waits only if nothing has
//! completed. Then every completion is turned into the connection's next entry. There is no other system call.
//!
//! # Safety
//! Entries name connection buffers, which live as long as the process (see `connections`), and descriptors, which are closed
//! only when no operation on them is in flight.

use super::connections::Connections;
use super::read_bytes;
use crate::cell::Cell;
use io_uring::{IoUring, opcode, squeue, types::Fd};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(crate) const RING_ENTRIES: u32 = 2048;
pub(crate) const DESCRIPTORS_MAX: usize = 16 << 10;
const ACCEPT: u64 = 0;
const RECV: u64 = 1;
const SEND: u64 = 2;

/// The set-up that all raw loops share.
pub(crate) fn ring() -> IoUring {
    let mut builder = IoUring::builder();
    builder
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_clamp();
    builder.setup_no_sqarray().setup_cqsize(4 * RING_ENTRIES);
    builder
        .build(RING_ENTRIES)
        .expect("a ring with DEFER_TASKRUN and NO_SQARRAY (kernel 6.6)")
}

/// Echo. The receive is tried first, not polled: one turn after its answer was sent the next request has often arrived, and a
/// receive that succeeds inside the submission saves a poll and its task work.
pub(crate) fn echo(cell: &Cell, listener: TcpListener) {
    // Accepted sockets inherit it.
    no_delay(listener.as_raw_fd());
    let bytes = read_bytes(cell);
    let mut server = Server {
        ring: ring(),
        connections: Connections::new(DESCRIPTORS_MAX, bytes),
        bytes: bytes as u32,
    };
    let accept = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()));
    push(&mut server.ring, &accept.build().user_data(ACCEPT));
    let mut completions = Vec::with_capacity(RING_ENTRIES as usize);
    loop {
        enter(&server.ring, 1);
        completions.extend(server.ring.completion());
        for completion in completions.drain(..) {
            server.complete(completion.user_data(), completion.result());
        }
    }
}

struct Server {
    ring: IoUring,
    connections: Connections,
    bytes: u32,
}

impl Server {
    fn complete(&mut self, user_data: u64, result: i32) {
        let fd = (user_data >> 8) as i32;
        match user_data & 0xff {
            ACCEPT => {
                let error = std::io::Error::from_raw_os_error(-result);
                assert!(result >= 0, "accept: {error}");
                self.recv(result);
            }
            RECV if result > 0 => self.send(fd, result as u32),
            SEND if result > 0 => self.recv(fd),
            // SAFETY: the descriptor came from accept and is closed here only: its only operation has just completed.
            _ => drop(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    }

    fn recv(&mut self, fd: i32) {
        let entry = opcode::Recv::new(Fd(fd), self.connections.buffer(fd), self.bytes);
        push(
            &mut self.ring,
            &entry.build().user_data(operation(fd, RECV)),
        );
    }

    fn send(&mut self, fd: i32, bytes: u32) {
        // WAITALL: the kernel completes a short send itself, so a result is always the whole message or an error.
        let entry =
            opcode::Send::new(Fd(fd), self.connections.buffer(fd), bytes).flags(libc::MSG_WAITALL);
        push(
            &mut self.ring,
            &entry.build().user_data(operation(fd, SEND)),
        );
    }
}

/// Hands over what is prepared, and waits until `want` completions are there or the wait is cut short.
pub(crate) fn enter(ring: &IoUring, want: usize) {
    match ring.submit_and_wait(want) {
        // Nothing is lost: what was not handed over is still in the queue.
        Err(error) if error.kind() == ErrorKind::Interrupted => {}
        entered => drop(entered.expect("enter")),
    }
}

/// Puts `entry` into the queue, handing over what is there if it is full.
pub(crate) fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: every entry of this bench names a descriptor that stays open and a buffer that is never freed; the buffer is not
    // touched by us until the completion.
    while unsafe { ring.submission().push(entry) }.is_err() {
        enter(ring, 0);
    }
}

/// Packs a descriptor and the kind of operation.
pub(crate) fn operation(fd: i32, kind: u64) -> u64 {
    (fd as u64) << 8 | kind
}

/// Sets TCP_NODELAY: an answer never waits for an earlier one's acknowledgement.
pub(crate) fn no_delay(fd: i32) {
    let on: libc::c_int = 1;
    let size = size_of_val(&on) as libc::socklen_t;
    // SAFETY: `on` is a valid integer of the size that is passed, for the length of the call.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            size,
        )
    };
    assert_eq!(
        result,
        0,
        "TCP_NODELAY: {}",
        std::io::Error::last_os_error()
    );
}
