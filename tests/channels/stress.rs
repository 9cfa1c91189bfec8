//! Channels under load, where many meet at once: nothing is lost, nobody is forgotten, and memory comes back. Seeds are
//! printed. `URGO_TEST_FULL=1` runs the numbers that the scenarios name; without it they are smaller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::chan::{Receiver, RecvError, Sender, bounded, never, tick, unbounded};
use urgo::go::{Builder, Placement};
use urgo::select;
use urgo::sync::Mutex;
use urgo_sys::memory::resident_bytes;

use crate::go_rules::channel;
use crate::grounds::{Crew, Ground, everywhere, spawn};
use crate::support::{Random, alone, runtime, seed, wait_until};

/// Whether the numbers are those of the scenarios.
pub(crate) fn is_full() -> bool {
    std::env::var("URGO_TEST_FULL").is_ok_and(|value| value == "1")
}

fn full_or(full: usize, less: usize) -> usize {
    if is_full() { full } else { less }
}

// --- scenario 91 ---

/// Four senders, each on its channel and at its pace; one or two who select over all four.
#[test]
fn a_select_over_four_channels_receives_everything_that_was_sent() {
    let seed = seed();
    everywhere(|ground| {
        let total = ground.rounds(full_or(1_000_000, 60_000));
        for selectors in 1..=2 {
            let mut random = Random::new(seed);
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..4)
                .map(|_| {
                    channel::<u64>([Some(0), Some(1), Some(64), None][random.below(4) as usize])
                })
                .unzip();
            let senders: Vec<_> = senders
                .into_iter()
                .map(|s| {
                    let mut random = Random::new(random.next());
                    spawn(move || {
                        let mut sum = 0u64;
                        for _ in 0..total / 4 / selectors {
                            let value = random.below(1 << 40);
                            s.send(value).unwrap();
                            sum += value;
                            if s.capacity().is_none() && s.len() > 1_000 {
                                urgo::yield_now();
                            }
                        }
                        sum
                    })
                })
                .collect();
            let selectors: Vec<_> = (0..selectors)
                .map(|_| {
                    let receivers = receivers.clone();
                    spawn(move || select_all(&receivers))
                })
                .collect();
            drop(receivers);
            let sent: u64 = senders.into_iter().map(|sender| sender.join()).sum();
            let received: u64 = selectors.into_iter().map(|selector| selector.join()).sum();
            assert_eq!(received, sent);
        }
    });
}

fn select_all(receivers: &[Receiver<u64>]) -> u64 {
    let nil = never();
    let [mut a, mut b, mut c, mut d] = std::array::from_fn(|i| &receivers[i]);
    let (mut sum, mut open) = (0, 4);
    while open > 0 {
        let (from, got) = select! {
            recv(a) -> got => (&mut a, got),
            recv(b) -> got => (&mut b, got),
            recv(c) -> got => (&mut c, got),
            recv(d) -> got => (&mut d, got),
        };
        match got {
            Ok(value) => sum += value,
            Err(RecvError) => {
                *from = &nil;
                open -= 1;
            }
        }
    }
    sum
}

// --- two who both send and receive ---

