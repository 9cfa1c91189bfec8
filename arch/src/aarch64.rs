//! aarch64: contexts and switches.
//!
//! # A suspended context
//!
//! Written by [`switch_out`] and [`switch_across`]; a context is the address of its lowest word.
//!
//! ```text
//!            :  frame of the function that waits   :   higher addresses
//!            +--------------------------------------+
//!   sp + 24  |  unused                               |   the stack pointer must stay 16-aligned
//!   sp + 16  |  address to continue at               |
//!   sp +  8  |  x19 of that frame                    |   the compiler's base pointer: it refuses to declare it overwritten
//!   sp +  0  |  x29 of that frame                    |   the compiler's frame pointer: refused too
//!            +--------------------------------------+
//! ```
//!
//! # A fresh context
//!
//! Written by [`init`]. The address to continue at and the frame pointer have the same places, so entering a fresh
//! context and continuing a suspended one are the same instructions, and a dump reads a null frame pointer.
//!
//! ```text
//!   top      +--------------------------------------+   16-aligned
//!   top -  8 |  0                                    |   a reader that looks for a frame record above the
//!   top - 16 |  0                                    |   entry frame finds null words, not the neighbour's memory
//!   sp + 24  |  entry                                |   becomes x1
//!   sp + 16  |  urgo_goroutine_entry                 |
//!   sp +  8  |  arg                                  |   becomes x0
//!   sp +  0  |  0                                    |   becomes x29: end of the frame-pointer chain
//!            +--------------------------------------+   sp = top - 48
//! ```
//!
//! # The host stack while a goroutine runs
//!
//! Written by [`switch_in`], in the layout of a suspended context; the address to continue at is the link register as
//! `bl 2f` set it.
//!
//! # The instructions
//!
//! ```text
//! switch_in(x0 = host, x1 = to)
//!     stp x29, x19, [sp, #-32]!   keep the two registers the compiler does not spill for us; room for the address
//!     bl 2f                       x30 = the host's continuation, and the return predictor expects a `ret` to it
//!     ldp x29, x19, [sp], #32     (continued here by that `ret`)
//!     b 3f                        step over the stub
//!  2: str x30, [sp, #16]          the continuation goes to the stack: the goroutine will overwrite x30
//!     mov x9, sp
//!     str x9, [x0]                the host context is complete: publish it (sp itself cannot be stored)
//!     ldr x16, [x1, #16]          where the goroutine continues
//!     mov sp, x1                  from here on the goroutine's stack
//!     br x16                      indirect jump, not `ret`: there is no call it would pair with
//!  3:
//!
//! switch_out(x0 = save, x1 = host)
//!     stp x29, x19, [sp, #-32]!   as above
//!     adr x9, 2f
//!     str x9, [sp, #16]           where this goroutine continues; an adr and not a `bl`, because nothing will return to it
//!     mov x10, sp
//!     str x10, [x0]               the context is complete: publish it
//!     ldr x11, [x1]               the host context
//!     ldr x30, [x11, #16]         its continuation, as `bl 2f` set it
//!     mov sp, x11                 from here on the host stack
//!     ret                         pairs with that `bl`: predicted
//!  2: hint #36                    (continued here by a `br x16`) landing pad, `bti j`
//!     ldp x29, x19, [sp], #32
//!
//! switch_across(x0 = save, x1 = to)
//!     the first half of switch_out, then the second half of switch_in: the host's call stays open,
//!     and whichever goroutine switches out next closes it
//! ```
//!
//! - x30 is declared overwritten (it is in the ABI's list), so the compiler keeps the caller's return address in the
//!   frame record; under pointer authentication it is signed with the stack pointer of that frame, which a switch
//!   does not change. The continuations saved here are not signed, as jump targets never are.
//! - x18 belongs to the platform and is not touched.
//! - Landing pads are `hint` instructions: `bti j` where a `br` lands, `bti c` at the entry frame. A jump through x16
//!   or x17 is let in by both. CPUs without BTI execute them as no-ops.
//! - The ABI has callees preserve the low halves of v8-v15. They are declared overwritten like all the others.
//!
//! The asm blocks leave out `nostack`, so the compiler keeps no live data below the stack pointer, and leave out
//! `nomem`, so it keeps nothing in registers that another stack may change in memory.
//!
//! # Safety
//!
//! Assembly is needed because no language construct changes the stack pointer. It relies on the layouts above and on
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
const ENTRY_BYTES: usize = 32;

const _: () = assert!((FRESH_WORDS * size_of::<usize>()).is_multiple_of(STACK_ALIGN));

