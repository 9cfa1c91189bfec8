//! The control block: a goroutine's record, four cache lines.
//!
//! # State
//!
//! Who may touch which field in which state (*spawner*: whoever creates the goroutine; *home*: the worker that runs or
//! ran it first; *handle*: the holder of its `JoinHandle`):
//!
//! | field | fresh | started | done |
//! |---|---|---|---|
//! | `sp`, `stack`, `waiting`, `cancelled`, `uncancellable` | spawner, then home when it takes it up | home | nobody |
//! | `next` | whichever queue holds it | whichever queue holds it | free list |
//! | `home` | home, when it takes it up | read-only | nobody |
//! | `storage` | spawner, then home (closure) | the goroutine | handle, or home if detached (result) |
//! | `joiner` | handle, before it announces itself in `join` | handle; home after `complete` said so | handle |
//! | `outcome` | spawner | home, before `complete` | handle, or home if detached |
//! | `has_ambient`, `ambient` | spawner, then home when it takes it up | the goroutine; home while it waits | nobody |
//! | `heeds_context` | spawner | the goroutine; home while it waits | nobody |
//! | `id`, `site`, `name`, `stack_bytes`, `vtable` | spawner | read-only | handle (frees the name) |
//! | `status`, `reason` | spawner | home | home |
//! | `id`, `site`, `status`, `reason`, `home`, `join` | anyone may read (atomics, for observers) | as before | as before |
//! | `mark` | spawner; handle | handle; home may read | nobody |
//!
//! A block is *published* (deque, injector, inbox: all release/acquire) between spawner and home, and by the join word
//! between home and handle. `status` is a release store paired with observers' acquire loads (CB1).
//!
//! # Safety
//!
//! The cells are shared without locks under the table above.

#![allow(unsafe_code)]

use super::cancel_mark::CancelMark;
use super::join_word::JoinWord;
use super::local::Locals;
use super::stack::Stack;
use crate::ambient::Node;
use crate::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use crate::limits::INLINE_BYTES;
use crate::park::{WaitReason, Waiter};
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::panic::Location;
use core::ptr::{self, NonNull};
use std::sync::Arc;

/// Where a goroutine is in its life. Stored in `Goroutine::status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// The block is on a free list (or was never used: fresh memory is zero).
    Free = 0,
    /// Created, not yet started.
    Fresh = 1,
    /// Started: homed, on a stack. Over when its join word says that it is done.
    Started = 2,
}

/// How a goroutine ended. Stored in `Goroutine::outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EndKind {
    /// `storage` holds (or owns) the closure's value.
    Value,
    /// `storage` holds a `Box<dyn Any + Send>`.
    Panic,
    /// Nothing is stored: it was cancelled.
    Cancelled,
    /// Nothing is stored: it called `exit_goroutine`.
    Exited,
    /// `storage` holds a `StackError`: no stack could be had for it.
    NoStack,
}

/// What a suspended goroutine waits for, so that a cancellation on its home worker can end the wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    /// It runs, is ready, or waits for something that must not be cut short.
    No,
    /// For a wait word.
    Word(*const Waiter),
    /// For an operation of its worker's ring, as only `sched` knows it.
    Operation(NonNull<()>),
    /// In a `Drop` while it unwinds: only its context cuts it short.
    Unwinding(Short),
}

/// What a wait that only a context cuts short is for, as above.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Short {
    Word(*const Waiter),
    Operation(NonNull<()>),
}

/// Under which context a goroutine runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ambient {
    /// Fresh: the spawner's, made by `Arc::into_raw`.
    Inherited(*const Node),
    /// Started: the innermost frame on its stack, as only `sched` knows it.
    Frame(*const ()),
}

/// A goroutine's home worker, as only `sched` knows it.
#[derive(Debug)]
pub(crate) enum Home {}

/// The code that belongs to a goroutine's closure and result types.
#[derive(Debug)]
pub(crate) struct VTable {
    /// Runs the closure on the goroutine's own stack and leaves result and outcome in the block. Never unwinds.
    pub(crate) run: unsafe fn(&Goroutine),
    /// Drops the closure of a goroutine that never started.
    pub(crate) drop_closure: unsafe fn(&Goroutine),
    /// Drops what `outcome` says is in the block.
    pub(crate) drop_result: unsafe fn(&Goroutine),
}

#[repr(C, align(16))]
pub(crate) struct Storage(pub(crate) UnsafeCell<[MaybeUninit<u8>; INLINE_BYTES]>);

