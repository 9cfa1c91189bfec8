//! The questions that Go's own channel programs ask (doubleselect, fifo, chains of goroutines, nonblock, select 1 to 7, the
//! sieves, power series, multi-consumer and the runtime's stress tests), asked by code of our own.
//!
//! One answer is not Go's: a `select!` with a default looks at one channel after the other, as crossbeam-channel's does, so
//! it may take the default although at every moment one of its channels was ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use urgo::chan::{
    Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError, bounded, never, unbounded,
};
use urgo::select;

use crate::go_rules::{CAPACITIES, channel};
use crate::grounds::{Crew, Ground, everywhere, spawn};
use crate::support::wait_until;

/// One sender spreads a sequence over four channels as they are ready; a mixer puts it together again: nothing twice.
#[test]
fn double_select_passes_every_number_once() {
    everywhere(|ground| {
        let rounds = ground.rounds(2_000);
        let (inputs, outputs): (Vec<_>, Vec<_>) = (0..4).map(|_| bounded::<usize>(0)).unzip();
        let mut crew = Crew::new();
        crew.spawn(move || {
            let [a, b, c, d] = &inputs[..] else { panic!() };
            for i in 0..rounds {
                select! {
                    send(a, i) -> sent => sent.unwrap(),
                    send(b, i) -> sent => sent.unwrap(),
                    send(c, i) -> sent => sent.unwrap(),
                    send(d, i) -> sent => sent.unwrap(),
                }
            }
        });
        let (mixed, out) = bounded(0);
        for from in outputs {
            let mixed = mixed.clone();
            crew.spawn(move || from.iter().for_each(|i| mixed.send(i).unwrap()));
        }
        drop(mixed);
        let mut seen = vec![false; rounds];
        for i in out {
            assert!(!std::mem::replace(&mut seen[i], true), "{i} came twice");
        }
        assert!(seen.into_iter().all(|seen| seen));
        crew.join();
    });
}

/// Everybody takes a number when the one before has; the numbers come in order.
#[test]
fn a_chain_of_turns_keeps_its_order() {
    everywhere(|_| {
        const LINKS: usize = 60;
        let (s, r) = bounded(0);
        let (first, mut before) = bounded::<()>(0);
        let mut crew = Crew::new();
        for link in 0..LINKS {
            let (next, after) = bounded(0);
            let (s, turn) = (s.clone(), std::mem::replace(&mut before, after));
            crew.spawn(move || {
                turn.recv().unwrap();
                s.send(link).unwrap();
                // The last one has nobody after it.
                let _ = next.send(());
            });
        }
        drop(s);
        first.send(()).unwrap();
        let got: Vec<_> = (0..LINKS).map(|_| r.recv().unwrap()).collect();
        assert!(got.into_iter().eq(0..LINKS));
        drop(before);
        crew.join();
    });
}

/// A long row of goroutines, each of which adds one.
#[test]
fn a_number_runs_through_a_row() {
    everywhere(|ground| {
        let links = match ground {
            Ground::Threads => 200,
            _ => 5_000,
        };
        let (leftmost, mut left) = bounded::<usize>(0);
        let mut crew = Crew::new();
        for _ in 0..links {
            let (s, r) = bounded(0);
            let from = std::mem::replace(&mut left, r);
            crew.spawn(move || s.send(from.recv().unwrap() + 1).unwrap());
        }
        leftmost.send(0).unwrap();
        assert_eq!(left.recv(), Ok(links));
        crew.join();
    });
}

