//! Rings, sockets and child processes for the tests.

use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use urgo_uring::{Config, Event, Flushed, Kind, Owner, Ring, Token, opcode, squeue, types};

pub(crate) fn ring(entries: u32, cq_entries: u32) -> Ring {
    Ring::new(&Config {
        entries,
        cq_entries,
        ..Config::default()
    })
    .expect("io_uring works here")
}

pub(crate) fn owner(number: usize) -> Owner {
    Owner::without_provenance(NonZeroUsize::new(number + 1).unwrap())
}

pub(crate) fn number(owner: Owner) -> usize {
    owner.addr().get() - 1
}

pub(crate) fn now_ns() -> u64 {
    urgo_sys::clock::monotonic_ns()
}

pub(crate) fn nop() -> squeue::Entry {
    opcode::Nop::new().build()
}

/// A receive of one byte into `buffer`. The caller keeps the buffer until the op is over.
pub(crate) fn recv(fd: RawFd, buffer: *mut u8) -> squeue::Entry {
    opcode::Recv::new(types::Fd(fd), buffer, 1).build()
}

/// Registers and queues; flushes once if there is no room.
pub(crate) fn start(
    ring: &mut Ring,
    kind: Kind,
    fd: RawFd,
    who: usize,
    entry: squeue::Entry,
) -> Token {
    let token = ring.register(kind, fd, owner(who)).unwrap();
    // SAFETY: because every buffer that the tests name lives until the op is over or the ring is dropped.
    if let Err(full) = unsafe { ring.queue(token, entry) } {
        assert_eq!(ring.flush(), Flushed::Done);
        // SAFETY: as above.
        unsafe { ring.queue(token, full.0) }.expect("a flushed queue has room");
    }
    token
}

/// Waits and reaps until `token` is over.
pub(crate) fn finish(ring: &mut Ring, token: Token) -> i32 {
    while !ring.is_finished(token) {
        ring.wait(None);
        ring.poll();
        ring.reap(|_, _, _| {});
    }
    ring.outcome(token).res
}

/// Reaps everything that is there now; the owners that became ready, in order.
pub(crate) fn reap_ready(ring: &mut Ring) -> Vec<usize> {
    let mut ready = Vec::new();
    ring.reap(|who, _, event| {
        assert_eq!(event, Event::Ready);
        ready.push(number(who));
    });
    ready
}

pub(crate) fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

/// The accounts balance, nothing is left, and no record was out of place.
pub(crate) fn assert_clean(ring: &Ring) {
    ring.check().unwrap();
    assert_eq!(ring.in_flight(), 0);
    assert_eq!(ring.counters().discarded(), 0, "{:?}", ring.counters());
}

pub(crate) fn fd(of: &impl AsRawFd) -> RawFd {
    of.as_raw_fd()
}

const CHILD: &str = "URGO_URING_TEST_CHILD";

/// Runs `body` in a process of its own: the test binary once more, with this test alone. `test` is the full test name.
pub(crate) fn in_child(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some_and(|name| name == test) {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "the child failed: {:?}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