/// See the module's table.
///
/// The order of fields is the order of need: spawning, running and joining a goroutine with a small closure touches the
/// first two lines only.
#[repr(C, align(64))]
pub(crate) struct Goroutine {
    // First line.
    pub(crate) sp: Cell<*mut u8>,
    pub(crate) next: AtomicPtr<Goroutine>,
    pub(crate) home: AtomicPtr<Home>,
    pub(crate) stack: Cell<Option<Stack>>,
    pub(crate) id: AtomicU64,
    pub(crate) vtable: Cell<&'static VTable>,
    pub(crate) join: JoinWord,
    pub(crate) status: AtomicU8,
    pub(crate) reason: AtomicU8,
    pub(crate) outcome: Cell<EndKind>,
    pub(crate) cancelled: Cell<bool>,
    // Second line; closure and result begin in it.
    pub(crate) site: AtomicPtr<Location<'static>>,
    pub(crate) waiting: Cell<Waiting>,
    pub(crate) joiner: Cell<*const Waiter>,
    pub(crate) extra: Cell<*mut Extra>,
    pub(crate) uncancellable: Cell<u16>,
    pub(crate) pinned: Cell<bool>,
    /// Whether `ambient` says anything.
    pub(crate) has_ambient: Cell<bool>,
    /// Its waits for words end as at their deadline when its context is cancelled.
    pub(crate) heeds_context: Cell<bool>,
    pub(crate) mark: CancelMark,
    pub(crate) storage: Storage,
    // Behind what most touch.
    pub(crate) ambient: Cell<Ambient>,
}

/// What few goroutines have: kept off the block.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<Box<str>>,
    pub(crate) stack_bytes: usize,
    pub(crate) locals: Locals,
}

const _: () = assert!(
    core::mem::offset_of!(Goroutine, cancelled) < 64
        && core::mem::offset_of!(Goroutine, storage) <= 112
);
const _: () = assert!(
    size_of::<Goroutine>() == 256,
    "a control block is four cache lines"
);

impl Goroutine {
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> Status {
        // Pairs with CB1.
        match self.status.load(Ordering::Acquire) {
            1 => Status::Fresh,
            2 => Status::Started,
            _ => Status::Free,
        }
    }

    pub(crate) fn vtable(&self) -> &'static VTable {
        self.vtable.get()
    }

    pub(crate) fn set_status(&self, status: Status) {
        // CB1, pairs with `status`.
        self.status.store(status as u8, Ordering::Release);
    }

    pub(crate) fn wait_reason(&self) -> WaitReason {
        WaitReason::from_u8(self.reason.load(Ordering::Relaxed))
    }

    /// The goroutine's spawn site.
    pub(crate) fn site(&self) -> &'static Location<'static> {
        self.try_site()
            .expect("a goroutine in use has a spawn site")
    }

    /// Anyone: the spawn site, if the block was ever in use.
    pub(crate) fn try_site(&self) -> Option<&'static Location<'static>> {
        // SAFETY: null, or stored by `set_site` from a reference that is good for ever.
        unsafe { self.site.load(Ordering::Relaxed).as_ref() }
    }

    /// Spawner only, before the block is published.
    #[inline]
    pub(crate) fn set_site(&self, site: &'static Location<'static>) {
        let site = ptr::from_ref(site).cast_mut();
        self.site.store(site, Ordering::Relaxed);
    }

    /// Its name, if it has one. Goroutine, home worker or handle only.
    pub(crate) fn name(&self) -> Option<&str> {
        self.extra_ref().and_then(|extra| extra.name.as_deref())
    }

    /// The stack reserve it asked for, if it did.
    pub(crate) fn stack_bytes(&self) -> Option<usize> {
        self.extra_ref()
            .map(|extra| extra.stack_bytes)
            .filter(|&bytes| bytes != 0)
    }

    fn extra_ref(&self) -> Option<&Extra> {
        // SAFETY: `extra` is null or a live box; set by the spawner or the goroutine, freed with the block, and by the
        // module's table only one side at a time is at it.
        unsafe { self.extra.get().as_ref() }
    }

    /// The goroutine's own locals. Goroutine only.
    pub(crate) fn locals(&self) -> *mut Locals {
        if self.extra.get().is_null() {
            self.extra.set(Box::into_raw(Box::default()));
        }
        // SAFETY: not null (above); a field's address, no reference is made.
        unsafe { &raw mut (*self.extra.get()).locals }
    }

    /// Takes the context that a fresh goroutine has from its spawner, if it has one and it was not taken. Holder only.
    #[inline]
    pub(crate) fn take_inherited(&self) -> Option<Arc<Node>> {
        if !self.has_ambient.get() {
            return None;
        }
        match self.ambient.get() {
            Ambient::Inherited(node) => {
                self.has_ambient.set(false);
                // SAFETY: made by `Arc::into_raw`, which `has_ambient` said, and it does so no more.
                Some(unsafe { Arc::from_raw(node) })
            }
            Ambient::Frame(_) => None,
        }
    }

    /// Frees name and locals, with the block.
    pub(crate) fn drop_extra(&self) {
        let extra = self.extra.replace(ptr::null_mut());
        if !extra.is_null() {
            // SAFETY: made by `Box::into_raw`, taken out of the cell just now.
            drop(unsafe { Box::from_raw(extra) });
        }
    }
}

impl core::fmt::Debug for Goroutine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Goroutine")
            .field("id", &self.id())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
