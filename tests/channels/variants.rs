//! Every way to send and to receive, and what a channel says about itself: as crossbeam-channel's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::chan::{
    Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, bounded, never, unbounded,
};
use urgo::select;

use crate::go_rules::{CAPACITIES, channel};
use crate::grounds::{Crew, everywhere, spawn};
use crate::support::{Drops, wait_until};

const MOMENT: Duration = Duration::from_millis(3);
const HOUR: Duration = Duration::from_secs(3600);

// --- with a time ---

#[test]
fn a_timed_receive_waits_its_time_and_no_more_than_needed() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel::<i32>(capacity);
            let began = Instant::now();
            assert_eq!(r.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
            assert!(began.elapsed() >= MOMENT);
            let deadline = Instant::now() + MOMENT;
            assert_eq!(r.recv_deadline(deadline), Err(RecvTimeoutError::Timeout));
            assert!(Instant::now() >= deadline);
            // A deadline that has passed.
            assert_eq!(r.recv_deadline(began), Err(RecvTimeoutError::Timeout));
            assert_eq!(
                r.recv_timeout(Duration::ZERO),
                Err(RecvTimeoutError::Timeout)
            );
            let sender = spawn(move || {
                urgo::sleep(MOMENT);
                s.send(1).unwrap();
                s.send(2).unwrap();
            });
            assert_eq!(r.recv_timeout(HOUR), Ok(1));
            assert_eq!(r.recv_deadline(Instant::now() + HOUR), Ok(2));
            sender.join();
            assert_eq!(r.recv_timeout(HOUR), Err(RecvTimeoutError::Disconnected));
            assert_eq!(r.recv_deadline(began), Err(RecvTimeoutError::Disconnected));
        }
    });
}

#[test]
fn a_timed_send_waits_its_time_and_no_more_than_needed() {
    everywhere(|_| {
        for capacity in [0, 1, 3] {
            let (s, r) = bounded(capacity);
            for value in 0..capacity {
                s.send_timeout(value, Duration::ZERO).unwrap();
            }
            let began = Instant::now();
            assert_eq!(
                s.send_timeout(90, MOMENT),
                Err(SendTimeoutError::Timeout(90))
            );
            assert!(began.elapsed() >= MOMENT);
            let deadline = Instant::now() + MOMENT;
            assert_eq!(
                s.send_deadline(91, deadline),
                Err(SendTimeoutError::Timeout(91))
            );
            assert!(Instant::now() >= deadline);
            assert_eq!(
                s.send_deadline(92, began),
                Err(SendTimeoutError::Timeout(92))
            );
            assert_eq!(
                s.send_timeout(93, Duration::ZERO),
                Err(SendTimeoutError::Timeout(93))
            );
            let receiver = spawn(move || {
                urgo::sleep(MOMENT);
                (0..capacity + 2)
                    .map(|_| r.recv().unwrap())
                    .collect::<Vec<_>>()
            });
            s.send_timeout(capacity, HOUR).unwrap();
            s.send_deadline(capacity + 1, Instant::now() + HOUR)
                .unwrap();
            assert!(receiver.join().into_iter().eq(0..capacity + 2));
            assert_eq!(
                s.send_timeout(94, HOUR),
                Err(SendTimeoutError::Disconnected(94))
            );
            assert_eq!(
                s.send_deadline(95, began),
                Err(SendTimeoutError::Disconnected(95))
            );
        }
    });
}

#[test]
fn the_longest_time_is_for_ever() {
    everywhere(|_| {
        let (s, r) = bounded::<i32>(0);
        let receiver = spawn(move || {
            (
                r.recv_timeout(Duration::MAX),
                select! { recv(r) -> got => got.ok(), default(Duration::MAX) => None },
            )
        });
        urgo::sleep(MOMENT);
        s.send_timeout(1, Duration::MAX).unwrap();
        s.send(2).unwrap();
        assert_eq!(receiver.join(), (Ok(1), Some(2)));
    });
}

