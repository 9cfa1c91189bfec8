//! Three ways to rouse a sleeping ring, and one way to rouse another.
//!
//! | from | by | needs |
//! |---|---|---|
//! | another ring's thread | `MSG_RING`: a record appears in our queue | [`Capabilities::MSG_RING`](crate::Capabilities::MSG_RING) on the sender |
//! | any thread | plain futex wake on the sleep word we wait for | [`Capabilities::FUTEX_WAIT`](crate::Capabilities::FUTEX_WAIT) |
//! | any thread | a write to the eventfd we poll | nothing |
//!
//! An armed wait stays armed over many sleeps, until its own record comes: most sleeps end for other reasons, and arming
//! costs an SQE. A record of an earlier arming is told apart by its serial number.
//!
//! **No kick is lost.** Word: the kernel compares it with `expected` when it takes the SQE, and answers `-EAGAIN` at once
//! if it has changed, so a kick before arming is heard as a kick. Eventfd: a poll armed on a readable eventfd fires at
//! once; the multishot poll fires for every later write. It is drained after the record was seen and before the caller
//! looks at its queues, so a write that the drain swallows was made before that look.
//!
//! **Kernels with known faults.** Messages are not used where `setup.rs` knows them to be unsafe. The futex op mishandled a
//! word that had already changed until 6.17 and its stable sisters (CVE-2025-39698); who must run on such a kernel can
//! take the eventfd road with `URGO_DISABLE=futex_op`.
//!
//! # Safety
//!
//! Draining is one `read(2)` into a local.

#![allow(unsafe_code)]

use std::os::fd::RawFd;

use io_uring::{cqueue, opcode, squeue, types};

use crate::counters::Counters;
use crate::token::Control;

/// `FUTEX2_SIZE_U32 | FUTEX2_PRIVATE`.
const FUTEX2_FLAGS: u32 = 0x02 | 0x80;
const MATCH_ANY: u64 = u32::MAX as u64;

/// What is armed on one ring.
#[derive(Debug, Default)]
pub(crate) struct Kicks {
    serial: u64,
    word: Option<u64>,
    eventfd: Option<(u64, RawFd)>,
    is_word_broken: bool,
    to_drain: Option<RawFd>,
}

/// What a control record means for the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Heard {
    Nothing,
    Kicked,
    /// Our kick to that ring failed for want of memory or room: send it again.
    KickAgain(RawFd),
}

impl Kicks {
    pub(crate) fn is_word_armed(&self) -> bool {
        self.word.is_some()
    }

    pub(crate) fn is_eventfd_armed(&self) -> bool {
        self.eventfd.is_some()
    }

    /// The kernel refused the futex op for a reason that will not go away.
    pub(crate) fn is_word_broken(&self) -> bool {
        self.is_word_broken
    }

    /// User data of everything armed.
    pub(crate) fn armed(&self) -> impl Iterator<Item = u64> + use<> {
        let word = self.word.map(|serial| Control::Word(serial).user_data());
        let eventfd = self
            .eventfd
            .map(|(serial, _)| Control::Eventfd(serial).user_data());
        word.into_iter().chain(eventfd)
    }

    /// The SQE to arm the sleep word with. Call [`word_armed`](Self::word_armed) once it is written.
    pub(crate) fn word_entry(&self, word: *const u32, expected: u32) -> squeue::Entry {
        opcode::FutexWait::new(word, u64::from(expected), MATCH_ANY, FUTEX2_FLAGS)
            .build()
            .user_data(Control::Word(self.serial + 1).user_data())
    }

    pub(crate) fn word_armed(&mut self) {
        self.serial += 1;
        self.word = Some(self.serial);
    }

    /// The SQE to arm the eventfd with. Call [`eventfd_armed`](Self::eventfd_armed) once it is written.
    pub(crate) fn eventfd_entry(&self, fd: RawFd) -> squeue::Entry {
        opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32)
            .multi(true)
            .build()
            .user_data(Control::Eventfd(self.serial + 1).user_data())
    }

    pub(crate) fn eventfd_armed(&mut self, fd: RawFd) {
        self.serial += 1;
        self.eventfd = Some((self.serial, fd));
    }

    /// Applies one control record.
    pub(crate) fn apply(
        &mut self,
        control: Control,
        res: i32,
        flags: u32,
        counters: &mut Counters,
    ) -> Heard {
        match control {
            Control::Cancel(_) => {
                match -res {
                    libc::ENOENT => counters.cancels_missed += 1,
                    libc::EALREADY => counters.cancels_late += 1,
                    _ => counters.cancels_hit += 1,
                }
                Heard::Nothing
            }
            Control::KickSent(target) => {
                counters.kicks_failed += 1;
                match -res {
                    libc::EAGAIN | libc::ENOMEM | libc::EOVERFLOW | libc::EINTR => {
                        Heard::KickAgain(target)
                    }
                    _ => Heard::Nothing,
                }
            }
            Control::Kick => heard(counters),
            Control::Word(serial) if self.word == Some(serial) => {
                self.word = None;
                match -res {
                    libc::ECANCELED => return Heard::Nothing,
                    0 | libc::EAGAIN | libc::EINTR => {}
                    _ => self.is_word_broken = true,
                }
                heard(counters)
            }
            Control::Eventfd(serial) if self.eventfd.is_some_and(|(armed, _)| armed == serial) => {
                self.to_drain = self.eventfd.map(|(_, fd)| fd);
                if !cqueue::more(flags) {
                    self.eventfd = None;
                }
                if res == -libc::ECANCELED {
                    Heard::Nothing
                } else {
                    heard(counters)
                }
            }
            Control::Word(_) | Control::Eventfd(_) => {
                counters.stale += 1;
                Heard::Nothing
            }
        }
    }

    /// Empties the eventfd if it has fired. Never blocks if the eventfd is nonblocking, and it has just been readable.
    #[inline]
    pub(crate) fn drain(&mut self) {
        if let Some(fd) = self.to_drain.take() {
            drain_eventfd(fd);
        }
    }
}

fn heard(counters: &mut Counters) -> Heard {
    counters.kicks_received += 1;
    Heard::Kicked
}

#[cold]
fn drain_eventfd(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: because the buffer is a local of the eight bytes that an eventfd read fills.
    unsafe { libc::read(fd, std::ptr::from_mut(&mut count).cast(), size_of::<u64>()) };
}

/// The SQE of a kick to another ring. It leaves no record on our side unless it fails.
pub(crate) fn kick_entry(target: RawFd) -> squeue::Entry {
    opcode::MsgRingData::new(types::Fd(target), 0, Control::Kick.user_data(), None)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
        .user_data(Control::KickSent(target).user_data())
}

/// The SQE that cancels whatever has exactly this user data.
pub(crate) fn cancel_entry(user_data: u64, slot: u32) -> squeue::Entry {
    opcode::AsyncCancel::new(user_data)
        .build()
        .user_data(Control::Cancel(slot).user_data())
}
