//! Permits: weights, order, time-outs, closing, and that none is ever lost or made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::sync::{Semaphore, TryAcquireError};

use crate::support::{Log, OnDrop, Random, panic_of, runtime, seed, wait_until};

#[test]
fn permits_are_taken_and_given_back() {
    let semaphore = Semaphore::new(3);
    let one = semaphore.acquire().unwrap();
    let two = semaphore.try_acquire_many(2).unwrap();
    assert_eq!(semaphore.available_permits(), 0);
    assert_eq!(
        semaphore.try_acquire().unwrap_err(),
        TryAcquireError::NoPermits
    );
    drop(one);
    assert_eq!(
        semaphore.try_acquire_many(2).unwrap_err(),
        TryAcquireError::NoPermits
    );
    drop(semaphore.try_acquire().unwrap());
    drop(two);
    assert_eq!(semaphore.available_permits(), 3);
    assert_eq!(semaphore.acquire_many(0).unwrap().num_permits(), 0);
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn permits_can_be_added_forgotten_split_and_merged() {
    let semaphore = Arc::new(Semaphore::new(0));
    semaphore.add_permits(4);
    semaphore.acquire().unwrap().forget();
    assert_eq!(semaphore.forget_permits(1), 1);
    assert_eq!(semaphore.available_permits(), 2);
    let mut two = semaphore.acquire_many_owned(2).unwrap();
    assert!(two.split(3).is_none());
    let one = two.split(1).unwrap();
    assert_eq!((one.num_permits(), two.num_permits()), (1, 1));
    drop(two);
    let mut one = one;
    one.merge(semaphore.try_acquire_owned().unwrap());
    assert_eq!(one.num_permits(), 2);
    drop(one);
    assert_eq!(semaphore.forget_permits(10), 2);
    assert_eq!(semaphore.available_permits(), 0);
}

#[test]
fn permits_misused_panic() {
    let (a, b) = (Semaphore::new(1), Semaphore::new(1));
    let text = panic_of(|| {
        let mut permit = a.acquire().unwrap();
        permit.merge(b.acquire().unwrap());
    });
    assert!(text.contains("two semaphores"), "{text}");
    assert_eq!((a.available_permits(), b.available_permits()), (1, 1));
    let text = panic_of(|| Semaphore::new(Semaphore::MAX_PERMITS + 1));
    assert!(text.contains("MAX_PERMITS"), "{text}");
    let text = panic_of(|| a.add_permits(Semaphore::MAX_PERMITS));
    assert!(text.contains("MAX_PERMITS"), "{text}");
    assert_eq!(
        Semaphore::new(Semaphore::MAX_PERMITS).available_permits(),
        Semaphore::MAX_PERMITS
    );
}

#[test]
fn locks_and_counts_are_one_word_each() {
    use urgo::sync::{Once, RwLock, WaitGroup};
    let word = size_of::<usize>();
    assert_eq!(size_of::<Semaphore>(), word);
    assert_eq!(size_of::<RwLock<()>>(), word);
    assert_eq!(size_of::<WaitGroup>(), word);
    assert_eq!(size_of::<Once>(), word);
}

#[test]
fn permits_may_go_to_other_threads() {
    let semaphore = Semaphore::new(1);
    std::thread::scope(|scope| {
        let permit = semaphore.acquire().unwrap();
        scope.spawn(move || drop(permit));
        drop(semaphore.acquire().unwrap());
    });
    assert_eq!(semaphore.available_permits(), 1);
}

/// On one worker: spawns what announces itself and then waits, and returns when it waits.
fn spawn_waiting(f: impl FnOnce() + Send + 'static) -> urgo::JoinHandle<()> {
    let announced = Arc::new(AtomicBool::new(false));
    let said = announced.clone();
    let handle = urgo::spawn(move || {
        said.store(true, Ordering::SeqCst);
        f();
    });
    while !announced.load(Ordering::SeqCst) {
        urgo::yield_now();
    }
    assert!(!handle.is_finished(), "it was to wait");
    handle
}

#[test]
fn semaphore_serves_in_the_order_of_coming_whatever_the_weights() {
    runtime(1).run(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let log = Log::new();
        let handles: Vec<_> = [3, 1, 2, 1]
            .into_iter()
            .enumerate()
            .map(|(i, n)| {
                let (semaphore, log) = (semaphore.clone(), log.clone());
                spawn_waiting(move || {
                    semaphore.acquire_many(n).unwrap().forget();
                    log.add(i);
                })
            })
            .collect();
        semaphore.add_permits(2);
        urgo::yield_now();
        // Two are there, but the first wants three: nobody passes it.
        assert_eq!(log.len(), 0);
        assert_eq!(semaphore.available_permits(), 2);
        assert!(semaphore.try_acquire().is_err());
        assert!(semaphore.acquire_many(0).is_ok());
        for (i, n) in [1, 1, 2, 1].into_iter().enumerate() {
            semaphore.add_permits(n);
            wait_until("the next", || log.len() > i);
            urgo::yield_now();
            assert_eq!(log.entries(), (0..=i).collect::<Vec<_>>());
        }
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(semaphore.available_permits(), 0);
    });
}