/// Waits that time out at random, against traffic: nothing is lost, nothing doubled.
#[test]
fn waits_that_time_out_amid_traffic_lose_nothing() {
    everywhere(|ground| {
        for capacity in [0, 1, 4] {
            let (s, r) = bounded(capacity);
            let drops = Drops::default();
            let mut senders = Vec::new();
            for number in 0..3u64 {
                let (s, drops) = (s.clone(), drops.clone());
                let rounds = ground.rounds(200) as u64;
                senders.push(spawn(move || {
                    let mut sent = 0;
                    for i in 0..rounds {
                        let time = Duration::from_micros((i * 7 + number * 13) % 120);
                        if s.send_timeout(drops.guard(), time).is_ok() {
                            sent += 1;
                        }
                    }
                    (sent, rounds)
                }));
            }
            drop(s);
            let mut receivers = Vec::new();
            for number in 0..3u64 {
                let r = r.clone();
                receivers.push(spawn(move || {
                    let mut received = 0;
                    for i in 0.. {
                        let time = Duration::from_micros((i * 11 + number * 17) % 120);
                        match r.recv_timeout(time) {
                            Ok(_) => received += 1,
                            Err(RecvTimeoutError::Timeout) => urgo::yield_now(),
                            Err(RecvTimeoutError::Disconnected) => break,
                        }
                    }
                    received
                }));
            }
            let (sent, tried) = senders
                .into_iter()
                .map(|sender| sender.join())
                .fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
            let received: u64 = receivers.into_iter().map(|receiver| receiver.join()).sum();
            assert_eq!(received, sent);
            assert_eq!(drops.count() as u64, tried);
        }
    });
}

// --- iterators ---

#[test]
fn iterators_end_where_they_should() {
    everywhere(|_| {
        for capacity in [Some(3), None] {
            let (s, r) = channel(capacity);
            (0..3).for_each(|i| s.send(i).unwrap());
            assert!(r.try_iter().eq(0..3));
            assert_eq!(r.try_iter().next(), None);
            (3..6).for_each(|i| s.send(i).unwrap());
            assert_eq!(r.iter().next(), Some(3));
            assert_eq!((&r).into_iter().next(), Some(4));
            drop(s);
            let mut rest = r.into_iter();
            assert_eq!(
                (rest.next(), rest.next(), rest.next()),
                (Some(5), None, None)
            );
        }
    });
}

#[test]
fn an_iterator_that_owns_the_receiver_keeps_the_channel_open_as_long_as_it_lives() {
    everywhere(|_| {
        let (s, r) = unbounded();
        let mut values = r.into_iter();
        s.send(1).unwrap();
        assert_eq!(values.next(), Some(1));
        s.send(2).unwrap();
        drop(values);
        assert_eq!(s.send(3), Err(SendError(3)));
    });
}

// --- what a channel says ---

#[test]
fn same_channel_tells_channels_apart() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s1, r1) = channel::<u8>(capacity);
            let (s2, r2) = channel::<u8>(capacity);
            assert!(s1.same_channel(&s1) && s1.same_channel(&s1.clone()));
            assert!(r1.same_channel(&r1) && r1.same_channel(&r1.clone()));
            assert!(!s1.same_channel(&s2) && !r1.same_channel(&r2));
        }
        let (r1, r2) = (never::<u8>(), bounded::<u8>(0).1);
        assert!(!r1.same_channel(&r2));
    });
}

/// Counts under use: never more than there is room for, and exact when it is quiet.
#[test]
fn counts_stay_within_bounds_while_the_channel_is_used() {
    everywhere(|ground| {
        let capacity = 8;
        let (s, r) = bounded(capacity);
        let rounds = ground.rounds(2_000);
        let mut crew = Crew::new();
        for _ in 0..2 {
            let s = s.clone();
            crew.spawn(move || {
                for i in 0..rounds {
                    s.send(i).unwrap();
                    assert!(s.len() <= capacity);
                }
            });
            let r = r.clone();
            crew.spawn(move || {
                for _ in 0..rounds {
                    r.recv().unwrap();
                    assert!(r.len() <= capacity);
                }
            });
        }
        crew.join();
        assert!(s.is_empty() && r.is_empty() && !s.is_full());
        assert_eq!(s.len(), 0);
    });
}

#[test]
fn ends_may_be_shared_sent_and_printed() {
    fn is_free<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>(_: &T) {}
    everywhere(|_| {
        let (s, r) = bounded::<std::cell::Cell<u8>>(1);
        is_free(&s);
        is_free(&r);
        assert!(format!("{s:?} {r:?}").starts_with("Sender"));
        assert!(format!("{:?}", r.iter()).starts_with("Iter"));
        // One end, used by many at once.
        let s = Arc::new(s);
        let senders: Vec<_> = (0..4)
            .map(|i| {
                let s = s.clone();
                spawn(move || s.send(std::cell::Cell::new(i)).unwrap())
            })
            .collect();
        let sum: u8 = (0..4).map(|_| r.recv().unwrap().get()).sum();
        assert_eq!(sum, 6);
        senders.into_iter().for_each(|sender| sender.join());
    });
}

