//! What a signal handler stands on: `sigaltstack(2)` of the calling thread.
//!
//! A goroutine that ran over the end of its stack has no room for a handler; the kernel switches to this stack instead.
//! Its size follows the CPU (`AT_MINSIGSTKSZ`: the vector state that the kernel saves can be many KiB), and its own end is a
//! guard.
//!
//! # Safety
//! `unsafe` for `sigaltstack`: the kernel writes to the memory it is given until another is set. The mapping lives as long
//! as it is set.
#![allow(unsafe_code)]

use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr;
use std::io;

use crate::guard::{self, GuardError, GuardRoad, VmaBudget};
use crate::mapping::{MapError, Mapping, page_bytes};

/// Room for our handlers, above what the kernel itself needs to deliver a signal.
const HANDLER_BYTES: usize = 16 * 1024;
/// The least size, whatever the CPU says.
const STACK_BYTES_MIN: usize = 32 * 1024;

/// Why the thread could not get an alternate stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AltStackError {
    /// No memory for it.
    Map(MapError),
    /// No guard for it.
    Guard(GuardError),
    /// `sigaltstack` refused. `EPERM`: the thread is running on one now.
    Os(i32),
}

impl fmt::Display for AltStackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AltStackError::Map(error) => write!(f, "no alternate signal stack: {error}"),
            AltStackError::Guard(error) => write!(f, "no alternate signal stack: {error}"),
            AltStackError::Os(errno) => write!(
                f,
                "no alternate signal stack: {}: {}",
                crate::errno::name(*errno),
                crate::errno::describe(*errno)
            ),
        }
    }
}

impl core::error::Error for AltStackError {}

impl From<AltStackError> for io::Error {
    fn from(error: AltStackError) -> io::Error {
        match error {
            AltStackError::Map(error) => error.into(),
            AltStackError::Guard(error) => error.into(),
            AltStackError::Os(errno) => io::Error::from_raw_os_error(errno),
        }
    }
}

/// The alternate signal stack of the thread that made it; stays on that thread. Dropping it sets the earlier one again.
///
/// ```compile_fail
/// fn must_be_send<T: Send>() {}
/// must_be_send::<urgo_sys::alt_stack::AltStack>();
/// ```
pub struct AltStack {
    mapping: ManuallyDrop<Mapping>,
    previous: libc::stack_t,
    /// Bound to its thread: neither `Send` nor `Sync`.
    thread: PhantomData<*mut ()>,
}

impl fmt::Debug for AltStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AltStack")
            .field("base", &self.mapping.base())
            .field("bytes", &self.mapping.len())
            .finish_non_exhaustive()
    }
}

impl AltStack {
    /// Maps a stack with a guard page below and makes it the calling thread's: `sigaltstack(stack, &previous)`.
    ///
    /// # Errors
    /// [`AltStackError`]; the thread keeps what it had.
    pub fn install() -> Result<AltStack, AltStackError> {
        AltStack::install_by(guard::probe())
    }

    fn install_by(road: GuardRoad) -> Result<AltStack, AltStackError> {
        let page = page_bytes();
        // SAFETY: because getauxval takes a number and only reads; 0 where the kernel says nothing; holds without end.
        let kernel_bytes = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        let usable = (kernel_bytes + HANDLER_BYTES)
            .max(STACK_BYTES_MIN)
            .next_multiple_of(page);
        let mapping = Mapping::reserve(page + usable).map_err(AltStackError::Map)?;
        // SAFETY: because nobody else knows this mapping yet; established by the line above; until it is dropped.
        unsafe { guard::install(&mapping, 0, page, road, VmaBudget::process()) }
            .map_err(AltStackError::Guard)?;
        let stack = libc::stack_t {
            // SAFETY: because the mapping is longer than a page; established by its size above.
            ss_sp: unsafe { mapping.base().add(page) }.cast(),
            ss_flags: 0,
            ss_size: usable,
        };
        let mut previous = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: because the memory stays mapped and used by nobody else; established by `mapping`, which is unmapped only
        // after another stack was set; until then.
        if unsafe { libc::sigaltstack(&stack, previous.as_mut_ptr()) } != 0 {
            return Err(AltStackError::Os(crate::errno::last()));
        }
        Ok(AltStack {
            mapping: ManuallyDrop::new(mapping),
            // SAFETY: because zeroed memory is a valid `stack_t` and the call has filled it.
            previous: unsafe { previous.assume_init() },
            thread: PhantomData,
        })
    }

