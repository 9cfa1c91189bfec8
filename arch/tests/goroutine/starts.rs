//! Fresh contexts and the order in which contexts run.

use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::rc::Rc;

use urgo_arch::{
    MIN_STACK_BYTES, STACK_ALIGN, WalkEnd, frame_pointer, init, suspended_registers, switch_in,
    switch_out,
};

use crate::ground::{Goroutine, ROOMY_BYTES, Stack};

struct Note {
    host: Cell<*mut u8>,
    own: Cell<*mut u8>,
    seen: Cell<usize>,
    fp: Cell<usize>,
}

unsafe extern "C" fn write_note(arg: *mut ()) -> ! {
    // SAFETY: the test below passes the address of a note that outlives the goroutine.
    let note = unsafe { &*arg.cast::<Note>() };
    note.seen.set(arg.addr());
    note.fp.set(frame_pointer().addr());
    // SAFETY: the host is suspended in the `switch_in` of the test.
    unsafe { switch_out(note.own.as_ptr(), note.host.as_ptr()) };
    unreachable!();
}

#[test]
fn fresh_context_passes_its_argument_on_an_aligned_stack() {
    let stack = Stack::map(ROOMY_BYTES);
    for below in [0, STACK_ALIGN, 3 * STACK_ALIGN, 1024 + STACK_ALIGN] {
        let note = Note {
            host: Cell::new(null_mut()),
            own: Cell::new(null_mut()),
            seen: Cell::new(0),
            fp: Cell::new(0),
        };
        // SAFETY: still inside the mapping, with most of it below.
        let top = unsafe { stack.top().sub(below) };
        // SAFETY: the stack is mapped and unused; the note outlives the switch; entered once.
        unsafe {
            let sp = init(top, write_note, (&raw const note).cast_mut().cast());
            assert!(sp < top && top.addr() - sp.addr() <= 64);
            switch_in(note.host.as_ptr(), sp);
        }
        assert_eq!(note.seen.get(), (&raw const note).addr());
        assert!(
            note.fp.get().is_multiple_of(16),
            "entry's frame record at {:#x}",
            note.fp.get()
        );
        assert!(note.fp.get() < top.addr() && note.fp.get() > stack.low());
    }
}

#[test]
fn init_writes_only_next_to_the_top() {
    #[repr(align(16))]
    struct Ground([u8; MIN_STACK_BYTES + 64]);
    let mut ground = Box::new(Ground([0xa5; MIN_STACK_BYTES + 64]));
    let top = &raw mut ground.0[MIN_STACK_BYTES];
    // SAFETY: MIN_STACK_BYTES of the array lie below `top`; the context is never entered.
    let sp = unsafe { init(top, write_note, null_mut()) };
    let written = top.addr() - sp.addr();
    assert!(
        ground.0[..MIN_STACK_BYTES - written]
            .iter()
            .all(|&byte| byte == 0xa5)
    );
    assert!(ground.0[MIN_STACK_BYTES..].iter().all(|&byte| byte == 0xa5));
}

#[test]
fn fresh_context_shows_the_entry_and_an_empty_chain() {
    let stack = Stack::map(ROOMY_BYTES);
    // SAFETY: the stack is mapped and unused; the context is never entered.
    let registers = unsafe { suspended_registers(init(stack.top(), write_note, null_mut())) };
    assert!(urgo_arch::is_entry_frame(registers.pc));
    assert!(registers.sp > stack.low() && registers.sp <= stack.high());
    let chain = std::ptr::with_exposed_provenance(registers.fp);
    // SAFETY: the whole stack is mapped.
    let end = unsafe {
        urgo_arch::walk_frames(chain, stack.low(), stack.high(), |_| {
            panic!("a fresh context has no frame")
        })
    };
    assert_eq!(end, WalkEnd::Complete);
}

#[test]
fn three_goroutines_hand_over_in_a_ring_without_the_host() {
    const ROUNDS: usize = 10_000;
    let order: Rc<RefCell<Vec<u8>>> = Rc::default();
    let ring: Rc<RefCell<Vec<Goroutine>>> = Rc::default();
    for me in 0..3_usize {
        let (order, others) = (order.clone(), ring.clone());
        ring.borrow_mut()
            .push(Goroutine::fresh(ROOMY_BYTES, move |inside| {
                for _ in 0..ROUNDS {
                    order.borrow_mut().push(me as u8);
                    let next: *const Goroutine = &raw const others.borrow()[(me + 1) % 3];
                    // SAFETY: the ring keeps its three goroutines until the test's end.
                    inside.wait_across(unsafe { (*next).inside() });
                }
            }));
    }
    // The first goroutine is entered from the host and the first to finish; the host then lets the others finish.
    let all: Vec<*const Goroutine> = ring
        .borrow()
        .iter()
        .map(|goroutine| &raw const *goroutine)
        .collect();
    for goroutine in all {
        // SAFETY: as above.
        let is_running = unsafe { (*goroutine).resume() };
        assert!(
            !is_running,
            "ended once the ring came round for the last time"
        );
    }
    let order = order.borrow();
    assert_eq!(order.len(), 3 * ROUNDS);
    assert!(
        order
            .iter()
            .enumerate()
            .all(|(turn, &who)| usize::from(who) == turn % 3)
    );
    ring.borrow_mut().clear();
}

#[test]
fn goroutine_reached_across_returns_to_the_host_that_entered_the_first() {
    let second = Rc::new(Goroutine::fresh(ROOMY_BYTES, |inside| inside.wait()));
    let target = second.clone();
    let first = Goroutine::fresh(ROOMY_BYTES, move |inside| {
        inside.wait_across(target.inside())
    });
    assert!(
        first.resume(),
        "the second goroutine switched out here, on its behalf"
    );
    assert!(!second.resume());
    assert!(!first.resume());
}

#[test]
fn goroutine_may_host_another_goroutine() {
    let outer = Goroutine::fresh(ROOMY_BYTES, |inside| {
        let inner = Goroutine::fresh(ROOMY_BYTES, |inside| {
            for _ in 0..100 {
                inside.wait();
            }
        });
        let mut turns = 0;
        while inner.resume() {
            turns += 1;
            inside.wait();
        }
        assert_eq!(turns, 100);
    });
    while outer.resume() {}
    assert!(outer.take_panic().is_none());
}
