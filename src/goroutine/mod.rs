//! # Purpose
//!
//! What a goroutine is made of: its control block, the slabs blocks live in, its stack, its closure and result, its
//! locals, and the report when it overflows its stack. Nothing here knows how goroutines are scheduled.
//!
//! # Words
//!
//! *Control block*: a goroutine's record. *Fresh*: not yet started. *Home*: the worker that first ran it, on which alone
//! it resumes. *Join word*: who takes the result and who frees the block. *Cancel mark*: somebody wants its end.
//!
//! # Algorithm
//!
//! A fresh goroutine is a control block with its closure inside and no stack. The worker that takes it up gives it the
//! hottest stack of its pool; when the closure has returned, the stack goes back to the same pool and the result stays
//! in the block for whoever joins. So a burst of short goroutines runs on one hot stack, and a queue of a million fresh
//! ones is 256 bytes each.
//!
//! # Imports
//!
//! `atomic`, `limits`, `park`, `ambient`, `urgo-sys`.

#[cfg(not(urgo_loom))]
mod block;
pub(crate) mod cancel_mark;
#[cfg(not(urgo_loom))]
mod code;
pub(crate) mod join_word;
#[cfg(not(urgo_loom))]
mod local;
#[cfg(not(urgo_loom))]
mod slab;
#[cfg(not(urgo_loom))]
mod stack;

#[cfg(not(urgo_loom))]
mod exports {
    pub(crate) use super::block::{Ambient, Extra, Goroutine, Home, Short, Status, Waiting};
    pub(crate) use super::code::{
        CancelUnwind, End, ExitUnwind, Payload, discard, drain_locals, end_uncalled, fill,
        take_result,
    };
    pub(crate) use super::local::{Locals, drop_locals};
    pub(crate) use super::slab::{Observer, Slab, free_remote, runtime_of};
    pub(crate) use super::stack::{Stack, StackPool, class_of};
}
#[cfg(not(urgo_loom))]
pub(crate) use exports::*;
#[cfg(not(urgo_loom))]
pub use stack::StackError;
