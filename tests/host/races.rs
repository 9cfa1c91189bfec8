//! Answers, deadlines, drops and hooks against each other, at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use urgo::host::{Completer, Operation, Token, WaitError};

use crate::support::{DropGuard, Drops, Random, runtime, seed};

enum Job {
    Typed(Completer<DropGuard>),
    Number(Token),
}

/// What the outside did, all together.
#[derive(Default)]
struct Did {
    values: AtomicUsize,
    others: AtomicUsize,
}

fn spin(random: &mut Random) {
    for _ in 0..random.below(400) {
        std::hint::spin_loop();
    }
    if random.below(16) == 0 {
        std::thread::sleep(Duration::from_micros(random.below(60)));
    }
}

fn outside(jobs: mpsc::Receiver<Job>, drops: Drops, did: Arc<Did>, seed: u64) {
    let mut random = Random::new(seed);
    for job in jobs {
        spin(&mut random);
        let kind = random.below(8);
        let count = if kind < 5 { &did.values } else { &did.others };
        count.fetch_add(1, Ordering::SeqCst);
        match job {
            Job::Typed(completer) => match kind {
                0..5 => completer.complete(drops.guard()),
                5 => completer.fault("planned"),
                6 => completer.ack(),
                _ => drop(completer),
            },
            Job::Number(token) => match kind {
                0..5 => token.complete(drops.guard()),
                5 => token.fault("planned"),
                _ => token.ack(),
            },
        }
    }
}

