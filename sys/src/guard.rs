//! How the end of a stack is made to fault, by one of two roads.
//!
//! * [`GuardRoad::Marker`]: `madvise(MADV_GUARD_INSTALL)`, kernel 6.13 and later. The guard is a mark in the page table: the
//!   mapping stays one mapping, so a million guarded stacks need a few dozen of them.
//! * [`GuardRoad::Protect`]: `mprotect(PROT_NONE)`. Each guard splits its mapping: two more of the process's
//!   `vm.max_map_count`. [`VmaBudget`] counts them, so that the limit is met as a typed error by whoever asks for a stack
//!   and not as a failed `mmap` somewhere in the C library.
//!
//! Both kinds of guard kill with SIGSEGV, give `EFAULT` to the kernel, and survive [`Mapping::release`].
//!
//! # Safety
//! `unsafe` for the two calls, which make memory inaccessible. Their ranges are checked to lie in the [`Mapping`].
#![allow(unsafe_code)]

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::io;
use std::sync::OnceLock;

use crate::mapping::{Mapping, page_bytes};
use crate::{limits, memory, switches};

/// `MADV_GUARD_INSTALL`, Linux 6.13; `libc` has no name for it yet.
const MADV_GUARD_INSTALL: libc::c_int = 102;
/// What one guard by [`GuardRoad::Protect`] adds to the process's mappings: itself and the other half of what it splits.
const VMAS_PER_PROTECT: usize = 2;
/// Mappings left to the rest of the process (libraries, thread stacks, large allocations), or an eighth of the limit if
/// that is less.
const VMAS_RESERVED: usize = 1024;

/// How guards are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardRoad {
    /// `madvise(MADV_GUARD_INSTALL)`: costs no mapping.
    Marker,
    /// `mprotect(PROT_NONE)`: costs two mappings.
    Protect,
}

/// The road this process takes: tries `MADV_GUARD_INSTALL` on a scratch page, once; later calls read the answer.
/// `URGO_DISABLE=guard_install` forces [`GuardRoad::Protect`].
pub fn probe() -> GuardRoad {
    static ROAD: OnceLock<GuardRoad> = OnceLock::new();
    *ROAD.get_or_init(|| {
        if switches::disabled("guard_install") {
            return GuardRoad::Protect;
        }
        // EINVAL: the kernel does not know the advice, or locks all memory (mlockall), where marks are not possible.
        match Mapping::reserve(page_bytes()).map(|scratch| mark(&scratch, 0, page_bytes())) {
            Ok(Ok(())) => GuardRoad::Marker,
            Ok(Err(_)) | Err(_) => GuardRoad::Protect,
        }
    })
}

/// Why a guard could not be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardError {
    /// The budget of mappings is spent: `vm.max_map_count` less what the process had at start and a reserve.
    Budget {
        /// `vm.max_map_count` when the budget was drawn up.
        max_map_count: usize,
        /// Mappings that guards hold now.
        used: usize,
    },
    /// The kernel refused although the budget had room: others in the process made mappings since.
    MapCount {
        /// `vm.max_map_count` now.
        max_map_count: usize,
    },
    /// Another errno. `EINVAL` on [`GuardRoad::Marker`]: the memory is locked, or the kernel is older than 6.13; the other
    /// road is open.
    Os(i32),
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            GuardError::Budget {
                max_map_count,
                used,
            } => write!(
                f,
                "no room for another stack guard: {used} mappings are used by guards and vm.max_map_count is \
                 {max_map_count}; raise it with `sysctl -w vm.max_map_count={}` or run kernel 6.13 or later",
                max_map_count.saturating_mul(4)
            ),
            GuardError::MapCount { max_map_count } => write!(
                f,
                "no room for another stack guard: the process has as many mappings as vm.max_map_count = \
                 {max_map_count} allows; raise it with `sysctl -w vm.max_map_count={}` or run kernel 6.13 or later",
                max_map_count.saturating_mul(4)
            ),
            GuardError::Os(errno) => write!(
                f,
                "cannot install a stack guard: {}: {}",
                crate::errno::name(errno),
                crate::errno::describe(errno)
            ),
        }
    }
}

impl core::error::Error for GuardError {}

impl From<GuardError> for io::Error {
    fn from(error: GuardError) -> io::Error {
        match error {
            GuardError::Os(errno) => io::Error::from_raw_os_error(errno),
            other => io::Error::new(io::ErrorKind::OutOfMemory, other),
        }
    }
}

/// How many mappings guards may still make.
#[derive(Debug)]
pub struct VmaBudget {
    max_map_count: usize,
    limit: usize,
    used: AtomicUsize,
}