/// The entry frame: first code of every goroutine, and the last frame of every trace of one.
///
/// It is continued with the stack pointer at a fresh context, takes the three words meant for it and leaves the stack
/// pointer at `top - 16`, aligned as the ABI wants it. `entry` never returns; `brk` stops the CPU if it does, and makes
/// the return address lie inside this function, where unwinders look it up. `.cfi_undefined x30` tells them that this
/// frame has no caller; a null x29 tells the same to whoever follows frame pointers.
///
/// # Safety
///
/// Only for [`init`] to name. It is no function that can be called: it expects a fresh context, not a return address.
#[unsafe(naked)]
unsafe extern "C" fn urgo_goroutine_entry() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "4:",
        "hint #34",
        "ldp x29, x0, [sp]",
        "ldr x1, [sp, #24]",
        "add sp, sp, #32",
        "mov x30, xzr",
        "blr x1",
        "brk #1",
        ".org 4b + {entry_bytes}",
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
        0,
        arg.expose_provenance(),
        urgo_goroutine_entry as *const () as usize,
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
    // SAFETY: sp and the two registers that are not declared overwritten come back as they were, because the stub
    // saves sp behind them and `switch_out` returns to exactly that sp; established by the layout of the module doc,
    // until the host's frame ends, which it cannot before this returns.
    unsafe {
        asm!(
            "stp x29, x19, [sp, #-32]!",
            "bl 2f",
            "ldp x29, x19, [sp], #32",
            "b 3f",
            "2:",
            "str x30, [sp, #16]",
            "mov x9, sp",
            "str x9, [x0]",
            "ldr x16, [x1, #16]",
            "mov sp, x1",
            "br x16",
            "3:",
            in("x0") host,
            in("x1") to,
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _, lateout("x24") _,
            lateout("x25") _, lateout("x26") _, lateout("x27") _, lateout("x28") _,
            lateout("v8") _, lateout("v9") _, lateout("v10") _, lateout("v11") _,
            lateout("v12") _, lateout("v13") _, lateout("v14") _, lateout("v15") _,
            clobber_abi("C"),
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
    // SAFETY: sp, x29 and x19 are restored from the context that was saved here, because whoever continues it loads
    // sp from `*save` and jumps to label 2; established by `switch_in` and `switch_across`, until this stack is reused.
    unsafe {
        asm!(
            "stp x29, x19, [sp, #-32]!",
            "adr x9, 2f",
            "str x9, [sp, #16]",
            "mov x10, sp",
            "str x10, [x0]",
            "ldr x11, [x1]",
            "ldr x30, [x11, #16]",
            "mov sp, x11",
            "ret",
            "2:",
            "hint #36",
            "ldp x29, x19, [sp], #32",
            in("x0") save,
            in("x1") host,
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _, lateout("x24") _,
            lateout("x25") _, lateout("x26") _, lateout("x27") _, lateout("x28") _,
            lateout("v8") _, lateout("v9") _, lateout("v10") _, lateout("v11") _,
            lateout("v12") _, lateout("v13") _, lateout("v14") _, lateout("v15") _,
            clobber_abi("C"),
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
            "stp x29, x19, [sp, #-32]!",
            "adr x9, 2f",
            "str x9, [sp, #16]",
            "mov x10, sp",
            "str x10, [x0]",
            "ldr x16, [x1, #16]",
            "mov sp, x1",
            "br x16",
            "2:",
            "hint #36",
            "ldp x29, x19, [sp], #32",
            in("x0") save,
            in("x1") to,
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _, lateout("x24") _,
            lateout("x25") _, lateout("x26") _, lateout("x27") _, lateout("x28") _,
            lateout("v8") _, lateout("v9") _, lateout("v10") _, lateout("v11") _,
            lateout("v12") _, lateout("v13") _, lateout("v14") _, lateout("v15") _,
            clobber_abi("C"),
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
    // SAFETY: four words above `sp` are the context because the caller promises that it is suspended; see the layout.
    unsafe {
        Registers {
            pc: words.add(2).read(),
            sp: words.add(4).addr(),
            fp: words.read(),
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
    unsafe { asm!("mov {}, x29", out(reg) fp, options(nomem, nostack, preserves_flags)) };
    fp
}

/// Whether `pc` lies in the entry frame's code: true for the last return address of a whole goroutine stack.
///
/// Any thread, signal handlers included.
#[must_use]
pub fn is_entry_frame(pc: usize) -> bool {
    pc.wrapping_sub(urgo_goroutine_entry as *const () as usize) < ENTRY_BYTES
}

/// A return address as found on the stack, without the bits that pointer authentication may have signed it with.
///
/// `hint #7` is `xpaclri`: it strips x30, and does nothing on a CPU without the feature.
#[inline]
pub(crate) fn plain_return_address(pc: usize) -> usize {
    let plain;
    // SAFETY: changes x30 only, which is declared.
    unsafe { asm!("hint #7", inout("x30") pc => plain, options(nomem, nostack, preserves_flags)) };
    plain
}
