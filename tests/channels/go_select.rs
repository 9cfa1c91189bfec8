//! Go's rules for `select`, in our words: who is ready, who is chosen, what is evaluated and when, and that arms which lose
//! leave no trace.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::chan::{
    Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError, bounded, never, unbounded,
};
use urgo::select;

use crate::go_rules::{CAPACITIES, channel};
use crate::grounds::{Crew, everywhere, spawn};
use crate::support::Drops;

const MOMENT: Duration = Duration::from_millis(3);
const HOUR: Duration = Duration::from_secs(3600);

// --- default and time ---

#[test]
fn default_is_taken_only_if_nothing_is_ready() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel::<i32>(capacity);
            select! {
                recv(r) -> _ => panic!("nothing was sent"),
                default => {}
            }
            if capacity == Some(0) {
                select! {
                    send(s, 1) -> _ => panic!("nobody receives"),
                    default => {}
                }
                continue;
            }
            for value in 0..capacity.unwrap_or(20) as i32 {
                select! {
                    send(s, value) -> sent => sent.unwrap(),
                    default => panic!("there is room"),
                }
            }
            if capacity.is_some() {
                select! {
                    send(s, 99) -> _ => panic!("it is full"),
                    default => {}
                }
            }
            for value in 0..capacity.unwrap_or(20) as i32 {
                select! {
                    recv(r) -> got => assert_eq!(got, Ok(value)),
                    default => panic!("there is a value"),
                }
            }
        }
    });
}

#[test]
fn default_after_a_time_waits_for_that_time_and_no_longer_than_needed() {
    everywhere(|_| {
        let (s, r) = bounded::<i32>(1);
        let began = Instant::now();
        select! {
            recv(r) -> _ => panic!("nothing was sent"),
            default(MOMENT) => assert!(began.elapsed() >= MOMENT),
        }
        let sender = spawn(move || {
            urgo::sleep(MOMENT);
            s.send(7).unwrap();
        });
        select! {
            recv(r) -> got => assert_eq!(got, Ok(7)),
            default(HOUR) => panic!("the value came"),
        }
        sender.join();
        select! {
            recv(r) -> got => assert_eq!(got, Err(RecvError)),
            default(HOUR) => panic!("it has ended"),
        }
    });
}

#[test]
fn default_alone_is_taken_at_once_or_after_its_time() {
    everywhere(|_| {
        let taken = select! { default => 3 };
        assert_eq!(taken, 3);
        let began = Instant::now();
        select! { default(MOMENT) => {} }
        assert!(began.elapsed() >= MOMENT);
    });
}

/// A time of zero still takes what is ready.
#[test]
fn a_select_without_time_takes_what_is_ready() {
    everywhere(|_| {
        let (s, r) = unbounded();
        for value in 0..100 {
            s.send(value).unwrap();
            select! {
                recv(r) -> got => assert_eq!(got, Ok(value)),
                default(Duration::ZERO) => panic!("a value was there"),
            }
            select! {
                recv(r) -> _ => panic!("nothing was there"),
                default(Duration::ZERO) => {}
            }
        }
    });
}

// --- fairness ---

const ROUNDS: usize = 10_000;

#[track_caller]
fn assert_fair(counts: &[usize]) {
    let total: usize = counts.iter().sum();
    for count in counts {
        assert!(
            *count >= total / counts.len() / 2,
            "an arm has less than half its share: {counts:?}"
        );
    }
}

#[test]
fn ready_receives_are_chosen_fairly() {
    everywhere(|ground| {
        let channels: [_; 4] = std::array::from_fn(|_| unbounded());
        let rounds = ground.rounds(ROUNDS);
        for (s, _) in &channels {
            (0..rounds).for_each(|_| s.send(()).unwrap());
        }
        let [r0, r1, r2, r3] = channels.each_ref().map(|(_, r)| r);
        let mut counts = [0; 4];
        for _ in 0..rounds {
            select! {
                recv(r0) -> _ => counts[0] += 1,
                recv(r1) -> _ => counts[1] += 1,
                recv(r2) -> _ => counts[2] += 1,
                recv(r3) -> _ => counts[3] += 1,
            }
        }
        assert_fair(&counts);
        for ((_, r), count) in channels.iter().zip(counts) {
            assert_eq!(r.len(), rounds - count);
        }
    });
}

