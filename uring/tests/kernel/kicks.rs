//! Rousing a sleeping ring from other threads. Each round is a handshake, so a lost kick hangs the test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use urgo_sys::event_fd::EventFd;
use urgo_uring::{Capabilities, Config, Ring};

use crate::harness::*;

const ROUNDS: u32 = 500;
/// Not sleeping, and asleep.
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Sleeps until kicked.
fn sleep_until_kicked(ring: &mut Ring) {
    loop {
        ring.wait(None);
        ring.poll();
        if ring.reap(|_, _, _| {}).kicked {
            return;
        }
    }
}

#[test]
fn a_ring_is_woken_by_another_rings_message() {
    let mut sleeper = ring(8, 0);
    if !sleeper.capabilities().contains(Capabilities::MSG_RING) {
        return;
    }
    let target = sleeper.fd();
    let (heard, hears) = mpsc::channel();
    let kicker = std::thread::spawn(move || {
        let mut ring = ring(8, 0);
        for _ in 0..ROUNDS {
            ring.kick(target);
            hears.recv().unwrap();
        }
        assert_eq!(ring.counters().kicks_sent, u64::from(ROUNDS));
        ring.poll();
        ring.reap(|_, _, _| {});
        assert_eq!(
            (ring.counters().kicks_failed, ring.counters().cqes),
            (0, 0),
            "our side leaves no record"
        );
    });
    for _ in 0..ROUNDS {
        sleep_until_kicked(&mut sleeper);
        heard.send(()).unwrap();
    }
    kicker.join().unwrap();
    assert_eq!(sleeper.counters().kicks_received, u64::from(ROUNDS));
    assert_clean(&sleeper);
}

#[test]
fn a_kick_to_what_is_not_a_ring_is_counted() {
    let mut ring = ring(8, 0);
    if !ring.capabilities().contains(Capabilities::MSG_RING) {
        return;
    }
    let sockets = pair();
    ring.kick(fd(&sockets.0));
    while ring.counters().kicks_failed == 0 {
        ring.wait(None);
        ring.reap(|_, _, _| {});
    }
    assert_eq!(ring.sq_pending(), 0, "not worth another try");
}

#[test]
fn a_ring_is_woken_by_its_sleep_word() {
    let word = AtomicU32::new(AWAKE);
    let mut ring = ring(8, 0);
    if !ring.capabilities().contains(Capabilities::FUTEX_WAIT) {
        // SAFETY: because the word outlives the ring, which is dropped first.
        assert!(!unsafe { ring.arm_sleep_word(&word, AWAKE) });
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut kicks = 0;
            while kicks < ROUNDS {
                if word
                    .compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
                {
                    urgo_sys::futex::wake(&word, 1);
                    kicks += 1;
                }
                std::thread::yield_now();
            }
        });
        for _ in 0..ROUNDS {
            word.store(ASLEEP, Ordering::SeqCst);
            // SAFETY: as above.
            assert!(unsafe { ring.arm_sleep_word(&word, ASLEEP) });
            while word.load(Ordering::SeqCst) == ASLEEP {
                ring.wait(None);
                ring.poll();
                ring.reap(|_, _, _| {});
            }
        }
    });
    assert!(ring.counters().kicks_received > 0);
    drop(ring);
}

#[test]
fn a_sleep_word_that_has_changed_is_a_kick() {
    let word = AtomicU32::new(7);
    let mut ring = ring(8, 0);
    if !ring.capabilities().contains(Capabilities::FUTEX_WAIT) {
        return;
    }
    // SAFETY: because the word outlives the ring, which is dropped first.
    assert!(unsafe { ring.arm_sleep_word(&word, 8) });
    sleep_until_kicked(&mut ring);
    assert!(!ring.is_armed());
    // SAFETY: as above.
    assert!(unsafe { ring.arm_sleep_word(&word, 7) });
    let sqes = ring.counters().sqes;
    // SAFETY: as above.
    assert!(unsafe { ring.arm_sleep_word(&word, 7) });
    assert_eq!(
        ring.counters().sqes,
        sqes,
        "arming what is armed does nothing"
    );
    ring.disarm();
    while ring.is_armed() {
        ring.wait(None);
        assert!(!ring.reap(|_, _, _| {}).kicked, "disarming is no kick");
    }
    drop(ring);
}

#[test]
fn a_ring_without_futex_ops_is_woken_by_its_eventfd() {
    let eventfd = EventFd::new(true).unwrap();
    let disable = Capabilities::FUTEX_WAIT | Capabilities::MSG_RING;
    let mut ring = Ring::new(&Config {
        disable,
        ..Config::default()
    })
    .unwrap();
    assert!(!ring.capabilities().intersects(disable));
    let (heard, hears) = mpsc::channel();
    std::thread::scope(|scope| {
        let eventfd = &eventfd;
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                let _ = eventfd.notify().unwrap();
                hears.recv().unwrap();
            }
        });
        for _ in 0..ROUNDS {
            assert!(ring.arm_eventfd(fd(eventfd)));
            sleep_until_kicked(&mut ring);
            heard.send(()).unwrap();
        }
    });
    assert_eq!(
        ring.counters().kicks_received,
        u64::from(ROUNDS),
        "drained: no kick is heard twice"
    );
    assert_eq!(ring.counters().sqes, 1, "one arming serves all kicks");
    drop(ring);
}
