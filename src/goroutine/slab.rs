//! Control-block slabs: where control blocks live, and how they come back from other threads.
//!
//! # Algorithm
//!
//! Each worker (and, under a lock, all foreign spawners together) owns a slab: regions of address space, doubling in
//! size so that a million blocks are a handful of mappings, carved into 64 KiB chunks whose header is found by masking a
//! block's address. The owner allocates and frees through a plain LIFO list; any other thread pushes freed blocks on a
//! stack that the owner takes whole when its own list is empty (one exchange, so no ABA).
//!
//! Blocks are *type-stable*: while the runtime lives, a stale pointer still points at a control block. When the owner
//! goes away while handles still hold blocks of it, the slab lives on until the last of them is freed:
//! [`Slab::retire`] closes the remote stack and adds the number of blocks still out to `orphans`, every free after that
//! subtracts one, and whoever brings the sum to zero frees the memory. The sum starts at zero and can only be zero again
//! after the addition, when all have come back.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | SB1 | remote `free`, Release exchange | owner's take, Acquire exchange | the freed block's contents |
//! | SB2 | `orphans` add/sub, AcqRel | `orphans` add/sub, AcqRel | all frees, to whoever unmaps |
//!
//! # Safety
//!
//! Raw memory: blocks are handed out as pointers to initialised control blocks and must come back exactly once.

#![allow(unsafe_code)]

use super::block::{EndKind, Goroutine, Status, VTable, Waiting};
use super::cancel_mark::CancelMark;
use super::join_word::JoinWord;
use crate::atomic::{AtomicIsize, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crate::limits::{CHUNK_BYTES, REGION_BYTES_FIRST, REGION_BYTES_MAX};
use core::any::Any;
use core::cell::Cell;
use core::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, Weak};
use urgo_sys::mapping::Mapping;

/// First block-sized place of each chunk.
#[repr(C, align(64))]
struct ChunkHeader {
    pool: *const Pool,
}

const BLOCK_BYTES: usize = size_of::<Goroutine>();
const BLOCKS_PER_CHUNK: usize = CHUNK_BYTES / BLOCK_BYTES - 1;
const _: () = assert!(size_of::<ChunkHeader>() <= BLOCK_BYTES);

/// Marks a remote stack whose owner is gone. Never dereferenced.
const CLOSED: *mut Goroutine = ptr::without_provenance_mut(64);

/// The part of a slab that outlives its owner.
struct Pool {
    /// The runtime that the blocks belong to, as only `sched` knows it.
    runtime: Weak<dyn Any + Send + Sync>,
    remote: AtomicPtr<Goroutine>,
    orphans: AtomicIsize,
    regions: Mutex<Vec<Region>>,
}

struct Region {
    mapping: Mapping,
    /// First chunk (aligned) and bytes that are carved so far; observers read it.
    first: usize,
    carved: AtomicUsize,
    bytes: usize,
}

/// One owner's slab. Used by one thread at a time.
pub(crate) struct Slab {
    pool: NonNull<Pool>,
    free: *mut Goroutine,
    /// Blocks of the chunk being carved that were never handed out.
    fresh: *mut Goroutine,
    fresh_left: usize,
    /// Blocks handed out and not seen back (remote frees count when they are taken).
    out: isize,
}

// SAFETY: a slab is plain owner data; the raw pointers are to memory that belongs to it, and what other threads reach
// (`Pool`) is atomics and a mutex.
unsafe impl Send for Slab {}

impl Slab {
    /// A slab of the runtime `runtime`.
    pub(crate) fn new(runtime: Weak<dyn Any + Send + Sync>) -> Slab {
        let pool = Pool {
            runtime,
            remote: AtomicPtr::new(ptr::null_mut()),
            orphans: AtomicIsize::new(0),
            regions: Mutex::new(Vec::new()),
        };
        Slab {
            pool: NonNull::from(Box::leak(Box::new(pool))),
            free: ptr::null_mut(),
            fresh: ptr::null_mut(),
            fresh_left: 0,
            out: 0,
        }
    }

    fn pool(&self) -> &Pool {
        // SAFETY: leaked in `new`, freed only when `retire` was called and all blocks are back.
        unsafe { self.pool.as_ref() }
    }

    /// Owner only. A block in state `Free`, for the caller to fill; `None` if the address space is exhausted.
    #[inline]
    pub(crate) fn allocate(&mut self) -> Option<NonNull<Goroutine>> {
        let Some(block) = NonNull::new(self.free) else {
            return self.allocate_slow();
        };
        // SAFETY: on our free list, so initialised and ours.
        self.free = unsafe { block.as_ref() }.next.load(Ordering::Relaxed);
        self.out += 1;
        Some(block)
    }

