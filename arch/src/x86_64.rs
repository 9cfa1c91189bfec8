//! x86_64: contexts and switches.
//!
//! # A suspended context
//!
//! Written by [`switch_out`] and [`switch_across`]; a context is the address of its lowest word.
//!
//! ```text
//!            :  frame of the function that waits   :   higher addresses
//!            +--------------------------------------+
//!   sp + 16  |  rbp of that frame                    |   the compiler's frame pointer: it refuses to declare it overwritten
//!   sp +  8  |  rbx of that frame                    |   the compiler's base pointer where a frame is over-aligned: refused too
//!   sp +  0  |  address to continue at               |
//!            +--------------------------------------+
//! ```
//!
//! # A fresh context
//!
//! Written by [`init`]. The first three words have the same meaning, so entering a fresh context and continuing a
//! suspended one are the same instructions, and a dump reads a null frame pointer.
//!
//! ```text
//!   top      +--------------------------------------+   16-aligned
//!   top -  8 |  0                                    |   a reader that looks for a return address above the
//!   top - 16 |  0                                    |   entry frame finds null words, not the neighbour's memory
//!   sp + 24  |  entry                                |   becomes rax
//!   sp + 16  |  0                                    |   becomes rbp: end of the frame-pointer chain
//!   sp +  8  |  arg                                  |   becomes rdi
//!   sp +  0  |  urgo_goroutine_entry                 |
//!            +--------------------------------------+   sp = top - 48
//! ```
//!
//! # The host stack while a goroutine runs
//!
//! Written by [`switch_in`]; `*host` is the address of its lowest word.
//!
//! ```text
//!            :  frame of the scheduler               :
//!            +--------------------------------------+
//!   sp + 16  |  rbp of that frame                    |
//!   sp +  8  |  rbx of that frame                    |
//!   sp +  0  |  return address pushed by `call 2f`   |   what `ret` in switch_out pops, here and in the CPU's return predictor
//!            +--------------------------------------+
//! ```
//!
//! # The instructions
//!
//! ```text
//! switch_in(rdi = host, rsi = to)
//!     push rbp ; push rbx   keep the two registers the compiler does not spill for us
//!     call 2f               push the host's continuation and tell the return predictor that a `ret` to it will come
//!     pop rbx ; pop rbp     (continued here by that `ret`)
//!     jmp 3f                step over the stub; a direct jump, free once predicted
//!  2: mov [rdi], rsp        the host context is complete: publish it
//!     mov rsp, rsi          from here on the goroutine's stack
//!     pop rax               where it continues
//!     jmp rax               indirect jump, not `ret`: there is no call it would pair with
//!  3:
//!
//! switch_out(rdi = save, rsi = host)
//!     push rbp ; push rbx   as above
//!     lea rax, [rip + 2f]
//!     push rax              where this goroutine continues; an lea and not a `call`, because nothing will return to it
//!     mov [rdi], rsp        the context is complete: publish it
//!     mov rsp, [rsi]        the host stack, at the return address of its `call 2f`
//!     ret                   pairs with that call: predicted
//!  2: pop rbx ; pop rbp     (continued here by a `jmp rax`)
//!
//! switch_across(rdi = save, rsi = to)
//!     the first half of switch_out, then the second half of switch_in: the host's call stays open,
//!     and whichever goroutine switches out next closes it
//! ```
//!
//! The asm blocks leave out `nostack`, so the compiler keeps no live data in the red zone below the stack pointer,
//! and leave out `nomem`, so it keeps nothing in registers that another stack may change in memory.
//!
//! # Safety
//!
//! Assembly is needed because no language construct changes the stack pointer. It relies on the layouts above, on a
//! clear direction flag and an empty x87 stack (both hold at every asm block by the rules of the language), and on
//! callers keeping the promises in each verb's `# Safety`.
#![allow(unsafe_code)]

use core::arch::{asm, naked_asm};

