//! # Purpose
//!
//! The servers: one file for each way to write one, idiomatic for its runtime and tuned as its documentation says.
//!
//! All take a listener that is bound already, run on the CPUs they are confined to, and serve until the process is killed.

pub(crate) mod http_urgo;
pub(crate) mod hyper;
pub(crate) mod may_minihttp;
pub(crate) mod raw_multishot;
pub(crate) mod raw_oneshot;
pub(crate) mod urgo;

mod connections;

use crate::cell::Cell;

/// What an HTTP server says: the same as the example does.
pub(crate) const HELLO: &str = "Hello, World!\n";

/// Bytes that an echo server is ready to take in one read: a message, and at least 1 KiB.
pub(crate) fn read_bytes(cell: &Cell) -> usize {
    cell.get::<usize>("message").max(1024)
}
