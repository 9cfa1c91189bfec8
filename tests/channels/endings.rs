//! How a channel ends: by `close()` from either side, by its last sender or receiver going, by a panic, or after the one
//! value of a oneshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use urgo::chan::{
    Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, bounded, never, oneshot, unbounded,
};
use urgo::select;

use crate::go_rules::{CAPACITIES, channel};
use crate::grounds::{Crew, everywhere, spawn};
use crate::support::{Drops, hush_planned_panics, wait_until};

const HOUR: Duration = Duration::from_secs(3600);

/// The ways to end a channel of which both sides are still there.
#[derive(Clone, Copy, Debug)]
enum Closer {
    Sender,
    Receiver,
}

impl Closer {
    fn close<T>(self, s: &Sender<T>, r: &Receiver<T>) -> bool {
        match self {
            Closer::Sender => s.close(),
            Closer::Receiver => r.close(),
        }
    }
}

const CLOSERS: [Closer; 2] = [Closer::Sender, Closer::Receiver];

#[track_caller]
fn assert_sends_fail(s: &Sender<usize>) {
    assert_eq!(s.send(7), Err(SendError(7)));
    assert_eq!(s.try_send(8), Err(TrySendError::Disconnected(8)));
    assert_eq!(
        s.send_timeout(9, HOUR),
        Err(SendTimeoutError::Disconnected(9))
    );
    select! { send(s, 10) -> sent => assert_eq!(sent, Err(SendError(10))) }
    select! {
        send(s, 11) -> sent => assert_eq!(sent, Err(SendError(11))),
        default => panic!("a closed channel is ready"),
    }
}

#[track_caller]
fn assert_receives_end(r: &Receiver<usize>) {
    assert_eq!(r.recv(), Err(RecvError));
    assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(r.recv_timeout(HOUR), Err(RecvTimeoutError::Disconnected));
    select! { recv(r) -> got => assert_eq!(got, Err(RecvError)) }
    select! {
        recv(r) -> got => assert_eq!(got, Err(RecvError)),
        default => panic!("a closed channel is ready"),
    }
    assert_eq!(r.iter().next(), None);
    assert_eq!(r.try_iter().next(), None);
}

#[test]
fn after_a_close_sends_fail_and_queued_values_still_arrive() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            for closer in CLOSERS {
                for queued in 0..=capacity.unwrap_or(70) {
                    let (s, r) = channel(capacity);
                    (0..queued).for_each(|i| s.send(i).unwrap());
                    assert!(closer.close(&s, &r));
                    assert_sends_fail(&s);
                    assert_sends_fail(&s.clone());
                    assert_eq!(r.len(), queued);
                    for value in 0..queued {
                        match value % 4 {
                            0 => assert_eq!(r.recv(), Ok(value)),
                            1 => assert_eq!(r.try_recv(), Ok(value)),
                            2 => assert_eq!(r.iter().next(), Some(value)),
                            _ => select! { recv(r) -> got => assert_eq!(got, Ok(value)) },
                        }
                    }
                    assert_receives_end(&r);
                    assert_receives_end(&r.clone());
                    assert_sends_fail(&s);
                }
            }
        }
    });
}

#[test]
fn the_second_close_says_no() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            for first in CLOSERS {
                let (s, r) = channel::<usize>(capacity);
                assert!(first.close(&s, &r));
                assert!(!s.close() && !r.close());
                assert!(!s.clone().close() && !r.clone().close());
                assert_sends_fail(&s);
                assert_receives_end(&r);
            }
            let (s, r) = channel::<usize>(capacity);
            drop(r);
            assert_sends_fail(&s);
            drop(s);
        }
    });
}

#[test]
fn of_many_who_close_at_once_one_is_told_yes() {
    everywhere(|ground| {
        for capacity in CAPACITIES {
            for _ in 0..ground.rounds(20) {
                let (s, r) = channel::<usize>(capacity);
                let closers: Vec<_> = (0..4)
                    .map(|number| {
                        let (s, r) = (s.clone(), r.clone());
                        spawn(move || {
                            if number % 2 == 0 {
                                s.close()
                            } else {
                                r.close()
                            }
                        })
                    })
                    .collect();
                let yes = closers.into_iter().map(|closer| closer.join());
                assert_eq!(yes.filter(|yes| *yes).count(), 1);
            }
        }
    });
}

