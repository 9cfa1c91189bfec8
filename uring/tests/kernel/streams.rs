//! Ops with more than one record.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};

use urgo_uring::{Capabilities, Event, Flushed, Kind, Phase, opcode, types};

use crate::harness::*;

#[test]
fn a_multishot_accept_hands_on_every_connection_and_ends_once() {
    let mut ring = ring(16, 0);
    if !ring.capabilities().contains(Capabilities::MULTISHOT_ACCEPT) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let entry = opcode::AcceptMulti::new(types::Fd(fd(&listener))).build();
    let token = start(&mut ring, Kind::Multishot, fd(&listener), 3, entry);
    assert_eq!(ring.flush(), Flushed::Done);
    let address = listener.local_addr().unwrap();
    let clients: Vec<_> = (0..10)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let mut accepted = Vec::new();
    let mut ends = 0;
    while ends == 0 {
        ring.wait(None);
        ring.poll();
        ring.reap(|who, op, event| {
            assert_eq!((number(who), op), (3, token));
            match event {
                Event::Record { res, .. } => {
                    assert!(res >= 0, "accept failed: {res}");
                    // SAFETY: because the kernel has just made this descriptor for us, and nobody else knows it.
                    accepted.push(unsafe { OwnedFd::from_raw_fd(res) });
                }
                Event::Ready => ends += 1,
            }
        });
        if accepted.len() == clients.len() {
            assert!(ends > 0 || ring.phase(token) == Phase::Streaming);
            ring.cancel(token);
        }
    }
    assert_eq!((accepted.len(), ends), (10, 1));
    assert_eq!(ring.outcome(token).res, -libc::ECANCELED);
    assert_eq!(ring.counters().records, 10);
    assert_clean(&ring);
}

#[test]
fn a_zero_copy_send_is_over_only_at_its_notification() {
    let mut ring = ring(16, 0);
    if !ring.capabilities().contains(Capabilities::SEND_ZC) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let data = vec![5u8; 4096];
    let entry =
        opcode::SendZc::new(types::Fd(fd(&client)), data.as_ptr(), data.len() as u32).build();
    let token = start(&mut ring, Kind::ZeroCopy, fd(&client), 0, entry);
    let mut ends = 0;
    while ends == 0 {
        ring.wait(None);
        ring.poll();
        ring.reap(|_, _, event| {
            assert_eq!(event, Event::Ready);
            ends += 1;
        });
    }
    assert_eq!(
        ring.outcome(token).res,
        4096,
        "the outcome is the result, not the notification"
    );
    assert_eq!(ring.counters().notification_waits, 1);
    let mut received = vec![0; 4096];
    server.read_exact(&mut received).unwrap();
    assert_eq!(received, data);
    assert_clean(&ring);
}