    #[cold]
    fn allocate_slow(&mut self) -> Option<NonNull<Goroutine>> {
        self.take_remote();
        if !self.free.is_null() {
            return self.allocate();
        }
        if self.fresh_left == 0 {
            self.fresh = self.carve_chunk()?;
            self.fresh_left = BLOCKS_PER_CHUNK;
        }
        let block = self.fresh;
        // SAFETY: `fresh_left` > 0 blocks from here to the chunk's end are ours and unused.
        unsafe {
            self.fresh = block.add(1);
            initialise(block);
        }
        self.fresh_left -= 1;
        self.out += 1;
        NonNull::new(block)
    }

    fn carve_chunk(&mut self) -> Option<*mut Goroutine> {
        let pool = self.pool();
        let mut regions = pool.regions.lock().unwrap_or_else(|e| e.into_inner());
        let full = regions
            .last()
            .is_none_or(|r| r.carved.load(Ordering::Relaxed) + CHUNK_BYTES > r.bytes);
        if full {
            let bytes = (REGION_BYTES_FIRST << regions.len().min(16)).min(REGION_BYTES_MAX);
            // One chunk more than wanted, so that the first can be aligned.
            let mapping = Mapping::reserve(bytes + CHUNK_BYTES).ok()?;
            let first = (mapping.base() as usize).next_multiple_of(CHUNK_BYTES);
            regions.push(Region {
                mapping,
                first,
                carved: AtomicUsize::new(0),
                bytes,
            });
        }
        let region = regions.last()?;
        let offset = region.carved.load(Ordering::Relaxed);
        let chunk = region.mapping.base().with_addr(region.first + offset);
        // SAFETY: CHUNK_BYTES fresh, aligned bytes inside the region's mapping.
        unsafe {
            chunk.cast::<ChunkHeader>().write(ChunkHeader {
                pool: self.pool.as_ptr(),
            })
        };
        region.carved.store(offset + CHUNK_BYTES, Ordering::Relaxed);
        // SAFETY: the header takes the first block's place; the chunk holds BLOCKS_PER_CHUNK more.
        Some(unsafe { chunk.cast::<Goroutine>().add(1) })
    }

    fn take_remote(&mut self) {
        // Pairs with SB1.
        let mut list = self.pool().remote.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(block) = NonNull::new(list) {
            // SAFETY: freed to us by another thread (SB1), so ours now.
            list = unsafe { block.as_ref() }.next.load(Ordering::Relaxed);
            self.push_free(block);
        }
    }

    #[inline]
    fn push_free(&mut self, block: NonNull<Goroutine>) {
        // SAFETY: the caller has the block in hand.
        unsafe { block.as_ref() }
            .next
            .store(self.free, Ordering::Relaxed);
        self.free = block.as_ptr();
        self.out -= 1;
    }

    /// Owner only. Takes back `block` if it is of this slab.
    #[inline]
    pub(crate) fn free_own(&mut self, block: NonNull<Goroutine>) -> bool {
        if pool_of(block) != self.pool.as_ptr().cast_const() {
            return false;
        }
        self.push_free(block);
        true
    }

    /// Calls `visit` for every block that was ever handed out. Any block may change under the visitor's hands: it reads
    /// only atomics until it knows better.
    pub(crate) fn observer(&self) -> Observer {
        Observer { pool: self.pool }
    }

    /// Owner only, once: no block is allocated from here any more.
    pub(crate) fn retire(mut self) {
        self.take_remote();
        // SB1, pairs with the exchange in `free_remote`: frees from here on go to `orphans` (SB2).
        let mut list = self.pool().remote.swap(CLOSED, Ordering::AcqRel);
        while let Some(block) = NonNull::new(list) {
            // SAFETY: freed to us by another thread (SB1), so ours now.
            list = unsafe { block.as_ref() }.next.load(Ordering::Relaxed);
            self.push_free(block);
        }
        settle(self.pool.as_ptr(), self.out);
    }
}

impl core::fmt::Debug for Slab {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Slab")
            .field("out", &self.out)
            .finish_non_exhaustive()
    }
}

/// Reads a slab's blocks from any thread, while the runtime lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observer {
    pool: NonNull<Pool>,
}

// SAFETY: only atomics and a mutex are reached through it.
unsafe impl Send for Observer {}
// SAFETY: as above.
unsafe impl Sync for Observer {}

