//! Go's rules for channels, as its language specification and its memory model have them, in our words and with our errors:
//! a send on a closed channel fails with the value where Go panics, and the second close says `false`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::chan::{
    Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, bounded, never, unbounded,
};
use urgo::select;

use crate::grounds::{Crew, everywhere, spawn};
use crate::support::{Drops, wait_until};

const MOMENT: Duration = Duration::from_millis(3);

/// The capacities that rules are tried with; `None` is unbounded.
pub(crate) const CAPACITIES: [Option<usize>; 5] = [Some(0), Some(1), Some(2), Some(7), None];

/// As Go's `make(chan T, capacity)`.
pub(crate) fn channel<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    capacity.map_or_else(unbounded, bounded)
}

// --- nil channels: `never()` to receive from; to send to, a rendezvous whose receiver never comes ---

#[test]
fn a_nil_channel_is_never_ready() {
    everywhere(|_| {
        let nil = never::<i32>();
        assert_eq!(nil.try_recv(), Err(TryRecvError::Empty));
        let began = Instant::now();
        assert_eq!(nil.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
        assert!(began.elapsed() >= MOMENT);
        assert_eq!((nil.len(), nil.capacity()), (0, Some(0)));
        assert_eq!(nil.iter().size_hint().1, None);
        assert!(nil.is_empty() && nil.try_iter().next().is_none());
        assert!(nil.same_channel(&nil.clone()));

        let (nil_to_send, _receiver) = bounded(0);
        assert_eq!(nil_to_send.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(
            nil_to_send.send_timeout(2, MOMENT),
            Err(SendTimeoutError::Timeout(2))
        );
    });
}

#[test]
fn a_nil_arm_is_as_if_it_were_not_there() {
    everywhere(|_| {
        let nil = never::<i32>();
        let (nil_to_send, _kept) = bounded::<i32>(0);
        let (s, r) = bounded(1);
        for round in 0..100 {
            select! {
                recv(nil) -> _ => panic!("received from nil"),
                send(nil_to_send, 1) -> _ => panic!("sent to nil"),
                default => {}
            }
            s.send(round).unwrap();
            select! {
                recv(nil) -> _ => panic!("received from nil"),
                recv(r) -> value => assert_eq!(value, Ok(round)),
                send(nil_to_send, 1) -> _ => panic!("sent to nil"),
            }
        }
    });
}

/// The idiom of a merge: an arm is switched off when its channel has ended.
#[test]
fn an_arm_is_switched_off_by_a_nil_channel() {
    everywhere(|_| {
        let nil = never();
        let ((s1, r1), (s2, r2)) = (bounded(1), bounded(1));
        let mut crew = Crew::new();
        crew.spawn(move || (0..50).for_each(|i| s1.send(i).unwrap()));
        crew.spawn(move || (50..90).for_each(|i| s2.send(i).unwrap()));
        let (mut on1, mut on2) = (Some(&r1), Some(&r2));
        let mut sum = 0;
        while on1.is_some() || on2.is_some() {
            select! {
                recv(on1.unwrap_or(&nil)) -> value => match value {
                    Ok(value) => sum += value,
                    Err(RecvError) => on1 = None,
                },
                recv(on2.unwrap_or(&nil)) -> value => match value {
                    Ok(value) => sum += value,
                    Err(RecvError) => on2 = None,
                },
            }
        }
        assert_eq!(sum, (0..90).sum::<i32>());
        crew.join();
    });
}

// --- closed channels: ended here by dropping one side; `endings.rs` closes ---

#[test]
fn receiving_from_an_ended_channel_first_drains_it() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            for queued in 0..=capacity.unwrap_or(9) {
                let (s, r) = channel(capacity);
                for value in 0..queued {
                    s.send(value).unwrap();
                }
                drop(s);
                assert_eq!(r.len(), queued);
                for value in 0..queued {
                    match value % 4 {
                        0 => assert_eq!(r.recv(), Ok(value)),
                        1 => assert_eq!(r.try_recv(), Ok(value)),
                        2 => assert_eq!(r.recv_timeout(MOMENT), Ok(value)),
                        _ => select! { recv(r) -> got => assert_eq!(got, Ok(value)) },
                    }
                }
                for _ in 0..3 {
                    assert_eq!(r.recv(), Err(RecvError));
                    assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
                    let timed = r.recv_timeout(Duration::from_secs(3600));
                    assert_eq!(timed, Err(RecvTimeoutError::Disconnected));
                    select! { recv(r) -> got => assert_eq!(got, Err(RecvError)) }
                    select! {
                        recv(r) -> got => assert_eq!(got, Err(RecvError)),
                        default => panic!("an ended channel is ready"),
                    }
                    assert_eq!(r.iter().next(), None);
                    assert_eq!(r.try_iter().next(), None);
                }
            }
        }
    });
}

