//! Chains: each op starts when the one before has succeeded, and each has an end of its own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use urgo_uring::{ChainFull, Flushed, Kind, Phase, Ring, Token, opcode, squeue, types};

use crate::harness::*;

fn registered(ring: &mut Ring, who: usize) -> Token {
    ring.register(Kind::OneShot, -1, owner(who)).unwrap()
}

fn write(to: &UnixStream, byte: &'static u8) -> squeue::Entry {
    opcode::Write::new(types::Fd(fd(to)), byte, 1).build()
}

/// Queues a chain with room for it.
fn queue_chain(ring: &mut Ring, entries: &[squeue::Entry]) -> Vec<Token> {
    let chain: Vec<_> = entries
        .iter()
        .enumerate()
        .map(|(who, entry)| (registered(ring, who), entry.clone()))
        .collect();
    // SAFETY: because what the tests' entries name is static or lives until the op is over.
    unsafe { ring.queue_chain(&chain) }.unwrap();
    chain.into_iter().map(|(token, _)| token).collect()
}

#[test]
fn a_chain_runs_in_order() {
    let mut ring = ring(8, 0);
    let (mut reader, writer) = pair();
    let mut bytes = [0u8; 3];
    // A receive that has nothing yet holds back the two writes behind it.
    let gate = pair();
    let mut opened = 0u8;
    let tokens = queue_chain(
        &mut ring,
        &[
            recv(fd(&gate.0), &mut opened),
            write(&writer, &1),
            write(&writer, &2),
        ],
    );
    let free = start(&mut ring, Kind::OneShot, -1, 9, write(&writer, &3));
    assert_eq!(ring.flush(), Flushed::Done);
    assert_eq!(
        finish(&mut ring, free),
        1,
        "what is not linked does not wait"
    );
    assert_eq!(ring.phase(tokens[2]), Phase::InFlight);
    (&gate.1).write_all(&[1]).unwrap();
    for token in tokens {
        assert_eq!(finish(&mut ring, token), 1);
    }
    reader.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, [3, 1, 2]);
    assert_clean(&ring);
}

#[test]
fn a_broken_chain_ends_those_behind_it_without_a_mark() {
    let mut ring = ring(8, 0);
    let (mut reader, writer) = pair();
    let nowhere = opcode::Write::new(types::Fd(-1), &0, 1).build();
    let tokens = queue_chain(
        &mut ring,
        &[nop(), nowhere, write(&writer, &1), write(&writer, &2)],
    );
    let behind = start(&mut ring, Kind::OneShot, -1, 9, write(&writer, &3));
    assert_eq!(finish(&mut ring, behind), 1, "the chain ends with its last");
    let mut ends = Vec::new();
    for token in tokens {
        while !ring.is_finished(token) {
            ring.wait(None);
            ring.poll();
            ring.reap(|_, _, _| {});
        }
        let outcome = ring.outcome(token);
        assert!(!outcome.cancel_marked);
        ends.push(outcome.res);
    }
    assert_eq!(ends, [0, -libc::EBADF, -libc::ECANCELED, -libc::ECANCELED]);
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [3]);
    let counters = *ring.counters();
    assert_eq!((counters.completed, counters.cancelled), (5, 0));
    assert_clean(&ring);
}

#[test]
fn cancelling_the_op_that_runs_breaks_the_chain() {
    let mut ring = ring(8, 0);
    let gate = pair();
    let (reader, writer) = pair();
    let mut byte = 0u8;
    let tokens = queue_chain(
        &mut ring,
        &[recv(fd(&gate.0), &mut byte), write(&writer, &1)],
    );
    assert_eq!(ring.flush(), Flushed::Done);
    ring.cancel(tokens[0]);
    assert_eq!(finish(&mut ring, tokens[1]), -libc::ECANCELED);
    assert_eq!(finish(&mut ring, tokens[0]), -libc::ECANCELED);
    let counters = *ring.counters();
    assert_eq!(
        (counters.cancelled, counters.completed),
        (1, 1),
        "only the first was marked"
    );
    reader.set_nonblocking(true).unwrap();
    assert!((&reader).read(&mut [0]).is_err(), "nothing was written");
    assert_clean(&ring);
}

#[test]
fn a_chain_marked_before_it_is_queued_is_not_torn_by_its_cancels() {
    let mut ring = ring(8, 0);
    let gate = pair();
    let mut bytes = [0u8; 2];
    let chain: Vec<_> = bytes
        .iter_mut()
        .enumerate()
        .map(|(who, byte)| (registered(&mut ring, who), recv(fd(&gate.0), byte)))
        .collect();
    ring.cancel(chain[0].0);
    // SAFETY: because the bytes live until both ops are over.
    unsafe { ring.queue_chain(&chain) }.unwrap();
    assert_eq!(ring.sq_pending(), 3, "two ops, then the cancel");
    for (token, _) in &chain {
        assert_eq!(finish(&mut ring, *token), -libc::ECANCELED);
    }
    assert_eq!(ring.counters().cancelled, 1);
    assert_clean(&ring);
}

#[test]
fn a_chain_goes_in_whole_or_not_at_all() {
    let mut ring = ring(4, 0);
    let before: Vec<_> = (0..2)
        .map(|who| start(&mut ring, Kind::OneShot, -1, who, nop()))
        .collect();
    let chain: Vec<_> = (2..5)
        .map(|who| (registered(&mut ring, who), nop()))
        .collect();
    // SAFETY: because nops name no memory.
    assert_eq!(unsafe { ring.queue_chain(&chain) }, Err(ChainFull));
    assert_eq!((ring.sq_pending(), ring.counters().sq_full), (2, 1));
    assert!(
        chain
            .iter()
            .all(|&(token, _)| ring.phase(token) == Phase::Registered)
    );
    assert_eq!(ring.flush(), Flushed::Done);
    // SAFETY: as above.
    unsafe { ring.queue_chain(&chain) }.unwrap();
    for token in before
        .into_iter()
        .chain(chain.iter().map(|&(token, _)| token))
    {
        assert_eq!(finish(&mut ring, token), 0);
    }
    // SAFETY: as above; there is nothing in it.
    unsafe { ring.queue_chain(&[]) }.unwrap();
    assert_clean(&ring);
}

#[test]
#[should_panic(expected = "does not fit into a submission queue of 2")]
fn a_chain_longer_than_the_queue_panics() {
    let mut ring = ring(2, 0);
    let chain: Vec<_> = (0..3)
        .map(|who| (registered(&mut ring, who), nop()))
        .collect();
    // SAFETY: because nops name no memory.
    let _ = unsafe { ring.queue_chain(&chain) };
}

#[test]
#[should_panic(expected = "is twice in one chain")]
fn an_op_twice_in_a_chain_panics() {
    let mut ring = ring(8, 0);
    let token = registered(&mut ring, 0);
    // SAFETY: because nops name no memory.
    let _ = unsafe { ring.queue_chain(&[(token, nop()), (token, nop())]) };
}