#[test]
fn ready_sends_are_chosen_fairly() {
    everywhere(|ground| {
        let channels: [_; 3] = std::array::from_fn(|_| unbounded());
        let [s0, s1, s2] = channels.each_ref().map(|(s, _)| s);
        let rounds = ground.rounds(ROUNDS);
        for i in 0..rounds {
            select! {
                send(s0, i) -> sent => sent.unwrap(),
                send(s1, i) -> sent => sent.unwrap(),
                send(s2, i) -> sent => sent.unwrap(),
                default => panic!("all are ready"),
            }
        }
        let counts = channels.each_ref().map(|(_, r)| r.len());
        assert_eq!(counts.iter().sum::<usize>(), rounds);
        assert_fair(&counts);
    });
}

/// Go's way to draw random bits: send either value on one channel.
#[test]
fn two_sends_on_one_channel_are_a_coin() {
    everywhere(|ground| {
        for capacity in [Some(0), Some(1), None] {
            let (s, r) = channel(capacity);
            let rounds = ground.rounds(ROUNDS);
            let sender = spawn(move || {
                for _ in 0..rounds {
                    select! {
                        send(s, 0) -> sent => sent.unwrap(),
                        send(s, 1) -> sent => sent.unwrap(),
                    }
                }
            });
            let mut counts = [0; 2];
            r.iter().for_each(|bit: usize| counts[bit] += 1);
            sender.join();
            assert_eq!(counts[0] + counts[1], rounds);
            assert_fair(&counts);
        }
    });
}

#[test]
fn ended_channels_are_chosen_as_fairly_as_others() {
    everywhere(|ground| {
        let (_, ended) = bounded::<i32>(0);
        let (s, full) = unbounded();
        let (ended_to_send, _) = bounded::<i32>(1);
        let rounds = ground.rounds(ROUNDS);
        (0..rounds).for_each(|i| s.send(i as i32).unwrap());
        let mut counts = [0; 3];
        for _ in 0..rounds {
            select! {
                recv(ended) -> got => { assert_eq!(got, Err(RecvError)); counts[0] += 1 }
                recv(full) -> got => { assert!(got.is_ok()); counts[1] += 1 }
                send(ended_to_send, 5) -> sent => { assert_eq!(sent, Err(SendError(5))); counts[2] += 1 }
            }
        }
        assert_fair(&counts);
    });
}

/// As Go's own fairness test: four senders that are always there, and a fifth channel that ends the whole.
#[test]
fn no_busy_channel_starves_another() {
    everywhere(|ground| {
        let trials = ground.rounds(4_000);
        let (c1, r1) = bounded(trials + 1);
        let (c2, r2) = bounded(trials + 1);
        for i in 0..=trials {
            c1.send(i).unwrap();
            c2.send(i).unwrap();
        }
        let (c3, r3) = bounded::<usize>(0);
        let (c4, r4) = bounded::<usize>(0);
        let (out, outs) = bounded::<u8>(0);
        let (done, is_done) = bounded::<()>(0);
        let chooser = spawn(move || {
            loop {
                let from = select! {
                    recv(r3) -> _ => 3,
                    recv(r4) -> _ => 4,
                    recv(r1) -> _ => 1,
                    recv(r2) -> _ => 2,
                };
                select! {
                    send(out, from) -> sent => sent.unwrap(),
                    recv(is_done) -> _ => return,
                }
            }
        });
        let mut counts = [0; 2];
        for _ in 0..trials {
            match outs.recv().unwrap() {
                from @ 1..=2 => counts[usize::from(from) - 1] += 1,
                from => panic!("nobody sends on {from}"),
            }
        }
        assert_fair(&counts);
        drop(done);
        chooser.join();
        drop((c3, c4));
    });
}

