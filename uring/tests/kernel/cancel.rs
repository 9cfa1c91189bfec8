//! Cancelling: exactly one end per op, no byte lost, nobody else hit.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use urgo_uring::{Flushed, Kind, Phase};

use crate::harness::*;

/// One receive that a cancel and a byte race for. Every byte is either received or still in the socket.
fn race(
    ring: &mut urgo_uring::Ring,
    sockets: &mut (UnixStream, UnixStream),
    round: u32,
    tally: &mut [u32; 2],
) {
    let mut byte = 0u8;
    let token = start(
        ring,
        Kind::OneShot,
        fd(&sockets.0),
        round as usize,
        recv(fd(&sockets.0), &mut byte),
    );
    if round & 1 == 0 {
        assert_eq!(ring.flush(), Flushed::Done);
    }
    if round & 2 == 0 {
        sockets.1.write_all(&[7]).unwrap();
        ring.cancel(token);
    } else {
        ring.cancel(token);
        if round & 4 == 0 {
            assert_eq!(ring.flush(), Flushed::Done);
        }
        sockets.1.write_all(&[7]).unwrap();
    }
    let mut resumes = 0;
    while !ring.is_finished(token) {
        ring.wait(None);
        ring.poll();
        ring.reap(|_, _, _| resumes += 1);
    }
    assert_eq!(resumes, 1);
    let outcome = ring.outcome(token);
    assert!(outcome.cancel_marked);
    match outcome.res {
        1 => tally[0] += 1,
        res => {
            assert_eq!(res, -libc::ECANCELED);
            assert_eq!(byte, 0);
            assert_eq!(sockets.0.read(std::slice::from_mut(&mut byte)).unwrap(), 1);
            tally[1] += 1;
        }
    }
    assert_eq!(byte, 7);
}

#[test]
fn cancel_and_data_in_either_order_end_an_op_once() {
    let mut ring = ring(16, 0);
    let mut sockets = pair();
    let mut tally = [0; 2];
    for round in 0..2_000 {
        race(&mut ring, &mut sockets, round, &mut tally);
    }
    // The cancels' own records come in the end, too.
    while ring.counters().cancels_hit
        + ring.counters().cancels_missed
        + ring.counters().cancels_late
        < ring.counters().cancels_sent
    {
        ring.wait(Some(now_ns() + 1_000_000));
        ring.poll();
        assert_eq!(
            ring.reap(|_, _, _| {}).ready,
            0,
            "a cancel's own record resumes nobody"
        );
    }
    assert!(
        tally[0] > 0 && tally[1] > 0,
        "both orders were seen: {tally:?}"
    );
    assert_eq!(ring.counters().completed, u64::from(tally[0]));
    assert_eq!(ring.counters().cancelled, u64::from(tally[1]));
    assert_clean(&ring);
}

#[test]
fn closing_cancels_only_ops_on_that_descriptor() {
    let mut ring = ring(4, 64);
    let (first, second) = (pair(), pair());
    let mut bytes = [0u8; 20];
    let tokens: Vec<_> = bytes
        .iter_mut()
        .enumerate()
        .map(|(who, byte)| {
            let reader = if who % 2 == 0 { &first.0 } else { &second.0 };
            start(
                &mut ring,
                Kind::OneShot,
                fd(reader),
                who,
                recv(fd(reader), byte),
            )
        })
        .collect();
    // Ten cancels through a queue of four: what has no room is owed.
    assert_eq!(ring.cancel_matching_fd(fd(&first.0)), 10);
    assert_eq!(ring.cancel_matching_fd(fd(&first.0)), 10, "may be repeated");
    let mut ended = Vec::new();
    while ended.len() < 10 {
        ring.wait(None);
        ring.poll();
        ended.extend(reap_ready(&mut ring));
    }
    ended.sort_unstable();
    assert_eq!(ended, (0..20).step_by(2).collect::<Vec<_>>());
    assert_eq!(ring.in_flight(), 10);
    assert_eq!(
        ring.counters().cancels_sent,
        10,
        "each op is cancelled once"
    );
    for &token in tokens.iter().step_by(2) {
        assert_eq!(ring.outcome(token).res, -libc::ECANCELED);
    }
    assert_eq!(ring.cancel_matching_fd(fd(&first.0)), 0);
    assert_eq!(ring.phase(tokens[1]), Phase::InFlight);
}

#[test]
fn an_op_marked_before_it_is_queued_is_cancelled_after() {
    let mut ring = ring(8, 0);
    let sockets = pair();
    let mut byte = 0u8;
    let token = ring
        .register(Kind::OneShot, fd(&sockets.0), owner(0))
        .unwrap();
    ring.cancel(token);
    assert!(ring.is_cancel_marked(token));
    assert_eq!(
        (ring.sq_pending(), ring.phase(token)),
        (0, Phase::Registered)
    );
    // SAFETY: because the byte lives until the op is over, two lines below.
    unsafe { ring.queue(token, recv(fd(&sockets.0), &mut byte)) }.unwrap();
    assert_eq!(ring.phase(token), Phase::Queued);
    assert_eq!(finish(&mut ring, token), -libc::ECANCELED);
    assert_clean(&ring);
}

#[test]
fn an_op_given_up_before_it_is_queued_leaves_nothing() {
    let mut ring = ring(8, 0);
    let token = ring.register(Kind::OneShot, 5, owner(0)).unwrap();
    ring.withdraw(token);
    assert_eq!(ring.phase(token), Phase::Free);
    assert_eq!(ring.cancel_matching_fd(5), 0);
    assert_eq!(ring.counters().withdrawn, 1);
    assert_clean(&ring);
}

#[test]
fn an_op_completed_and_then_cancelled_does_not_hang_drop() {
    let mut ring = ring(8, 0);
    let token = start(&mut ring, Kind::OneShot, -1, 0, nop());
    assert_eq!(ring.flush(), Flushed::Done);
    // Completed, not reaped.
    ring.cancel(token);
    drop(ring);

    let mut ring = self::ring(8, 0);
    let token = start(&mut ring, Kind::OneShot, -1, 0, nop());
    ring.wait(None);
    assert_eq!(reap_ready(&mut ring), [0]);
    // Reaped, not taken.
    ring.cancel(token);
    assert_eq!(ring.sq_pending(), 0, "an op that is over is not cancelled");
    drop(ring);
}

#[test]
fn after_drop_the_kernel_writes_nothing() {
    let mut sockets: Vec<_> = (0..50).map(|_| pair()).collect();
    let mut bytes = [0u8; 50];
    let mut ring = ring(8, 16);
    for (who, byte) in bytes.iter_mut().enumerate() {
        start(
            &mut ring,
            Kind::OneShot,
            fd(&sockets[who].0),
            who,
            recv(fd(&sockets[who].0), byte),
        );
    }
    drop(ring);
    for (reader, writer) in &mut sockets {
        writer.write_all(&[9]).unwrap();
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [9], "the byte was not taken by a dead op");
    }
    assert_eq!(bytes, [0; 50]);
}
