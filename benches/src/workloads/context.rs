//! What does a context add to a call?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Lap, Sample};
use crate::hosts::{Goroutines, Green, tokio_runtime};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use urgo::context::{Context, ContextError};
use urgo::net::TcpStream;

pub(super) const WORKLOAD: Workload = Workload {
    name: "context",
    question: "What does it add to a call that a context may cut it short?",
    work: "32 goroutines or tasks each write 8 bytes into a Unix stream socket and read them back from its other end, over and \
           over; one operation is one write or one read. Blocks without and with contexts come in turn, 20 of each, in one \
           process; the figure is the difference of their medians. \"Under a deadline\": each goroutine runs its block under one \
           context that is over in an hour. \"A deadline for each call\": each call has a context of its own, over in an hour, as \
           tokio's `timeout` around each call. \"Cancelled\": 100,000 goroutines of one worker sleep under one context, which is \
           cancelled by another one of that worker; the time is the CPU time for each until all have ended, `canceller_us` in \
           the results how long `cancel` keeps its caller.",
    is_not: "a measure of the calls themselves.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::alone("tokio", tokio_tasks).of_crate("tokio"),
    ],
    client: None,
};

const ADDED: Judge = Judge {
    metric: "added_ns",
    unit: "ns",
    what: "CPU time that the context adds to a call",
};
const PAIRS: usize = 32;
const BLOCKS: usize = 20;
const LONG: Duration = Duration::from_secs(3600);
const BYTES: usize = 8;

fn cases(size: Size) -> Vec<Case> {
    let case = |name: &str, each: u8| {
        Case::new(name, 1, size.of(4_000_000, 4 * BLOCKS * PAIRS))
            .param("each", each)
            .judged_by(ADDED)
    };
    vec![
        case("under a deadline", 0)
            .only(&["urgo"])
            .budget(Budget::AtMost(30.0)),
        case("a deadline for each call", 1),
        Case::new("100000 waiters, cancelled", 1, size.of(100_000, 1000))
            .param("each", 2)
            .only(&["urgo"]),
    ]
}

/// How a block is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Under {
    Nothing,
    OneContext,
    OneForEachCall,
}

/// Blocks without and with in turn; the median of those with, and what they added.
fn in_turn(blocks: usize, mut block: impl FnMut(bool) -> Sample) -> Sample {
    block(false);
    block(true);
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..blocks {
        samples[0].push(block(false));
        samples[1].push(block(true));
    }
    let [without, mut with] = samples.map(|mut all| {
        all.sort_by(|a, b| a.metrics["cpu_ns"].total_cmp(&b.metrics["cpu_ns"]));
        all.swap_remove(blocks / 2)
    });
    let without_ns = without.metrics["cpu_ns"];
    let added_ns = with.metrics["cpu_ns"] - without_ns;
    with.set("without_ns", without_ns);
    with.set("added_ns", added_ns);
    with
}

/// Calls of one socket in one block, and what all sockets' bytes of a block add up to.
fn calls(ops: usize) -> (usize, u64) {
    let rounds = (ops / (2 * BLOCKS) / (2 * PAIRS)).max(1);
    let sum = (0..rounds as u64).sum::<u64>() * PAIRS as u64;
    (rounds, sum)
}

fn finish(lap: Lap, rounds: usize, sum: u64, expected: u64) -> Sample {
    let sample = lap.stop(2 * rounds * PAIRS, sum);
    assert_eq!(sum, expected, "a byte was lost, or came twice");
    sample
}

fn urgo(cell: &Cell) -> Sample {
    let (rounds, expected) = calls(cell.ops());
    let with = match cell.get::<u8>("each") {
        0 => Under::OneContext,
        1 => Under::OneForEachCall,
        _ => return cancelled(cell),
    };
    Goroutines::run(cell, move || {
        in_turn(BLOCKS, |has_context| {
            let under = if has_context { with } else { Under::Nothing };
            let lap = Lap::start();
            let pairs: Vec<_> = (0..PAIRS)
                .map(|_| urgo::spawn(move || echoes(rounds, under)))
                .collect();
            let sum = pairs
                .into_iter()
                .map(|pair| pair.join().expect("no panic"))
                .sum();
            finish(lap, rounds, sum, expected)
        })
    })
}

