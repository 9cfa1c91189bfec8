//! Kicks: rousing another ring, and being roused. The protocol stands in `kick.rs`.
//!
//! # Safety
//!
//! Arming the sleep word gives the kernel an address for as long as the ring lives; the caller promises its validity.

#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;

use io_uring::squeue;

use super::{Flushed, Owed, Ring};
use crate::capabilities::Capabilities;

/// How often a kick is handed to the kernel before its sender hears that it is stalled.
const KICK_TRIES: u32 = 8;

impl Ring {
    /// Wakes the ring with descriptor `target` of this process, at once. Its [`reap`](Self::reap) says `kicked`. Submits
    /// what else is written, too. If the kernel refuses it again and again, for want of memory or because completions are
    /// backed up, it says `Stalled`: the kick goes out with the next flush or wait, so a caller that will not flush soon
    /// must rouse the target by other means.
    ///
    /// # Panics
    ///
    /// In debug builds, without [`Capabilities::MSG_RING`].
    pub fn kick(&mut self, target: RawFd) -> Flushed {
        debug_assert!(
            self.capabilities.contains(Capabilities::MSG_RING),
            "this ring cannot kick by message"
        );
        if !self.owed.is_empty() || !self.pay(Owed::Kick(target)) {
            self.owed.push_back(Owed::Kick(target));
        }
        // Somebody waits for this one: a busy owner may not flush again for long.
        for _ in 1..KICK_TRIES {
            if self.flush() == Flushed::Done {
                return Flushed::Done;
            }
        }
        self.flush()
    }

    /// Makes a futex wake on `word` end a wait of this ring, as long as the word holds `expected` when the SQE is taken;
    /// if it does not, that counts as a kick. Stays armed until it has fired. Returns true when it is (or was already) armed;
    /// with false the caller must not sleep on it: no [`Capabilities::FUTEX_WAIT`], or no room in the queue.
    ///
    /// # Safety
    ///
    /// `word` must stay valid until dropping the ring has returned.
    #[must_use = "an unarmed word wakes nobody"]
    pub unsafe fn arm_sleep_word(&mut self, word: *const AtomicU32, expected: u32) -> bool {
        if self.kicks.is_word_armed() {
            return true;
        }
        if !self.capabilities.contains(Capabilities::FUTEX_WAIT) {
            return false;
        }
        let is_written = self.push_control(&self.kicks.word_entry(word.cast(), expected));
        if is_written {
            self.kicks.word_armed();
        }
        is_written
    }

    /// Makes a write to the eventfd `fd` end a wait of this ring. Stays armed over many kicks; call it before every sleep,
    /// it does nothing while armed. Returns true when it is armed. `fd` must be nonblocking and stay open as long as the
    /// ring; the ring drains it.
    #[must_use = "an unarmed eventfd wakes nobody"]
    pub fn arm_eventfd(&mut self, fd: RawFd) -> bool {
        if self.kicks.is_eventfd_armed() {
            return true;
        }
        let is_written = self.push_control(&self.kicks.eventfd_entry(fd));
        if is_written {
            self.kicks.eventfd_armed(fd);
        }
        is_written
    }

    /// Flushes once if there is no room.
    fn push_control(&mut self, entry: &squeue::Entry) -> bool {
        if self.push(entry) {
            return true;
        }
        let _ = self.flush();
        self.push(entry)
    }

    /// Ends the waits on sleep word and eventfd. They are armed until their records have been reaped.
    pub fn disarm(&mut self) {
        for user_data in self.kicks.armed() {
            if !self.owed.is_empty() || !self.pay(Owed::Disarm(user_data)) {
                self.owed.push_back(Owed::Disarm(user_data));
            }
        }
    }

    /// The sleep word or the eventfd is armed.
    pub fn is_armed(&self) -> bool {
        self.kicks.is_word_armed() || self.kicks.is_eventfd_armed()
    }
}
