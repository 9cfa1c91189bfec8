//! The lot with waiters that only exist: order, chains of words, removal from every place.
//!
//! # Safety
//!
//! Nodes are enqueued from vectors that stay as they are until their nodes are out of the lot.

#![allow(unsafe_code)]

use super::*;
use crate::park::waiter::{Outcome, Target};

fn nodes(n: usize) -> Vec<Node> {
    (0..n)
        .map(|tag| Node::new(Waiter::parked(Target::Thread), tag))
        .collect()
}

/// Two addresses of one bucket, neither of which is any word's.
fn neighbours() -> (usize, usize) {
    let one = 1;
    let other = (2..)
        .find(|&other| Lot::place(other) == Lot::place(one))
        .unwrap();
    (one, other)
}

fn push(lot: &Lot, address: usize, node: &Node) {
    // SAFETY: the tests' nodes are in vectors that are not touched before they are out of the lot.
    assert!(unsafe { lot.enqueue(address, node, || true) });
}

fn woken(node: &Node) -> bool {
    node.waiter.outcome() == Some(Outcome::Woken)
}

#[test]
fn lot_wakes_oldest_first_and_only_the_word_that_was_meant() {
    static LOT: Lot = Lot::new();
    let (lot, (one, other)) = (&LOT, neighbours());
    let nodes = nodes(6);
    for (i, node) in nodes.iter().enumerate() {
        push(lot, [one, other][i % 2], node);
    }
    let (n, wakes) = lot.wake(other, 2);
    assert_eq!((n, wakes.count()), (2, 2));
    assert!(woken(&nodes[1]) && woken(&nodes[3]) && !woken(&nodes[5]));
    let (n, wakes) = lot.wake(one, 100);
    assert_eq!((n, wakes.count()), (3, 3));
    assert!([0, 2, 4].iter().all(|&i| woken(&nodes[i])) && !woken(&nodes[5]));
    assert!(lot.remove(&nodes[5]) && !lot.remove(&nodes[5]) && !lot.remove(&nodes[0]));
    assert_eq!(lot.wake(other, 1).0, 0);
}

#[test]
fn lot_refuses_who_no_longer_has_to_wait() {
    static LOT: Lot = Lot::new();
    let lot = &LOT;
    let nodes = nodes(1);
    // SAFETY: not enqueued.
    assert!(!unsafe { lot.enqueue(64, &nodes[0], || false) });
    assert_eq!(lot.wake(64, 1).0, 0);
}

#[test]
fn lot_passes_over_those_whose_wait_is_over() {
    static LOT: Lot = Lot::new();
    let lot = &LOT;
    let nodes = nodes(4);
    nodes.iter().for_each(|node| push(lot, 64, node));
    assert!(nodes[0].waiter.finish(Outcome::TimedOut).is_some());
    assert!(nodes[2].waiter.finish(Outcome::Cancelled).is_some());
    assert_eq!(lot.wake(64, 1).0, 1);
    assert!(woken(&nodes[1]) && !lot.remove(&nodes[0]));
    // One to be moved: the one that still waits.
    let (woken_now, moved, _) = lot.requeue(64, 128, || true, 0, 1).unwrap();
    assert_eq!((woken_now, moved, nodes[3].address()), (0, 1, 128));
    assert!(!lot.remove(&nodes[2]) && lot.remove(&nodes[3]));
}

#[test]
fn lot_keeps_its_chains_whole_whoever_leaves() {
    static LOT: Lot = Lot::new();
    let (lot, (one, other)) = (&LOT, neighbours());
    // Every order of leaving of three waiters for one word, before and behind another word of the bucket.
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        for swap in [false, true] {
            let (first, second) = if swap { (other, one) } else { (one, other) };
            let nodes = nodes(5);
            push(lot, second, &nodes[3]);
            (0..3).for_each(|i| push(lot, first, &nodes[i]));
            push(lot, second, &nodes[4]);
            let mut left: Vec<usize> = (0..3).collect();
            for leaver in order {
                assert!(lot.remove(&nodes[leaver]));
                left.retain(|&i| i != leaver);
                let locked = lot.lock(first);
                assert_eq!(locked.first_tag(first), left.first().copied());
                assert_eq!(locked.is_empty(first), left.is_empty());
                assert_eq!(locked.first_tag(second), Some(3));
                assert_eq!(locked.unlock().count(), 0);
                // The tail is right as well.
                if !left.is_empty() {
                    let late = self::nodes(1);
                    push(lot, first, &late[0]);
                    assert!(lot.remove(&late[0]));
                }
            }
            assert_eq!(lot.wake(second, 9).0, 2);
            assert!(lot.lock(second).unlock().count() == 0);
        }
    }
}

