//! How address space is reserved and given back: `mmap`, `madvise`, `munmap`.
//!
//! A [`Mapping`] is private anonymous memory that costs nothing until touched: `MAP_NORESERVE`, so that a million stacks do
//! not count against overcommit, and `MADV_NOHUGEPAGE`, so that touching one page of a stack does not bring 2 MiB.
//!
//! # Safety
//! `unsafe` for `sysconf`, and for `madvise(MADV_DONTNEED)`, which discards memory. A mapping hands out addresses only, never references;
//! whoever makes references of them answers for what [`Mapping::release`] is told.
#![allow(unsafe_code)]

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::io;
use std::sync::OnceLock;

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};

use crate::guard::VmaBudget;
use crate::limits;

/// `sysconf(_SC_PAGESIZE)`: bytes of a page, a power of two. The C library has it from the process's start, so unlike the
/// auxiliary vector read anew it needs no `/proc`.
#[inline]
pub fn page_bytes() -> usize {
    // SAFETY: because sysconf takes a number and only reads; holds without end.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    bytes as usize
}

/// `bytes` rounded up to whole pages; `None` if that does not fit.
#[inline]
pub fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page_bytes())
}

/// Why memory could not be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// The process has as many mappings as `vm.max_map_count` allows.
    MapCount {
        /// `vm.max_map_count` now.
        max_map_count: usize,
    },
    /// `RLIMIT_AS` leaves no room.
    AddressSpaceLimit {
        /// What was asked.
        bytes: usize,
        /// The soft limit.
        limit_bytes: u64,
    },
    /// The kernel accounts every mapping (`vm.overcommit_memory` = 2) and its commit limit is reached.
    Overcommit {
        /// What was asked.
        bytes: usize,
    },
    /// No gap of that size in the address space.
    OutOfAddressSpace {
        /// What was asked.
        bytes: usize,
        /// `vm.overcommit_memory` now, where it could be read.
        overcommit_memory: Option<u32>,
    },
    /// Another errno.
    Os(i32),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            MapError::MapCount { max_map_count } => write!(
                f,
                "no mapping left: vm.max_map_count is {max_map_count}; raise it with \
                 `sysctl -w vm.max_map_count={}`",
                max_map_count.saturating_mul(4)
            ),
            MapError::AddressSpaceLimit { bytes, limit_bytes } => write!(
                f,
                "cannot reserve {bytes} bytes: RLIMIT_AS is {limit_bytes}; raise it with `ulimit -v`"
            ),
            MapError::Overcommit { bytes } => write!(
                f,
                "cannot reserve {bytes} bytes: vm.overcommit_memory is 2 and the commit limit is reached; \
                 set it to 0 or 1, or raise vm.overcommit_ratio"
            ),
            MapError::OutOfAddressSpace {
                bytes,
                overcommit_memory,
            } => {
                write!(
                    f,
                    "cannot reserve {bytes} bytes: no such gap in the address space"
                )?;
                match overcommit_memory {
                    Some(mode) => write!(f, " (vm.overcommit_memory is {mode})"),
                    None => Ok(()),
                }
            }
            MapError::Os(errno) => write!(
                f,
                "cannot reserve memory: {}: {}",
                crate::errno::name(errno),
                crate::errno::describe(errno)
            ),
        }
    }
}

impl core::error::Error for MapError {}

impl From<MapError> for io::Error {
    fn from(error: MapError) -> io::Error {
        match error {
            MapError::Os(errno) => io::Error::from_raw_os_error(errno),
            other => io::Error::new(io::ErrorKind::OutOfMemory, other),
        }
    }
}

/// Reserved memory: readable, writable, zero until touched, unmapped on drop.
///
/// # Examples
/// ```
/// use urgo_sys::mapping::{Mapping, page_bytes};
/// let slab = Mapping::reserve(1 << 30).unwrap();
/// assert_eq!(slab.base() as usize % page_bytes(), 0);
/// assert_eq!(slab.len(), 1 << 30);
/// ```
#[derive(Debug)]
pub struct Mapping {
    // Fields drop in this order: first the memory is unmapped, then the budget gets back what its guards cost.
    raw: MmapRaw,
    charge: Charge,
}

/// Kernel mappings that guards in one [`Mapping`] have drawn from a budget; given back on drop.
#[derive(Debug, Default)]
struct Charge {
    count: AtomicUsize,
    payer: OnceLock<&'static VmaBudget>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(payer) = self.payer.get() {
            payer.give_back(*self.count.get_mut());
        }
    }
}

