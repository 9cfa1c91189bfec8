//! The read buffer of a connection: bytes that came from the peer and are not used yet.

use std::io::{self, Read};

/// What a connection keeps while it waits: small, because most connections wait most of the time.
const IDLE_BYTES: usize = 512;
/// How far it grows for a peer that always fills it (pipelined requests, bodies). Only a long head needs more.
const BATCH_BYTES: usize = 16 * 1024;

/// Unread bytes are `bytes[start..end]`; behind `end` is room for more.
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new() -> Input {
        Input {
            bytes: vec![0; IDLE_BYTES],
            start: 0,
            end: 0,
        }
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Marks the first `count` unread bytes as used.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
    }

    /// One read from `source`, behind the unread bytes; waits for at least one byte. `Ok(0)` is the end.
    pub(crate) fn read_from(&mut self, mut source: impl Read) -> io::Result<usize> {
        self.make_room();
        loop {
            match source.read(&mut self.bytes[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Back to the idle size, if nothing is unread.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() && self.bytes.len() > IDLE_BYTES {
            *self = Input::new();
        }
    }

    /// Moves what is unread to the front (a part of a request at most: whole ones are used where they lie), and doubles
    /// a buffer that is full, or that the last read filled to the brim.
    fn make_room(&mut self) {
        let was_filled = self.end == self.bytes.len();
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() || (was_filled && self.bytes.len() < BATCH_BYTES) {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
    }
}
