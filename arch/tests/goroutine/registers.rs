//! Values in registers survive switches on both sides.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;

use crate::ground::{Goroutine, Inside, ROOMY_BYTES};

/// More integers and floats than there are registers, all live across every wait.
struct Values {
    integers: [u64; 20],
    floats: [f64; 20],
}

impl Values {
    fn seeded(seed: u64) -> Self {
        let mut values = Self {
            integers: [0; 20],
            floats: [0.0; 20],
        };
        for place in 0..20 {
            values.integers[place] = seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(place as u32);
            values.floats[place] = (seed + place as u64) as f64 * 0.5;
        }
        values
    }

    fn step(&mut self) {
        for place in 0..20 {
            self.integers[place] = self.integers[place].wrapping_add(place as u64 + 1);
            self.floats[place] += 1.0;
        }
    }

    fn assert_after(&self, seed: u64, steps: u64) {
        let start = Self::seeded(seed);
        for place in 0..20 {
            assert_eq!(
                self.integers[place],
                start.integers[place].wrapping_add((place as u64 + 1).wrapping_mul(steps))
            );
            assert_eq!(self.floats[place], start.floats[place] + steps as f64);
        }
    }
}

#[test]
fn values_survive_a_million_switches_on_both_sides() {
    const ROUNDS: u64 = 500_000;
    let goroutine = Goroutine::fresh(ROOMY_BYTES, |inside| {
        let mut mine = Values::seeded(7);
        for _ in 0..ROUNDS {
            mine.step();
            inside.wait();
        }
        mine.assert_after(7, ROUNDS);
    });
    let mut mine = Values::seeded(11);
    let mut rounds = 0;
    while goroutine.resume() {
        mine.step();
        rounds += 1;
    }
    assert_eq!(rounds, ROUNDS);
    mine.assert_after(11, ROUNDS);
    assert!(
        goroutine.take_panic().is_none(),
        "the goroutine's values changed"
    );
}

thread_local! {
    /// The goroutine that `wait_here` suspends.
    static CURRENT: Cell<*const Inside> = const { Cell::new(std::ptr::null()) };
    /// The goroutine that `resume_here` runs.
    static PEER: Cell<*const Goroutine> = const { Cell::new(std::ptr::null()) };
}

/// An ordinary function around a switch out, as C code would see it.
#[inline(never)]
extern "C" fn wait_here() {
    // SAFETY: the test set it to a goroutine that is running this.
    unsafe { (*CURRENT.get()).wait() };
}

/// An ordinary function around a switch in.
#[inline(never)]
extern "C" fn resume_here() {
    // SAFETY: the test set it to a goroutine that it keeps.
    assert!(unsafe { (*PEER.get()).resume() });
}

/// Fills every callee-saved register of the ABI with values derived from `seed`, calls `f`, and returns how many of
/// them came back changed.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn changed_registers_after(f: extern "C" fn(), seed: u64) -> u64 {
    let mut after = [0_u64; 6];
    // SAFETY: rbx and rbp are restored by the pushes and pops around the call; the stack is 16-aligned at the call
    // because two words are pushed and one pair more for the buffer's address.
    unsafe {
        std::arch::asm!(
            "push rbx",
            "push rbp",
            "push {after}",
            "push {after}",
            "lea rbx, [{seed} + 1]",
            "lea rbp, [{seed} + 2]",
            "lea r12, [{seed} + 3]",
            "lea r13, [{seed} + 4]",
            "lea r14, [{seed} + 5]",
            "lea r15, [{seed} + 6]",
            "call {f}",
            "pop rax",
            "pop rax",
            "mov [rax], rbx",
            "mov [rax + 8], rbp",
            "mov [rax + 16], r12",
            "mov [rax + 24], r13",
            "mov [rax + 32], r14",
            "mov [rax + 40], r15",
            "pop rbp",
            "pop rbx",
            f = in(reg) f,
            seed = in(reg) seed,
            after = in(reg) &raw mut after,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("C"),
        );
    }
    after
        .iter()
        .zip(1..)
        .filter(|&(&value, place)| value != seed + place)
        .count() as u64
}

/// Fills every callee-saved register of the ABI with values derived from `seed`, calls `f`, and returns how many of
/// them came back changed.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn changed_registers_after(f: extern "C" fn(), seed: u64) -> u64 {
    let mut after = [0_u64; 18];
    // SAFETY: x19 and x29 are restored from the stack, which stays 16-aligned; the rest is declared.
    unsafe {
        std::arch::asm!(
            "stp x19, x29, [sp, #-32]!",
            "str x2, [sp, #16]",
            "add x19, x1, #1",
            "add x20, x1, #2",
            "add x21, x1, #3",
            "add x22, x1, #4",
            "add x23, x1, #5",
            "add x24, x1, #6",
            "add x25, x1, #7",
            "add x26, x1, #8",
            "add x27, x1, #9",
            "add x28, x1, #10",
            "add x3, x1, #11",
            "fmov d8, x3",
            "add x3, x1, #12",
            "fmov d9, x3",
            "add x3, x1, #13",
            "fmov d10, x3",
            "add x3, x1, #14",
            "fmov d11, x3",
            "add x3, x1, #15",
            "fmov d12, x3",
            "add x3, x1, #16",
            "fmov d13, x3",
            "add x3, x1, #17",
            "fmov d14, x3",
            "add x3, x1, #18",
            "fmov d15, x3",
            "blr x0",
            "ldr x2, [sp, #16]",
            "stp x19, x20, [x2]",
            "stp x21, x22, [x2, #16]",
            "stp x23, x24, [x2, #32]",
            "stp x25, x26, [x2, #48]",
            "stp x27, x28, [x2, #64]",
            "stp d8, d9, [x2, #80]",
            "stp d10, d11, [x2, #96]",
            "stp d12, d13, [x2, #112]",
            "stp d14, d15, [x2, #128]",
            "ldp x19, x29, [sp], #32",
            in("x0") f,
            in("x1") seed,
            in("x2") &raw mut after,
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _, lateout("x24") _,
            lateout("x25") _, lateout("x26") _, lateout("x27") _, lateout("x28") _,
            clobber_abi("C"),
        );
    }
    after
        .iter()
        .zip(1..)
        .filter(|&(&value, place)| value != seed + place)
        .count() as u64
}

#[test]
fn callee_saved_registers_survive_a_switch_on_both_sides() {
    const ROUNDS: u64 = 1000;
    let changed = Rc::new(Cell::new(0));
    let seen = changed.clone();
    let goroutine = Goroutine::fresh(ROOMY_BYTES, move |inside| {
        CURRENT.set(&raw const *inside);
        for round in 0..=ROUNDS {
            seen.set(seen.get() + changed_registers_after(wait_here, black_box(round << 32)));
        }
    });
    PEER.set(&raw const goroutine);
    for round in 0..ROUNDS {
        changed.set(
            changed.get() + changed_registers_after(resume_here, black_box(!(round << 32) - 100)),
        );
    }
    assert!(goroutine.resume());
    assert!(!goroutine.resume());
    assert_eq!(changed.get(), 0);
}