/// Sleepers of one context that is cancelled.
fn cancelled(cell: &Cell) -> Sample {
    let ops = cell.ops();
    Goroutines::run(cell, move || {
        let context = Context::background().with_cancel();
        let (asleep, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..ops {
            let (context, asleep, ended) = (context.clone(), asleep.clone(), ended.clone());
            drop(urgo::spawn(move || {
                // Relaxed: numbers, and nothing else goes with them.
                asleep.fetch_add(1, Ordering::Relaxed);
                let slept = context.sleep(LONG);
                assert_eq!(slept, Err(ContextError::Cancelled));
                ended.fetch_add(1, Ordering::Relaxed);
            }));
        }
        let until = |count: &AtomicUsize| {
            while count.load(Ordering::Relaxed) < ops {
                urgo::sleep(Duration::from_micros(100));
            }
        };
        until(&asleep);
        let lap = Lap::start();
        let start = Instant::now();
        context.cancel();
        let canceller = start.elapsed();
        until(&ended);
        let mut sample = lap.stop(ops, ended.load(Ordering::Relaxed) as u64);
        sample.set("canceller_us", canceller.as_secs_f64() * 1e6);
        sample
    })
}

fn echoes(rounds: usize, under: Under) -> u64 {
    let (here, there) = UnixStream::pair().expect("a pair of sockets");
    let [mut here, mut there] = [here, there].map(|end| TcpStream::from(OwnedFd::from(end)));
    let mut sum = 0;
    let mut all = || {
        for round in 0..rounds as u64 {
            let mut bytes = [0; BYTES];
            if under == Under::OneForEachCall {
                urgo::time::timeout(LONG, || here.write_all(&round.to_le_bytes())).expect("room");
                urgo::time::timeout(LONG, || there.read_exact(&mut bytes)).expect("bytes");
            } else {
                here.write_all(&round.to_le_bytes()).expect("room");
                there.read_exact(&mut bytes).expect("bytes");
            }
            sum += u64::from_le_bytes(bytes);
        }
    };
    if under == Under::OneContext {
        Context::background().with_timeout(LONG).enter(all);
    } else {
        all();
    }
    sum
}

fn tokio_tasks(cell: &Cell) -> Sample {
    let (rounds, expected) = calls(cell.ops());
    let runtime = tokio_runtime(cell);
    in_turn(BLOCKS, |has_context| {
        runtime.block_on(async move {
            let lap = Lap::start();
            let pairs: Vec<_> = (0..PAIRS)
                .map(|_| tokio::spawn(task_echoes(rounds, has_context)))
                .collect();
            let mut sum = 0;
            for pair in pairs {
                sum += pair.await.expect("no panic");
            }
            finish(lap, rounds, sum, expected)
        })
    })
}

async fn task_echoes(rounds: usize, has_deadlines: bool) -> u64 {
    let (mut here, mut there) = tokio::net::UnixStream::pair().expect("a pair of sockets");
    let mut sum = 0;
    for round in 0..rounds as u64 {
        let mut bytes = [0; BYTES];
        let sent = round.to_le_bytes();
        if has_deadlines {
            let write = tokio::time::timeout(LONG, here.write_all(&sent));
            write.await.expect("in time").expect("room");
            let read = tokio::time::timeout(LONG, there.read_exact(&mut bytes));
            read.await.expect("in time").expect("bytes");
        } else {
            here.write_all(&sent).await.expect("room");
            there.read_exact(&mut bytes).await.expect("bytes");
        }
        sum += u64::from_le_bytes(bytes);
    }
    sum
}
