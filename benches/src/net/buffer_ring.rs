//! A buffer ring: receive buffers that the kernel picks from, for multishot recv.
//!
//! # State
//! The tail word lives in the last two bytes of the first entry and is the only shared word: this side stores it (Release)
//! after the entries below it are written, the kernel loads it (Acquire, BR1). The head is the kernel's own.
//!
//! # Safety
//! The kernel keeps the address of the entries until the ring that they are registered with is closed, and writes into a
//! buffer from the moment its entry is published until it reports the buffer's id. So both allocations are leaked: they live as
//! long as the process, which has one ring and ends soon.

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed};
use std::sync::atomic::{AtomicU16, Ordering};

const PAGE_BYTES: usize = 4096;

/// The buffers of one group of one ring.
#[derive(Debug)]
pub(crate) struct BufferRing {
    entries: *mut BufRingEntry,
    memory: *mut u8,
    count: u16,
    bytes: usize,
    tail: u16,
}

impl BufferRing {
    /// Registers `count` (a power of two) buffers of `bytes` bytes each as group `group` of `ring`, all free.
    pub(crate) fn register(ring: &IoUring, group: u16, count: u16, bytes: usize) -> BufferRing {
        assert!(count.is_power_of_two());
        let entries = leaked(size_of::<BufRingEntry>() * count as usize).cast::<BufRingEntry>();
        let memory = leaked(bytes * count as usize);
        // SAFETY: `entries` is page-aligned, has room for `count` entries, and is never freed.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(entries as u64, count, group, 0)
        }
        .expect("a buffer ring (kernel 5.19)");
        let mut buffers = BufferRing {
            entries,
            memory,
            count,
            bytes,
            tail: 0,
        };
        for id in 0..count {
            buffers.give_back(id);
        }
        buffers.publish();
        buffers
    }

    /// The first `bytes` bytes of buffer `id`, whose completion was reaped and which was not given back yet.
    pub(crate) fn received(&self, id: u16, bytes: usize) -> &[u8] {
        assert!(id < self.count && bytes <= self.bytes);
        // SAFETY: the range is inside `memory` by the assertion. The kernel does not write a buffer that it has reported until
        // `give_back`, which needs `&mut self` and so cannot come while the slice lives.
        unsafe { std::slice::from_raw_parts(self.address(id), bytes) }
    }

    /// Where buffer `id` starts.
    pub(crate) fn address(&self, id: u16) -> *mut u8 {
        assert!(id < self.count);
        // SAFETY: `id` is below `count` by the assertion, so the result stays inside the allocation.
        unsafe { self.memory.add(id as usize * self.bytes) }
    }

    /// Makes buffer `id` free again; the kernel sees it with the next [`publish`](Self::publish).
    pub(crate) fn give_back(&mut self, id: u16) {
        let address = self.address(id);
        // SAFETY: the index is below `count`, which is the length of the allocation; the kernel reads this entry only after
        // the tail has passed it, which `publish` does later. Only fields before the tail word are written.
        let entry = unsafe { &mut *self.entries.add((self.tail & (self.count - 1)) as usize) };
        entry.set_addr(address as u64);
        entry.set_len(self.bytes as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what was given back.
    pub(crate) fn publish(&mut self) {
        // SAFETY: `entries` points to the first entry of the ring, initialised (zeroed at least) and alive.
        let tail = unsafe { BufRingEntry::tail(self.entries) }.cast::<AtomicU16>();
        // SAFETY: the tail word is aligned, alive, and shared with the kernel only, which accesses it atomically.
        // Release: pairs with the kernel's acquire load of the tail (BR1); the entries below are visible before it.
        unsafe { (*tail).store(self.tail, Ordering::Release) };
    }
}

fn leaked(bytes: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).expect("a sane size");
    // SAFETY: `bytes` is not zero: every caller multiplies sizes and counts of at least one.
    let memory = unsafe { alloc_zeroed(layout) };
    assert!(!memory.is_null(), "out of memory");
    memory
}
