//! # Purpose
//!
//! The servers: one file for each way to write one, idiomatic for its runtime and tuned as its documentation says.
//!
//! All take a listener that is bound already, run on the CPUs they are confined to, and serve until the process is killed.

pub(crate) mod hog;
pub(crate) mod http_urgo;
pub(crate) mod hyper;
pub(crate) mod may;
pub(crate) mod may_minihttp;
pub(crate) mod monoio;
pub(crate) mod raw_epoll;
pub(crate) mod raw_multishot;
pub(crate) mod raw_oneshot;
pub(crate) mod tokio;
pub(crate) mod urgo;

mod connections;

use super::fnv;
use crate::cell::Cell;

/// What an HTTP server says: the same as the example does.
pub(crate) const HELLO: &str = "Hello, World!\n";

/// Bytes that an echo server is ready to take in one read: a message, and at least 1 KiB.
pub(crate) fn read_bytes(cell: &Cell) -> usize {
    cell.get::<usize>("message").max(1024)
}

/// Bytes of one write of a source, and of one read of a sink.
const FLOW_BYTES: usize = 64 << 10;

/// What a source sends over and over: the numbers 0 to 255.
fn flow_block() -> Vec<u8> {
    (0..FLOW_BYTES).map(|at| at as u8).collect()
}

/// Bytes of a message that makes the server compute.
pub(crate) const WORK_BYTES: usize = 64;

/// Makes the answer of a message: its first bytes become its hash, taken `rounds` times.
pub(crate) fn work(message: &mut [u8; WORK_BYTES], rounds: usize) {
    let hash = fnv(message, rounds);
    message[..8].copy_from_slice(&hash.to_le_bytes());
}
