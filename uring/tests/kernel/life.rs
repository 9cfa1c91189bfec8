//! Rings come and go without a trace.

use urgo_uring::{Capabilities, Kind, opcode, types};

use crate::harness::*;

#[test]
fn a_thousand_rings_leave_no_descriptor_and_no_mapping() {
    in_child(
        "life::a_thousand_rings_leave_no_descriptor_and_no_mapping",
        &[],
        || {
            let word = std::sync::atomic::AtomicU32::new(0);
            let sockets = pair();
            let mut byte = 0u8;
            let round = || {
                let mut ring = ring(8, 0);
                start(
                    &mut ring,
                    Kind::OneShot,
                    fd(&sockets.0),
                    0,
                    recv(fd(&sockets.0), &raw mut byte),
                );
                if ring.capabilities().contains(Capabilities::FUTEX_WAIT) {
                    // SAFETY: because the word outlives every ring of this test.
                    assert!(unsafe { ring.arm_sleep_word(&word, 0) });
                }
                drop(ring);
            };
            let mut round = round;
            round();
            let before = (urgo_sys::memory::fd_count().unwrap(), ring_mappings());
            assert_eq!(before.1, 0);
            (0..1_000).for_each(|_| round());
            assert_eq!(
                (urgo_sys::memory::fd_count().unwrap(), ring_mappings()),
                before
            );
        },
    );
}

fn ring_mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter(|line| line.contains("[io_uring]"))
        .count()
}

#[test]
fn a_forked_child_that_drops_the_ring_leaves_the_parents_ops_alone() {
    let mut ring = ring(8, 0);
    let mut sockets = pair();
    let mut byte = 0u8;
    let token = start(
        &mut ring,
        Kind::OneShot,
        fd(&sockets.0),
        0,
        recv(fd(&sockets.0), &mut byte),
    );
    ring.wait(Some(0));
    // SAFETY: because the child only reads a file and drops the ring, both fit for a fork of a threaded process, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let inherited = ring_mappings();
        drop(ring);
        // SAFETY: because _exit only ends the child.
        unsafe { libc::_exit(inherited as i32) };
    }
    let mut status = 0;
    // SAFETY: because the pointer is to a local, and the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child inherited none of the ring's mappings");
    assert_eq!(ring.in_flight(), 1);
    std::io::Write::write_all(&mut sockets.1, &[6]).unwrap();
    assert_eq!((finish(&mut ring, token), byte), (1, 6));
}

#[test]
fn a_table_grows_to_ten_thousand_ops_and_drains() {
    let mut ring = ring(64, 256);
    let sockets = pair();
    let tokens: Vec<_> = (0..10_000)
        .map(|who| {
            let entry =
                opcode::PollAdd::new(types::Fd(fd(&sockets.0)), libc::POLLIN as u32).build();
            start(&mut ring, Kind::OneShot, fd(&sockets.0), who, entry)
        })
        .collect();
    assert_eq!(ring.in_flight(), 10_000);
    assert_eq!(ring.cancel_all(), 10_000);
    while ring.in_flight() > 0 {
        ring.wait(None);
        ring.poll();
        ring.reap(|_, _, _| {});
    }
    for token in tokens {
        assert_eq!(ring.outcome(token).res, -libc::ECANCELED);
    }
    assert_clean(&ring);
}

#[test]
fn a_port_is_free_as_soon_as_the_ring_is_dropped() {
    // In a process of its own: a child forked by another test would hold the listener for a moment.
    in_child(
        "life::a_port_is_free_as_soon_as_the_ring_is_dropped",
        &[],
        || {
            // An address that no outgoing connection uses as its own.
            let mut address = "127.0.0.77:0".parse::<std::net::SocketAddr>().unwrap();
            for _ in 0..50 {
                // The first round chooses the port, the others take it over.
                let listener = std::net::TcpListener::bind(address)
                    .expect("an ended accept holds no listener");
                address = listener.local_addr().unwrap();
                let mut ring = ring(8, 0);
                let accept = opcode::Accept::new(
                    types::Fd(fd(&listener)),
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                );
                start(&mut ring, Kind::OneShot, fd(&listener), 0, accept.build());
                assert_eq!(ring.flush(), urgo_uring::Flushed::Done);
                drop(listener);
                drop(ring);
            }
        },
    );
}
