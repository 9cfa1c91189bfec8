//! Reads registers out of the context that the kernel hands to a signal handler.
//!
//! The layouts below are the kernel's own (`struct ucontext` of its UAPI headers), which cannot change; those of the
//! C libraries agree on every field read here.
//!
//! # Safety
//!
//! Dereferences the pointer that a handler got as its third argument. It relies on the layouts, whose offsets are
//! asserted at compile time and compared with libc's by a test.
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::offset_of;

/// The three registers that say where a stack stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Program counter: the next instruction.
    pub pc: usize,
    /// Stack pointer.
    pub sp: usize,
    /// Frame pointer, a place to start a [`walk_frames`](crate::walk_frames); means nothing in code without frame pointers.
    pub fp: usize,
}

/// The head that both CPUs share: flags, link and the alternate stack in use.
#[repr(C)]
struct UcontextHead {
    uc_flags: u64,
    uc_link: usize,
    stack_pointer: usize,
    stack_flags: i32,
    stack_bytes: usize,
}

/// x86_64: the machine registers follow the head.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct Ucontext {
    head: UcontextHead,
    r8_to_r15: [u64; 8],
    rdi: u64,
    rsi: u64,
    fp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    sp: u64,
    pc: u64,
}

#[cfg(target_arch = "x86_64")]
const _: () = assert!(
    offset_of!(Ucontext, fp) == 120
        && offset_of!(Ucontext, sp) == 160
        && offset_of!(Ucontext, pc) == 168,
    "struct ucontext of the x86_64 kernel"
);

/// aarch64: the signal mask, with room to grow to 1024 bits, stands between the head and the machine registers, which
/// are 16-aligned.
#[cfg(target_arch = "aarch64")]
#[repr(C)]
struct Ucontext {
    head: UcontextHead,
    signal_mask: [u64; 16],
    align: u64,
    fault_address: u64,
    x0_to_x28: [u64; 29],
    fp: u64,
    x30: u64,
    sp: u64,
    pc: u64,
}

#[cfg(target_arch = "aarch64")]
const _: () = assert!(
    offset_of!(Ucontext, fault_address) == 176
        && offset_of!(Ucontext, fp) == 416
        && offset_of!(Ucontext, sp) == 432
        && offset_of!(Ucontext, pc) == 440,
    "struct ucontext of the aarch64 kernel"
);

/// The registers of the code that a signal interrupted.
///
/// For a signal handler: takes no lock, does not allocate.
///
/// # Safety
///
/// `ucontext` is the third argument of a handler installed with `SA_SIGINFO`, and the handler has not returned.
#[must_use]
pub unsafe fn interrupted_registers(ucontext: *const c_void) -> Registers {
    let context = ucontext.cast::<Ucontext>();
    // SAFETY: the kernel wrote a whole ucontext there because the pointer is a handler's third argument; promised by
    // the caller, until the handler returns.
    unsafe {
        Registers {
            pc: (*context).pc as usize,
            sp: (*context).sp as usize,
            fp: (*context).fp as usize,
        }
    }
}