/// 10,000 operations in all: each ends once, each value is dropped once, and every number adds up.
fn race(needs_ack: bool) {
    const OUTSIDE: usize = 2;
    const GOROUTINES: usize = 20;
    const ROUNDS: usize = 500;
    let seed = seed();
    let runtime = runtime(2);
    let handle = runtime.handle();
    let (drops, did) = (Drops::default(), Arc::new(Did::default()));
    let asked = Arc::new(AtomicUsize::new(0));
    let (jobs, threads): (Vec<_>, Vec<_>) = (0..OUTSIDE)
        .map(|n| {
            let (send, jobs) = mpsc::channel();
            let (drops, did) = (drops.clone(), did.clone());
            let thread = std::thread::spawn(move || outside(jobs, drops, did, seed ^ n as u64));
            (send, thread)
        })
        .unzip();
    let got = runtime.run({
        let asked = asked.clone();
        move || {
            let goroutines: Vec<_> = (0..GOROUTINES)
                .map(|n| {
                    let (jobs, asked) = (jobs.clone(), asked.clone());
                    urgo::spawn(move || {
                        let mut random = Random::new(seed ^ ((n as u64) << 8));
                        // Values, deadlines, faults, drops.
                        let mut got = [0; 4];
                        for _ in 0..ROUNDS {
                            let mut operation =
                                Operation::<DropGuard>::register().unwrap().on_cancel(|| {
                                    asked.fetch_add(1, Ordering::SeqCst);
                                });
                            if !needs_ack {
                                operation = operation.without_ack();
                            }
                            let (to, is_number) =
                                (random.below(OUTSIDE as u64) as usize, random.below(3) == 0);
                            let waiting = operation.submit(|completer| {
                                let job = match is_number {
                                    true => Job::Number(completer.into_token()),
                                    false => Job::Typed(completer),
                                };
                                jobs[to].send(job).unwrap();
                            });
                            let outcome = match random.below(4) {
                                0 => {
                                    for _ in 0..random.below(3) {
                                        urgo::yield_now();
                                    }
                                    got[3] += 1;
                                    continue;
                                }
                                1 => waiting.wait(),
                                _ => waiting.wait_timeout(Duration::from_micros(random.below(200))),
                            };
                            match outcome {
                                Ok(_value) => got[0] += 1,
                                Err(WaitError::TimedOut) => got[1] += 1,
                                Err(_) => got[2] += 1,
                            }
                        }
                        got
                    })
                })
                .collect();
            goroutines.into_iter().fold([0; 4], |mut sum, goroutine| {
                let got = goroutine.join().unwrap();
                sum.iter_mut().zip(got).for_each(|(sum, got)| *sum += got);
                sum
            })
        }
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let all = (GOROUTINES * ROUNDS) as u64;
    let counters = handle.metrics().host;
    println!(
        "{counters:?}, got {got:?}, asked {}",
        asked.load(Ordering::SeqCst)
    );
    assert_eq!((counters.registered, counters.submitted), (all, all));
    assert_eq!(counters.out(), 0);
    assert_eq!(got.iter().sum::<usize>() as u64, all);
    assert_eq!(
        drops.count(),
        did.values.load(Ordering::SeqCst),
        "each value is dropped once"
    );
    assert_eq!((counters.dup, counters.foreign, counters.leaked), (0, 0, 0));
    let late = counters.stale + counters.retired;
    if needs_ack {
        assert_eq!(late, 0);
        assert_eq!(
            counters.cancelled + counters.completed + counters.faulted,
            all
        );
    } else {
        assert!(late <= counters.cancelled);
    }
}

#[test]
fn host_race_of_answers_and_deadlines() {
    race(true);
}

#[test]
fn host_race_of_answers_and_deadlines_without_ack() {
    race(false);
}

/// Each operation is answered from three threads at once by number: one answer counts.
#[test]
fn host_race_of_duplicates() {
    const ROUNDS: usize = 2000;
    let runtime = runtime(2);
    let handle = runtime.handle();
    let (sends, threads): (Vec<_>, Vec<_>) = (0..3_usize)
        .map(|n| {
            let (send, tokens) = mpsc::channel::<Token>();
            let thread = std::thread::spawn(move || {
                for token in tokens {
                    token.complete(n);
                }
            });
            (send, thread)
        })
        .unzip();
    runtime.run(move || {
        for _ in 0..ROUNDS {
            let outcome = Operation::<usize>::register()
                .unwrap()
                .submit(|completer| {
                    let token = completer.into_token();
                    for send in &sends {
                        send.send(token).unwrap();
                    }
                })
                .wait();
            assert!(outcome.unwrap() < 3);
        }
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let counters = handle.metrics().host;
    assert_eq!(
        (counters.completed, counters.out(), counters.foreign),
        (ROUNDS as u64, 0, 0)
    );
    assert_eq!(
        counters.dup + counters.stale + counters.retired,
        2 * ROUNDS as u64
    );
}

/// The end of the runtime against answers of all kinds.
#[test]
fn host_race_of_answers_and_the_end() {
    let seed = seed();
    for round in 0..100 {
        let runtime = runtime(1 + round % 2);
        let handle = runtime.handle();
        let (drops, did) = (Drops::default(), Arc::new(Did::default()));
        let (send, jobs) = mpsc::channel();
        let outside_thread = {
            let (drops, did) = (drops.clone(), did.clone());
            std::thread::spawn(move || outside(jobs, drops, did, seed ^ round as u64))
        };
        runtime.run(|| {
            for n in 0..10 {
                let send = send.clone();
                urgo::spawn(move || {
                    let mut random = Random::new(seed ^ (n << 8) ^ ((round as u64) << 16));
                    loop {
                        let mut operation = Operation::<DropGuard>::register().unwrap();
                        if random.below(4) == 0 {
                            operation = operation.without_ack();
                        }
                        let waiting = operation.submit(|completer| {
                            let job = match random.below(2) {
                                0 => Job::Number(completer.into_token()),
                                _ => Job::Typed(completer),
                            };
                            send.send(job).unwrap();
                        });
                        let _ = waiting.wait_timeout(Duration::from_micros(random.below(500)));
                    }
                });
            }
            urgo::sleep(Duration::from_micros(seed % 700));
        });
        drop(send);
        outside_thread.join().unwrap();
        let counters = handle.metrics().host;
        assert_eq!(counters.out(), 0, "round {round}: {counters:?}");
        assert_eq!((counters.dup, counters.foreign, counters.leaked), (0, 0, 0));
        assert_eq!(
            drops.count(),
            did.values.load(Ordering::SeqCst),
            "round {round}"
        );
    }
}
