//! The values of a goroutine's locals, dropped at its end on its own stack.
//!
//! # Safety
//!
//! The list is reached through a raw pointer, because a value's `Drop` may reach for other locals of the same list.

#![allow(unsafe_code)]

use super::code::{Payload, discard};
use core::any::Any;
use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The values of one goroutine (or plain thread). Few, so a list; the key's address says which.
#[derive(Default)]
pub(crate) struct Locals {
    /// Key and value; the value is gone once it was dropped at the end.
    pub(crate) entries: Vec<(usize, Option<Box<dyn Any>>)>,
}

impl fmt::Debug for Locals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locals")
            .field("len", &self.entries.len())
            .finish()
    }
}

/// Drops every value of `locals`, last made first; values that a `Drop` makes anew are dropped too. A `Drop` that panics
/// does not keep the others; the first such panic's payload is returned.
///
/// # Safety
///
/// `locals` is valid and belongs to the running goroutine or thread.
pub(crate) unsafe fn drop_locals(locals: *mut Locals) -> Option<Payload> {
    let mut first = None;
    loop {
        let value = {
            // SAFETY: valid by contract; the borrow ends before the value's own code runs.
            let entries = unsafe { &mut (*locals).entries };
            // The entry stays, empty, so that a late access finds that the value is gone.
            entries.iter_mut().rev().find_map(|entry| entry.1.take())
        };
        let Some(value) = value else { return first };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            match first {
                None => first = Some(payload),
                Some(_) => discard(payload),
            }
        }
    }
}
