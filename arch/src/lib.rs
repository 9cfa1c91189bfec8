//! The CPU door: everything of urgo that names a register.
//!
//! # Purpose
//!
//! Moves the running CPU from one stack to another and says what is on a stack. It has no policy: who owns a stack,
//! who runs next and on which thread are questions of the rooms above.
//!
//! # Words
//!
//! - **host stack**: the OS thread's own stack, where the scheduler runs.
//! - **context**: where a suspended stack continues. It is one pointer, the stack pointer; the rest lies on the stack
//!   itself, in a layout drawn in the file of each CPU.
//! - **fresh context**: one made by [`init`], never continued so far.
//! - **entry frame**: the outermost frame of every goroutine, `urgo_goroutine_entry`. Unwinders and frame walks end there.
//!
//! # The verbs
//!
//! `x86_64.rs` and `aarch64.rs` export the same set, and nothing else in urgo contains assembly for them:
//!
//! | verb | runs on | leaves behind | continues |
//! |---|---|---|---|
//! | [`init`] | anywhere | a fresh context | nothing |
//! | [`switch_in`] | host stack | host context | a goroutine |
//! | [`switch_out`] | goroutine stack | goroutine context | the host |
//! | [`switch_across`] | goroutine stack | goroutine context | another goroutine |
//! | [`suspended_registers`] | anywhere | — | nothing: reads a context for a dump |
//! | [`frame_pointer`] | anywhere | — | nothing: where a frame walk of the caller starts |
//! | [`is_entry_frame`] | anywhere | — | nothing: is this return address the entry frame's? |
//!
//! # Why a switch costs a nanosecond
//!
//! Two decisions, both visible in the listings of the CPU files:
//!
//! 1. *The compiler saves what is live.* A switch is inlined and declares every register as overwritten, so at each
//!    place the compiler spills exactly the values it still needs, often none. Only the two registers that it will not
//!    let go (its frame pointer and its base pointer) are saved by hand.
//! 2. *Calls and returns stay paired.* The CPU predicts each return from a small stack of its own that calls push on.
//!    The textbook switch returns into another stack, every such return is mispredicted, and the predictions below it
//!    are off by one as well: 12 ns one way. Here [`switch_in`] *calls* a stub that jumps into the goroutine, and
//!    [`switch_out`] *returns* to behind that call. Entering a suspended goroutine is an indirect jump, which has a
//!    predictor of its own.
//!
//! Rejected: saving the callee-saved registers in an ordinary function (12 to 16 memory operations per switch where
//! most sites need four), and `ret` as the indirect jump (see 2).
//!
//! # What a switch does not carry
//!
//! - **Floating-point control** (rounding mode, exception masks: MXCSR and the x87 control word, FPCR) belongs to the
//!   thread, not to the goroutine. The ABI has callees preserve these bits, but saving them costs more than the rest
//!   of the switch, Rust defines no behaviour for changed ones, and Go and corosensei leave them alone too. Code that
//!   changes them must change them back before it waits.
//! - **Flags**: the direction flag is clear at every switch because Rust requires it to be clear at every call and
//!   every asm block; the arithmetic flags are declared overwritten.
//! - **Vector state** is declared overwritten in full, upper halves included. AArch64 alone promises `d8`-`d15` across
//!   calls; they are declared overwritten too, so the compiler saves them where they are live.
//! - **Thread identity**: the compiler may keep the address of a thread-local across a switch. A context must be
//!   continued by the OS thread that suspended it (a fresh one by any).
//! - **Shadow stacks** (Intel CET SHSTK, Arm GCS): neither is switched. Linux turns them on only for programs whose
//!   every object is marked for it, and Rust objects are not. The branch-target half (IBT, BTI) is met on AArch64 by
//!   landing pads; Linux has no user-space IBT on x86_64.
//!
//! # Unwinding
//!
//! A switch is no boundary for unwinding: after it continues, a panic may pass through the frame it was inlined in,
//! on a goroutine stack or on the host stack. The outermost frame of a goroutine is one: `entry` is `extern "C"`, so
//! a panic that leaves it aborts the process. Catch it inside.
//!
//! A goroutine's stack does not lead to the host's. The DWARF rules of the entry frame declare its return address
//! undefined and its frame pointer is null, which is how unwinders and frame walks tell the end of a stack.
//!
//! # Fails when
//!
//! Nothing here returns an error. A wrong context or a stack too small is undefined behaviour; every verb's `# Safety`
//! says what is required.
//!
//! # Imports
//!
//! `core` only.

#![no_std]
#![deny(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("urgo runs on 64-bit Linux");

mod frame_walk;
mod signal_context;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as cpu;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as cpu;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "urgo knows x86_64 and aarch64; another CPU needs a file beside these two with the same verbs"
);

pub use cpu::{
    MIN_STACK_BYTES, STACK_ALIGN, frame_pointer, init, is_entry_frame, suspended_registers,
    switch_across, switch_in, switch_out,
};
pub use frame_walk::{WalkEnd, walk_frames};
pub use signal_context::{Registers, interrupted_registers};