/// Every way to ask without waiting, against a partner who is there, or is not.
#[test]
fn calls_that_do_not_wait_find_a_partner_who_waits() {
    everywhere(|_| {
        // Nobody there.
        let (s, r) = bounded::<i32>(0);
        assert_eq!(s.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        // A receiver waits: the value goes to it though there is no room to put it.
        let receiver = spawn({
            let r = r.clone();
            move || r.recv()
        });
        let mut sent = 0;
        wait_until("a receiver takes it", || {
            sent = 2;
            s.try_send(sent).is_ok()
        });
        assert_eq!(receiver.join(), Ok(2));
        // A sender waits.
        let sender = spawn({
            let s = s.clone();
            move || s.send(3)
        });
        let mut got = Err(TryRecvError::Empty);
        wait_until("a sender gives it", || {
            got = r.try_recv();
            got.is_ok()
        });
        assert_eq!((got, sender.join()), (Ok(3), Ok(())));
        // The same by select with a default.
        let receiver = spawn({
            let r = r.clone();
            move || select! { recv(r) -> got => got, recv(never::<()>()) -> _ => panic!() }
        });
        wait_until("a selecting receiver takes it", || {
            select! { send(s, 4) -> sent => sent.is_ok(), default => false }
        });
        assert_eq!(receiver.join(), Ok(4));
        let sender = spawn(move || select! { send(s, 5) -> sent => sent });
        wait_until("a selecting sender gives it", || {
            select! { recv(r) -> got => { assert_eq!(got.ok(), Some(5)); true } default => false }
        });
        assert_eq!(sender.join(), Ok(()));
    });
}

/// A counter goes out on whichever of two channels is ready; one of them is switched off every other time.
#[test]
fn a_select_alternates_between_two_ways_out() {
    fn next(value: &AtomicUsize) -> usize {
        value.fetch_add(1, Ordering::SeqCst) + 1
    }
    everywhere(|_| {
        let (s1, r1) = bounded(0);
        let (s2, r2) = bounded(0);
        let (off, _off) = bounded::<usize>(0);
        let feeder = spawn(move || {
            let counter = AtomicUsize::new(0);
            let shift = AtomicUsize::new(0);
            for round in 0..100 {
                let (a, b) = match round % 2 {
                    0 => (&s1, &off),
                    _ => (&off, &s2),
                };
                select! {
                    send(a, next(&counter)) -> sent => sent.unwrap(),
                    send(b, next(&shift)) -> sent => sent.unwrap(),
                }
            }
            (counter.into_inner(), shift.into_inner())
        });
        for round in 1..=50 {
            assert_eq!(r1.recv(), Ok(round));
            assert_eq!(r2.recv(), Ok(round));
        }
        assert_eq!(feeder.join(), (50, 50));
    });
}

/// Which operation waits on which channel, as a table.
#[test]
fn what_waits_on_what() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Answer {
        Waits,
        Done,
        Ended,
    }
    use Answer::{Done, Ended, Waits};
    type Make = fn() -> (Option<Sender<u8>>, Option<Receiver<u8>>, Kept);
    type Kept = (Option<Sender<u8>>, Option<Receiver<u8>>);
    fn ends(
        capacity: usize,
        values: u8,
        lone_sender: bool,
        lone_receiver: bool,
    ) -> (Option<Sender<u8>>, Option<Receiver<u8>>, Kept) {
        let (s, r) = bounded(capacity);
        (0..values).for_each(|value| s.send(value).unwrap());
        match (lone_sender, lone_receiver) {
            (true, _) => (Some(s), None, (None, None)),
            (_, true) => (None, Some(r), (None, None)),
            _ => (Some(s.clone()), Some(r.clone()), (Some(s), Some(r))),
        }
    }
    let table: [(&str, Make, Option<Answer>, Option<Answer>); 9] = [
        (
            "nil",
            || (None, Some(never()), (None, None)),
            None,
            Some(Waits),
        ),
        (
            "rendezvous, nobody there",
            || ends(0, 0, false, false),
            Some(Waits),
            Some(Waits),
        ),
        (
            "empty, room for one",
            || ends(1, 0, false, false),
            Some(Done),
            Some(Waits),
        ),
        ("full", || ends(1, 1, false, false), Some(Waits), Some(Done)),
        (
            "half full",
            || ends(2, 1, false, false),
            Some(Done),
            Some(Done),
        ),
        (
            "no receiver, rendezvous",
            || ends(0, 0, true, false),
            Some(Ended),
            None,
        ),
        (
            "no receiver, full",
            || ends(1, 1, true, false),
            Some(Ended),
            None,
        ),
        (
            "no sender, empty",
            || ends(1, 0, false, true),
            None,
            Some(Ended),
        ),
        (
            "no sender, a value left",
            || ends(1, 1, false, true),
            None,
            Some(Done),
        ),
    ];
    everywhere(move |_| {
        const MOMENT: Duration = Duration::from_millis(1);
        for (name, make, to_send, to_receive) in table {
            for way in 0..4 {
                let (s, r, _kept) = make();
                if let Some(s) = s {
                    let answer = match way {
                        0 => match s.try_send(9) {
                            Ok(()) => Done,
                            Err(TrySendError::Full(9)) => Waits,
                            Err(TrySendError::Disconnected(9)) => Ended,
                            other => panic!("{other:?}"),
                        },
                        1 => match s.send_timeout(9, MOMENT) {
                            Ok(()) => Done,
                            Err(error) if error.is_timeout() => Waits,
                            Err(_) => Ended,
                        },
                        2 => select! {
                            send(s, 9) -> sent => if sent.is_ok() { Done } else { Ended },
                            default => Waits,
                        },
                        _ => select! {
                            send(s, 9) -> sent => if sent.is_ok() { Done } else { Ended },
                            recv(never::<()>()) -> _ => panic!(),
                            default(MOMENT) => Waits,
                        },
                    };
                    assert_eq!(Some(answer), to_send, "send on {name}, way {way}");
                }
                let (_s, r2, _kept) = make();
                drop(r);
                if let Some(r) = r2 {
                    let answer = match way {
                        0 => match r.try_recv() {
                            Ok(_) => Done,
                            Err(TryRecvError::Empty) => Waits,
                            Err(TryRecvError::Disconnected) => Ended,
                        },
                        1 => match r.recv_timeout(MOMENT) {
                            Ok(_) => Done,
                            Err(error) if error.is_timeout() => Waits,
                            Err(_) => Ended,
                        },
                        2 => select! {
                            recv(r) -> got => if got.is_ok() { Done } else { Ended },
                            default => Waits,
                        },
                        _ => select! {
                            recv(r) -> got => if got.is_ok() { Done } else { Ended },
                            recv(never::<()>()) -> _ => panic!(),
                            default(MOMENT) => Waits,
                        },
                    };
                    assert_eq!(Some(answer), to_receive, "receive from {name}, way {way}");
                }
            }
        }
    });
}

