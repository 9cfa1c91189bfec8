//! `futex`: every wake reaches one waiter or none, whoever waits, and nobody is woken but by a wake.

use crate::support::{Drops, Random, runtime, seed, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use urgo::sync::futex::{self, Requeued, ValueChanged, WaitOutcome};

/// Wakes until `count` waiters have been woken in all, which is how one learns that they have come.
fn wake_in_all(word: &AtomicU32, count: usize) {
    let mut woken = 0;
    wait_until("they come and are woken", || {
        woken += futex::wake(word, count - woken);
        woken == count
    });
}

/// On one worker: a goroutine that says that it is about to wait waits when others see it.
fn about_to_wait<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> urgo::JoinHandle<T> {
    let said = Arc::new(AtomicU32::new(0));
    let goroutine = {
        let said = said.clone();
        urgo::spawn(move || {
            said.store(1, Ordering::Relaxed);
            f()
        })
    };
    wait_until("it waits", || said.load(Ordering::Relaxed) == 1);
    goroutine
}

#[test]
fn futex_refuses_to_wait_for_a_word_that_has_changed() {
    let body = || {
        let word = AtomicU32::new(7);
        assert_eq!(futex::wait(&word, 6), WaitOutcome::ValueChanged);
        let past = Instant::now();
        assert_eq!(futex::wait_until(&word, 6, past), WaitOutcome::ValueChanged);
        assert_eq!(futex::wait_until(&word, 7, past), WaitOutcome::TimedOut);
        let soon = Instant::now() + Duration::from_millis(2);
        assert_eq!(futex::wait_until(&word, 7, soon), WaitOutcome::TimedOut);
        assert!(Instant::now() >= soon);
        let soon = urgo::time::Instant::now() + Duration::from_millis(1);
        assert_eq!(futex::wait_until(&word, 7, soon), WaitOutcome::TimedOut);
        assert_eq!(futex::wake(&word, 1), 0);
    };
    body();
    runtime(1).run(body);
}

#[test]
fn futex_wakes_as_many_as_asked_oldest_first() {
    runtime(1).run(|| {
        let word = Arc::new(AtomicU32::new(0));
        let order = Arc::new(AtomicUsize::new(0));
        let goroutines: Vec<_> = (0..10)
            .map(|_| {
                let (word, order) = (word.clone(), order.clone());
                about_to_wait(move || {
                    assert_eq!(futex::wait(&word, 0), WaitOutcome::Woken);
                    order.fetch_add(1, Ordering::Relaxed)
                })
            })
            .collect();
        for (i, goroutine) in goroutines.into_iter().enumerate() {
            assert_eq!(futex::wake(&word, 0), 0);
            assert_eq!(futex::wake(&word, 1), 1);
            assert_eq!(goroutine.join().unwrap(), i);
        }
        assert_eq!(futex::wake(&word, usize::MAX), 0);
    });
}

#[test]
fn futex_waiters_of_all_kinds_share_one_word() {
    let word = Arc::new(AtomicU32::new(0));
    let woken = Arc::new(AtomicUsize::new(0));
    let waiter = |word: &Arc<AtomicU32>, woken: &Arc<AtomicUsize>| {
        let (word, woken) = (word.clone(), woken.clone());
        move || {
            assert_eq!(futex::wait(&word, 0), WaitOutcome::Woken);
            woken.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(waiter(&word, &woken)))
        .collect();
    for workers in [1, 2] {
        let waiters: Vec<_> = (0..10).map(|_| waiter(&word, &woken)).collect();
        threads.push(std::thread::spawn(move || {
            runtime(workers).run(|| {
                let goroutines: Vec<_> = waiters.into_iter().map(urgo::spawn).collect();
                goroutines.into_iter().for_each(|g| g.join().unwrap());
            });
        }));
    }
    // From a thread and from a goroutine of a third runtime.
    wake_in_all(&word, 10);
    let theirs = word.clone();
    runtime(2).run(move || wake_in_all(&theirs, 14));
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(woken.load(Ordering::Relaxed), 24);
    assert_eq!(futex::wake(&word, usize::MAX), 0);
}

/// The value that the waker publishes before the wake is there after the wait.
#[test]
fn futex_wake_publishes_what_came_before() {
    runtime(2).run(|| {
        let words: Arc<[AtomicU32; 3]> = Arc::new([const { AtomicU32::new(0) }; 3]);
        let theirs = words.clone();
        let other = urgo::go::Builder::new()
            .placement(urgo::go::Placement::Worker(1))
            .spawn(move || {
                let [ball, value, _] = &*theirs;
                for round in 0..5_000 {
                    while ball.load(Ordering::Relaxed) != 2 * round + 1 {
                        let _ = futex::wait(ball, 2 * round);
                    }
                    value.store(round, Ordering::Relaxed);
                    ball.store(2 * round + 2, Ordering::Release);
                    futex::wake(ball, 1);
                }
            })
            .unwrap();
        let [ball, value, _] = &*words;
        for round in 0..5_000 {
            ball.store(2 * round + 1, Ordering::Relaxed);
            futex::wake(ball, 1);
            while ball.load(Ordering::Acquire) != 2 * round + 2 {
                let _ = futex::wait(ball, 2 * round + 1);
            }
            assert_eq!(value.load(Ordering::Relaxed), round);
        }
        other.join().unwrap();
    });
}

#[test]
fn futex_requeue_moves_wakes_and_refuses() {
    let (from, to) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(0)));
    assert_eq!(futex::requeue(&from, 0, &to, 1, 1), Err(ValueChanged));
    let theirs = (from.clone(), to.clone());
    runtime(2).run(move || {
        let (from, to) = theirs;
        let drops = Drops::default();
        let goroutines: Vec<_> = (0..10)
            .map(|_| {
                let (from, drop) = (from.clone(), drops.guard());
                urgo::spawn(move || {
                    let _drop = drop;
                    assert_eq!(futex::wait(&from, 1), WaitOutcome::Woken);
                })
            })
            .collect();
        let mut moved = 0;
        wait_until("they come", || {
            let done = futex::requeue(&from, 1, &to, 0, 7 - moved).unwrap();
            assert_eq!(done.woken, 0);
            moved += done.requeued;
            moved == 7
        });
        assert_eq!(futex::requeue(&from, 2, &to, 9, 9), Err(ValueChanged));
        // The rest are woken, or come too late to be.
        let mut woken = 0;
        wait_until("the rest comes", || {
            let Requeued {
                woken: more,
                requeued,
            } = futex::requeue(&from, 1, &to, 3 - woken, 9).unwrap();
            woken += more;
            // More than are to be woken there are not.
            assert_eq!(requeued, 0);
            woken == 3
        });
        wait_until("the woken go", || drops.count() == 3);
        assert_eq!(futex::wake(&from, 99), 0);
        assert_eq!(futex::wake(&to, 5), 5);
        assert_eq!(futex::wake(&to, 99), 2);
        goroutines.into_iter().for_each(|g| g.join().unwrap());
    });
    assert_eq!(
        futex::requeue(&from, 1, &from, 1, 1),
        Ok(Requeued {
            woken: 0,
            requeued: 0
        })
    );
}

