//! What does the operation table of `urgo-uring` add to a ring round trip?
//!
//! # Safety
//! Pushing a submission entry is unsafe because the kernel would use the memory it names; a NOP names none.

use crate::catalogue::{Case, Contender, Size, Workload};
use crate::cell::{Cell, Lap, Sample};
use crate::hosts::warm_up;
use io_uring::{IoUring, opcode};
use std::ptr::NonNull;
use urgo_uring::{Config, Event, Flushed, Kind, Ring};

pub(super) const WORKLOAD: Workload = Workload {
    name: "ring_nop",
    question: "What does the operation table of urgo-uring (slot, generation, state machine) add to a ring round trip?",
    work: "Batches of 1, 16 and 32 NOPs are prepared, submitted with one `io_uring_enter`, in which they complete, and reaped. \
           One operation is one NOP. urgo is here its crate `urgo-uring` alone (register, queue, flush, reap, outcome), \
           without scheduler and goroutines; the raw ring is the `io-uring` crate with the set-up flags that urgo's ladder \
           ends at on a recent kernel.",
    is_not: "a measure of I/O: a NOP completes inside the submission; no task work runs, nothing waits.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::alone("raw ring", raw_ring).of_crate("io-uring"),
    ],
    client: None,
};

const RING_ENTRIES: u32 = 64;

fn cases(size: Size) -> Vec<Case> {
    let case = |(batch, ops): (usize, usize)| {
        Case::new(format!("batch of {batch}"), 1, size.of(ops, 128)).param("batch", batch)
    };
    [(1, 500_000), (16, 1_600_000), (32, 1_600_000)]
        .map(case)
        .to_vec()
}

fn urgo(cell: &Cell) -> Sample {
    let batch = cell.get("batch");
    let mut ring = Ring::new(&Config {
        entries: RING_ENTRIES,
        ..Config::default()
    })
    .expect("a ring");
    urgo_nops(&mut ring, batch, warm_up(cell.ops()) / batch);
    urgo_nops(&mut ring, batch, cell.ops() / batch)
}

fn urgo_nops(ring: &mut Ring, batch: usize, batches: usize) -> Sample {
    let mut reaped = 0;
    let mut ready = Vec::with_capacity(batch);
    // Never followed: the ring only hands it back.
    let owner = NonNull::dangling();
    let lap = Lap::start();
    for _ in 0..batches {
        for _ in 0..batch {
            let token = ring
                .register(Kind::OneShot, -1, owner)
                .expect("room in the table");
            // SAFETY: a NOP names no memory and does not link to its successor.
            unsafe { ring.queue(token, opcode::Nop::new().build()) }.expect("room for the batch");
        }
        assert_eq!(ring.flush(), Flushed::Done);
        ring.reap(|_, token, event| {
            assert_eq!(event, Event::Ready);
            ready.push(token);
        });
        for token in ready.drain(..) {
            assert_eq!(ring.outcome(token).res, 0);
            reaped += 1;
        }
    }
    let sample = lap.stop(batch * batches, reaped as u64);
    assert_eq!(reaped, batch * batches);
    sample
}

fn raw_ring(cell: &Cell) -> Sample {
    let batch = cell.get("batch");
    let mut builder = IoUring::builder();
    builder
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_clamp();
    let mut ring = builder
        .setup_no_sqarray()
        .build(RING_ENTRIES)
        .expect("a ring with DEFER_TASKRUN and NO_SQARRAY (kernel 6.6)");
    raw_nops(&mut ring, batch, warm_up(cell.ops()) / batch);
    raw_nops(&mut ring, batch, cell.ops() / batch)
}

fn raw_nops(ring: &mut IoUring, batch: usize, batches: usize) -> Sample {
    let mut reaped = 0;
    let lap = Lap::start();
    for round in 0..batches {
        let mut queue = ring.submission();
        for at in 0..batch {
            let entry = opcode::Nop::new()
                .build()
                .user_data((round * batch + at) as u64);
            // SAFETY: a NOP names no memory; the queue has room, because every batch is smaller than RING_ENTRIES and all
            // earlier entries were taken by the kernel in `submit`.
            unsafe { queue.push(&entry) }.expect("room for the batch");
        }
        drop(queue);
        ring.submit().expect("enter");
        for completion in ring.completion() {
            assert_eq!(completion.result(), 0);
            reaped += 1;
        }
    }
    let sample = lap.stop(batch * batches, reaped as u64);
    assert_eq!(reaped, batch * batches);
    sample
}
