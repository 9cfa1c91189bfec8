//! Operations that threads outside the runtime carry out: where they are registered, and how an answer comes home.
//!
//! # Words
//!
//! *Outside*: any thread that a goroutine has handed an operation to. *Owner*: who has registered it, a worker of one runtime,
//! or the plain threads of the process together. *Desk*: an owner's table of operations. *Answer*: the one thing that the
//! outside says. *Claim*: the right to answer. *Apply*: to let an answer count, at the owner.
//!
//! # Algorithm
//!
//! 1. A goroutine registers at its worker's desk: a slot and a [`Token`] that no other operation ever has.
//! 2. The outside claims: of several answers to one token the first gets the claim; the others are counted. It leaves what it has
//!    to say where the waiter will look for it (the room `host` knows where), and posts the token into the owner's mailbox, which is
//!    the worker's command box: first in, first out.
//! 3. The worker takes its commands at the next boundary between dispatches and applies each: from here on the answer stands, and
//!    whoever waits for it is readied. A wait that ended before (a deadline, a cancellation) stays ended.
//! 4. The waiter ends the registration: the slot is free under its next generation, and late answers are known as such.
//!
//! Plain threads have no worker to apply at: for them the answering thread applies at once. An answer that comes while the goroutine
//! still submits goes the same way as all others.
//!
//! Applying is the only moment at which a goroutine's runtime sees the outside, in an order that the command box has fixed: what a tape
//! would have to hold is which answers were applied between which dispatches.
//!
//! # Invariants
//!
//! A slot goes `Free` → `Open` → `Claimed` → `Applied` → `Free` (or from any state but `Free` to the next generation's `Free`, if the
//! waiter does not insist on an answer). Every change is under the desk's lock. At each desk
//! registered = completed + cancelled + faulted + leaked + those that are out. A token that is not applied has been counted
//! once, as a duplicate, stale, foreign or retired.

mod counters;
mod owners;
mod registration;
mod table;
mod token;

pub(crate) use counters::Ended;
pub use counters::HostCounters;
pub(crate) use owners::{Desk, find, look_up, total};
pub(crate) use registration::{Outlet, Registration};
pub(crate) use table::{Reach, RegisterRefused};
pub(crate) use token::Token;