/// Two who each select between sending and receiving on the one rendezvous: they always find each other.
#[test]
fn two_who_send_and_receive_on_one_rendezvous_make_progress() {
    everywhere(|ground| {
        let rounds = ground.rounds(full_or(300_000, 20_000));
        let (s, r) = bounded::<usize>(0);
        let (sent, received) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut crew = Crew::new();
        for me in 0..2 {
            let (s, r) = (s.clone(), r.clone());
            let (sent, received) = (sent.clone(), received.clone());
            crew.spawn(move || {
                // Each exchange takes one round of either, so both come to their end together.
                for _ in 0..rounds {
                    select! {
                        send(s, me) -> done => {
                            done.unwrap();
                            sent.fetch_add(1, Ordering::Relaxed);
                        }
                        recv(r) -> got => {
                            assert_eq!(got, Ok(1 - me));
                            received.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        crew.join();
        assert_eq!(sent.load(Ordering::Relaxed), rounds);
        assert_eq!(received.load(Ordering::Relaxed), rounds);
    });
}

/// The same among eight, over two channels: whoever is left over at the end is told.
#[test]
fn eight_who_send_and_receive_on_two_rendezvous_make_progress() {
    everywhere(|ground| {
        let rounds = ground.rounds(full_or(100_000, 2_000));
        let pairs: [(Sender<usize>, Receiver<usize>); 2] = std::array::from_fn(|_| bounded(0));
        let stop = bounded::<()>(0);
        let exchanges = Arc::new(AtomicUsize::new(0));
        let mut crew = Crew::new();
        for me in 0..8 {
            let [(s0, r0), (s1, r1)] = pairs.clone();
            let (stopped, exchanges) = (stop.1.clone(), exchanges.clone());
            crew.spawn(move || {
                loop {
                    let from = select! {
                        send(s0, me) -> done => { done.unwrap(); None }
                        recv(r1) -> got => got.ok(),
                        send(s1, me) -> done => { done.unwrap(); None }
                        recv(r0) -> got => got.ok(),
                        recv(stopped) -> _ => break,
                    };
                    assert_ne!(from, Some(me), "met itself");
                    exchanges.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_until("they exchange", || {
            exchanges.load(Ordering::Relaxed) >= rounds
        });
        drop(stop.0);
        crew.join();
        // One who sent and one who received each.
        assert_eq!(exchanges.load(Ordering::Relaxed) % 2, 0);
    });
}

// --- ping-pong: no round takes long ---

/// How long one round may take, not counting the time in which our threads were ready and the machine's other work had the
/// CPUs. A lost wake-up takes seconds or for ever, and nobody is ready meanwhile.
const ROUND_MAX: Duration = Duration::from_millis(100);

/// For how long threads of this process have been ready and without a CPU, all of them together. Zero if nobody says.
fn waited_for_cpus() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let waited = |thread: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    };
    Duration::from_nanos(threads.filter_map(waited).sum())
}

/// Runs `rounds` rounds, of which each is to be short. In a process of its own, for the sake of [`waited_for_cpus`].
#[track_caller]
fn assert_short(what: &str, rounds: usize, mut round: impl FnMut()) {
    let (mut longest, mut longest_net) = (Duration::ZERO, Duration::ZERO);
    let mut waited = waited_for_cpus();
    let began = Instant::now();
    for number in 0..rounds {
        let began = Instant::now();
        round();
        let took = began.elapsed();
        longest = longest.max(took);
        if took > ROUND_MAX / 10 || number % 1_000 == 0 {
            let waited_before = std::mem::replace(&mut waited, waited_for_cpus());
            let net = took.saturating_sub(waited.saturating_sub(waited_before));
            longest_net = longest_net.max(net);
        }
    }
    println!(
        "\nnote: {what}: {rounds} rounds in {:?}, the longest {longest:?}, or {longest_net:?} without waits for a CPU",
        began.elapsed()
    );
    assert!(
        longest_net <= ROUND_MAX,
        "{what}: a round took {longest:?}, of which {longest_net:?} for nothing"
    );
}

/// Scenario 25 over channels of one slot: each round wakes the other worker and back.
#[test]
fn no_round_of_a_ping_pong_across_workers_is_lost_for_long() {
    alone!(|| {
        for capacity in [1, 0] {
            runtime(2).run(|| {
                let rounds = full_or(1_000_000, 30_000);
                let (ping, pinged) = bounded::<usize>(capacity);
                let (pong, ponged) = bounded::<usize>(capacity);
                let there = Builder::new().placement(Placement::Worker(1));
                let echo = there
                    .spawn(move || pinged.iter().for_each(|i| pong.send(i).unwrap()))
                    .unwrap();
                let here = Builder::new().placement(Placement::Worker(0));
                let player = here
                    .spawn(move || {
                        assert_short(&format!("ping-pong, {capacity} slots"), rounds, || {
                            ping.send(1).unwrap();
                            assert_eq!(ponged.recv(), Ok(1));
                        });
                    })
                    .unwrap();
                player.join().unwrap();
                echo.join().unwrap();
            });
        }
    });
}

#[test]
fn no_round_of_a_ping_pong_between_a_thread_and_a_goroutine_is_lost_for_long() {
    alone!(|| {
        let rounds = full_or(300_000, 10_000);
        let (ping, pinged) = bounded::<usize>(1);
        let (pong, ponged) = bounded::<usize>(1);
        let echo = std::thread::spawn(move || pinged.iter().for_each(|i| pong.send(i).unwrap()));
        runtime(1).run(|| {
            assert_short("ping-pong with a thread", rounds, || {
                ping.send(1).unwrap();
                assert_eq!(ponged.recv(), Ok(1));
            });
            drop(ping);
        });
        echo.join().unwrap();
    });
}

/// Scenario 25 over a mutex: two workers take turns, each waiting for the other's under the lock.
#[test]
fn no_turn_at_a_mutex_across_workers_is_lost_for_long() {
    alone!(|| {
        runtime(2).run(|| {
            let rounds = full_or(1_000_000, 30_000);
            let both = Arc::new((Mutex::new(0usize), urgo::sync::Condvar::new()));
            let stop = Arc::new(AtomicBool::new(false));
            let there = Builder::new().placement(Placement::Worker(1));
            let other = there
                .spawn({
                    let (both, stop) = (both.clone(), stop.clone());
                    move || {
                        let (turn, changed) = &*both;
                        loop {
                            let mut turn = turn.lock();
                            while *turn % 2 == 0 {
                                if stop.load(Ordering::SeqCst) {
                                    return;
                                }
                                changed.wait(&mut turn);
                            }
                            *turn += 1;
                            changed.notify_one();
                        }
                    }
                })
                .unwrap();
            let here = Builder::new().placement(Placement::Worker(0));
            let player = here
                .spawn(move || {
                    let (turn, changed) = &*both;
                    assert_short("turns at a mutex", rounds, || {
                        let mut turn = turn.lock();
                        *turn += 1;
                        changed.notify_one();
                        while *turn % 2 == 1 {
                            changed.wait(&mut turn);
                        }
                    });
                    let _turn = turn.lock();
                    stop.store(true, Ordering::SeqCst);
                    changed.notify_all();
                })
                .unwrap();
            player.join().unwrap();
            other.join().unwrap();
        });
    });
}

// --- scenario 58 ---

/// Rounds of a pair after which the others must have had their turns: a fair queue needs a few.
const ROUNDS_MAX: usize = 100_000;

/// A pair that hands a value to and fro for ever wakes each other all the time; a hundred who were queued run all the same.
#[test]
fn a_pair_at_a_channel_does_not_starve_a_hundred_others() {
    for capacity in [0, 1] {
        for workers in [1, 2] {
            runtime(workers).run(|| {
                let (ping, pinged) = bounded::<()>(capacity);
                let (pong, ponged) = bounded::<()>(capacity);
                let done = Arc::new(AtomicUsize::new(0));
                let local = || Builder::new().placement(Placement::Local);
                let echo = local()
                    .spawn(move || pinged.iter().all(|()| pong.send(()).is_ok()))
                    .unwrap();
                let player = local()
                    .spawn({
                        let done = done.clone();
                        move || {
                            let mut rounds = 0;
                            while done.load(Ordering::SeqCst) < 100 {
                                ping.send(()).unwrap();
                                ponged.recv().unwrap();
                                rounds += 1;
                                assert!(rounds < ROUNDS_MAX, "the others starve");
                            }
                        }
                    })
                    .unwrap();
                for _ in 0..100 {
                    let done = done.clone();
                    let one = local().spawn(move || {
                        for _ in 0..3 {
                            urgo::yield_now();
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                    });
                    drop(one.unwrap());
                }
                player.join().unwrap();
                echo.join().unwrap();
            });
        }
    }
}

/// A stream through a channel, whose two ends never wait for anything else, lets others run.
#[test]
fn a_stream_through_a_channel_does_not_starve_a_hundred_others() {
    for capacity in [0, 1, 64] {
        runtime(1).run(|| {
            let (s, r) = bounded::<usize>(capacity);
            let done = Arc::new(AtomicUsize::new(0));
            let source = urgo::spawn({
                let done = done.clone();
                move || {
                    for i in 0.. {
                        assert!(i < 10 * ROUNDS_MAX, "the others starve");
                        if done.load(Ordering::SeqCst) == 100 {
                            break;
                        }
                        s.send(i).unwrap();
                    }
                }
            });
            let sink = urgo::spawn(move || r.iter().count());
            for _ in 0..100 {
                let done = done.clone();
                drop(urgo::spawn(move || {
                    urgo::yield_now();
                    done.fetch_add(1, Ordering::SeqCst);
                }));
            }
            source.join().unwrap();
            sink.join().unwrap();
        });
    }
}

// --- memory ---

#[track_caller]
fn wait_for_memory(what: &str, base: usize, peak: usize) {
    // Of what came on top, three quarters go again.
    let limit = base + (peak - base) / 4;
    wait_until(what, || resident_bytes().unwrap() <= limit);
    println!(
        "\nnote: {what}: {} KiB at first, {} at the peak, {} after",
        base >> 10,
        peak >> 10,
        resident_bytes().unwrap() >> 10
    );
}

/// Scenario 94: a million queued and drained.
#[test]
fn a_million_queued_messages_give_their_memory_back() {
    alone!(|| {
        runtime(1).run(|| {
            let count = if cfg!(debug_assertions) {
                full_or(1_000_000, 300_000)
            } else {
                1_000_000
            };
            let (s, r) = unbounded::<[u64; 4]>();
            s.send([0; 4]).unwrap();
            r.recv().unwrap();
            let base = resident_bytes().unwrap();
            for i in 0..count {
                s.send([i as u64; 4]).unwrap();
            }
            let peak = resident_bytes().unwrap();
            assert!(
                peak - base >= count * 32,
                "{base} {peak}: they are not in memory"
            );
            for i in 0..count {
                assert_eq!(r.recv().unwrap()[3], i as u64);
            }
            wait_for_memory("a queue that was drained", base, peak);
            // The channel still lives, and works.
            s.send([7; 4]).unwrap();
            assert_eq!(r.recv(), Ok([7; 4]));
        });
    });
}

/// A hundred thousand wait at channels, leave, and their memory with them; the channels stay.
#[test]
fn waiters_that_come_and_go_leave_no_memory_behind() {
    alone!(|| {
        let count = full_or(100_000, 20_000);
        runtime(2).run(|| {
            let channels: Vec<_> = (0..16).map(|i| bounded::<usize>(i % 3)).collect();
            let cycle = |count: usize| {
                let (go, gate) = bounded::<()>(0);
                let ready = Arc::new(AtomicUsize::new(0));
                let mut crew = Crew::new();
                for number in 0..count {
                    let (r, gate) = (channels[number % 16].1.clone(), gate.clone());
                    let ready = ready.clone();
                    crew.spawn(move || {
                        ready.fetch_add(1, Ordering::Relaxed);
                        select! {
                            recv(r) -> got => panic!("nobody sends: {got:?}"),
                            recv(gate) -> _ => {}
                        }
                    });
                }
                wait_until("all are there", || ready.load(Ordering::Relaxed) == count);
                let peak = resident_bytes().unwrap();
                drop(go);
                crew.join();
                peak
            };
            cycle(100);
            let base = resident_bytes().unwrap();
            let peak = cycle(count);
            wait_for_memory("waiters that came and went", base, peak);
            let second = cycle(count);
            assert!(
                second <= peak + (peak - base) / 4,
                "{second} after {peak}: it grows"
            );
            // Nobody is left in the lines.
            for (s, _) in &channels {
                assert_eq!(s.try_send(1).is_ok(), s.capacity() != Some(0));
            }
        });
    });
}

/// The same by time-outs, on the same channels again and again: lines do not grow.
#[test]
fn waits_that_time_out_again_and_again_leave_no_memory_behind() {
    alone!(|| {
        runtime(1).run(|| {
            let (s, r) = bounded::<u8>(0);
            let cycle = |count: usize| {
                for i in 0..count {
                    let time = Duration::from_nanos(1 + i as u64 % 3);
                    select! {
                        recv(r) -> _ => panic!("nobody sends"),
                        send(s, 1) -> _ => panic!("nobody receives"),
                        default(time) => {}
                    }
                    assert!(r.recv_timeout(time).is_err() && s.send_timeout(1, time).is_err());
                }
            };
            cycle(1_000);
            let base = resident_bytes().unwrap();
            cycle(full_or(300_000, 10_000));
            let after = resident_bytes().unwrap();
            assert!(after <= base + (1 << 20), "{base} bytes became {after}");
        });
    });
}

// --- scenario 97 ---

/// Cuts a stream of bytes into frames: a length, and as many bytes. Half a frame stays until the rest has come.
struct Framer {
    bytes: Vec<u8>,
}

impl Framer {
    fn next(&mut self) -> Option<Vec<u8>> {
        let len = usize::from(*self.bytes.first()?);
        if self.bytes.len() <= len {
            return None;
        }
        let rest = self.bytes.split_off(len + 1);
        let frame = std::mem::replace(&mut self.bytes, rest);
        Some(frame[1..].to_vec())
    }
}

/// A loop that selects between pieces of a stream and a clock: whichever wins, no byte of the stream is lost.
#[test]
fn a_select_between_frames_and_a_clock_loses_no_frame() {
    let seed = seed();
    everywhere(|ground| {
        for capacity in [0, 1, 8] {
            let frames = ground.rounds(full_or(20_000, 400));
            let (s, r) = bounded::<Vec<u8>>(capacity);
            let mut random = Random::new(seed);
            let source = spawn(move || {
                let mut stream = Vec::new();
                for i in 0..frames {
                    let len = random.below(200);
                    stream.push(len as u8);
                    stream.extend((0..len).map(|k| (i as u64 + k) as u8));
                    // In pieces that know nothing of frames.
                    while stream.len() > 64 {
                        let rest = stream.split_off(1 + random.below(63) as usize);
                        s.send(std::mem::replace(&mut stream, rest)).unwrap();
                        if random.below(40) == 0 {
                            urgo::sleep(Duration::from_micros(random.below(150)));
                        }
                    }
                }
                s.send(stream).unwrap();
            });
            let clock = tick(Duration::from_micros(50));
            let mut framer = Framer { bytes: Vec::new() };
            let (mut next, mut ticks) = (0usize, 0);
            loop {
                select! {
                    recv(r) -> piece => match piece {
                        Ok(piece) => framer.bytes.extend(piece),
                        Err(RecvError) => break,
                    },
                    recv(clock) -> _ => ticks += 1,
                }
                while let Some(frame) = framer.next() {
                    let expected = (0..frame.len()).map(|k| (next + k) as u8);
                    assert!(
                        frame.iter().copied().eq(expected),
                        "frame {next} is damaged"
                    );
                    next += 1;
                }
            }
            assert_eq!((next, framer.bytes.len()), (frames, 0));
            assert!(ticks > 0, "the clock never won");
            source.join();
        }
    });
}

// --- a crowd ---

/// Random calls by many on a few channels, with ends that come and go: whatever was accepted arrives or is dropped, once.
#[test]
fn random_calls_of_a_crowd_balance() {
    let seed = seed();
    everywhere(|ground| {
        let drops = crate::support::Drops::default();
        let made = Arc::new(AtomicUsize::new(0));
        let mut random = Random::new(seed ^ 0xC0DE);
        let channels: Vec<_> = [Some(0), Some(1), Some(5), None].map(channel).into();
        let mut crew = Crew::new();
        let people = match ground {
            Ground::Threads => 8,
            _ => 64,
        };
        let calls = ground.rounds(full_or(20_000, 1_600)) * 8 / people;
        for _ in 0..people {
            let mut random = Random::new(random.next());
            let (channels, drops, made) = (channels.clone(), drops.clone(), made.clone());
            crew.spawn(move || {
                let time = Duration::from_micros(random.below(60));
                for _ in 0..calls {
                    let (s, r) = &channels[random.below(4) as usize];
                    let (s2, r2) = &channels[random.below(4) as usize];
                    let make = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        drops.guard()
                    };
                    match random.below(8) {
                        0 => drop(s.send_timeout(make(), time)),
                        1 => drop(r.recv_timeout(time)),
                        2 => drop(s.try_send(make())),
                        3 => drop(r.try_recv()),
                        4 => select! {
                            send(s, make()) -> sent => sent.unwrap(),
                            recv(r2) -> got => drop(got.unwrap()),
                            default(time) => {}
                        },
                        5 => select! {
                            recv(r) -> got => drop(got.unwrap()),
                            recv(r2) -> got => drop(got.unwrap()),
                            default => {}
                        },
                        6 => select! {
                            send(s, make()) -> sent => sent.unwrap(),
                            send(s2, make()) -> sent => sent.unwrap(),
                            default(time) => {}
                        },
                        _ => {
                            let (s, r) = (s.clone(), r2.clone());
                            urgo::yield_now();
                            drop((s, r));
                        }
                    }
                }
            });
        }
        crew.join();
        drop(channels);
        assert_eq!(drops.count(), made.load(Ordering::Relaxed));
    });
}