    /// Whether `address` lies on this stack or its guard. Async-signal-safe.
    pub fn contains(&self, address: usize) -> bool {
        self.mapping.contains(address)
    }

    /// Bytes a handler and the kernel may use.
    pub fn usable_bytes(&self) -> usize {
        self.mapping.len() - page_bytes()
    }
}

impl Drop for AltStack {
    /// Sets the earlier stack and unmaps this one. If someone set another stack after ours and may still set ours again, or
    /// the thread runs on it at this moment, the memory stays mapped: losing it is better than a handler without ground.
    fn drop(&mut self) {
        if current().ss_sp as usize != self.mapping.base() as usize + page_bytes() {
            return;
        }
        // SAFETY: because the earlier stack is what the thread had before; established by `install`; until its owner, who set
        // it, unsets it.
        if unsafe { libc::sigaltstack(&self.previous, ptr::null_mut()) } != 0 {
            return;
        }
        // SAFETY: because the mapping is dropped once, here, and the kernel no longer uses it; established by the call above;
        // `self` is gone after this.
        unsafe { ManuallyDrop::drop(&mut self.mapping) };
    }
}

/// `sigaltstack(NULL, &current)`.
fn current() -> libc::stack_t {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: because the answer goes into a record of ours; until the call returns.
    unsafe { libc::sigaltstack(ptr::null(), stack.as_mut_ptr()) };
    // SAFETY: because zeroed memory is a valid `stack_t`.
    unsafe { stack.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_stack_comes_back_in_any_order_that_nests() {
        std::thread::spawn(|| {
            let before = current().ss_sp;
            let outer = AltStack::install().unwrap();
            let outer_base = current().ss_sp;
            assert_ne!(outer_base, before);
            assert!(outer.contains(outer_base as usize));
            assert!(outer.usable_bytes() >= STACK_BYTES_MIN);
            let inner = AltStack::install_by(GuardRoad::Protect).unwrap();
            assert_ne!(current().ss_sp, outer_base);
            drop(inner);
            assert_eq!(current().ss_sp, outer_base);
            drop(outer);
            assert_eq!(current().ss_sp, before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_stack_that_is_not_the_current_one_is_left_alone() {
        std::thread::spawn(|| {
            let outer = AltStack::install().unwrap();
            let outer_base = current().ss_sp as usize;
            let inner = AltStack::install().unwrap();
            let inner_base = current().ss_sp;
            drop(outer);
            assert_eq!(current().ss_sp, inner_base, "the inner one is still set");
            drop(inner);
            // The inner one restored the outer one, whose memory is therefore still there.
            assert_eq!(current().ss_sp as usize, outer_base);
            // SAFETY: because the memory was left mapped by the drop above; until the process ends.
            unsafe { (outer_base as *mut u8).write_volatile(1) };
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thousand_stacks_leave_no_mapping() {
        const NAME: &str = "alt_stack::tests::a_thousand_stacks_leave_no_mapping";
        if let Some(child) = crate::testing::child(NAME, "") {
            assert!(child.status.success(), "{child:?}");
            return;
        }
        drop(AltStack::install().unwrap());
        let before = crate::memory::vma_count().unwrap();
        for road in [guard::probe(), GuardRoad::Protect] {
            for _ in 0..500 {
                drop(AltStack::install_by(road).unwrap());
            }
        }
        assert!(crate::memory::vma_count().unwrap() <= before + 2);
        assert_eq!(VmaBudget::process().used(), 0);
    }
}
