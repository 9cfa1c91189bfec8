//! Question: what does the operation table of `urgo-uring` (slot, generation, state machine) add to a ring round trip?
//!
//! Workload: batches of 1, 16 and 32 NOPs are prepared, submitted with one `io_uring_enter`, in which they complete, and
//! reaped. Contenders: `urgo-uring` (register, queue, flush, reap, outcome) and the `io-uring` crate alone, with the set-up
//! flags that urgo's ladder ends at on this kernel, on the same pinned CPU, in turn.
//!
//! Printed: machine, kernel, commit; ns per NOP, of CPU time and of wall time; ratio round by round.
//!
//! It is not: a measure of I/O. A NOP completes inside the submission; no task work runs, nothing waits.
//!
//! # Safety
//! Pushing a submission entry is unsafe because the kernel would use the memory it names; a NOP names none.

#[path = "harness/mod.rs"]
mod harness;

use harness::{
    Contender, Lap, Options, Report, Sample, allowed_cpus, compare, locked_version, pin,
};
use io_uring::{IoUring, opcode};
use std::ptr::NonNull;
use urgo_uring::{Config, Event, Flushed, Kind, Ring};

const RING_ENTRIES: u32 = 64;

fn main() {
    let mut options = Options::from_args(11);
    let cpus = allowed_cpus();
    let mut report = Report::open("ring_nop", &cpus, &mut options);
    pin(cpus[0]);
    let raw_name = format!("io-uring {}", locked_version("io-uring"));
    for batch in [1, 16, 32] {
        let rounds_of_batch = options.size(400_000, 64) / batch;
        let mut ring = Ring::new(&Config {
            entries: RING_ENTRIES,
            ..Config::default()
        })
        .expect("a ring");
        let mut raw = raw_ring();
        let contenders = vec![
            Contender::new("urgo-uring", || {
                urgo_nops(&mut ring, batch, rounds_of_batch)
            }),
            Contender::new(raw_name.as_str(), || {
                raw_nops(&mut raw, batch, rounds_of_batch)
            }),
        ];
        compare(
            &mut report,
            &options,
            &format!("NOP, batch {batch}"),
            None,
            contenders,
        );
    }
}

fn raw_ring() -> IoUring {
    let mut builder = IoUring::builder();
    builder
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_clamp();
    builder
        .setup_no_sqarray()
        .build(RING_ENTRIES)
        .expect("a ring with DEFER_TASKRUN and NO_SQARRAY (kernel 6.6)")
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
    let sample = lap.stop(batch * batches);
    assert_eq!(reaped, batch * batches);
    sample
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
    let sample = lap.stop(batch * batches);
    assert_eq!(reaped, batch * batches);
    sample
}