impl Mapping {
    /// `mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)`, then
    /// `madvise(MADV_NOHUGEPAGE)`. `bytes` is rounded up to whole pages. Touches nothing.
    ///
    /// # Errors
    /// [`MapError`], which names the limit that was hit. `bytes` of zero is `EINVAL`.
    pub fn reserve(bytes: usize) -> Result<Mapping, MapError> {
        if bytes == 0 {
            return Err(MapError::Os(libc::EINVAL));
        }
        let out_of_space = MapError::OutOfAddressSpace {
            bytes,
            overcommit_memory: None,
        };
        let len = whole_pages(bytes).ok_or(out_of_space)?;
        if len > isize::MAX as usize {
            return Err(out_of_space);
        }
        let raw: MmapRaw = MmapOptions::new()
            .len(len)
            .no_reserve_swap()
            .map_anon()
            .map_err(|error| cause(&error, len))?
            .into();
        match raw.advise(Advice::NoHugePage) {
            Ok(()) => {}
            // EINVAL: this kernel has no huge pages, which is what we ask for.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(cause(&error, len)),
        }
        Ok(Mapping {
            raw,
            charge: Charge::default(),
        })
    }

    /// The lowest address, page-aligned. Stays until drop.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.raw.as_mut_ptr()
    }

    /// Bytes, whole pages.
    #[inline]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Always false: an empty mapping cannot be reserved.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.raw.len() == 0
    }

    /// Whether `address` lies inside. A signal handler may ask.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base() as usize) < self.len()
    }

    /// `madvise(MADV_DONTNEED)` over the whole pages inside `range` (offsets in bytes): their memory goes back to the kernel
    /// and reads as zero when touched again. Pages only partly in the range stay. Guards inside stay guards.
    ///
    /// # Safety
    /// Nothing alive may lie in the whole pages of the range: no reference, no value still to be read.
    ///
    /// # Errors
    /// `EINVAL`: the pages are locked (`mlock`, `mlockall`). Nothing was given back then.
    ///
    /// # Panics
    /// If the range does not lie in the mapping.
    #[track_caller]
    pub unsafe fn release(&self, range: Range<usize>) -> io::Result<()> {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "range {range:?} is not in a mapping of {} bytes",
            self.len()
        );
        let page = page_bytes();
        let start = range.start.next_multiple_of(page);
        let end = range.end - range.end % page;
        if start >= end {
            return Ok(());
        }
        // SAFETY: because nothing alive lies in these pages; established by the caller of `release`; until they are touched
        // again.
        unsafe {
            self.raw
                .unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start)
        }
    }

    /// Notes that `count` mappings of `budget` are used by guards in this one, to be given back when it is unmapped.
    ///
    /// # Panics
    /// If another budget was charged before: one mapping has one payer.
    #[track_caller]
    pub(crate) fn charge(&self, budget: &'static VmaBudget, count: usize) {
        let payer = self.charge.payer.get_or_init(|| budget);
        assert!(
            core::ptr::eq(*payer, budget),
            "a mapping is charged to one budget only"
        );
        // Relaxed: a count, read again only by the drop, which has the mapping to itself.
        self.charge.count.fetch_add(count, Relaxed);
    }
}

/// The limit behind a failed `mmap` or `madvise`. `ENOMEM` stands for four of them; the counters tell which.
#[cold]
fn cause(error: &io::Error, bytes: usize) -> MapError {
    let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
    if errno != libc::ENOMEM {
        return MapError::Os(errno);
    }
    let max_map_count = limits::max_map_count();
    if crate::memory::vma_count().is_ok_and(|count| count >= max_map_count.saturating_sub(1)) {
        return MapError::MapCount { max_map_count };
    }
    if let Some(limit_bytes) = limits::get(limits::Resource::AddressSpaceBytes).soft {
        let used = crate::memory::address_space_bytes().unwrap_or(0) as u64;
        if used.saturating_add(bytes as u64) > limit_bytes {
            return MapError::AddressSpaceLimit { bytes, limit_bytes };
        }
    }
    match limits::overcommit_memory() {
        Some(2) => MapError::Overcommit { bytes },
        overcommit_memory => MapError::OutOfAddressSpace {
            bytes,
            overcommit_memory,
        },
    }
}

/// Writes one byte at `offset`, so that its page is there.
#[cfg(test)]
pub(crate) fn touch(mapping: &Mapping, offset: usize) {
    assert!(offset < mapping.len());
    // SAFETY: because the byte lies in the mapping, which is writable and to which the test holds the only pointer;
    // established by the assertion; until this store is done.
    unsafe { mapping.base().add(offset).write_volatile(0xa5) };
}

/// Reads one byte at `offset`.
#[cfg(test)]
pub(crate) fn peek(mapping: &Mapping, offset: usize) -> u8 {
    assert!(offset < mapping.len());
    // SAFETY: because the byte lies in the mapping, which is readable and not written by others meanwhile; established by
    // the assertion; until this load is done.
    unsafe { mapping.base().add(offset).read_volatile() }
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