/// A waiter that a select took back must not be found by those who come later, whatever the order in which it is taken back.
#[test]
fn waiters_leave_the_middle_of_a_line() {
    everywhere(|_| {
        let (s1, r1) = bounded::<bool>(0);
        let (s2, r2) = bounded::<bool>(0);
        // Three who wait in the same line; the one in the middle also waits elsewhere, and is served there.
        let ready = Arc::new(AtomicUsize::new(0));
        let mut crew = Crew::new();
        for place in 0..3 {
            let (r1, r2, ready) = (r1.clone(), r2.clone(), ready.clone());
            crew.spawn(move || {
                ready.fetch_add(1, Ordering::SeqCst);
                if place == 1 {
                    select! {
                        recv(r1) -> got => got.unwrap(),
                        recv(r2) -> got => got.unwrap(),
                    };
                } else {
                    r1.recv().unwrap();
                }
            });
        }
        wait_until("all are there", || ready.load(Ordering::SeqCst) == 3);
        urgo::sleep(Duration::from_millis(2));
        s2.send(true).unwrap();
        s1.send(true).unwrap();
        s1.send(true).unwrap();
        crew.join();
        assert_eq!(s1.try_send(true), Err(TrySendError::Full(true)));
        assert_eq!(s2.try_send(true), Err(TrySendError::Full(true)));
    });
}

/// A sender serves a plain receive and a receive by select alike.
#[test]
fn a_sender_serves_every_kind_of_receiver() {
    type Way = fn(Receiver<u32>) -> Option<u32>;
    let receivers: [Way; 5] = [
        |r| r.recv().ok(),
        |r| select! { recv(r) -> got => got.ok() },
        |r| {
            let (other, _r) = bounded(0);
            select! { recv(r) -> got => got.ok(), send(other, 1) -> _ => None }
        },
        |r| r.recv_timeout(Duration::from_secs(3600)).ok(),
        |r| r.into_iter().next(),
    ];
    type Send = fn(Sender<u32>);
    let senders: [Send; 4] = [
        |s| s.send(1).unwrap(),
        |s| select! { send(s, 1) -> sent => sent.unwrap() },
        |s| {
            let (_s, other) = bounded::<()>(0);
            select! { send(s, 1) -> sent => sent.unwrap(), recv(other) -> _ => panic!() }
        },
        |s| s.send_timeout(1, Duration::from_secs(3600)).unwrap(),
    ];
    everywhere(move |_| {
        for receiver in receivers {
            for sender in senders {
                for sender_is_first in [true, false] {
                    let (s, r) = bounded(0);
                    let got = if sender_is_first {
                        let task = spawn(move || sender(s));
                        urgo::sleep(Duration::from_micros(200));
                        let got = receiver(r);
                        task.join();
                        got
                    } else {
                        let task = spawn(move || receiver(r));
                        urgo::sleep(Duration::from_micros(200));
                        sender(s);
                        task.join()
                    };
                    assert_eq!(got, Some(1));
                }
            }
        }
    });
}