#[test]
fn who_waits_behind_a_large_request_moves_up_when_that_times_out() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let semaphore = Arc::new(Semaphore::new(1));
            let other = semaphore.clone();
            let large = urgo::spawn(move || {
                let late = other.try_acquire_many_for(2, Duration::from_millis(10));
                assert_eq!(late.unwrap_err(), TryAcquireError::NoPermits);
            });
            // Nobody gives anything back: only the large one's leaving can let this through, if it came second.
            drop(semaphore.acquire().unwrap());
            large.join().unwrap();
            assert_eq!(semaphore.available_permits(), 1);
        });
    }
}

#[test]
fn who_waits_behind_a_large_request_moves_up_when_that_is_cancelled() {
    let semaphore = Arc::new(Semaphore::new(1));
    let others = runtime(1);
    let other = semaphore.clone();
    let thread = others.run(|| {
        let large = semaphore.clone();
        drop(spawn_waiting(move || drop(large.acquire_many(2))));
        // A plain thread queues behind the goroutine, and is let through when the runtime's end cancels that.
        let thread = std::thread::spawn(move || drop(other.acquire().unwrap()));
        wait_until("the thread's start", || Arc::strong_count(&semaphore) >= 3);
        thread
    });
    thread.join().unwrap();
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn semaphore_waits_until_its_deadline_and_takes_nothing() {
    let check = || {
        let semaphore = Arc::new(Semaphore::new(1));
        let held = semaphore.acquire_owned().unwrap();
        let start = Instant::now();
        let pause = Duration::from_millis(3);
        assert!(semaphore.try_acquire_for(pause).is_err());
        assert!(start.elapsed() >= pause);
        assert!(semaphore.try_acquire_until(start).is_err());
        let at = Instant::now() + pause;
        assert!(semaphore.try_acquire_many_owned_until(1, at).is_err());
        assert!(Instant::now() >= at);
        let at = urgo::time::Instant::now() + pause;
        assert!(semaphore.try_acquire_until(at).is_err());
        drop(held);
        assert!(semaphore.try_acquire_for(Duration::ZERO).is_ok());
        assert!(semaphore.try_acquire_for(Duration::MAX).is_ok());
        assert!(semaphore.try_acquire_many_owned_for(1, pause).is_ok());
        assert_eq!(semaphore.available_permits(), 1);
    };
    check();
    runtime(1).run(check);
}

#[test]
fn closing_wakes_goroutines_and_threads_and_lets_permits_come_back() {
    runtime(2).run(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let held = semaphore.acquire_many_owned(2).unwrap();
        let handles: Vec<_> = (0..4)
            .map(|_| {
                let semaphore = semaphore.clone();
                urgo::spawn(move || semaphore.acquire().is_err())
            })
            .collect();
        let other = semaphore.clone();
        let thread = std::thread::spawn(move || {
            other.try_acquire_for(Duration::from_secs(600)).unwrap_err()
        });
        semaphore.close();
        semaphore.close();
        assert!(semaphore.is_closed());
        for handle in handles {
            assert!(handle.join().unwrap());
        }
        assert_eq!(thread.join().unwrap(), TryAcquireError::Closed);
        drop(held);
        assert_eq!(semaphore.available_permits(), 2);
        assert_eq!(
            semaphore.try_acquire().unwrap_err(),
            TryAcquireError::Closed
        );
        assert!(semaphore.acquire_many(0).is_err());
    });
}