#[test]
fn sending_where_nobody_receives_any_more_gives_the_value_back() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            drop(r);
            for value in 0..3 {
                assert_eq!(s.send(value), Err(SendError(value)));
                assert_eq!(s.try_send(value), Err(TrySendError::Disconnected(value)));
                assert_eq!(
                    s.send_timeout(value, Duration::from_secs(3600)),
                    Err(SendTimeoutError::Disconnected(value))
                );
                select! { send(s, value) -> sent => assert_eq!(sent, Err(SendError(value))) }
                select! {
                    send(s, value) -> sent => assert_eq!(sent, Err(SendError(value))),
                    default => panic!("an ended channel is ready"),
                }
            }
            assert_eq!(s.len(), 0);
        }
    });
}

#[test]
fn a_range_over_a_channel_ends_when_the_channel_ends() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            let sender = spawn(move || (0..20).for_each(|i| s.send(i).unwrap()));
            let mut got = Vec::new();
            for value in &r {
                got.push(value);
            }
            assert_eq!(got, (0..20).collect::<Vec<_>>());
            assert_eq!(r.into_iter().next(), None);
            sender.join();
        }
    });
}

/// Go: a close is seen by everybody who waits, and by everybody who comes later.
#[test]
fn an_end_wakes_everybody_who_waits() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel::<u8>(capacity);
            let ready = Arc::new(AtomicUsize::new(0));
            let receivers: Vec<_> = (0..8)
                .map(|number| {
                    let (r, ready) = (r.clone(), ready.clone());
                    spawn(move || {
                        ready.fetch_add(1, Ordering::SeqCst);
                        match number % 4 {
                            0 => r.recv().is_err(),
                            1 => r.iter().next().is_none(),
                            2 => {
                                r.recv_timeout(Duration::from_secs(3600))
                                    == Err(RecvTimeoutError::Disconnected)
                            }
                            _ => select! {
                                recv(never::<u8>()) -> _ => false,
                                recv(r) -> got => got.is_err(),
                            },
                        }
                    })
                })
                .collect();
            wait_until("the receivers are there", || {
                ready.load(Ordering::SeqCst) == 8
            });
            urgo::sleep(MOMENT);
            drop(s);
            for receiver in receivers {
                assert!(receiver.join());
            }
        }
    });
}

// --- len and cap ---

#[test]
fn len_and_cap_count_what_is_queued() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            assert_eq!((s.capacity(), r.capacity()), (capacity, capacity));
            for queued in 0..capacity.unwrap_or(40) {
                assert_eq!((s.len(), r.len()), (queued, queued));
                assert_eq!((s.is_empty(), r.is_empty()), (queued == 0, queued == 0));
                assert!(!s.is_full() && !r.is_full());
                s.try_send(queued).unwrap();
            }
            if capacity.is_some() {
                assert!(s.is_full() && r.is_full());
                assert_eq!(s.try_send(99), Err(TrySendError::Full(99)));
            }
            while r.try_recv().is_ok() {}
            assert_eq!((s.len(), r.len()), (0, 0));
            assert!(s.is_empty() && r.is_empty());
        }
        // A rendezvous is empty and full at once.
        let (s, r) = bounded::<i32>(0);
        assert!(s.is_empty() && s.is_full() && r.is_empty() && r.is_full());
    });
}

