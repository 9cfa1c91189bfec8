//! A signal handler reads the registers of the goroutine it interrupted and walks its stack.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;
use std::ptr::{null, null_mut, with_exposed_provenance};

use urgo_arch::{Registers, WalkEnd, interrupted_registers, is_entry_frame, walk_frames};

use crate::ground::{Goroutine, Inside, ROOMY_BYTES};

#[derive(Clone, Copy)]
struct Seen {
    registers: Registers,
    by_libc: Registers,
    frames: usize,
    last_is_entry: bool,
    end: WalkEnd,
}

thread_local! {
    static INTERRUPTED: Cell<*const Inside> = const { Cell::new(null()) };
    static SEEN: Cell<Option<Seen>> = const { Cell::new(None) };
}

/// The same registers as libc's type names them.
fn registers_by_libc(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    #[cfg(target_arch = "x86_64")]
    let registers = Registers {
        pc: machine.gregs[libc::REG_RIP as usize] as usize,
        sp: machine.gregs[libc::REG_RSP as usize] as usize,
        fp: machine.gregs[libc::REG_RBP as usize] as usize,
    };
    #[cfg(target_arch = "aarch64")]
    let registers = Registers {
        pc: machine.pc as usize,
        sp: machine.sp as usize,
        fp: machine.regs[29] as usize,
    };
    registers
}

extern "C" fn on_trap(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the third argument of a handler with SA_SIGINFO, on the thread that set INTERRUPTED; the bounds are
    // those of the interrupted goroutine's stack.
    unsafe {
        let registers = interrupted_registers(context);
        let inside = &*INTERRUPTED.get();
        let (mut frames, mut last_is_entry) = (0, false);
        let end = walk_frames(
            with_exposed_provenance(registers.fp),
            inside.low,
            inside.high,
            |pc| {
                frames += 1;
                last_is_entry = is_entry_frame(pc);
                ControlFlow::Continue(())
            },
        );
        let by_libc = registers_by_libc(&*context.cast::<libc::ucontext_t>());
        SEEN.set(Some(Seen {
            registers,
            by_libc,
            frames,
            last_is_entry,
            end,
        }));
        // `brk` is not stepped over by the CPU, `int3` is.
        #[cfg(target_arch = "aarch64")]
        {
            (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc += 4;
        }
    }
}

#[inline(never)]
fn trap() {
    // SAFETY: raises SIGTRAP, for which the test has installed a handler that returns behind it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("int3");
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("brk #1");
    }
}

#[test]
fn handler_reads_the_interrupted_goroutine_and_walks_to_its_entry() {
    let alternate = vec![0_u8; 64 << 10];
    // SAFETY: installs a handler for SIGTRAP that this test binary raises only here, on an alternate stack that lives
    // as long as the thread uses it.
    unsafe {
        let stack = libc::stack_t {
            ss_sp: alternate.as_ptr().cast_mut().cast(),
            ss_flags: 0,
            ss_size: alternate.len(),
        };
        assert_eq!(libc::sigaltstack(&raw const stack, null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(
            libc::sigaction(libc::SIGTRAP, &raw const action, null_mut()),
            0
        );
    }
    let goroutine = Goroutine::fresh(ROOMY_BYTES, |inside| {
        INTERRUPTED.set(&raw const *inside);
        trap();
        inside.wait();
        trap();
    });
    for still_running in [true, false] {
        assert_eq!(goroutine.resume(), still_running);
        let seen = SEEN.take().expect("the handler ran");
        assert_eq!(seen.registers, seen.by_libc);
        let (low, high) = (goroutine.inside().low, goroutine.inside().high);
        assert!(
            (low..high).contains(&seen.registers.sp) && (low..high).contains(&seen.registers.fp)
        );
        assert!(
            seen.registers.pc.wrapping_sub(trap as *const () as usize) < 64,
            "pc inside `trap`"
        );
        assert_eq!(seen.end, WalkEnd::Complete);
        assert!(
            seen.frames >= 2 && seen.last_is_entry,
            "{} frames",
            seen.frames
        );
    }
    // SAFETY: the alternate stack is not in use; it is taken away before it is freed.
    unsafe {
        let off = libc::stack_t {
            ss_sp: null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        };
        assert_eq!(libc::sigaltstack(&raw const off, null_mut()), 0);
    }
    drop(alternate);
}
