//! The frame-pointer walk, over real stacks and over broken chains.

use std::cell::RefCell;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::ptr::with_exposed_provenance;
use std::rc::Rc;

use urgo_arch::{WalkEnd, frame_pointer, is_entry_frame, suspended_registers, walk_frames};

use crate::ground::{Goroutine, Inside, ROOMY_BYTES};

#[inline(never)]
fn walk_below(inside: &Inside, found: &RefCell<Vec<usize>>, depth: usize) -> usize {
    if depth == 0 {
        // SAFETY: the bounds are those of the stack this runs on.
        let end = unsafe {
            walk_frames(frame_pointer(), inside.low, inside.high, |pc| {
                found.borrow_mut().push(pc);
                ControlFlow::Continue(())
            })
        };
        assert_eq!(end, WalkEnd::Complete);
        inside.wait();
        return 0;
    }
    black_box(walk_below(inside, found, depth - 1)) + 1
}

#[test]
fn walk_reaches_the_entry_from_inside_and_of_a_suspended_goroutine() {
    const DEPTH: usize = 100;
    let found: Rc<RefCell<Vec<usize>>> = Rc::default();
    let written = found.clone();
    let goroutine = Goroutine::fresh(ROOMY_BYTES, move |inside| {
        walk_below(inside, &written, DEPTH);
    });
    assert!(goroutine.resume());

    let from_inside = found.borrow().clone();
    assert!(from_inside.len() > DEPTH, "{} frames", from_inside.len());
    let recursion = from_inside[0];
    assert!(
        from_inside[..DEPTH].iter().all(|&pc| pc == recursion),
        "each level returns to the same place"
    );
    let entries: Vec<usize> = from_inside
        .iter()
        .copied()
        .filter(|&pc| is_entry_frame(pc))
        .collect();
    assert_eq!(
        entries,
        [*from_inside.last().unwrap()],
        "the entry frame is the last and only there"
    );

    let inside = goroutine.inside();
    let mut suspended = Vec::new();
    // SAFETY: the goroutine is suspended during the walk, its stack is mapped.
    let end = unsafe {
        let registers = suspended_registers(inside.context());
        assert!(registers.sp > inside.low && registers.sp < inside.high);
        walk_frames(
            with_exposed_provenance(registers.fp),
            inside.low,
            inside.high,
            |pc| {
                suspended.push(pc);
                ControlFlow::Continue(())
            },
        )
    };
    assert_eq!(end, WalkEnd::Complete);
    assert_eq!(suspended, from_inside);
    assert!(!goroutine.resume());
}

/// Walks `words` as if they were a stack and returns what it saw. `Place(i)` in a chain is the address of word `i`.
fn walk_words(
    words: &mut [usize],
    start: usize,
    links: &[(usize, usize)],
) -> (Vec<usize>, WalkEnd) {
    let base = words.as_mut_ptr().expose_provenance();
    for &(at, to) in links {
        words[at] = base + to;
    }
    let mut seen = Vec::new();
    // SAFETY: the bounds are those of the slice, which is borrowed mutably here.
    let end = unsafe {
        walk_frames(
            with_exposed_provenance(base + start),
            base,
            base + size_of_val(words),
            |pc| {
                seen.push(pc);
                ControlFlow::Continue(())
            },
        )
    };
    (seen, end)
}

#[test]
fn walk_stops_at_every_kind_of_broken_chain() {
    const WORD: usize = size_of::<usize>();
    // Frame records at words 0, 4 and 8 of 12; return addresses 100, 104, 108.
    let whole = || {
        let mut words = [0_usize; 12];
        words[1] = 100;
        words[5] = 104;
        words[9] = 108;
        words
    };
    let good = [(0, 4 * WORD), (4, 8 * WORD)];
    assert_eq!(
        walk_words(&mut whole(), 0, &good),
        (vec![100, 104, 108], WalkEnd::Complete)
    );
    // Misaligned, to itself, backwards, one record beyond the end, half a record at the end.
    for wrong in [4 * WORD + 1, 0, WORD, 12 * WORD, 11 * WORD] {
        assert_eq!(
            walk_words(&mut whole(), 0, &[(0, wrong)]),
            (vec![100], WalkEnd::Broken),
            "link to {wrong}"
        );
    }
    // Two records may not overlap.
    assert_eq!(
        walk_words(&mut whole(), 4 * WORD, &[(4, 5 * WORD)]),
        (vec![104], WalkEnd::Broken)
    );
    // Starts outside.
    assert_eq!(
        walk_words(&mut whole(), 12 * WORD, &good),
        (vec![], WalkEnd::Broken)
    );
    assert_eq!(
        walk_words(&mut whole(), 3, &good),
        (vec![], WalkEnd::Broken)
    );
    // A null return address ends a stack as a null frame pointer does.
    let mut words = whole();
    words[5] = 0;
    assert_eq!(
        walk_words(&mut words, 0, &good),
        (vec![100], WalkEnd::Complete)
    );
    // At the very end of the address space the bounds arithmetic does not wrap.
    // SAFETY: nothing is read, because no record fits.
    let end = unsafe {
        walk_frames(
            with_exposed_provenance(usize::MAX & !7),
            0,
            usize::MAX,
            |_| ControlFlow::Continue(()),
        )
    };
    assert_eq!(end, WalkEnd::Broken);
}

#[test]
fn walk_stops_when_the_visitor_says_so() {
    let mut words = [0_usize, 100, 0, 104];
    let base = words.as_mut_ptr().expose_provenance();
    words[0] = base + 2 * size_of::<usize>();
    let mut seen = 0;
    // SAFETY: the bounds are those of the array.
    let end = unsafe {
        walk_frames(
            with_exposed_provenance(base),
            base,
            base + size_of_val(&words),
            |_| {
                seen += 1;
                ControlFlow::Break(())
            },
        )
    };
    assert_eq!((seen, end), (1, WalkEnd::Stopped));
}
