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
use std::mem::offset_of;
use std::sync::atomic::{AtomicU16, Ordering};

const PAGE_BYTES: usize = 4096;

/// An entry as the kernel reads it: `io_uring_buf`. It is written field by field through raw pointers, because the first one's
/// last field is the tail word, which no reference of ours may cover.
#[repr(C)]
struct Entry {
    address: u64,
    bytes: u32,
    id: u16,
    /// Of the first entry: the tail word of the ring. Of all others: nobody's.
    tail: u16,
}

const _: () = assert!(
    size_of::<Entry>() == size_of::<BufRingEntry>()
        && align_of::<Entry>() == align_of::<BufRingEntry>()
        && offset_of!(Entry, tail) == size_of::<Entry>() - 2
);

/// The buffers of one group of one ring.
#[derive(Debug)]
pub(crate) struct BufferRing {
    entries: *mut Entry,
    memory: *mut u8,
    count: u16,
    bytes: usize,
    tail: u16,
}

impl BufferRing {
    /// Registers `count` (a power of two) buffers of `bytes` bytes each as group `group` of `ring`, all free.
    pub(crate) fn register(ring: &IoUring, group: u16, count: u16, bytes: usize) -> BufferRing {
        assert!(count.is_power_of_two());
        let entries = leaked(size_of::<Entry>() * count as usize).cast::<Entry>();
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
        // SAFETY: the index is below `count`, which is the length of the allocation.
        let entry = unsafe { self.entries.add((self.tail & (self.count - 1)) as usize) };
        // SAFETY: `entry` is aligned and inside the allocation. The kernel reads these three fields only after the tail has
        // passed the entry, which `publish` does later. They end before the tail word, which the kernel may read meanwhile: no
        // reference is made, so nothing here covers that word.
        unsafe { fill(entry, address as u64, self.bytes as u32, id) };
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what was given back.
    pub(crate) fn publish(&mut self) {
        // SAFETY: `entries` points to the first entry of the ring, which is alive as long as the process; only the place of
        // its last field is taken.
        let tail = unsafe { &raw mut (*self.entries).tail };
        // SAFETY: the word is aligned, alive and initialised (zeroed at least). This side accesses it here only, and the
        // kernel atomically.
        let tail = unsafe { AtomicU16::from_ptr(tail) };
        // Release: pairs with the kernel's acquire load of the tail (BR1); the entries below are visible before it.
        tail.store(self.tail, Ordering::Release);
    }
}

/// Writes all of an entry but its tail word.
///
/// # Safety
/// `entry` is aligned and valid for writes, and nobody else accesses the three fields meanwhile.
unsafe fn fill(entry: *mut Entry, address: u64, bytes: u32, id: u16) {
    // SAFETY: the caller's promise. Each place is that of one field; no reference to the entry is made.
    unsafe {
        (&raw mut (*entry).address).write(address);
        (&raw mut (*entry).bytes).write(bytes);
        (&raw mut (*entry).id).write(id);
    }
}

fn leaked(bytes: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).expect("a sane size");
    // SAFETY: `bytes` is not zero: every caller multiplies sizes and counts of at least one.
    let memory = unsafe { alloc_zeroed(layout) };
    assert!(!memory.is_null(), "out of memory");
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_what_the_kernel_reads_and_its_tail_word_is_left_alone() {
        let mut entry = Entry {
            address: 0,
            bytes: 0,
            id: 0,
            tail: 77,
        };
        let place = &raw mut entry;
        // SAFETY: `place` is a local of ours.
        unsafe { fill(place, 0x1234_5678_9abc_def0, 4096, 3) };
        // SAFETY: both types have one layout, by the assertion on top and this test; both are plain integers.
        let read = unsafe { &*place.cast::<BufRingEntry>() };
        assert_eq!(
            (read.addr(), read.len(), read.bid()),
            (0x1234_5678_9abc_def0, 4096, 3)
        );
        // SAFETY: as above; only the place of the last field is taken and read.
        assert_eq!(unsafe { *BufRingEntry::tail(place.cast()) }, 77);
    }
}
