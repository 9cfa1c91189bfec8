//! The floor with kernel-chosen buffers: one multishot recv per connection, sends straight from the received buffer.
//!
//! # Algorithm
//! As `raw_oneshot`, but a recv is armed once per connection. A buffer goes back to its ring when its send has completed. If
//! the buffers run out, a recv ends with ENOBUFS and is armed again when a buffer came back.
//!
//! # Safety
//! A send names a buffer of the buffer ring, which lives as long as the process and is not given back before the send's
//! completion.

use super::raw_oneshot::{enter, no_delay, operation, push, ring};
use super::read_bytes;
use crate::cell::Cell;
use crate::net::buffer_ring::BufferRing;
use io_uring::{IoUring, cqueue, opcode, types::Fd};
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Two for each connection, within these: more than needed would only be more memory to go through.
const BUFFERS: RangeInclusive<usize> = 64..=8192;
const GROUP: u16 = 0;

const ACCEPT: u64 = 0;
const RECV: u64 = 1;
const SEND: u64 = 2;
/// Where a send's user data keeps the id of its buffer.
const BUFFER_SHIFT: u32 = 40;

/// Serves until the process is killed.
pub(crate) fn echo(cell: &Cell, listener: TcpListener) {
    // Accepted sockets inherit it.
    no_delay(listener.as_raw_fd());
    let mut ring = ring();
    let count = (2 * cell.get::<usize>("connections")).next_power_of_two();
    let count = count.clamp(*BUFFERS.start(), *BUFFERS.end()) as u16;
    let mut buffers = BufferRing::register(&ring, GROUP, count, read_bytes(cell));
    let mut starved = Vec::new();
    let mut completions = Vec::with_capacity(4096);
    push(
        &mut ring,
        &opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
            .build()
            .user_data(ACCEPT),
    );
    loop {
        enter(&ring, 1);
        completions.extend(ring.completion());
        let mut came_back = false;
        for completion in completions.drain(..) {
            let (user_data, result, flags) = (
                completion.user_data(),
                completion.result(),
                completion.flags(),
            );
            let fd = (user_data >> 8) as i32 & 0xff_ffff;
            match user_data & 0xff {
                ACCEPT => {
                    assert!(
                        result >= 0,
                        "accept: {}",
                        std::io::Error::from_raw_os_error(-result)
                    );
                    recv(&mut ring, result);
                }
                RECV if result > 0 => {
                    let id =
                        cqueue::buffer_select(flags).expect("a received message names its buffer");
                    let entry = opcode::Send::new(Fd(fd), buffers.address(id), result as u32)
                        .flags(libc::MSG_WAITALL);
                    push(
                        &mut ring,
                        &entry
                            .build()
                            .user_data(operation(fd, SEND) | u64::from(id) << BUFFER_SHIFT),
                    );
                    if !cqueue::more(flags) {
                        recv(&mut ring, fd);
                    }
                }
                RECV if result == -libc::ENOBUFS => starved.push(fd),
                // SAFETY: the descriptor came from accept and is closed here only; the recv has ended, and a send in flight
                // holds its own reference to the socket.
                RECV => drop(unsafe { OwnedFd::from_raw_fd(fd) }),
                _ => {
                    buffers.give_back((user_data >> BUFFER_SHIFT) as u16);
                    came_back = true;
                }
            }
        }
        if came_back {
            buffers.publish();
            starved.drain(..).for_each(|fd| recv(&mut ring, fd));
        }
    }
}

fn recv(ring: &mut IoUring, fd: i32) {
    push(
        ring,
        &opcode::RecvMulti::new(Fd(fd), GROUP)
            .build()
            .user_data(operation(fd, RECV)),
    );
}