// --- the same channel more than once ---

#[test]
fn a_select_does_not_meet_itself_on_a_rendezvous() {
    everywhere(|_| {
        let (s, r) = bounded(0);
        for _ in 0..100 {
            select! {
                send(s, 1) -> _ => panic!("sent to itself"),
                recv(r) -> _ => panic!("received from itself"),
                default => {}
            }
        }
        let began = Instant::now();
        select! {
            send(s, 1) -> _ => panic!("sent to itself"),
            recv(r) -> _ => panic!("received from itself"),
            default(MOMENT) => assert!(began.elapsed() >= MOMENT),
        }
        // Nothing of it is left in the channel.
        assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn a_select_may_send_and_receive_on_one_buffered_channel() {
    everywhere(|ground| {
        let (s, r) = bounded(2);
        let mut queued = std::collections::VecDeque::new();
        for i in 0..ground.rounds(4_000) {
            select! {
                send(s, i) -> sent => { sent.unwrap(); queued.push_back(i) }
                recv(r) -> got => assert_eq!(got.ok(), queued.pop_front()),
            }
            assert!(queued.len() <= 2);
            assert_eq!(r.len(), queued.len());
        }
    });
}

/// Two who both send and receive on one channel never receive from themselves. As Go's self-select test.
#[test]
fn two_selects_that_send_and_receive_exchange_with_each_other_only() {
    everywhere(|ground| {
        for capacity in [0, 3] {
            let (s, r) = bounded::<usize>(capacity);
            let mut crew = Crew::new();
            let rounds = ground.rounds(1_000);
            let running = Arc::new(AtomicUsize::new(2));
            for me in 0..2 {
                let (s, r, running) = (s.clone(), r.clone(), running.clone());
                crew.spawn(move || {
                    for _ in 0..rounds {
                        // The last one is alone and takes the way out.
                        select! {
                            recv(r) -> got => {
                                let from = got.unwrap();
                                assert!(capacity > 0 || from != me, "received from itself");
                            }
                            send(s, me) -> sent => sent.unwrap(),
                            default(MOMENT) => if running.load(Ordering::SeqCst) < 2 { break },
                        }
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
            crew.join();
        }
    });
}

#[test]
fn one_channel_in_several_arms_gives_each_value_once() {
    everywhere(|ground| {
        for capacity in CAPACITIES {
            let (s, r) = channel(capacity);
            let rounds = ground.rounds(600);
            let mut sender = Some(spawn(move || {
                (0..rounds).for_each(|i| s.send(i).unwrap());
            }));
            if capacity.is_none() {
                sender.take().unwrap().join();
            }
            let mut counts = [0; 3];
            let mut next = 0;
            loop {
                let (arm, got) = select! {
                    recv(r) -> got => (0, got),
                    recv(r) -> got => (1, got),
                    recv(&r) -> got => (2, got),
                };
                let Ok(value) = got else { break };
                assert_eq!(value, next);
                next += 1;
                counts[arm] += 1;
            }
            assert_eq!(next, rounds);
            if let Some(sender) = sender {
                sender.join();
            }
            if capacity.is_none() {
                assert_fair(&counts);
            }
        }
    });
}

/// As Go's test of a channel named twice by many selects at once: nobody hangs, and no value goes twice.
#[test]
fn a_channel_named_twice_by_two_selects_serves_both() {
    everywhere(|_| {
        let (c, rc) = bounded::<i32>(0);
        let (d, rd) = bounded::<i32>(0);
        let (e, re) = bounded::<()>(0);
        let mut crew = Crew::new();
        let (rc1, rc2, rd1) = (rc.clone(), rc.clone(), rd.clone());
        crew.spawn(move || {
            select! {
                recv(rc1) -> got => assert_eq!(got, Ok(1)),
                recv(rc2) -> got => assert_eq!(got, Ok(1)),
                recv(rd1) -> _ => panic!("nothing is sent there first"),
            }
            e.send(()).unwrap();
        });
        crew.spawn(move || assert_eq!(rd.recv(), Ok(2)));
        c.send(1).unwrap();
        re.recv().unwrap();
        d.send(2).unwrap();
        crew.join();
        drop(rc);
        assert_eq!(c.send(3), Err(SendError(3)));
    });
}

// --- what is evaluated ---

#[test]
fn arms_evaluate_their_channel_once_and_only_the_chosen_send_evaluates_its_value() {
    everywhere(|_| {
        let (s, r) = bounded::<i32>(1);
        let (full, _full) = bounded::<i32>(0);
        let looks = Cell::new((0, 0, 0));
        let values = Cell::new((0, 0));
        let results = Cell::new(0);
        let first = || {
            let (a, b, c) = looks.get();
            looks.set((a + 1, b, c));
            &s
        };
        let second = || {
            let (a, b, c) = looks.get();
            looks.set((a, b + 1, c));
            &full
        };
        let third = || {
            let (a, b, c) = looks.get();
            looks.set((a, b, c + 1));
            never::<i32>()
        };
        for _ in 0..50 {
            select! {
                send(first(), { values.set((values.get().0 + 1, values.get().1)); 5 }) -> sent => {
                    sent.unwrap();
                    results.set(results.get() + 1);
                }
                send(second(), { values.set((values.get().0, values.get().1 + 1)); 6 }) -> _ => panic!("nobody receives"),
                recv(third()) -> _ => panic!("received from nil"),
            }
            assert_eq!(r.recv(), Ok(5));
        }
        assert_eq!(looks.get(), (50, 50, 50));
        assert_eq!(values.get(), (50, 0));
        assert_eq!(results.get(), 50);
        // All arms lose: no value is made.
        select! {
            send(second(), { values.set((values.get().0, 99)); 6 }) -> _ => {}
            default => {}
        }
        assert_eq!(values.get(), (50, 0));
    });
}

/// The time of `default` is an expression of any kind; it is evaluated once, where it is needed or not.
#[test]
fn arms_take_any_expression() {
    everywhere(|_| {
        struct Ends {
            sender: Option<Sender<String>>,
            receiver: Box<Receiver<String>>,
        }
        let (sender, receiver) = bounded(1);
        let ends = Ends {
            sender: Some(sender),
            receiver: Box::new(receiver),
        };
        let words = ["zero", "one"];
        let times = Cell::new(0);
        let time = || {
            times.set(times.get() + 1);
            HOUR
        };
        let picked = select! {
            send(ends.sender.as_ref().unwrap(), words[1].to_owned() + "!") -> sent => {
                sent.expect("it is there");
                1
            }
            recv({ never::<u8>() }) -> _ => 2,
            default(time()) => 3,
        };
        assert_eq!((picked, times.get()), (1, 1));
        select! {
            recv(*ends.receiver) -> got => assert_eq!(got.as_deref(), Ok("one!")),
            recv(if picked == 1 { never() } else { never::<i32>() }) -> _ => {},
        }
    });
}

#[test]
fn the_body_is_an_expression_whose_value_select_has() {
    fn early(r: &Receiver<i32>) -> Result<i32, RecvError> {
        let doubled = select! {
            recv(r) -> got => got? * 2,
            default => return Ok(-1),
        };
        Ok(doubled + 1)
    }
    everywhere(|_| {
        let (s, r) = bounded(1);
        assert_eq!(early(&r), Ok(-1));
        s.send(20).unwrap();
        assert_eq!(early(&r), Ok(41));
        drop(s);
        assert_eq!(early(&r), Err(RecvError));
    });
}

/// A body may move what it captures, though it stands in several arms.
#[test]
fn every_body_may_use_up_the_same_value() {
    everywhere(|_| {
        let (s, r) = bounded(1);
        s.send(()).unwrap();
        let word = String::from("used");
        let used = select! {
            recv(r) -> _ => word,
            recv(never::<()>()) -> _ => word + "!",
            default => word,
        };
        assert_eq!(used, "used");
    });
}

// --- control flow ---

#[test]
fn break_and_continue_reach_the_loops_around_a_select() {
    everywhere(|_| {
        let (s, r) = unbounded();
        (0..30).for_each(|i| s.send(i).unwrap());
        let mut seen = Vec::new();
        let last = 'outer: loop {
            for step in 0.. {
                select! {
                    recv(r) -> got => match got.unwrap() {
                        odd if odd % 2 == 1 => continue,
                        8 => continue 'outer,
                        20 => break 'outer step,
                        12 => break,
                        even => seen.push(even),
                    },
                    default => panic!("there is more"),
                }
            }
        };
        assert_eq!(seen, [0, 2, 4, 6, 10, 14, 16, 18]);
        // 13 to 20 are seven values and the eighth.
        assert_eq!(last, 7);
    });
}

#[test]
fn selects_nest() {
    everywhere(|_| {
        let (s, r) = bounded(1);
        let (s2, r2) = bounded(1);
        s.send(1).unwrap();
        select! {
            recv(r) -> outer => {
                select! {
                    send(s2, outer.unwrap() + 1) -> sent => {
                        sent.unwrap();
                        select! {
                            recv(r2) -> inner => assert_eq!(inner, Ok(2)),
                            recv(r) -> _ => panic!("it was taken"),
                        }
                    }
                    recv(r) -> _ => panic!("it was taken"),
                    default => panic!("there is room"),
                }
            }
            recv(r2) -> _ => panic!("nothing was sent"),
        }
        // In the value that an arm sends, and in its channel.
        s.send(40).unwrap();
        select! {
            send(s2, select! { recv(r) -> got => got.unwrap() + 2, default => 0 }) -> sent => sent.unwrap(),
        }
        let found = select! {
            recv(select! { recv(never::<()>()) -> _ => &r, default => &r2 }) -> got => got,
        };
        assert_eq!(found, Ok(42));
    });
}

#[test]
fn a_select_has_up_to_32_arms() {
    everywhere(|_| {
        let n = &never::<u8>();
        let (s, r) = bounded(1);
        for last in 0..50 {
            s.send(last).unwrap();
            let got = select! {
                recv(n) -> _ => 0, recv(n) -> _ => 1, recv(n) -> _ => 2, recv(n) -> _ => 3,
                recv(n) -> _ => 4, recv(n) -> _ => 5, recv(n) -> _ => 6, recv(n) -> _ => 7,
                recv(n) -> _ => 8, recv(n) -> _ => 9, recv(n) -> _ => 10, recv(n) -> _ => 11,
                recv(n) -> _ => 12, recv(n) -> _ => 13, recv(n) -> _ => 14, recv(n) -> _ => 15,
                recv(n) -> _ => 16, recv(n) -> _ => 17, recv(n) -> _ => 18, recv(n) -> _ => 19,
                recv(n) -> _ => 20, recv(n) -> _ => 21, recv(n) -> _ => 22, recv(n) -> _ => 23,
                recv(n) -> _ => 24, recv(n) -> _ => 25, recv(n) -> _ => 26, recv(n) -> _ => 27,
                recv(n) -> _ => 28, recv(n) -> _ => 29, recv(n) -> _ => 30,
                recv(r) -> got => { assert_eq!(got, Ok(last)); 31 }
            };
            assert_eq!(got, 31);
        }
    });
}

// --- arms that lose ---

#[test]
fn arms_that_lose_consume_nothing() {
    everywhere(|ground| {
        for capacity in CAPACITIES {
            let channels: [_; 3] = std::array::from_fn(|_| channel::<usize>(capacity));
            let rounds = ground.rounds(300);
            let mut crew = Crew::new();
            for (s, _) in &channels {
                let s = s.clone();
                crew.spawn(move || (0..rounds).for_each(|i| s.send(i).unwrap()));
            }
            let [r0, r1, r2] = channels.map(|(_, r)| r);
            let mut next = [0; 3];
            let mut ended = 0;
            let nil = never();
            let (mut on0, mut on1, mut on2) = (&r0, &r1, &r2);
            while ended < 3 {
                let (arm, got) = select! {
                    recv(on0) -> got => (0, got),
                    recv(on1) -> got => (1, got),
                    recv(on2) -> got => (2, got),
                };
                match got {
                    Ok(value) => {
                        assert_eq!(value, next[arm]);
                        next[arm] += 1;
                    }
                    Err(RecvError) => {
                        ended += 1;
                        *[&mut on0, &mut on1, &mut on2][arm] = &nil;
                    }
                }
            }
            assert_eq!(next, [rounds; 3]);
            crew.join();
        }
    });
}

/// A select that times out, or is served by one arm, leaves no waiter that would swallow a value or a receiver.
#[test]
fn a_select_that_is_over_leaves_no_waiter_behind() {
    everywhere(|ground| {
        let (s0, r0) = bounded::<usize>(0);
        let (s1, r1) = bounded::<usize>(0);
        for i in 0..ground.rounds(40) {
            select! {
                recv(r0) -> _ => panic!("nobody sends"),
                send(s1, i) -> _ => panic!("nobody receives"),
                default(Duration::from_micros(200)) => {}
            }
            assert_eq!(s0.try_send(i), Err(TrySendError::Full(i)));
            assert_eq!(r1.try_recv(), Err(TryRecvError::Empty));
        }
        // Served by the first arm, it is gone from the second.
        for i in 0..ground.rounds(200) {
            let s = s0.clone();
            let sender = spawn(move || s.send(i).unwrap());
            select! {
                recv(r0) -> got => assert_eq!(got, Ok(i)),
                recv(r1) -> _ => panic!("nobody sends"),
            }
            sender.join();
            assert_eq!(s1.try_send(i), Err(TrySendError::Full(i)));
        }
    });
}

/// What a losing send arm would have sent is never made, what a winning one sends goes once.
#[test]
fn selects_lose_and_double_no_value() {
    everywhere(|ground| {
        for capacity in [0, 1, 4] {
            let drops = Drops::default();
            let (s0, r0) = bounded(capacity);
            let (s1, r1) = bounded(capacity);
            let rounds = ground.rounds(500);
            let mut crew = Crew::new();
            for _ in 0..2 {
                let (s0, s1, drops) = (s0.clone(), s1.clone(), drops.clone());
                crew.spawn(move || {
                    for _ in 0..rounds {
                        select! {
                            send(s0, drops.guard()) -> sent => sent.unwrap(),
                            send(s1, drops.guard()) -> sent => sent.unwrap(),
                        }
                    }
                });
            }
            drop((s0, s1));
            let mut count = 0;
            let nil = never();
            let (mut on0, mut on1) = (&r0, &r1);
            while !(std::ptr::eq(on0, &nil) && std::ptr::eq(on1, &nil)) {
                select! {
                    recv(on0) -> got => match got { Ok(_) => count += 1, Err(_) => on0 = &nil },
                    recv(on1) -> got => match got { Ok(_) => count += 1, Err(_) => on1 = &nil },
                }
            }
            crew.join();
            assert_eq!((count, drops.count()), (2 * rounds, 2 * rounds));
        }
    });
}

/// A select on a list of which each end has another end waiting in another select.
#[test]
fn selects_meet_selects() {
    everywhere(|ground| {
        for capacity in [0, 1] {
            let (s0, r0) = bounded::<usize>(capacity);
            let (s1, r1) = bounded::<usize>(capacity);
            let rounds = ground.rounds(500);
            let _not_ended = (s0.clone(), s1.clone());
            let sender = spawn(move || {
                let mut sum = 0;
                for i in 0..rounds {
                    select! {
                        send(s0, i) -> sent => sent.unwrap(),
                        send(s1, i) -> sent => sent.unwrap(),
                    }
                    sum += i;
                }
                sum
            });
            let mut sum = 0;
            for _ in 0..rounds {
                select! {
                    recv(r0) -> got => sum += got.unwrap(),
                    recv(r1) -> got => sum += got.unwrap(),
                }
            }
            assert_eq!(sender.join(), sum);
        }
    });
}