#[test]
fn lot_lets_a_returning_waiter_go_first() {
    static LOT: Lot = Lot::new();
    let lot = &LOT;
    let nodes = nodes(3);
    push(lot, 64, &nodes[0]);
    for node in &nodes[1..] {
        let mut locked = lot.lock(64);
        // SAFETY: as in `push`.
        unsafe { locked.push_first(64, node) };
        assert_eq!(locked.unlock().count(), 0);
    }
    for node in nodes.iter().rev() {
        assert_eq!(lot.wake(64, 1).0, 1);
        assert!(woken(node));
    }
}

#[test]
fn lot_requeues_behind_those_that_wait_there() {
    static LOT: Lot = Lot::new();
    let (lot, (one, other)) = (&LOT, neighbours());
    for (from, to) in [(one, other), (64, 128), (128, 64)] {
        let nodes = nodes(5);
        (0..4).for_each(|i| push(lot, from, &nodes[i]));
        push(lot, to, &nodes[4]);
        assert!(lot.requeue(from, to, || false, 1, 1).is_none());
        let (woken_now, moved, wakes) = lot.requeue(from, to, || true, 1, 2).unwrap();
        assert_eq!((woken_now, moved, wakes.count()), (1, 2, 1));
        assert!(woken(&nodes[0]));
        for i in [4, 1, 2] {
            assert_eq!(lot.wake(to, 1).0, 1);
            assert!(woken(&nodes[i]), "{i}");
        }
        assert_eq!(lot.wake(to, 1).0, 0);
        // Onto itself: nothing moves, nothing hangs.
        assert_eq!(lot.requeue(from, from, || true, 0, 9).unwrap().1, 0);
        assert_eq!(lot.wake(from, 9).0, 1);
    }
}

#[test]
fn lot_wakes_in_batches_only_those_that_were_there() {
    static LOT: Lot = Lot::new();
    let lot = &LOT;
    let (early, late) = (nodes(BATCH + 10), nodes(5));
    // The count of tickets goes round meanwhile.
    lot.buckets[Lot::place(64)].set_tickets(u32::MAX - 100);
    early.iter().for_each(|node| push(lot, 64, node));
    let mut before = None;
    assert_eq!(lot.wake_some(64, usize::MAX, &mut before).0, BATCH);
    late.iter().for_each(|node| push(lot, 64, node));
    assert_eq!(lot.wake_some(64, 3, &mut before).0, 3);
    assert_eq!(lot.wake_some(64, usize::MAX, &mut before).0, 7);
    assert_eq!(lot.wake_some(64, usize::MAX, &mut before).0, 0);
    assert!(early.iter().all(woken) && !late.iter().any(woken));
    assert_eq!(lot.wake_some(64, 9, &mut None).0, 5);
}

#[test]
fn lot_wakes_who_has_waited_for_half_the_tickets_and_more() {
    static LOT: Lot = Lot::new();
    let lot = &LOT;
    let bucket = &lot.buckets[Lot::place(64)];
    for drawn in [1 << 31, u32::MAX - 1, 0, 1] {
        for first in [0, 7, u32::MAX - 1] {
            // The others of the bucket draw tickets while the two wait.
            let (old, late) = (nodes(2), nodes(1));
            bucket.set_tickets(first);
            old.iter().for_each(|node| push(lot, 64, node));
            bucket.set_tickets(first.wrapping_add(2).wrapping_add(drawn));
            let mut before = None;
            assert_eq!(lot.wake_some(64, 1, &mut before).0, 1, "{drawn} {first}");
            push(lot, 64, &late[0]);
            assert_eq!(lot.wake_some(64, 9, &mut before).0, 1, "{drawn} {first}");
            assert!(old.iter().all(woken) && !late.iter().any(woken));
            assert_eq!(lot.wake_some(64, 9, &mut None).0, 1);
        }
    }
}
