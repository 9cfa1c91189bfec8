//! Sleeping: deadlines, signals, and waking for what comes.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use urgo_uring::{Capabilities, Config, Flushed, Kind, Ring, Waited};

use crate::harness::*;

fn times_out_and_not_early(ring: &mut Ring) {
    let sockets = pair();
    let mut byte = 0u8;
    // Submitting in the same enter hides the timeout's errno behind the count.
    let token = start(
        ring,
        Kind::OneShot,
        fd(&sockets.0),
        0,
        recv(fd(&sockets.0), &mut byte),
    );
    for _ in 0..3 {
        let deadline = now_ns() + 5_000_000;
        while ring.wait(Some(deadline)) != Waited::TimedOut {}
        assert!(now_ns() >= deadline, "a wait ended before its deadline");
    }
    assert_eq!(
        ring.wait(Some(0)),
        Waited::TimedOut,
        "a deadline in the past does not sleep"
    );
    ring.cancel(token);
    assert_eq!(finish(ring, token), -libc::ECANCELED);
}

#[test]
fn a_wait_times_out_at_its_deadline_and_not_before() {
    times_out_and_not_early(&mut ring(8, 0));
}

#[test]
fn a_kernel_without_absolute_deadlines_keeps_them_too() {
    let disable = Capabilities::ABS_TIMER | Capabilities::NO_IOWAIT;
    let mut ring = Ring::new(&Config {
        disable,
        ..Config::default()
    })
    .unwrap();
    assert!(!ring.capabilities().intersects(disable));
    times_out_and_not_early(&mut ring);
}

#[test]
fn a_deadline_far_beyond_all_clocks_is_never() {
    let mut ring = ring(8, 0);
    for deadline in [u64::MAX, 1 << 62, (1 << 62) - 1, i64::MAX as u64] {
        let mut sockets = pair();
        let mut byte = 0u8;
        let token = start(
            &mut ring,
            Kind::OneShot,
            fd(&sockets.0),
            0,
            recv(fd(&sockets.0), &mut byte),
        );
        assert_eq!(ring.flush(), Flushed::Done);
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            sockets.1.write_all(&[1]).unwrap();
            sockets
        });
        while !ring.is_finished(token) {
            assert_ne!(ring.wait(Some(deadline)), Waited::TimedOut);
            ring.reap(|_, _, _| {});
        }
        assert_eq!(ring.outcome(token).res, 1);
        writer.join().unwrap();
    }
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_ends_a_wait_and_harms_no_op() {
    // SAFETY: because the handler only adds to an atomic, and a zeroed sigaction is valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
            0
        );
    }
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
    assert_eq!(ring.flush(), Flushed::Done);
    // SAFETY: because gettid and getpid only return numbers.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Again and again, since the first may come before the wait.
            while !is_done.load(Ordering::Relaxed) {
                // SAFETY: because the thread lives as long as this scope.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..3 {
            assert_eq!(ring.wait(None), Waited::Interrupted);
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(HANDLED.load(Ordering::Relaxed) >= 3);
    assert!(ring.counters().interrupts >= 3);
    assert_eq!(ring.in_flight(), 1);
    sockets.1.write_all(&[4]).unwrap();
    assert_eq!(finish(&mut ring, token), 1);
    assert_eq!(byte, 4);
    assert_clean(&ring);
}

#[test]
fn another_thread_sees_completions_that_a_busy_owner_has_not_taken() {
    let mut ring = ring(8, 0);
    let view = ring.view();
    let mut sockets = pair();
    let mut byte = 0u8;
    let token = start(
        &mut ring,
        Kind::OneShot,
        fd(&sockets.0),
        0,
        recv(fd(&sockets.0), &mut byte),
    );
    assert_eq!(ring.flush(), Flushed::Done);
    assert!(!view.has_work_flag() && !view.cq_ready());
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !view.has_work_flag() {
                std::thread::yield_now();
            }
        });
        sockets.1.write_all(&[1]).unwrap();
        watcher.join().unwrap();
    });
    assert!(!view.cq_ready(), "deferred until the owner enters");
    ring.poll();
    assert!(view.cq_ready() && !view.has_work_flag());
    assert_eq!(finish(&mut ring, token), 1);
    assert!(!view.cq_ready());
    drop(ring);
    assert!(!view.cq_ready(), "a view may outlive its ring");
}