// --- networks ---

fn numbers_from(first: u64) -> Receiver<u64> {
    let (s, r) = bounded(0);
    drop(spawn(move || {
        for number in first.. {
            if s.send(number).is_err() {
                break;
            }
        }
    }));
    r
}

/// The sieve whose filters are a growing row.
#[test]
fn a_row_of_filters_sieves_primes() {
    everywhere(|_| {
        let mut from = numbers_from(2);
        let mut primes = Vec::new();
        for _ in 0..25 {
            let prime = from.recv().unwrap();
            primes.push(prime);
            let (s, r) = bounded(0);
            let source = std::mem::replace(&mut from, r);
            drop(spawn(move || {
                for number in source {
                    if number % prime != 0 && s.send(number).is_err() {
                        break;
                    }
                }
            }));
        }
        assert_eq!(primes[..8], [2, 3, 5, 7, 11, 13, 17, 19]);
        assert_eq!(primes[24], 97);
    });
}

/// The sieve that merges the multiples of the primes so far, and takes what the merge leaves out. The merge needs primes, the
/// primes need the merge: a ring of goroutines with buffers.
#[test]
fn a_ring_of_merges_sieves_primes() {
    fn merge(a: Receiver<u64>, b: Receiver<u64>) -> Receiver<u64> {
        let (s, r) = bounded(8);
        drop(spawn(move || {
            let (mut x, mut y) = (a.recv(), b.recv());
            while let (Ok(p), Ok(q)) = (x, y) {
                if s.send(p.min(q)).is_err() {
                    return;
                }
                if p <= q {
                    x = a.recv();
                }
                if q <= p {
                    y = b.recv();
                }
            }
        }));
        r
    }
    fn multiples(prime: u64) -> Receiver<u64> {
        let (s, r) = bounded(8);
        drop(spawn(move || {
            for factor in prime.. {
                if s.send(prime * factor).is_err() {
                    break;
                }
            }
        }));
        r
    }
    everywhere(|_| {
        let mut composites = multiples(2);
        let mut next_composite = composites.recv().unwrap();
        let mut primes = vec![2];
        let mut number = 2;
        while primes.len() < 15 {
            number += 1;
            while next_composite < number {
                next_composite = composites.recv().unwrap();
            }
            if next_composite == number {
                continue;
            }
            primes.push(number);
            // What was taken out of the merge goes in again at its front.
            let (s, rest) = bounded(1);
            let (front, old) = (next_composite, composites);
            drop(spawn(move || {
                let mut value = Ok(front);
                while let Ok(number) = value {
                    if s.send(number).is_err() {
                        break;
                    }
                    value = old.recv();
                }
            }));
            composites = merge(rest, multiples(number));
            next_composite = composites.recv().unwrap();
        }
        assert_eq!(
            primes,
            [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]
        );
    });
}

/// Power series as channels of their coefficients, made on demand.
mod series {
    use super::{Receiver, bounded, spawn};

    pub(super) type Series = Receiver<i64>;

    fn produce(body: impl FnOnce(&dyn Fn(i64) -> bool) + Send + 'static) -> Series {
        let (s, r) = bounded(0);
        drop(spawn(move || body(&|value| s.send(value).is_ok())));
        r
    }

    /// 1 / (1 - r x)
    pub(super) fn geometric(ratio: i64) -> Series {
        produce(move |put| {
            let mut value = 1;
            while put(value) {
                value *= ratio;
            }
        })
    }

    pub(super) fn add(a: Series, b: Series) -> Series {
        produce(move |put| {
            while let (Ok(x), Ok(y)) = (a.recv(), b.recv()) {
                if !put(x + y) {
                    break;
                }
            }
        })
    }

    pub(super) fn scale(factor: i64, a: Series) -> Series {
        produce(move |put| {
            a.iter().all(|x| put(factor * x));
        })
    }

    pub(super) fn derivative(a: Series) -> Series {
        produce(move |put| {
            a.iter().zip(0..).skip(1).all(|(x, n)| put(n * x));
        })
    }

    /// Two readers of one series, who need not keep step by more than the buffer.
    fn split(a: Series) -> (Series, Series) {
        let (s1, r1) = bounded(64);
        let (s2, r2) = bounded(64);
        drop(spawn(move || {
            for value in a {
                let (first, second) = (s1.send(value), s2.send(value));
                if first.is_err() && second.is_err() {
                    break;
                }
            }
        }));
        (r1, r2)
    }