impl VmaBudget {
    /// The budget of this process: `vm.max_map_count` less the mappings it has now and a reserve for the rest of the
    /// program. Drawn up at the first call, which reads `/proc/self/maps`.
    pub fn process() -> &'static VmaBudget {
        static BUDGET: OnceLock<VmaBudget> = OnceLock::new();
        BUDGET.get_or_init(|| {
            let max_map_count = limits::max_map_count();
            let present = memory::vma_count().unwrap_or(0);
            let reserve = VMAS_RESERVED.min(max_map_count / 8);
            let limit = max_map_count
                .saturating_sub(present)
                .saturating_sub(reserve);
            VmaBudget::with_limit(limit, max_map_count)
        })
    }

    /// A budget of `limit` mappings; `max_map_count` is only told in errors. For tests and for hosts that share a process
    /// with other large users of mappings.
    pub const fn with_limit(limit: usize, max_map_count: usize) -> VmaBudget {
        VmaBudget {
            max_map_count,
            limit,
            used: AtomicUsize::new(0),
        }
    }

    /// Mappings that may still be made.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used.load(Relaxed))
    }

    /// Mappings that guards hold now.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Takes `count` mappings, all or none. Relaxed throughout: a count that publishes nothing.
    fn take(&self, count: usize) -> Result<(), GuardError> {
        let fits = |used: usize| {
            used.checked_add(count)
                .filter(|&wanted| wanted <= self.limit)
        };
        match self.used.fetch_update(Relaxed, Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(used) => Err(GuardError::Budget {
                max_map_count: self.max_map_count,
                used,
            }),
        }
    }

    pub(crate) fn give_back(&self, count: usize) {
        self.used.fetch_sub(count, Relaxed);
    }
}

/// Makes `len` bytes at `offset` of `mapping` fault on any access, until the mapping is dropped. Blocks nothing but the
/// process's memory lock.
///
/// On [`GuardRoad::Protect`] two mappings are drawn from `budget` and given back when the mapping is dropped; a mapping is
/// charged to one budget. What the range held is lost.
///
/// # Safety
/// Nothing alive may lie in the range, now or later: no reference, no value still to be read.
///
/// # Errors
/// [`GuardError`]; the budget is as before.
///
/// # Panics
/// If the range is empty, not whole pages, or not in the mapping.
#[track_caller]
pub unsafe fn install(
    mapping: &Mapping,
    offset: usize,
    len: usize,
    road: GuardRoad,
    budget: &'static VmaBudget,
) -> Result<(), GuardError> {
    let page = page_bytes();
    assert!(
        len > 0
            && offset.is_multiple_of(page)
            && len.is_multiple_of(page)
            && offset
                .checked_add(len)
                .is_some_and(|end| end <= mapping.len()),
        "guard of {len} bytes at {offset} is not whole pages of a mapping of {} bytes",
        mapping.len()
    );
    match road {
        GuardRoad::Marker => mark(mapping, offset, len).map_err(GuardError::Os),
        GuardRoad::Protect => {
            budget.take(VMAS_PER_PROTECT)?;
            match protect(mapping, offset, len) {
                Ok(()) => {
                    mapping.charge(budget, VMAS_PER_PROTECT);
                    Ok(())
                }
                Err(errno) => {
                    budget.give_back(VMAS_PER_PROTECT);
                    // ENOMEM of mprotect is "too many mappings" (or no memory for the record of one).
                    Err(match errno {
                        libc::ENOMEM => GuardError::MapCount {
                            max_map_count: limits::max_map_count(),
                        },
                        other => GuardError::Os(other),
                    })
                }
            }
        }
    }
}

/// `madvise(base + offset, len, MADV_GUARD_INSTALL)`. `EINTR` and `EAGAIN` (the kernel raced with page faults) are repeated.
fn mark(mapping: &Mapping, offset: usize, len: usize) -> Result<(), i32> {
    assert!(offset + len <= mapping.len());
    loop {
        // SAFETY: because the range lies in a mapping we own and nothing alive is in it; established by the assertion and
        // by the caller of `install` (`probe` marks a page that nobody else knows); until the mapping is dropped.
        let result =
            unsafe { libc::madvise(mapping.base().add(offset).cast(), len, MADV_GUARD_INSTALL) };
        if result == 0 {
            return Ok(());
        }
        match crate::errno::last() {
            libc::EINTR | libc::EAGAIN => {}
            errno => return Err(errno),
        }
    }
}

/// `mprotect(base + offset, len, PROT_NONE)`.
fn protect(mapping: &Mapping, offset: usize, len: usize) -> Result<(), i32> {
    assert!(offset + len <= mapping.len());
    // SAFETY: because the range lies in a mapping we own and nothing alive is in it; established by the assertion and by
    // the caller of `install`; until the mapping is dropped.
    let result = unsafe {
        rustix::mm::mprotect(
            mapping.base().add(offset).cast(),
            len,
            rustix::mm::MprotectFlags::empty(),
        )
    };
    result.map_err(|errno| errno.raw_os_error())
}

#[cfg(test)]
pub(crate) mod tests_door {
    use super::*;

    /// A guard by the old road in a mapping that the test alone knows.
    pub(crate) fn install_protect(
        mapping: &Mapping,
        offset: usize,
        len: usize,
        budget: &'static VmaBudget,
    ) {
        // SAFETY: because the tests that call this keep no references into their mappings.
        unsafe { install(mapping, offset, len, GuardRoad::Protect, budget) }.unwrap();
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
