//! A fresh goroutine on its way to the worker that will run it.
//!
//! # Safety
//!
//! The pointer crosses threads: a fresh goroutine's control block belongs to whoever holds its task.

#![allow(unsafe_code)]

use crate::goroutine::Goroutine;
use core::ptr::NonNull;

/// One word, so that deques move it with one store.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Task(pub(crate) NonNull<Goroutine>);

// SAFETY: a fresh goroutine's closure is `Send` (`spawn` demands it; `spawn_local` makes no task), and its block is handed
// over whole by queues that publish it.
unsafe impl Send for Task {}