    /// (f + x F)(g + x G) = f g + x (f G + g F + x F G), each product by goroutines of its own.
    pub(super) fn multiply(a: Series, b: Series, depth: usize) -> Series {
        produce(move |put| {
            let (Ok(f), Ok(g)) = (a.recv(), b.recv()) else {
                return;
            };
            if !put(f * g) || depth == 0 {
                return;
            }
            let ((f1, f2), (g1, g2)) = (split(a), split(b));
            let outer = add(scale(f, g1), scale(g, f1));
            let inner = multiply(f2, g2, depth - 1);
            let Ok(first) = outer.recv() else { return };
            if put(first) {
                let mut rest = outer.iter().zip(inner.iter());
                rest.all(|(x, y)| put(x + y));
            }
        })
    }

    pub(super) fn take(a: &Series, n: usize) -> Vec<i64> {
        a.iter().take(n).collect()
    }
}

#[test]
fn power_series_flow_through_networks_of_channels() {
    use series::{add, derivative, geometric, multiply, scale, take};
    everywhere(|_| {
        // 1/(1-x) + 2/(1+x)
        let sum = add(geometric(1), scale(2, geometric(-1)));
        assert_eq!(take(&sum, 6), [3, -1, 3, -1, 3, -1]);
        // (1/(1-x))' = 1/(1-x)^2
        assert_eq!(take(&derivative(geometric(1)), 6), [1, 2, 3, 4, 5, 6]);
        let square = multiply(geometric(1), geometric(1), 8);
        assert_eq!(take(&square, 7), [1, 2, 3, 4, 5, 6, 7]);
        // 1/(1-x) * 1/(1+x) = 1/(1-x^2)
        let product = multiply(geometric(1), geometric(-1), 8);
        assert_eq!(take(&product, 7), [1, 0, 1, 0, 1, 0, 1]);
    });
}

// --- as the tests of Go's runtime ---

/// A value is there, then both are ended: whoever looks without waiting sees one of two things, never nothing after all.
#[test]
fn a_look_without_waiting_never_misses_what_is_there() {
    everywhere(|ground| {
        for _ in 0..ground.rounds(300) {
            let (s, r) = bounded(1);
            s.send(1).unwrap();
            let looker = spawn({
                let r = r.clone();
                move || select! { recv(r) -> got => got.is_ok(), default => false }
            });
            drop(s);
            let mine = r.try_recv();
            let theirs = looker.join();
            assert!(theirs != mine.is_ok(), "one of two gets the value");
        }
    });
}

/// Senders and receivers on four channels, some plain and some selecting all four, in different orders: all of it arrives.
#[test]
fn plain_and_selecting_ends_on_four_channels_all_come_through() {
    everywhere(|ground| {
        let n = ground.rounds(1_000);
        let channels: [(Sender<usize>, Receiver<usize>); 4] =
            [bounded(0), bounded(0), bounded(2), bounded(3)];
        let mut crew = Crew::new();
        for (k, (s, _)) in channels.iter().enumerate() {
            let s = s.clone();
            crew.spawn(move || (0..n).for_each(|i| s.send(4 * i + k).unwrap()));
        }
        let senders = channels.each_ref().map(|(s, _)| s.clone());
        crew.spawn(move || {
            let (nil, _kept) = bounded(0);
            let mut left = [n; 4];
            for _ in 0..4 * n {
                let [a, b, c, d] =
                    std::array::from_fn(|k| if left[k] > 0 { &senders[k] } else { &nil });
                let k = select! {
                    send(d, 3) -> sent => { sent.unwrap(); 3 }
                    send(a, 0) -> sent => { sent.unwrap(); 0 }
                    send(c, 2) -> sent => { sent.unwrap(); 2 }
                    send(b, 1) -> sent => { sent.unwrap(); 1 }
                };
                left[k] -= 1;
            }
        });
        for (k, (_, r)) in channels.iter().enumerate() {
            let r = r.clone();
            crew.spawn(move || {
                for _ in 0..n {
                    assert_eq!(r.recv().unwrap() % 4, k);
                }
            });
        }
        let receivers = channels.each_ref().map(|(_, r)| r.clone());
        crew.spawn(move || {
            let nil = never();
            let mut left = [n; 4];
            for _ in 0..4 * n {
                let [a, b, c, d] =
                    std::array::from_fn(|k| if left[k] > 0 { &receivers[k] } else { &nil });
                let (k, got) = select! {
                    recv(a) -> got => (0, got),
                    recv(b) -> got => (1, got),
                    recv(c) -> got => (2, got),
                    recv(d) -> got => (3, got),
                };
                assert_eq!(got.unwrap() % 4, k);
                left[k] -= 1;
            }
        });
        crew.join();
        for (_, r) in &channels {
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        }
    });
}

