//! The end of owners: nobody is resumed, everything is released, and late records are told apart.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};

use urgo_uring::{Capabilities, Event, Flushed, Kind, Phase, opcode, types};

use crate::harness::*;

fn accept(listener: &TcpListener) -> urgo_uring::squeue::Entry {
    opcode::Accept::new(
        types::Fd(fd(listener)),
        std::ptr::null_mut(),
        std::ptr::null_mut(),
    )
    .build()
}

/// The descriptor of a result, to be closed.
fn own(res: i32) -> OwnedFd {
    assert!(res >= 0, "no descriptor: {res}");
    // SAFETY: because the kernel has just made this descriptor for us, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(res) }
}

#[test]
fn retiring_hands_over_what_nobody_will_take() {
    let mut ring = ring(16, 0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sockets = pair();
    let mut byte = 0u8;
    let mut clients: Vec<_> = (0..2)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();

    // Finished and not taken; completed and not reaped; in the kernel; queued; registered.
    let finished = start(
        &mut ring,
        Kind::OneShot,
        fd(&listener),
        0,
        accept(&listener),
    );
    while !ring.is_finished(finished) {
        ring.wait(None);
        ring.reap(|_, _, event| assert_eq!(event, Event::Ready));
    }
    let completed = start(
        &mut ring,
        Kind::OneShot,
        fd(&listener),
        1,
        accept(&listener),
    );
    let running = start(
        &mut ring,
        Kind::OneShot,
        fd(&sockets.0),
        2,
        recv(fd(&sockets.0), &mut byte),
    );
    ring.wait(None);
    assert!(ring.cq_ready());
    let queued = start(
        &mut ring,
        Kind::OneShot,
        fd(&sockets.0),
        3,
        recv(fd(&sockets.0), &mut byte),
    );
    let registered = ring.register(Kind::OneShot, -1, owner(4)).unwrap();

    let mut released = Vec::new();
    let mut accepted = Vec::new();
    ring.retire(|who, token, outcome| {
        released.push((number(who), token));
        match number(who) {
            0 | 1 => accepted.push(own(outcome.res)),
            _ => assert_eq!(
                (outcome.res, outcome.cancel_marked),
                (-libc::ECANCELED, true)
            ),
        }
    });
    released.sort_by_key(|&(who, _)| who);
    assert_eq!(
        released,
        [(0, finished), (1, completed), (2, running), (3, queued)]
    );
    drop(accepted);
    for client in &mut clients {
        assert_eq!(
            client.read(&mut [0]).unwrap(),
            0,
            "what was accepted is closed"
        );
    }
    for token in [finished, completed, running, queued, registered] {
        assert_eq!(ring.phase(token), Phase::Free);
    }
    let counters = *ring.counters();
    assert_eq!(
        (counters.registered, counters.submitted, counters.ended()),
        (5, 4, 5)
    );
    assert_eq!(
        (counters.completed, counters.cancelled, counters.withdrawn),
        (2, 2, 1)
    );
    assert_clean(&ring);

    // The byte is still there, for an op of the ring's next owners.
    (&sockets.1).write_all(&[9]).unwrap();
    let next = start(
        &mut ring,
        Kind::OneShot,
        fd(&sockets.0),
        5,
        recv(fd(&sockets.0), &mut byte),
    );
    assert_eq!((finish(&mut ring, next), byte), (1, 9));
}

#[test]
fn retiring_releases_each_connection_of_a_multishot_accept() {
    let mut ring = ring(16, 0);
    if !ring.capabilities().contains(Capabilities::MULTISHOT_ACCEPT) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let entry = opcode::AcceptMulti::new(types::Fd(fd(&listener))).build();
    start(&mut ring, Kind::Multishot, fd(&listener), 0, entry);
    assert_eq!(ring.flush(), Flushed::Done);
    let clients: Vec<_> = (0..5)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    ring.poll();
    let mut accepted = Vec::new();
    let mut ends = Vec::new();
    ring.retire(|_, _, outcome| match outcome.res {
        fd if fd >= 0 => accepted.push(own(fd)),
        error => ends.push(error),
    });
    assert_eq!((accepted.len(), ends), (5, vec![-libc::ECANCELED]));
    drop(clients);
    assert_clean(&ring);
}

#[test]
fn late_records_of_retired_owners_are_told_apart() {
    let mut ring = ring(8, 0);
    if !ring.capabilities().contains(Capabilities::MSG_RING) {
        return;
    }
    let old = start(&mut ring, Kind::OneShot, -1, 0, nop());
    ring.retire(|_, _, _| {});
    let stale = start(&mut ring, Kind::OneShot, -1, 1, nop());
    assert_eq!(finish(&mut ring, stale), 0);
    let live = start(&mut ring, Kind::OneShot, -1, 2, nop());
    ring.wait(None);
    assert_eq!(reap_ready(&mut ring), [2]);

    let mut sender = self::ring(8, 0);
    for late in [old, stale, live] {
        let message =
            opcode::MsgRingData::new(types::Fd(ring.fd()), 0, late.user_data(), None).build();
        let token = start(&mut sender, Kind::OneShot, -1, 0, message);
        assert_eq!(finish(&mut sender, token), 0);
        ring.wait(None);
        ring.poll();
        assert_eq!(reap_ready(&mut ring), []);
    }
    let counters = *ring.counters();
    assert_eq!(
        (counters.retired, counters.stale, counters.dup),
        (1, 1, 1),
        "{counters:?}"
    );
    assert_eq!(ring.outcome(live).res, 0);
    ring.check().unwrap();
}

#[test]
fn an_abandoned_ring_counts_what_it_leaks() {
    let (reader, mut writer) = pair();
    let word: &'static _ = Box::leak(Box::new(std::sync::atomic::AtomicU32::new(0)));
    let mut ring = ring(8, 0);
    let leaked = Box::leak(Box::new(0u8));
    start(
        &mut ring,
        Kind::OneShot,
        fd(&reader),
        0,
        recv(fd(&reader), leaked),
    );
    ring.register(Kind::OneShot, -1, owner(1)).unwrap();
    assert_eq!(ring.flush(), Flushed::Done);
    if ring.capabilities().contains(Capabilities::FUTEX_WAIT) {
        // SAFETY: because the word lives for ever.
        assert!(unsafe { ring.arm_sleep_word(word, 0) });
    }
    // SAFETY: because the byte and the word are never used again.
    let counters = unsafe { ring.abandon() };
    assert_eq!(
        (
            counters.registered,
            counters.submitted,
            counters.leaked,
            counters.withdrawn
        ),
        (2, 1, 1, 1)
    );
    assert_eq!(counters.registered, counters.ended());
    assert_eq!(counters.in_flight(), 0);
    // The kernel ends the receive on its own time; the socket itself is not harmed.
    writer.write_all(&[1]).unwrap();

    let mut clean = self::ring(8, 0);
    let token = start(&mut clean, Kind::OneShot, -1, 0, nop());
    assert_eq!(finish(&mut clean, token), 0);
    // SAFETY: because nothing is in flight.
    assert_eq!(unsafe { clean.abandon() }.leaked, 0);
}