/// Senders that wait at a full channel are not counted.
#[test]
fn len_never_exceeds_cap_while_senders_wait() {
    everywhere(|ground| {
        for capacity in [0, 1, 3] {
            let (s, r) = bounded(capacity);
            let mut crew = Crew::new();
            let rounds = ground.rounds(50);
            for _ in 0..6 {
                let s = s.clone();
                crew.spawn(move || {
                    for i in 0..rounds {
                        assert!(s.len() <= capacity);
                        s.send(i).unwrap();
                    }
                });
            }
            drop(s);
            let mut count = 0;
            while r.recv().is_ok() {
                assert!(r.len() <= capacity);
                count += 1;
            }
            assert_eq!(count, 6 * rounds);
            crew.join();
        }
    });
}

// --- the element type ---

#[test]
fn values_of_no_size_are_counted_like_others() {
    #[derive(Debug, PartialEq)]
    struct Nothing;
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            let sender = spawn(move || (0..30).for_each(|_| s.send(Nothing).unwrap()));
            assert_eq!(r.iter().count(), 30);
            sender.join();
            let (s, r) = channel::<[u64; 0]>(capacity);
            if capacity != Some(0) {
                s.send([]).unwrap();
                assert_eq!((r.len(), r.recv()), (1, Ok([])));
            }
        }
    });
}

#[test]
fn values_of_any_size_and_alignment_arrive_whole() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(128))]
    struct Aligned(u8);
    fn pass<T: Copy + PartialEq + std::fmt::Debug + Send + 'static>(make: fn(u8) -> T) {
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            let sender = spawn(move || (0..40).for_each(|i| s.send(make(i)).unwrap()));
            for i in 0..40 {
                let got = r.recv().unwrap();
                assert_eq!(got, make(i));
                assert_eq!((&raw const got).addr() % align_of::<T>(), 0);
            }
            sender.join();
        }
    }
    everywhere(|_| {
        pass(|i| i);
        pass(|i| [i; 3]);
        pass(|i| (i, u64::from(i) << 40));
        pass(|i| [u64::from(i); 500]);
        pass(Aligned);
        pass(|i| u128::from(i) << 99);
    });
}

#[test]
fn a_channel_of_channels_carries_the_answer_back() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (asks, asked) = channel::<(u32, Sender<u32>)>(capacity);
            let server = spawn(move || {
                for (number, answer) in asked {
                    answer.send(number * number).unwrap();
                }
            });
            let mut crew = Crew::new();
            for number in 0..20 {
                let asks = asks.clone();
                crew.spawn(move || {
                    let (s, r) = bounded(0);
                    asks.send((number, s)).unwrap();
                    assert_eq!(r.recv(), Ok(number * number));
                    assert_eq!(r.recv(), Err(RecvError));
                });
            }
            drop(asks);
            crew.join();
            server.join();
        }
    });
}

#[test]
fn trait_objects_and_closures_are_sent_like_values() {
    type Job = Box<dyn FnOnce() -> String + Send>;
    everywhere(|_| {
        let (s, r) = bounded::<Job>(0);
        let worker = spawn(move || r.iter().map(|job| job()).collect::<Vec<_>>());
        let word = String::from("a");
        s.send(Box::new(move || word + "b")).unwrap();
        s.send(Box::new(|| 7.to_string())).unwrap();
        drop(s);
        assert_eq!(worker.join(), ["ab", "7"]);
    });
}

// --- the memory model ---

/// A send is before its receive: what the sender did is seen.
#[test]
fn what_was_done_before_a_send_is_seen_after_its_receive() {
    everywhere(|ground| {
        for capacity in CAPACITIES {
            let (s, r) = channel::<Box<usize>>(capacity);
            let cell = Arc::new(AtomicUsize::new(0));
            let seen = cell.clone();
            let rounds = ground.rounds(300);
            let sender = spawn(move || {
                for i in 1..=rounds {
                    cell.store(i, Ordering::Relaxed);
                    s.send(Box::new(i)).unwrap();
                }
            });
            for value in r {
                assert!(seen.load(Ordering::Relaxed) >= *value);
            }
            sender.join();
        }
    });
}

/// An end is before the receive that reports it.
#[test]
fn what_was_done_before_an_end_is_seen_by_who_receives_it() {
    everywhere(|ground| {
        for _ in 0..ground.rounds(100) {
            let (s, r) = bounded::<()>(0);
            let cell = Arc::new(AtomicUsize::new(0));
            let stores = cell.clone();
            let closer = spawn(move || {
                stores.store(1, Ordering::Relaxed);
                drop(s);
            });
            assert_eq!(r.recv(), Err(RecvError));
            assert_eq!(cell.load(Ordering::Relaxed), 1);
            closer.join();
        }
    });
}