/// Work is shared among many, through a queue in and a queue out.
#[test]
fn many_consumers_share_one_queue() {
    everywhere(|ground| {
        let jobs = ground.rounds(4_000);
        let (s, r) = bounded(100);
        let (done, results) = bounded(100);
        let mut crew = Crew::new();
        for number in 0..12 {
            let (r, done) = (r.clone(), done.clone());
            crew.spawn(move || {
                for job in r {
                    if job % 12 == number {
                        urgo::yield_now();
                    }
                    done.send(job).unwrap();
                }
            });
        }
        drop((r, done));
        crew.spawn(move || (0..jobs).for_each(|job| s.send(job).unwrap()));
        let mut all: Vec<_> = results.iter().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..jobs));
        crew.join();
    });
}

/// A crowd of a few hundred at one channel of every capacity: as many get through as are let.
#[test]
fn a_crowd_at_one_channel_gets_through() {
    everywhere(|ground| {
        let crowd = match ground {
            Ground::Threads => 60,
            _ => 600,
        };
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            let mut crew = Crew::new();
            for number in 0..crowd {
                let (s, r) = (s.clone(), r.clone());
                if number % 2 == 0 {
                    crew.spawn(move || s.send(number).unwrap());
                } else {
                    crew.spawn(move || assert!(r.recv().unwrap() % 2 == 0));
                }
            }
            crew.join();
            assert_eq!((r.try_recv(), s.len()), (Err(TryRecvError::Empty), 0));
        }
    });
}

/// One goroutine relays between two others by select in both directions, for as long as both live.
#[test]
fn a_relay_with_a_buffer_of_its_own_passes_everything() {
    everywhere(|ground| {
        let n = ground.rounds(1_000);
        let (s, from) = bounded::<usize>(0);
        let (to, r) = bounded(0);
        let relay = spawn(move || {
            let nil = never();
            let (off, _kept) = bounded(0);
            let mut queue = std::collections::VecDeque::new();
            let mut source = Some(&from);
            while source.is_some() || !queue.is_empty() {
                let sink = if queue.is_empty() { &off } else { &to };
                select! {
                    recv(source.unwrap_or(&nil)) -> got => match got {
                        Ok(value) => queue.push_back(value),
                        Err(RecvError) => source = None,
                    },
                    send(sink, queue.pop_front().unwrap()) -> sent => sent.unwrap(),
                }
            }
        });
        let sender = spawn(move || (0..n).for_each(|i| s.send(i).unwrap()));
        assert!(r.iter().eq(0..n));
        sender.join();
        relay.join();
    });
}

/// A select in a loop that never finds its channel ready leaves nothing behind, or the lines would grow.
#[test]
fn selects_in_vain_leave_the_channels_as_they_were() {
    everywhere(|ground| {
        let (s, r) = unbounded();
        let quiet = bounded::<u8>(0);
        let stop = Arc::new(AtomicBool::new(false));
        let feeder = spawn({
            let stop = stop.clone();
            move || {
                let mut count = 0usize;
                while !stop.load(Ordering::SeqCst) {
                    s.send(count).unwrap();
                    count += 1;
                    urgo::yield_now();
                }
                count
            }
        });
        for i in 0..ground.rounds(2_000) {
            select! {
                recv(quiet.1) -> _ => panic!("nobody sends there"),
                recv(r) -> got => assert_eq!(got, Ok(i)),
                send(quiet.0, 1) -> _ => panic!("nobody receives there"),
            }
        }
        stop.store(true, Ordering::SeqCst);
        feeder.join();
        // The quiet channel works as if nobody had waited there.
        let (s, r) = quiet;
        let receiver = spawn(move || (r.recv(), r));
        s.send(5).unwrap();
        let (got, r) = receiver.join();
        assert_eq!(got, Ok(5));
        drop(r);
        assert_eq!(s.send(6), Err(SendError(6)));
    });
}