#[test]
fn a_static_semaphore_serves_threads_before_during_and_after_a_runtime() {
    static GATE: Semaphore = Semaphore::new(1);
    let hold = || {
        let permit = GATE.acquire().unwrap();
        std::thread::spawn(|| drop(GATE.acquire().unwrap()));
        drop(permit);
        drop(GATE.acquire().unwrap());
    };
    hold();
    let two = runtime(1);
    runtime(2).run(|| {
        hold();
        let permit = GATE.acquire().unwrap();
        // A goroutine of another runtime waits for it.
        let other = two.handle().spawn(|| drop(GATE.acquire().unwrap()));
        drop(permit);
        other.join().unwrap();
    });
    hold();
}

#[test]
fn no_more_hold_permits_than_there_are() {
    let seed = seed();
    for workers in [1, 2, 4] {
        const PERMITS: usize = 5;
        let semaphore = Arc::new(Semaphore::new(PERMITS));
        let inside = Arc::new(AtomicUsize::new(0));
        let work =
            |mut random: Random, semaphore: &Semaphore, inside: &AtomicUsize, rounds: usize| {
                for _ in 0..rounds {
                    let n = 1 + random.below(PERMITS as u64) as u32;
                    let permit = match random.below(4) {
                        0 => semaphore.try_acquire_many(n).ok(),
                        1 => semaphore
                            .try_acquire_many_for(n, Duration::from_micros(random.below(200)))
                            .ok(),
                        _ => semaphore.acquire_many(n).ok(),
                    };
                    let Some(permit) = permit else { continue };
                    let n = n as usize;
                    assert!(inside.fetch_add(n, Ordering::SeqCst) + n <= PERMITS);
                    urgo::yield_now();
                    inside.fetch_sub(n, Ordering::SeqCst);
                    drop(permit);
                }
            };
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let (semaphore, inside) = (semaphore.clone(), inside.clone());
                let random = Random::new(seed ^ i);
                std::thread::spawn(move || work(random, &semaphore, &inside, 200))
            })
            .collect();
        runtime(workers).run(|| {
            let handles: Vec<_> = (0..100)
                .map(|i| {
                    let (semaphore, inside) = (semaphore.clone(), inside.clone());
                    let random = Random::new(seed ^ (i + 100));
                    urgo::spawn(move || work(random, &semaphore, &inside, 50))
                })
                .collect();
            for handle in handles {
                handle.join().unwrap();
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(semaphore.available_permits(), PERMITS);
        assert!(semaphore.try_acquire_many(PERMITS as u32).is_ok());
    }
}

/// A thousand waiters for one permit: some time out, some have it for a moment, one keeps it for ever, and what is left when
/// the runtime ends is cancelled. In every other round the permit is not there before that: all are cancelled while they wait.
#[test]
fn cancelled_and_timed_out_waiters_leave_the_exact_count() {
    let seed = seed();
    for (round, workers) in [1, 2, 4, 1, 2, 4].into_iter().enumerate() {
        let mut random = Random::new(seed ^ round as u64);
        let semaphore = Arc::new(Semaphore::new(1));
        let (timed_out, had, unwound) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
        );
        let begun = Arc::new(AtomicUsize::new(0));
        let keeper = 100 + random.below(800);
        let (threads, kept) = runtime(workers).run(|| {
            let held = semaphore.acquire_owned().unwrap();
            for i in 0..1000 {
                let semaphore = semaphore.clone();
                let (timed_out, had, unwound) = (timed_out.clone(), had.clone(), unwound.clone());
                let begun = begun.clone();
                let mut random = Random::new(random.next());
                drop(urgo::spawn(move || {
                    let is_over = AtomicBool::new(false);
                    let _count = OnDrop(|| {
                        if !is_over.load(Ordering::Relaxed) {
                            unwound.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                    begun.fetch_add(1, Ordering::SeqCst);
                    let permit = if i == keeper {
                        semaphore.acquire().ok()
                    } else if random.below(2) == 0 {
                        semaphore
                            .try_acquire_for(Duration::from_micros(random.below(3000)))
                            .ok()
                    } else {
                        semaphore.acquire().ok()
                    };
                    if permit.is_some() {
                        had.fetch_add(1, Ordering::SeqCst);
                        if i == keeper {
                            urgo::sleep(Duration::MAX);
                        }
                        urgo::yield_now();
                    } else {
                        timed_out.fetch_add(1, Ordering::SeqCst);
                    }
                    drop(permit);
                    is_over.store(true, Ordering::Relaxed);
                }));
            }
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let semaphore = semaphore.clone();
                    let mut random = Random::new(random.next());
                    std::thread::spawn(move || {
                        for _ in 0..20 {
                            drop(
                                semaphore
                                    .try_acquire_for(Duration::from_micros(random.below(2000))),
                            );
                        }
                    })
                })
                .collect();
            wait_until("all to begin", || begun.load(Ordering::SeqCst) == 1000);
            wait_until("a time-out", || timed_out.load(Ordering::SeqCst) > 0);
            for _ in 0..random.below(50) {
                urgo::yield_now();
            }
            let kept = (round % 2 == 1).then_some(held);
            for _ in 0..random.below(2000) {
                urgo::yield_now();
            }
            (threads, kept)
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(semaphore.available_permits(), usize::from(kept.is_none()));
        drop(kept);
        assert_eq!(semaphore.available_permits(), 1);
        assert!(semaphore.try_acquire().is_ok(), "at once");
        let counts = [&timed_out, &had, &unwound].map(|count| count.load(Ordering::SeqCst));
        println!("{workers} workers: {counts:?} timed out, had it, unwound");
        assert!(counts[2] > 0, "somebody was cancelled");
    }
}

/// Random requests, additions and withdrawals on one worker, against a count and a list.
#[test]
fn semaphore_agrees_with_a_list() {
    let mut random = Random::new(seed());
    runtime(1).run(|| {
        for _ in 0..100 {
            let semaphore = Arc::new(Semaphore::new(0));
            let served = Log::new();
            let (mut free, mut waiting, mut expected) = (0, Vec::new(), Vec::new());
            let begun = Arc::new(AtomicUsize::new(0));
            let mut handles = Vec::new();
            for i in 0..40_usize {
                let n = random.below(4) as usize;
                match random.below(5) {
                    0 | 1 => {
                        let (semaphore, served) = (semaphore.clone(), served.clone());
                        let begun = begun.clone();
                        handles.push(urgo::spawn(move || {
                            begun.fetch_add(1, Ordering::SeqCst);
                            if let Ok(permit) = semaphore.acquire_many(n as u32) {
                                permit.forget();
                                served.add(i);
                            }
                        }));
                        if n == 0 {
                            expected.push(i);
                        } else {
                            waiting.push((i, n));
                        }
                    }
                    2 => {
                        let is_had = semaphore.try_acquire_many(n as u32).is_ok();
                        assert_eq!(is_had, n == 0 || waiting.is_empty() && n <= free);
                    }
                    3 => {
                        assert_eq!(semaphore.forget_permits(n), n.min(free));
                        free -= n.min(free);
                    }
                    _ => {
                        semaphore.add_permits(n);
                        free += n;
                    }
                }
                while let Some(&(i, n)) = waiting.first()
                    && n <= free
                {
                    free -= n;
                    expected.push(i);
                    waiting.remove(0);
                }
                wait_until("all that can be served", || {
                    urgo::yield_now();
                    begun.load(Ordering::SeqCst) == handles.len() && served.len() == expected.len()
                });
                let mut order = served.entries();
                order.sort_unstable();
                expected.sort_unstable();
                assert_eq!(order, expected);
                assert_eq!(semaphore.available_permits(), free);
            }
            semaphore.close();
            for handle in handles {
                handle.join().unwrap();
            }
            assert_eq!(served.len(), expected.len());
            assert_eq!(semaphore.available_permits(), free);
        }
    });
}
