//! The lot's handshakes in every interleaving.
//!
//! # Safety
//!
//! Nodes are on the stacks of the models' threads, which wait until they are signalled or remove them.

#![allow(unsafe_code)]

use super::*;
use crate::atomic::AtomicU32;
use crate::park::waiter::{Outcome, Target};
use loom::sync::Arc;
use loom::thread;

struct Scene {
    lot: Lot,
    word: AtomicU32,
    wakes: AtomicUsize,
}

fn scene() -> Arc<Scene> {
    Arc::new(Scene {
        lot: Lot::new(),
        word: AtomicU32::new(0),
        wakes: AtomicUsize::new(0),
    })
}

const FROM: usize = 2;
const TO: usize = 3;

fn node() -> Node {
    Node::new(Waiter::parked(Target::Thread), 0)
}

fn settle(wakes: Wakes) {
    for wake in wakes {
        let Wake::Thread(word) = wake else {
            panic!("born parked, so there is a wake to settle");
        };
        signal(word);
    }
}

/// Waits for the settling of a wake that is on its way.
fn signalled(node: &Node) {
    super::signalled(&node.waiter);
    assert_eq!(node.waiter.outcome(), Some(Outcome::Woken));
}

/// A deadline that passes at once; whether it came before every wake.
fn times_out(scene: &Scene, node: &Node) -> bool {
    if node.waiter.finish(Outcome::TimedOut).is_some() {
        scene.lot.remove(node);
        true
    } else {
        signalled(node);
        false
    }
}

/// Store and wake against validate and enqueue: whoever waits is woken.
#[test]
fn loom_lot_loses_no_wake() {
    loom::model(|| {
        let scene = scene();
        let waiter = {
            let scene = scene.clone();
            thread::spawn(move || {
                let node = node();
                let validate = || scene.word.load(Ordering::Relaxed) == 0;
                // SAFETY: the node stays until it is signalled.
                if unsafe { scene.lot.enqueue(FROM, &node, validate) } {
                    signalled(&node);
                }
                assert_eq!(scene.word.load(Ordering::Relaxed), 1);
            })
        };
        scene.word.store(1, Ordering::Relaxed);
        let (_, wakes) = scene.lot.wake(FROM, 1);
        settle(wakes);
        waiter.join().unwrap();
    });
}

/// Two waiters, one of which times out, and one wake: if both are there, the wake reaches the one that still waits, or
/// the one that timed out too late for it.
#[test]
fn loom_lot_wake_is_not_lost_on_a_timed_out_waiter() {
    loom::model(|| {
        let scene = scene();
        let patient = node();
        let hasty = {
            let scene = scene.clone();
            thread::spawn(move || {
                let node = node();
                // SAFETY: the node stays until it is signalled or removed.
                assert!(unsafe { scene.lot.enqueue(FROM, &node, || true) });
                if !times_out(&scene, &node) {
                    scene.wakes.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        // SAFETY: the node stays until it is signalled or removed.
        assert!(unsafe { scene.lot.enqueue(FROM, &patient, || true) });
        let (woken, wakes) = scene.lot.wake(FROM, 1);
        assert_eq!(woken, 1);
        settle(wakes);
        hasty.join().unwrap();
        let hasty_woken = scene.wakes.load(Ordering::Relaxed) == 1;
        assert_ne!(
            hasty_woken,
            patient.waiter.outcome() == Some(Outcome::Woken)
        );
        assert_eq!(scene.lot.remove(&patient), hasty_woken);
        assert!(scene.lot.wake(FROM, 1).0 == 0);
    });
}

/// A requeue, a wake of the place requeued to, and a deadline: the node leaves whichever queue it is in, one of them wins,
/// and nothing is left behind.
#[test]
fn loom_lot_requeue_against_wake_and_timeout() {
    loom::model(|| {
        let scene = scene();
        let waiter = {
            let scene = scene.clone();
            thread::spawn(move || {
                let node = node();
                // SAFETY: the node stays until it is signalled or removed.
                assert!(unsafe { scene.lot.enqueue(FROM, &node, || true) });
                times_out(&scene, &node)
            })
        };
        let waker = {
            let scene = scene.clone();
            thread::spawn(move || {
                let (woken, wakes) = scene.lot.wake(TO, 1);
                settle(wakes);
                woken
            })
        };
        let (_, _, wakes) = scene.lot.requeue(FROM, TO, || true, 0, 1).unwrap();
        assert_eq!(wakes.count(), 0);
        let woken = waker.join().unwrap();
        assert_eq!(waiter.join().unwrap(), woken == 0);
        let locked = scene.lot.lock_both(FROM, TO);
        assert!(locked.is_empty(FROM) && locked.is_empty(TO));
        assert_eq!(locked.unlock().count(), 0);
    });
}

/// Two requeues in opposite directions take their locks in one order.
#[test]
fn loom_lot_requeues_crosswise_without_deadlock() {
    loom::model(|| {
        let scene = scene();
        let nodes = [node(), node()];
        // SAFETY: the nodes stay until they are woken.
        unsafe {
            assert!(scene.lot.enqueue(FROM, &nodes[0], || true));
            assert!(scene.lot.enqueue(TO, &nodes[1], || true));
        }
        let rival = {
            let scene = scene.clone();
            thread::spawn(move || scene.lot.requeue(TO, FROM, || true, 0, 1).unwrap().1)
        };
        let moved = scene.lot.requeue(FROM, TO, || true, 0, 1).unwrap().1;
        assert_eq!((moved, rival.join().unwrap()), (1, 1));
        let woken = scene.lot.wake(FROM, 9).0 + scene.lot.wake(TO, 9).0;
        assert_eq!(woken, 2);
    });
}