/// Everybody who waits, in whatever way, is woken by a close with the right answer.
#[test]
fn a_close_wakes_all_who_wait() {
    everywhere(|_| {
        for capacity in [Some(0), Some(1)] {
            for closer in CLOSERS {
                let (s, r) = channel::<usize>(capacity);
                let (s2, r2) = channel::<usize>(capacity);
                // Senders wait at the first channel, which is full; receivers at the second, which is empty.
                (0..capacity.unwrap()).for_each(|_| s.send(0).unwrap());
                let ready = Arc::new(AtomicUsize::new(0));
                let mut crew = Crew::new();
                for number in 0..8 {
                    let (s, r2, ready) = (s.clone(), r2.clone(), ready.clone());
                    crew.spawn(move || {
                        let nil = never::<()>();
                        ready.fetch_add(1, Ordering::SeqCst);
                        match number {
                            0 => assert_eq!(s.send(5), Err(SendError(5))),
                            1 => assert_eq!(s.send_timeout(5, HOUR), Err(SendTimeoutError::Disconnected(5))),
                            2 => select! { send(s, 5) -> sent => assert_eq!(sent, Err(SendError(5))), recv(nil) -> _ => panic!() },
                            3 => select! { send(s, 5) -> sent => assert_eq!(sent, Err(SendError(5))), default(HOUR) => panic!() },
                            4 => assert_eq!(r2.recv(), Err(RecvError)),
                            5 => assert_eq!(r2.recv_timeout(HOUR), Err(RecvTimeoutError::Disconnected)),
                            6 => select! { recv(r2) -> got => assert_eq!(got, Err(RecvError)), recv(nil) -> _ => panic!() },
                            _ => assert_eq!(r2.into_iter().next(), None),
                        }
                    });
                }
                wait_until("all are there", || ready.load(Ordering::SeqCst) == 8);
                urgo::sleep(Duration::from_millis(2));
                assert!(closer.close(&s, &r) && closer.close(&s2, &r2));
                crew.join();
                // What was queued before is there, what waited outside is not.
                assert_eq!(r.iter().count(), capacity.unwrap());
            }
        }
    });
}

/// Sends and a close at the same time: what was accepted arrives, what was refused comes back, and that is all.
#[test]
fn a_close_amid_sends_splits_them_cleanly() {
    everywhere(|ground| {
        for capacity in CAPACITIES {
            for closer in CLOSERS {
                for _ in 0..ground.rounds(12) {
                    let (s, r) = channel(capacity);
                    let drops = Drops::default();
                    let senders: Vec<_> = (0..3)
                        .map(|_| {
                            let (s, drops) = (s.clone(), drops.clone());
                            spawn(move || {
                                let mut accepted = 0;
                                loop {
                                    match s.send(drops.guard()) {
                                        // Without a limit a send never waits, and the worker is for others, too.
                                        Ok(()) if s.capacity().is_none() => {
                                            accepted += 1;
                                            urgo::yield_now();
                                        }
                                        Ok(()) => accepted += 1,
                                        Err(SendError(_back)) => return accepted,
                                    }
                                }
                            })
                        })
                        .collect();
                    let receiver = spawn({
                        let r = r.clone();
                        move || r.iter().count()
                    });
                    wait_until("some have come", || drops.count() > 20);
                    assert!(closer.close(&s, &r));
                    let accepted: usize = senders.into_iter().map(|sender| sender.join()).sum();
                    assert_eq!(receiver.join(), accepted);
                    assert_eq!(r.len(), 0);
                    assert_eq!(drops.count(), accepted + 3);
                }
            }
        }
    });
}