use crate::signal_context::Registers;

/// Alignment in bytes that [`init`] requires of the top of a stack.
pub const STACK_ALIGN: usize = 16;

/// Smallest stack in bytes that [`init`] can prepare and an `entry` that does next to nothing can run on.
///
/// It is a floor for the layout, not a recommendation: formatting a panic message needs some kilobytes, and a signal
/// handler without an alternate stack some more.
pub const MIN_STACK_BYTES: usize = 4096;

/// Words of a fresh context, the two null words above it included.
const FRESH_WORDS: usize = 6;

/// Bytes of `urgo_goroutine_entry`, padding included.
const ENTRY_BYTES: usize = 16;

const _: () = assert!((FRESH_WORDS * size_of::<usize>()).is_multiple_of(STACK_ALIGN));

/// The entry frame: first code of every goroutine, and the last frame of every trace of one.
///
/// It is continued with the stack pointer behind the first word of a fresh context. After three pops the stack pointer
/// is `top - 16`, aligned as the ABI wants it at a call. `entry` never returns; `ud2` stops the CPU if it does, and
/// makes the return address lie inside this function, where unwinders look it up. `.cfi_undefined rip` tells them that
/// this frame has no caller; a null rbp tells the same to whoever follows frame pointers.
///
/// # Safety
///
/// Only for [`init`] to name. It is no function that can be called: it expects a fresh context, not a return address.
#[unsafe(naked)]
unsafe extern "C" fn urgo_goroutine_entry() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "4:",
        "pop rdi",
        "pop rbp",
        "pop rax",
        "call rax",
        "ud2",
        ".org 4b + {entry_bytes}, 0xcc",
        ".cfi_endproc",
        entry_bytes = const ENTRY_BYTES,
    )
}

/// Prepares a fresh stack so that the first switch to it calls `entry(arg)`, and returns its context.
///
/// Writes the 48 bytes below `top` and nothing else. `top` need not be page-aligned. `entry` runs with an empty
/// frame-pointer chain and must not unwind: it is `extern "C"`, so a panic that leaves it aborts the process.
///
/// # Panics
///
/// In debug builds when `top` is not [`STACK_ALIGN`]-aligned.
///
/// # Safety
///
/// The [`MIN_STACK_BYTES`] below `top` must be writable memory that nothing else uses until the goroutine has
/// left the stack for good. `entry(arg)` must be sound to call on the thread that continues the context.
#[inline]
pub unsafe fn init(
    top: *mut u8,
    entry: unsafe extern "C" fn(*mut ()) -> !,
    arg: *mut (),
) -> *mut u8 {
    debug_assert!(
        top.addr().is_multiple_of(STACK_ALIGN),
        "the top of a stack must be 16-aligned"
    );
    let context: [usize; FRESH_WORDS] = [
        urgo_goroutine_entry as *const () as usize,
        arg.expose_provenance(),
        0,
        entry as *const () as usize,
        0,
        0,
    ];
    // SAFETY: the bytes below `top` are writable, unused and 16-aligned because the caller promises so, until the
    // goroutine ends; 48 of them are within MIN_STACK_BYTES.
    unsafe {
        let sp = top.sub(size_of_val(&context));
        sp.cast::<[usize; FRESH_WORDS]>().write(context);
        sp
    }
}