#[test]
fn errors_say_what_happened_and_give_the_value_back() {
    everywhere(|_| {
        let (s, r) = bounded(1);
        s.send(1).unwrap();
        let full = s.try_send(2).unwrap_err();
        assert!(full.is_full() && !full.is_disconnected());
        assert_eq!(
            (format!("{full:?}"), full.into_inner()),
            ("Full(..)".to_owned(), 2)
        );
        let late = s.send_timeout(3, Duration::ZERO).unwrap_err();
        assert!(late.is_timeout() && !late.is_disconnected());
        assert_eq!(late.into_inner(), 3);
        r.recv().unwrap();
        let empty = r.try_recv().unwrap_err();
        assert!(empty.is_empty() && !empty.is_disconnected());
        let late = r.recv_timeout(Duration::ZERO).unwrap_err();
        assert!(late.is_timeout() && !late.is_disconnected());
        drop(r);
        let gone = s.try_send(4).unwrap_err();
        assert!(gone.is_disconnected() && !gone.is_full());
        let gone: TrySendError<i32> = s.send(5).unwrap_err().into();
        assert!(gone.is_disconnected());
        let gone: SendTimeoutError<i32> = s.send(6).unwrap_err().into();
        assert_eq!(gone.into_inner(), 6);
        let gone: Box<dyn std::error::Error> = Box::new(s.send(7).unwrap_err());
        assert!(!gone.to_string().is_empty());
        let (s, r) = bounded::<u8>(0);
        drop(s);
        let gone: TryRecvError = r.recv().unwrap_err().into();
        assert!(gone.is_disconnected());
        let gone: RecvTimeoutError = r.recv().unwrap_err().into();
        assert!(gone.is_disconnected());
        let gone: Box<dyn std::error::Error + Send + Sync> = Box::new(RecvError);
        assert!(!gone.to_string().is_empty());
    });
}

// --- threads and goroutines together ---

/// Threads without a runtime and goroutines of two runtimes on the same channels: before, during and after the runtimes' lives.
#[test]
fn threads_and_goroutines_of_several_runtimes_share_a_channel() {
    for capacity in CAPACITIES {
        const EACH: usize = 300;
        let (s, r) = channel::<usize>(capacity);
        let received = Arc::new(AtomicUsize::new(0));
        let take = |r: Receiver<usize>, received: Arc<AtomicUsize>| {
            move || {
                for value in r {
                    received.fetch_add(value, Ordering::SeqCst);
                }
            }
        };
        let give = |s: Sender<usize>| move || (1..=EACH).for_each(|value| s.send(value).unwrap());
        let thread_in = std::thread::spawn(take(r.clone(), received.clone()));
        let thread_out = std::thread::spawn(give(s.clone()));
        let runtimes: Vec<_> = (1..=2)
            .map(|workers| {
                let (s, r, received) = (s.clone(), r.clone(), received.clone());
                std::thread::spawn(move || {
                    crate::support::runtime(workers).run(|| {
                        let mut givers = Crew::new();
                        let mut takers = Crew::new();
                        for _ in 0..2 {
                            givers.spawn(give(s.clone()));
                            takers.spawn(take(r.clone(), received.clone()));
                        }
                        drop((s, r));
                        givers.join();
                        takers.join();
                    });
                })
            })
            .collect();
        drop((s, r));
        thread_out.join().unwrap();
        for runtime in runtimes {
            runtime.join().unwrap();
        }
        thread_in.join().unwrap();
        assert_eq!(received.load(Ordering::SeqCst), 5 * EACH * (EACH + 1) / 2);
    }
}

/// The same channel before, in and after a runtime, from one thread.
#[test]
fn a_channel_outlives_runtimes() {
    let (s, r) = unbounded();
    s.send(1).unwrap();
    for _ in 0..3 {
        crate::support::runtime(1).run(|| {
            let value = r.recv().unwrap();
            let s = s.clone();
            spawn(move || s.send(value + 1).unwrap()).join();
        });
        let value = r.recv().unwrap();
        s.send(value + 1).unwrap();
    }
    assert_eq!(r.recv(), Ok(7));
}

// --- waiting really waits ---

/// A full channel holds its senders until there is room, and lets exactly as many go on.
#[test]
fn a_full_channel_lets_one_sender_on_per_receive() {
    everywhere(|_| {
        let (s, r) = bounded(2);
        let passed = Arc::new(AtomicUsize::new(0));
        let mut crew = Crew::new();
        for i in 0..10 {
            let (s, passed) = (s.clone(), passed.clone());
            crew.spawn(move || {
                s.send(i).unwrap();
                passed.fetch_add(1, Ordering::SeqCst);
            });
        }
        for received in 0..=8 {
            wait_until("as many as there is room for", || {
                passed.load(Ordering::SeqCst) == received + 2
            });
            if received < 8 {
                assert!(r.is_full());
                r.recv().unwrap();
            }
        }
        assert_eq!(r.try_iter().count(), 2);
        crew.join();
    });
}