/// A close reaches a rendezvous that a select is in on both sides.
#[test]
fn a_close_ends_selects_that_face_each_other() {
    everywhere(|ground| {
        for _ in 0..ground.rounds(30) {
            let channels: [_; 2] = std::array::from_fn(|_| bounded::<usize>(0));
            let mut crew = Crew::new();
            let (sent, received) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            for _ in 0..2 {
                let [s0, s1] = channels.each_ref().map(|(s, _)| s.clone());
                let count = sent.clone();
                crew.spawn(move || {
                    while select! { send(s0, 1) -> sent => sent, send(s1, 1) -> sent => sent }
                        .is_ok()
                    {
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                });
                let [r0, r1] = channels.each_ref().map(|(_, r)| r.clone());
                let count = received.clone();
                crew.spawn(move || {
                    while select! { recv(r0) -> got => got, recv(r1) -> got => got }.is_ok() {
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            wait_until("they run", || received.load(Ordering::SeqCst) > 50);
            for (s, _) in &channels {
                assert!(s.close());
            }
            crew.join();
            assert_eq!(sent.load(Ordering::SeqCst), received.load(Ordering::SeqCst));
        }
    });
}

// --- the last one goes ---

#[test]
fn only_the_last_of_a_side_ends_a_channel() {
    everywhere(|_| {
        for capacity in [Some(1), None] {
            let (s, r) = channel(capacity);
            let (s2, r2) = (s.clone(), r.clone());
            drop((s, r));
            s2.send(1).unwrap();
            assert_eq!(r2.recv(), Ok(1));
            let (s3, r3) = (s2.clone(), r2.clone());
            drop((s2, r2));
            s3.send(2).unwrap();
            drop(s3);
            assert_eq!((r3.recv(), r3.recv()), (Ok(2), Err(RecvError)));
        }
    });
}

#[test]
fn senders_who_wait_get_their_values_back_when_the_last_receiver_goes() {
    everywhere(|_| {
        for capacity in [0, 1, 3] {
            let drops = Drops::default();
            let (s, r) = bounded(capacity);
            (0..capacity).for_each(|_| s.send((0, drops.guard())).unwrap());
            let ready = Arc::new(AtomicUsize::new(0));
            let mut crew = Crew::new();
            for number in 1..=6 {
                let (s, drops, ready) = (s.clone(), drops.clone(), ready.clone());
                crew.spawn(move || {
                    ready.fetch_add(1, Ordering::SeqCst);
                    let back = match number % 3 {
                        0 => s.send((number, drops.guard())).unwrap_err().into_inner(),
                        1 => {
                            let error = s.send_timeout((number, drops.guard()), HOUR).unwrap_err();
                            assert!(error.is_disconnected());
                            error.into_inner()
                        }
                        _ => select! {
                            send(s, (number, drops.guard())) -> sent => sent.unwrap_err().into_inner(),
                            recv(never::<()>()) -> _ => panic!(),
                        },
                    };
                    assert_eq!(back.0, number);
                });
            }
            wait_until("all are there", || ready.load(Ordering::SeqCst) == 6);
            urgo::sleep(Duration::from_millis(2));
            drop(r);
            crew.join();
            drop(s);
            assert_eq!(drops.count(), capacity + 6);
        }
    });
}

// --- panics ---

#[test]
fn drops_equal_sends_when_the_receiver_dies_by_panic() {
    hush_planned_panics();
    everywhere(|ground| {
        for capacity in CAPACITIES {
            for _ in 0..ground.rounds(12) {
                let drops = Drops::default();
                let made = Arc::new(AtomicUsize::new(0));
                let (s, r) = channel(capacity);
                let mut crew = Crew::new();
                for number in 0..3 {
                    let (s, drops, made) = (s.clone(), drops.clone(), made.clone());
                    crew.spawn(move || {
                        loop {
                            made.fetch_add(1, Ordering::SeqCst);
                            let is_over = match number {
                                0 => s.send(drops.guard()).is_err(),
                                1 => s.send_timeout(drops.guard(), HOUR).is_err(),
                                _ => select! { send(s, drops.guard()) -> sent => sent.is_err() },
                            };
                            if is_over {
                                break;
                            }
                            if s.capacity().is_none() {
                                urgo::yield_now();
                            }
                        }
                    });
                }
                let receiver = spawn(move || {
                    for (count, _value) in r.iter().enumerate() {
                        assert!(count < 30, "planned");
                    }
                });
                assert_eq!(receiver.end(), Err("planned".to_owned()));
                crew.join();
                drop(s);
                assert_eq!(drops.count(), made.load(Ordering::SeqCst));
            }
        }
    });
}

#[test]
fn a_sender_that_panics_ends_the_channel_like_one_that_goes() {
    hush_planned_panics();
    everywhere(|_| {
        for capacity in CAPACITIES {
            let drops = Drops::default();
            let (s, r) = channel(capacity);
            let guards = drops.clone();
            let sender = spawn(move || {
                for count in 0..25 {
                    assert!(count < 20, "planned");
                    s.send(guards.guard()).unwrap();
                }
            });
            assert_eq!(r.iter().count(), 20);
            assert_eq!(sender.end(), Err("planned".to_owned()));
            assert_eq!(drops.count(), 20);
        }
    });
}

/// The value of a chosen send arm panics while it is made: nothing is sent, and whoever was to get it waits on.
#[test]
fn a_panic_in_the_value_of_a_chosen_send_takes_nothing_along() {
    hush_planned_panics();
    everywhere(|_| {
        for capacity in [0, 1] {
            let (s, r) = bounded::<i32>(capacity);
            let receivers: Vec<_> = (0..2)
                .map(|number| {
                    let r = r.clone();
                    spawn(move || {
                        if number == 0 {
                            r.recv()
                        } else {
                            select! { recv(r) -> got => got, recv(never::<()>()) -> _ => panic!() }
                        }
                    })
                })
                .collect();
            for _ in 0..3 {
                let s = s.clone();
                let sender = spawn(move || {
                    select! { send(s, if std::hint::black_box(true) { panic!("planned") } else { 0 }) -> _ => {} }
                });
                assert_eq!(sender.end(), Err("planned".to_owned()));
            }
            s.send(1).unwrap();
            s.send(2).unwrap();
            let mut got: Vec<_> = receivers.into_iter().map(|r| r.join().unwrap()).collect();
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
            if capacity > 0 {
                s.try_send(3).unwrap();
            }
        }
    });
}

/// A value whose drop panics: the others are dropped all the same, and each once.
#[test]
fn a_queued_value_whose_drop_panics_does_not_keep_the_others() {
    struct Bomb(bool, #[allow(dead_code)] crate::support::DropGuard);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "planned");
        }
    }
    hush_planned_panics();
    everywhere(|_| {
        for capacity in [Some(8), None] {
            let drops = Drops::default();
            let (s, r) = channel(capacity);
            for number in 0..8 {
                s.send(Bomb(number == 3, drops.guard())).ok().unwrap();
            }
            let holder = spawn(move || drop((s, r)));
            let end = holder.end();
            assert_eq!(end, Err("planned".to_owned()));
            assert_eq!(drops.count(), 8);
        }
    });
}

// --- oneshot ---

#[test]
fn a_oneshot_carries_one_value() {
    everywhere(|_| {
        let (s, r) = oneshot();
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        assert!(r.is_empty() && s.is_empty() && !s.is_full());
        s.send(1).unwrap();
        assert_eq!((r.len(), s.len()), (1, 1));
        assert_eq!(s.send(2), Err(SendError(2)));
        assert_eq!(s.try_send(3), Err(TrySendError::Disconnected(3)));
        assert_eq!(r.recv(), Ok(1));
        assert_eq!(r.recv(), Err(RecvError));
        assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(s.send(4), Err(SendError(4)));
    });
}

#[test]
fn a_oneshot_wakes_its_receiver_whatever_it_waits_in() {
    everywhere(|ground| {
        for round in 0..ground.rounds(40) {
            let (s, r) = oneshot();
            let receiver = spawn(move || match round % 4 {
                0 => r.recv().ok(),
                1 => r.recv_timeout(HOUR).ok(),
                2 => select! { recv(r) -> got => got.ok(), recv(never::<()>()) -> _ => None },
                _ => r.into_iter().last(),
            });
            if round % 3 == 0 {
                urgo::sleep(Duration::from_micros(100));
            }
            match round % 2 {
                0 => s.send(round).unwrap(),
                _ => select! { send(s, round) -> sent => sent.unwrap() },
            }
            assert_eq!(receiver.join(), Some(round));
        }
    });
}

#[test]
fn a_oneshot_whose_sender_goes_is_disconnected() {
    everywhere(|ground| {
        for round in 0..ground.rounds(20) {
            let (s, r) = oneshot::<u8>();
            let receiver = spawn(move || r.recv());
            if round % 2 == 0 {
                urgo::sleep(Duration::from_micros(100));
            }
            drop(s);
            assert_eq!(receiver.join(), Err(RecvError));
        }
        let (s, r) = oneshot();
        drop(r);
        assert_eq!(s.send(1), Err(SendError(1)));
    });
}

#[test]
fn of_many_who_send_on_a_oneshot_one_gets_through() {
    everywhere(|ground| {
        for _ in 0..ground.rounds(30) {
            let drops = Drops::default();
            let (s, r) = oneshot();
            let senders: Vec<_> = (0..4)
                .map(|number| {
                    let (s, guard) = (s.clone(), drops.guard());
                    spawn(move || s.send((number, guard)).is_ok().then_some(number))
                })
                .collect();
            drop(s);
            let got = r.recv().unwrap().0;
            assert!(r.recv().is_err());
            let through: Vec<i32> = senders.into_iter().filter_map(|s| s.join()).collect();
            assert_eq!(through, [got]);
            assert_eq!(drops.count(), 4);
        }
    });
}

#[test]
fn a_oneshot_drops_what_nobody_takes_once() {
    everywhere(|_| {
        let drops = Drops::default();
        let (s, r) = oneshot();
        s.send(drops.guard()).unwrap();
        drop((s, r));
        assert_eq!(drops.count(), 1);
        let (s, r) = oneshot();
        s.send(drops.guard()).unwrap();
        drop((r, s));
        assert_eq!(drops.count(), 2);
        let (s, r) = oneshot();
        assert!(s.close());
        drop(s.send(drops.guard()));
        assert_eq!(drops.count(), 3);
        assert!(r.recv().is_err());
    });
}

// --- the runtime ends ---

/// Goroutines that wait for ever, in every way there is, are unwound when the runtime ends; what they hold is dropped, and
/// the channel still works from outside.
#[test]
fn whoever_waits_for_ever_is_unwound_when_the_runtime_ends() {
    for workers in [1, 2, 4] {
        let drops = Drops::default();
        let ready = Arc::new(AtomicUsize::new(0));
        let (s, r) = bounded::<crate::support::DropGuard>(0);
        let (s2, r2) = bounded::<u8>(1);
        s2.send(1).unwrap();
        let (s3, r3) = unbounded::<u8>();
        crate::support::runtime(workers).run(|| {
            for number in 0..27 {
                let (r, s2, r3) = (r.clone(), s2.clone(), r3.clone());
                let (full, nobody) = bounded::<crate::support::DropGuard>(0);
                let (drops, ready) = (drops.clone(), ready.clone());
                drop(spawn(move || {
                    let _on_the_stack = drops.guard();
                    let _nobody = nobody;
                    ready.fetch_add(1, Ordering::SeqCst);
                    match number % 9 {
                        0 => drop(r.recv()),
                        1 => drop(r.recv_timeout(HOUR)),
                        2 => drop(s2.send(2)),
                        3 => drop(never::<u8>().recv()),
                        4 => select! { recv(r) -> _ => {}, send(s2, 3) -> _ => {}, recv(r3) -> _ => {} },
                        5 => select! { recv(r3) -> _ => {}, default(HOUR) => {} },
                        6 => select! {},
                        7 => drop(r3.iter().next()),
                        // The value that waits to be sent goes, too.
                        _ => drop(full.send(drops.guard())),
                    }
                    panic!("nobody came");
                }));
            }
            wait_until("all are there", || ready.load(Ordering::SeqCst) == 27);
            urgo::sleep(Duration::from_millis(2));
        });
        assert_eq!(drops.count(), 27 + 3);
        // From outside: nobody is left in the lines.
        let guard = drops.guard();
        assert!(s.try_send(guard).unwrap_err().is_full());
        assert_eq!(r2.recv(), Ok(1));
        assert_eq!(r2.try_recv(), Err(TryRecvError::Empty));
        s3.send(9).unwrap();
        assert_eq!(r3.recv(), Ok(9));
    }
}

/// A value on its way to a goroutine that is cancelled in the same moment is neither lost nor doubled.
#[test]
fn no_value_is_lost_between_a_send_and_the_runtimes_end() {
    for round in 0..60 {
        let capacity = [Some(0), Some(1), None][round % 3];
        let drops = Drops::default();
        let (s, r) = channel(capacity);
        let made = Arc::new(AtomicUsize::new(0));
        let feeder = std::thread::spawn({
            let (drops, made, stop) = (drops.clone(), made.clone(), r.clone());
            move || {
                let mut count = 0;
                while count < 5_000 {
                    made.fetch_add(1, Ordering::SeqCst);
                    if s.send_timeout(drops.guard(), Duration::from_millis(100))
                        .is_err()
                    {
                        break;
                    }
                    count += 1;
                }
                drop(stop);
                s
            }
        });
        crate::support::runtime(1 + round % 2).run(|| {
            for number in 0..4 {
                let r = r.clone();
                drop(spawn(move || {
                    loop {
                        let got = match number % 2 {
                            0 => r.recv().is_ok(),
                            _ => {
                                select! { recv(r) -> got => got.is_ok(), recv(never::<()>()) -> _ => false }
                            }
                        };
                        if !got {
                            break;
                        }
                    }
                }));
            }
            wait_until("it flows", || drops.count() > 20 || r.is_full());
        });
        r.close();
        let s = feeder.join().unwrap();
        drop((s, r));
        assert_eq!(drops.count(), made.load(Ordering::SeqCst));
    }
}