/// The k-th receive has begun before the (k+C)-th send is complete; for C = 0 the two meet.
#[test]
fn no_send_is_complete_before_the_receive_that_makes_room_for_it_has_begun() {
    everywhere(|ground| {
        for capacity in [0, 1, 2, 7] {
            let (s, r) = bounded(capacity);
            let begun = Arc::new(AtomicUsize::new(0));
            let receives = begun.clone();
            let rounds = ground.rounds(300);
            let receiver = spawn(move || {
                loop {
                    receives.fetch_add(1, Ordering::Relaxed);
                    if r.recv().is_err() {
                        break;
                    }
                }
            });
            for sent in 1..=rounds {
                match sent % 3 {
                    0 => s.send(sent).unwrap(),
                    1 => s.send_timeout(sent, Duration::from_secs(3600)).unwrap(),
                    _ => select! { send(s, sent) -> done => done.unwrap() },
                }
                assert!(begun.load(Ordering::Relaxed) + capacity >= sent);
            }
            drop(s);
            receiver.join();
        }
    });
}

/// A channel of capacity C used as a counter of permits lets C in.
#[test]
fn a_bounded_channel_limits_how_many_are_inside() {
    everywhere(|_| {
        const PERMITS: usize = 3;
        let (enter, leave) = bounded(PERMITS);
        let inside = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let mut crew = Crew::new();
        for _ in 0..12 {
            let (enter, leave) = (enter.clone(), leave.clone());
            let (inside, most) = (inside.clone(), most.clone());
            crew.spawn(move || {
                for _ in 0..20 {
                    enter.send(()).unwrap();
                    let count = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(count, Ordering::SeqCst);
                    urgo::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    leave.recv().unwrap();
                }
            });
        }
        crew.join();
        let most = most.load(Ordering::SeqCst);
        assert!((1..=PERMITS).contains(&most), "{most} were inside");
    });
}

// --- order and delivery ---

#[test]
fn values_of_one_sender_arrive_in_order() {
    everywhere(|ground| {
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            let rounds = ground.rounds(500);
            let sender = spawn(move || (0..rounds).for_each(|i| s.send(i).unwrap()));
            assert!(r.iter().eq(0..rounds));
            sender.join();
        }
    });
}

/// Go leaves it open who of several is served; here and there nobody is served twice and nobody not at all.
#[test]
fn every_value_goes_to_exactly_one_receiver() {
    everywhere(|ground| {
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            let rounds = ground.rounds(200);
            let mut senders = Crew::new();
            for number in 0..4 {
                let s = s.clone();
                senders.spawn(move || {
                    for i in 0..rounds {
                        s.send(number * rounds + i).unwrap();
                    }
                });
            }
            drop(s);
            let receivers: Vec<_> = (0..4)
                .map(|_| {
                    let r = r.clone();
                    spawn(move || r.iter().collect::<Vec<_>>())
                })
                .collect();
            let mut all: Vec<_> = receivers.into_iter().flat_map(|r| r.join()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..4 * rounds));
            senders.join();
        }
    });
}

/// Go's collector takes what is left in a channel; here it is dropped with the last end at the latest, once.
#[test]
fn what_nobody_receives_is_dropped_once() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let queued = capacity.unwrap_or(100);
            for receiver_goes_first in [true, false] {
                let drops = Drops::default();
                let (s, r) = channel(capacity);
                for _ in 0..queued {
                    s.send(drops.guard()).unwrap();
                }
                if receiver_goes_first {
                    drop(r);
                    let back = s.send(drops.guard()).unwrap_err();
                    let before = drops.count();
                    drop(back);
                    assert_eq!(drops.count(), before + 1);
                    drop(s);
                    assert_eq!(drops.count(), queued + 1);
                } else {
                    drop(s);
                    assert_eq!(drops.count(), 0);
                    drop(r);
                    assert_eq!(drops.count(), queued);
                }
            }
        }
    });
}
