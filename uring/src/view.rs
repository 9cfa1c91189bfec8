//! Looking at a ring from another thread: two hints, no system call, no lock.
//!
//! # Safety
//!
//! Maps the kernel's page of queue indexes a second time, read only, and reads it through atomics. The offsets come from
//! the kernel's own answer to `io_uring_setup`. The mapping is private to this value, so its life does not hang on the
//! ring's.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use io_uring::IoUring;

use crate::host;

const SQ_CQ_OVERFLOW: u32 = 1 << 1;
const SQ_TASKRUN: u32 = 1 << 2;
const PAGE_BYTES: usize = 4096;

/// `struct io_uring_params` of the kernel's interface.
#[repr(C)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    sq_off: SqOffsets,
    cq_off: CqOffsets,
}

#[repr(C)]
struct SqOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    resv1: u32,
    user_addr: u64,
}

#[repr(C)]
struct CqOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    cqes: u32,
    flags: u32,
    resv1: u32,
    user_addr: u64,
}

const _: () = assert!(size_of::<Params>() == size_of::<io_uring::Parameters>());
const _: () = assert!(align_of::<Params>() == align_of::<io_uring::Parameters>());

#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    sq_flags: u32,
    cq_head: u32,
    cq_tail: u32,
    /// A forked child does not have the mapping, and must not unmap what is there now.
    process_id: u32,
}

/// A read-only look at one ring. Any thread may hold and use it; cloning is a reference count.
///
/// The answers are hints: true one moment, perhaps not the next. While a view lives, the kernel keeps the ring's memory
/// (not its operations: those end when the [`Ring`](crate::Ring) is dropped).
#[derive(Clone, Debug)]
pub struct RingView(Arc<Mapping>);

// SAFETY: because the mapping is read only and only read through atomics; established by `Mapping::new`; until its drop.
unsafe impl Send for Mapping {}
// SAFETY: as for Send: shared reads of atomics.
unsafe impl Sync for Mapping {}

impl RingView {
    pub(crate) fn new(io: &IoUring) -> Result<RingView, i32> {
        Mapping::new(io).map(|mapping| RingView(Arc::new(mapping)))
    }

    /// The kernel asks for an enter: completions are deferred, or held back by a full queue.
    #[inline]
    pub fn has_work_flag(&self) -> bool {
        self.0.word(self.0.sq_flags).load(Ordering::Relaxed) & (SQ_TASKRUN | SQ_CQ_OVERFLOW) != 0
    }

    /// Completions are held back because the completion queue is full.
    #[inline]
    pub fn has_overflow(&self) -> bool {
        self.0.word(self.0.sq_flags).load(Ordering::Relaxed) & SQ_CQ_OVERFLOW != 0
    }

    /// Records posted and not yet reaped.
    #[inline]
    pub fn cq_len(&self) -> u32 {
        // Relaxed: only counts are compared. Who reads the records acquires the tail again, in `Ring::reap`.
        let tail = self.0.word(self.0.cq_tail).load(Ordering::Relaxed);
        let head = self.0.word(self.0.cq_head).load(Ordering::Relaxed);
        tail.wrapping_sub(head)
    }

    /// At least one record waits to be reaped.
    #[inline]
    pub fn cq_ready(&self) -> bool {
        self.cq_len() != 0
    }
}

fn params(io: &IoUring) -> &Params {
    // SAFETY: because `Parameters` is documented as a transparent wrapper of the kernel's structure, which `Params`
    // spells out; established by the two assertions above; until the borrow of `io` ends.
    unsafe { &*std::ptr::from_ref(io.params()).cast::<Params>() }
}

/// The flags the ring was set up with.
pub(crate) fn setup_flags(io: &IoUring) -> u32 {
    params(io).flags
}

impl Mapping {
    fn new(io: &IoUring) -> Result<Mapping, i32> {
        let params = params(io);
        let offsets = [params.sq_off.flags, params.cq_off.head, params.cq_off.tail];
        let last = offsets.into_iter().max().unwrap_or(0) as usize;
        let bytes = (last + size_of::<u32>()).next_multiple_of(PAGE_BYTES);
        let base = map(io.as_raw_fd(), bytes)?;
        let [sq_flags, cq_head, cq_tail] = offsets;
        Ok(Mapping {
            base,
            bytes,
            sq_flags,
            cq_head,
            cq_tail,
            process_id: host::process_id(),
        })
    }

    #[inline]
    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: because the offset is one of the three inside the mapping, u32-aligned by the kernel's layout;
        // established by `new`, which maps up to the largest of them; until the mapping is dropped, which outlives `&self`.
        unsafe { self.base.add(offset as usize).cast::<AtomicU32>().as_ref() }
    }
}

fn map(fd: RawFd, bytes: usize) -> Result<NonNull<u8>, i32> {
    const IORING_OFF_SQ_RING: libc::off_t = 0;
    #[cfg(feature = "fault-injection")]
    if let Some(errno) = crate::faults::refused_map() {
        return Err(errno);
    }
    // SAFETY: because a new mapping at an address of the kernel's choice touches no memory of ours; the result is checked
    // below.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            fd,
            IORING_OFF_SQ_RING,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(last_errno());
    }
    // SAFETY: because it is our own mapping of `bytes` bytes, made just above. A forked child must not see the ring.
    unsafe { libc::madvise(base, bytes, libc::MADV_DONTFORK) };
    NonNull::new(base.cast()).ok_or(libc::ENOMEM)
}

pub(crate) fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if host::process_id() != self.process_id {
            return;
        }
        // SAFETY: because base and length are those of the one mapping made in `new`, and no reference into it is left
        // once the value is dropped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