impl Observer {
    /// Calls `visit` for every block of every carved chunk that was ever initialised.
    ///
    /// # Safety
    ///
    /// The slab's owner has not retired it.
    pub(crate) unsafe fn for_each(&self, mut visit: impl FnMut(&Goroutine)) {
        // SAFETY: the pool lives until `retire`, by this function's contract.
        let pool = unsafe { self.pool.as_ref() };
        let regions = pool.regions.lock().unwrap_or_else(|e| e.into_inner());
        for region in regions.iter() {
            for chunk in (0..region.carved.load(Ordering::Relaxed)).step_by(CHUNK_BYTES) {
                let base = region
                    .mapping
                    .base()
                    .with_addr(region.first + chunk)
                    .cast::<Goroutine>();
                for index in 1..=BLOCKS_PER_CHUNK {
                    // SAFETY: inside a carved chunk. A block that was never handed out is zero memory, which is a valid
                    // value for the atomics; only those are read before `status` says that it is in use.
                    let status = unsafe { &(*base.add(index)).status };
                    // Pairs with CB1.
                    if status.load(Ordering::Acquire) != Status::Free as u8 {
                        // SAFETY: in use, so initialised (CB1).
                        visit(unsafe { &*base.add(index) });
                    }
                }
            }
        }
    }
}

fn pool_of(block: NonNull<Goroutine>) -> *const Pool {
    let header = block
        .as_ptr()
        .map_addr(|addr| addr & !(CHUNK_BYTES - 1))
        .cast::<ChunkHeader>();
    // SAFETY: every block lies in a chunk with a header at its start, written before the chunk's blocks are used.
    unsafe { (*header).pool }
}

/// Any thread that keeps `block` from being freed. The runtime that it belongs to, if that has not gone for good.
pub(crate) fn runtime_of(block: &Goroutine) -> Option<Arc<dyn Any + Send + Sync>> {
    // SAFETY: the pool lives at least until this block is back.
    unsafe { &*pool_of(NonNull::from(block)) }.runtime.upgrade()
}

/// Any thread that is not the owner. Gives `block` back to whoever owns it.
pub(crate) fn free_remote(block: NonNull<Goroutine>) {
    let pool = pool_of(block);
    // SAFETY: the pool lives at least until this block is counted as back.
    let remote = unsafe { &(*pool).remote };
    let mut head = remote.load(Ordering::Relaxed);
    while head != CLOSED {
        // SAFETY: the block is in our hands until the exchange succeeds.
        unsafe { block.as_ref() }
            .next
            .store(head, Ordering::Relaxed);
        // SB1, pairs with the owner's take.
        match remote.compare_exchange_weak(
            head,
            block.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
    settle(pool.cast_mut(), -1);
}

/// Adds `change` to the number of blocks still out; frees the pool if that makes it zero.
fn settle(pool: *mut Pool, change: isize) {
    // SAFETY: the pool is freed only by whoever makes the sum zero, which needs this call too.
    let orphans = unsafe { &(*pool).orphans };
    // SB2, pairs with itself.
    if orphans.fetch_add(change, Ordering::AcqRel) + change == 0 {
        // SAFETY: retired and all blocks back: nobody else can reach the pool. Made by `Box::leak` in `new`.
        drop(unsafe { Box::from_raw(pool) });
    }
}

/// Makes a control block of zero memory, all but `status`, which observers may be reading: zero is `Free`.
///
/// # Safety
///
/// `block` is zero memory of a carved chunk, not handed out yet.
unsafe fn initialise(block: *mut Goroutine) {
    macro_rules! write {
        ($($field:ident: $value:expr),+ $(,)?) => {
            // SAFETY: fields of memory that is ours, by this function's contract.
            unsafe { $((&raw mut (*block).$field).write($value);)+ }
        };
    }
    write!(
        sp: Cell::new(ptr::null_mut()),
        next: AtomicPtr::new(ptr::null_mut()),
        home: AtomicPtr::new(ptr::null_mut()),
        stack: Cell::new(None),
        id: AtomicU64::new(0),
        vtable: Cell::new(&NO_CODE),
        join: JoinWord::new(),
        reason: AtomicU8::new(0),
        outcome: Cell::new(EndKind::Cancelled),
        cancelled: Cell::new(false),
        site: AtomicPtr::new(ptr::null_mut()),
        waiting: Cell::new(Waiting::No),
        joiner: Cell::new(ptr::null()),
        extra: Cell::new(ptr::null_mut()),
        uncancellable: Cell::new(0),
        pinned: Cell::new(false),
        mark: CancelMark::new(),
    );
}

/// The code of a block that belongs to no goroutine.
static NO_CODE: VTable = {
    unsafe fn nothing(_: &Goroutine) {}
    VTable {
        run: nothing,
        drop_closure: nothing,
        drop_result: nothing,
    }
};