#[test]
fn futex_deadline_stays_when_its_waiter_is_moved() {
    runtime(1).run(|| {
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let theirs = words.clone();
        let goroutine = about_to_wait(move || {
            let soon = Instant::now() + Duration::from_secs(1);
            futex::wait_until(&theirs.0, 0, soon)
        });
        let done = futex::requeue(&words.0, 0, &words.1, 0, 1).unwrap();
        assert_eq!(done.requeued, 1);
        assert_eq!(goroutine.join().unwrap(), WaitOutcome::TimedOut);
        assert_eq!(futex::wake(&words.0, 9) + futex::wake(&words.1, 9), 0);
    });
}

/// Waiters that time out at random against wakes and requeues: each wake that was counted was seen by one waiter.
#[test]
fn futex_wakes_counted_are_wakes_seen() {
    let seed = seed();
    for workers in [1, 2, 4] {
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let seen = Arc::new(AtomicUsize::new(0));
        let left = Arc::new(AtomicUsize::new(0));
        let wait = |seed: u64, rounds: u64| {
            let (words, seen, left) = (words.clone(), seen.clone(), left.clone());
            left.fetch_add(1, Ordering::Relaxed);
            move || {
                let mut random = Random::new(seed);
                for _ in 0..rounds {
                    let word = if random.below(2) == 0 {
                        &words.0
                    } else {
                        &words.1
                    };
                    let deadline = Instant::now() + Duration::from_micros(random.below(200));
                    match futex::wait_until(word, 0, deadline) {
                        WaitOutcome::Woken => drop(seen.fetch_add(1, Ordering::Relaxed)),
                        WaitOutcome::TimedOut => {}
                        WaitOutcome::ValueChanged => panic!("nobody changes the words"),
                    }
                }
                left.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let threads: Vec<_> = (0..3)
            .map(|i| std::thread::spawn(wait(seed ^ i, 100)))
            .collect();
        let waits: Vec<_> = (0..200).map(|i| wait(seed ^ i << 10, 20)).collect();
        let (theirs, others) = (words.clone(), left.clone());
        let counted = runtime(workers).run(move || {
            waits.into_iter().for_each(|w| drop(urgo::spawn(w)));
            let mut random = Random::new(!seed);
            let mut counted = 0;
            while others.load(Ordering::Relaxed) > 0 {
                let n = random.below(4) as usize;
                counted += match random.below(4) {
                    0 => futex::wake(&theirs.0, n),
                    1 => futex::wake(&theirs.1, n),
                    2 => {
                        let done = futex::requeue(&theirs.0, 0, &theirs.1, n, n).unwrap();
                        done.woken
                    }
                    _ => {
                        urgo::sleep(Duration::from_micros(random.below(100)));
                        0
                    }
                };
            }
            counted
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(seen.load(Ordering::Relaxed), counted, "workers {workers}");
        assert_eq!(futex::wake(&words.0, 9) + futex::wake(&words.1, 9), 0);
    }
}

/// The end of a runtime cancels its waiters: they unwind, take no wake with them, and a thread that waits for the same
/// word is woken by the next.
#[test]
fn futex_cancelled_waiters_leave_without_a_wake() {
    for workers in [1, 2] {
        let word = Arc::new(AtomicU32::new(0));
        let drops = Drops::default();
        let (theirs, unwound) = (word.clone(), drops.clone());
        runtime(workers).run(move || {
            for _ in 0..100 {
                let (word, drop) = (theirs.clone(), unwound.guard());
                urgo::spawn(move || {
                    let _drop = drop;
                    let _ = futex::wait(&word, 0);
                    panic!("nobody wakes this one");
                });
            }
            urgo::yield_now();
        });
        assert_eq!(drops.count(), 100);
        assert_eq!(futex::wake(&word, 1), 0);
        let theirs = word.clone();
        let thread = std::thread::spawn(move || futex::wait(&theirs, 0));
        wake_in_all(&word, 1);
        assert_eq!(futex::wake(&word, 1), 0);
        assert_eq!(thread.join().unwrap(), WaitOutcome::Woken);
    }
}

/// A word's memory is used again for another word as soon as its waiters have gone.
#[test]
fn futex_words_may_be_freed_and_their_memory_used_again() {
    runtime(2).run(|| {
        for _ in 0..300 {
            let word = Arc::new(AtomicU32::new(0));
            let goroutines: Vec<_> = (0..4)
                .map(|_| {
                    let word = word.clone();
                    urgo::spawn(move || {
                        while word.load(Ordering::Acquire) == 0 {
                            let _ = futex::wait(&word, 0);
                        }
                    })
                })
                .collect();
            urgo::yield_now();
            word.store(1, Ordering::Release);
            futex::wake(&word, usize::MAX);
            drop(word);
            goroutines.into_iter().for_each(|g| g.join().unwrap());
        }
    });
}

#[test]
fn futex_many_waiters_on_many_words_come_and_go() {
    runtime(2).run(|| {
        let words: Arc<Vec<AtomicU32>> = Arc::new((0..10_000).map(|_| AtomicU32::new(0)).collect());
        let goroutines: Vec<_> = (0..30_000)
            .map(|i| {
                let words = words.clone();
                urgo::spawn(move || {
                    let word = &words[i % 10_000];
                    while word.load(Ordering::Relaxed) == 0 {
                        let _ = futex::wait(word, 0);
                    }
                })
            })
            .collect();
        urgo::sleep(Duration::from_millis(5));
        for word in words.iter() {
            word.store(1, Ordering::Relaxed);
            futex::wake(word, usize::MAX);
        }
        goroutines.into_iter().for_each(|g| g.join().unwrap());
    });
}