/// On the host stack: saves the host context in `*host` and continues the context `to`. Returns when someone
/// switches out to `*host`.
///
/// # Safety
///
/// - `host` is valid for writes, and what it points to stays untouched by others until the switch back out.
/// - `to` is a fresh context, or one suspended by this OS thread, and nobody continues it a second time.
/// - The code that runs before the switch back is ready for everything this function's caller may have borrowed:
///   like a call, the switch lets other code of this thread run.
#[inline(always)]
pub unsafe fn switch_in(host: *mut *mut u8, to: *mut u8) {
    // SAFETY: rsp and the two registers that are not declared overwritten come back as they were, because the stub
    // saves rsp behind them and `switch_out` returns to exactly that rsp; established by the layout of the module doc,
    // until the host's frame ends, which it cannot before this returns.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "call 2f",
            "pop rbx",
            "pop rbp",
            "jmp 3f",
            "2:",
            "mov qword ptr [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "3:",
            in("rdi") host,
            in("rsi") to,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// On a goroutine stack: saves this goroutine's context in `*save` and continues the host saved in `*host`. Returns
/// when someone continues `*save`.
///
/// # Safety
///
/// - `save` is valid for writes, `host` for reads.
/// - `*host` was saved by a [`switch_in`] on this OS thread that has not returned yet.
/// - The context in `*save` is continued at most once, by this OS thread. If it never is, the frames on this stack
///   are never dropped; the stack may be reused only when nothing points into it.
#[inline(always)]
pub unsafe fn switch_out(save: *mut *mut u8, host: *const *mut u8) {
    // SAFETY: rsp, rbp and rbx are restored from the context that was saved here, because whoever continues it loads
    // rsp from `*save` and jumps to label 2 with the first word popped; established by `switch_in` and
    // `switch_across`, until this stack is reused.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov qword ptr [rdi], rsp",
            "mov rsp, qword ptr [rsi]",
            "ret",
            "2:",
            "pop rbx",
            "pop rbp",
            in("rdi") save,
            in("rsi") host,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// On a goroutine stack: saves this goroutine's context in `*save` and continues the context `to` directly; the saved
/// host context stays as it is. Returns when someone continues `*save`.
///
/// # Safety
///
/// - `save` is valid for writes.
/// - `to` is a fresh context, or one suspended by this OS thread, and nobody continues it a second time. It must not
///   be the host's.
/// - As for [`switch_out`] for the context in `*save`.
#[inline(always)]
pub unsafe fn switch_across(save: *mut *mut u8, to: *mut u8) {
    // SAFETY: as in `switch_out`: the same context is saved here and restored by the same continuations.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov qword ptr [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            in("rdi") save,
            in("rsi") to,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// The registers with which a suspended or fresh goroutine context would continue, for a dump of its stack.
///
/// `fp` is where [`walk_frames`](crate::walk_frames) starts (null for a fresh context); `sp` is the stack pointer
/// after the context's own words are popped.
///
/// # Safety
///
/// `sp` is a fresh context or one saved by [`switch_out`] or [`switch_across`], and stays suspended during the call.
pub unsafe fn suspended_registers(sp: *const u8) -> Registers {
    let words = sp.cast::<usize>();
    // SAFETY: three words above `sp` are the context because the caller promises that it is suspended; see the layout.
    unsafe {
        Registers {
            pc: words.read(),
            sp: words.add(3).addr(),
            fp: words.add(2).read(),
        }
    }
}

/// The frame pointer of the function this is inlined in: the start of a [`walk_frames`](crate::walk_frames).
///
/// Meaningful in builds with frame pointers (`-C force-frame-pointers=yes`); a walk from a meaningless one stops at
/// its bounds.
#[inline(always)]
#[must_use]
pub fn frame_pointer() -> *const usize {
    let fp: *const usize;
    // SAFETY: copies a register and touches nothing else.
    unsafe { asm!("mov {}, rbp", out(reg) fp, options(nomem, nostack, preserves_flags)) };
    fp
}

/// Whether `pc` lies in the entry frame's code: true for the last return address of a whole goroutine stack.
///
/// Any thread, signal handlers included.
#[must_use]
pub fn is_entry_frame(pc: usize) -> bool {
    pc.wrapping_sub(urgo_goroutine_entry as *const () as usize) < ENTRY_BYTES
}

/// A return address as found on the stack, without the bits that the CPU may have signed it with: here none.
#[inline]
pub(crate) fn plain_return_address(pc: usize) -> usize {
    pc
}
