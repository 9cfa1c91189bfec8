//! An allocator that keeps what was freed for a while, filled with a pattern, and aborts if the pattern has changed when the
//! memory is really freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

const PATTERN: u8 = 0xdb;
/// Blocks that are kept. A block stays for as many later frees.
const KEPT: usize = 8 * 1024;
/// Larger ones are filled and freed at once: they would be too much to keep.
const KEPT_BYTES_MAX: usize = 64 * 1024;

pub(crate) struct Poison;

#[derive(Clone, Copy)]
struct Block {
    start: *mut u8,
    layout: Layout,
}

struct Kept {
    is_locked: AtomicBool,
    ring: UnsafeCell<Ring>,
}

struct Ring {
    blocks: [Option<Block>; KEPT],
    next: usize,
}

// SAFETY: the ring is reached under the lock only.
unsafe impl Sync for Kept {}

static FREED: Kept = Kept {
    is_locked: AtomicBool::new(false),
    ring: UnsafeCell::new(Ring {
        blocks: [None; KEPT],
        next: 0,
    }),
};

impl Kept {
    fn with<R>(&self, f: impl FnOnce(&mut Ring) -> R) -> R {
        while self.is_locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: under the lock.
        let result = f(unsafe { &mut *self.ring.get() });
        self.is_locked.store(false, Ordering::Release);
        result
    }
}

impl Block {
    fn fill(self) {
        // SAFETY: ours since it was freed.
        unsafe { self.start.write_bytes(PATTERN, self.layout.size()) };
    }

    fn check(self) {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.layout.size()) };
        if bytes.iter().any(|byte| *byte != PATTERN) {
            let message = b"memory was written after it was freed\n";
            // SAFETY: writes from a constant; nothing is allocated here.
            unsafe { libc::write(2, message.as_ptr().cast(), message.len()) };
            std::process::abort();
        }
    }
}

// SAFETY: `System`'s, but for the time at which blocks are given back to it.
unsafe impl GlobalAlloc for Poison {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        let block = Block { start, layout };
        block.fill();
        let oldest = if layout.size() <= KEPT_BYTES_MAX {
            FREED.with(|ring| {
                let at = ring.next;
                ring.next = (at + 1) % KEPT;
                ring.blocks[at].replace(block)
            })
        } else {
            Some(block)
        };
        if let Some(block) = oldest {
            block.check();
            // SAFETY: given to us by `dealloc` with this layout, once.
            unsafe { System.dealloc(block.start, block.layout) };
        }
    }
}

/// Looks at all blocks that are kept.
pub(crate) fn check_all() {
    FREED.with(|ring| ring.blocks.iter().flatten().for_each(|block| block.check()));
}

/// Writes where something was that has been freed and is kept.
pub(crate) fn scribble(start: *mut u8) {
    FREED.with(|ring| {
        let mut kept = ring.blocks.iter().flatten();
        assert!(kept.any(|block| block.start == start), "it is kept");
        // SAFETY: kept, so mapped, and nobody else uses it.
        unsafe { start.write(0) };
    });
}
