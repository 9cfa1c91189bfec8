//! `Mutex`: exclusion between goroutines and threads, overtaking within bounds, handing over, cancellation, guards.

use crate::support::{Drops, Random, runtime, seed, wait_until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use urgo::sync::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};

#[test]
fn mutex_does_what_std_mutexes_do() {
    let mutex = Mutex::new(vec![1]);
    mutex.lock().push(2);
    assert_eq!(mutex.try_lock().as_deref(), Some(&vec![1, 2]));
    let guard = mutex.lock();
    assert!(mutex.try_lock().is_none() && mutex.is_locked());
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
    drop(guard);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: [1, 2] }");
    let mut mutex = mutex;
    mutex.get_mut().push(3);
    assert_eq!(mutex.into_inner(), [1, 2, 3]);
    assert_eq!(*Mutex::<u8>::default().lock(), 0);
    assert_eq!(*Mutex::from(4).lock(), 4);
    assert_eq!(size_of::<RawMutex>(), 4);
}

#[test]
fn mutex_drops_its_value_once() {
    let drops = Drops::default();
    drop(Mutex::new(drops.guard()));
    let inner = Mutex::new(drops.guard()).into_inner();
    assert_eq!(drops.count(), 1);
    drop(inner);
    assert_eq!(drops.count(), 2);
}

#[test]
fn mutex_is_not_poisoned_by_a_panic() {
    let mutex = Mutex::new(1);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut guard = mutex.lock();
        *guard = 2;
        std::panic::resume_unwind(Box::new("planned"));
    }));
    assert!(result.is_err());
    assert_eq!(*mutex.lock(), 2);
}

#[test]
fn mutex_is_locked_in_a_drop_while_its_thread_unwinds() {
    struct Late<'a>(&'a Mutex<u32>);
    impl Drop for Late<'_> {
        fn drop(&mut self) {
            *self.0.lock() += 1;
        }
    }
    let mutex = Mutex::new(0);
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _late = Late(&mutex);
        std::panic::resume_unwind(Box::new("planned"));
    }));
    assert_eq!(*mutex.lock(), 1);
}

#[test]
fn mutex_guards_of_parts_and_of_arcs_unlock() {
    let mutex = Arc::new(Mutex::new((1, 2)));
    let mut part = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
    *part += 1;
    assert!(mutex.is_locked());
    drop(part);
    let guard: ArcMutexGuard<_> = mutex.lock_arc();
    assert!(mutex.try_lock_arc().is_none() && mutex.is_locked());
    drop(guard);
    assert_eq!(mutex.try_lock().as_deref(), Some(&(1, 3)));
    assert!(mutex.try_lock_arc_for(Duration::from_millis(1)).is_some());
}

#[test]
fn mutex_attempts_end_at_their_deadlines_and_leave_nothing() {
    let body = || {
        let mutex = Mutex::new(());
        let guard = mutex.lock();
        let before = Instant::now();
        assert!(mutex.try_lock_for(Duration::from_millis(2)).is_none());
        assert!(before.elapsed() >= Duration::from_millis(2));
        let deadline = Instant::now() + Duration::from_millis(1);
        assert!(mutex.try_lock_until(deadline).is_none() && Instant::now() >= deadline);
        assert!(mutex.try_lock_until(before).is_none());
        assert!(mutex.try_lock_for(Duration::ZERO).is_none());
        drop(guard);
        assert!(mutex.try_lock_for(Duration::ZERO).is_some());
        assert!(mutex.try_lock_until(before).is_some());
        assert!(mutex.try_lock_for(Duration::MAX).is_some());
    };
    body();
    runtime(1).run(body);
}

/// A counter that only the mutex keeps whole.
struct Tally {
    value: Mutex<u64>,
    inside: AtomicUsize,
}

impl Tally {
    fn new() -> Arc<Tally> {
        Arc::new(Tally {
            value: Mutex::new(0),
            inside: AtomicUsize::new(0),
        })
    }

    fn enter(&self, mut guard: MutexGuard<'_, u64>, pause: impl FnOnce()) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0);
        let seen = *guard;
        pause();
        *guard = seen + 1;
        assert_eq!(self.inside.fetch_sub(1, Ordering::Relaxed), 1);
    }
}

#[test]
fn mutex_excludes_threads_without_a_runtime() {
    let tally = Tally::new();
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                for i in 0..5_000 {
                    tally.enter(tally.value.lock(), || {
                        if i % 512 == 0 {
                            std::thread::yield_now();
                        }
                    });
                }
            });
        }
    });
    assert_eq!(*tally.value.lock(), 40_000);
}

#[test]
fn mutex_excludes_goroutines_that_hold_it_across_waits() {
    for workers in [1, 2, 4] {
        let tally = Tally::new();
        let shared = tally.clone();
        runtime(workers).run(move || {
            let goroutines: Vec<_> = (0..64_u64)
                .map(|id| {
                    let tally = shared.clone();
                    urgo::spawn(move || {
                        for i in 0..300 {
                            tally.enter(tally.value.lock(), || match (i + id) % 50 {
                                0 => urgo::sleep(Duration::from_micros(20)),
                                n if n % 5 == 0 => urgo::yield_now(),
                                _ => {}
                            });
                            if i % 7 == 0 {
                                urgo::yield_now();
                            }
                        }
                    })
                })
                .collect();
            goroutines.into_iter().for_each(|g| g.join().unwrap());
        });
        assert_eq!(*tally.value.lock(), 64 * 300);
    }
}

#[test]
fn mutex_excludes_goroutines_of_two_runtimes_and_threads() {
    for workers in [1, 2, 4] {
        let tally = Tally::new();
        std::thread::scope(|s| {
            for _ in 0..2 {
                let tally = tally.clone();
                s.spawn(move || {
                    runtime(workers).run(move || {
                        let goroutines: Vec<_> = (0..100)
                            .map(|i| {
                                let tally = tally.clone();
                                urgo::spawn(move || {
                                    for j in 0..100 {
                                        tally.enter(tally.value.lock(), || {
                                            if (i + j) % 16 == 0 {
                                                urgo::yield_now();
                                            }
                                        });
                                    }
                                })
                            })
                            .collect();
                        goroutines.into_iter().for_each(|g| g.join().unwrap());
                    });
                });
            }
            for _ in 0..4 {
                s.spawn(|| {
                    for j in 0..2_000 {
                        tally.enter(tally.value.lock(), || {
                            if j % 64 == 0 {
                                std::thread::yield_now();
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(*tally.value.lock(), 2 * 10_000 + 8_000);
    }
}

/// Every way to lock at random, with deadlines that pass and cancellations: who was told that it has the mutex has it, and
/// in the end it is free.
#[test]
fn mutex_counts_stay_exact_under_deadlines_and_cancellation() {
    let seed = seed();
    for workers in [1, 2, 4, 1, 2, 4] {
        let tally = Tally::new();
        let entered = Arc::new(AtomicUsize::new(0));
        let (shared, count) = (tally.clone(), entered.clone());
        runtime(workers).run(move || {
            let goroutines: Vec<_> = (0..200_u64)
                .map(|id| {
                    let (tally, entered) = (shared.clone(), count.clone());
                    let mut random = Random::new(seed ^ id << 20);
                    urgo::spawn(move || {
                        for _ in 0..60 {
                            let guard = match random.below(4) {
                                0 => tally.value.try_lock(),
                                1 => {
                                    let us = random.below(300);
                                    tally.value.try_lock_for(Duration::from_micros(us))
                                }
                                _ => Some(tally.value.lock()),
                            };
                            let Some(guard) = guard else { continue };
                            let pause = random.below(20);
                            // No wait with the tally half done: a cancellation would leave it so.
                            tally.enter(guard, || entered.add_one());
                            match pause {
                                0 => {
                                    let _guard = tally.value.lock();
                                    urgo::sleep(Duration::from_micros(random.below(100)));
                                }
                                1..5 => urgo::yield_now(),
                                _ => {}
                            }
                        }
                    })
                })
                .collect();
            let mut random = Random::new(!seed);
            let patience = random.below(goroutines.len() as u64) as usize;
            for goroutine in goroutines.into_iter().take(patience) {
                goroutine.join().unwrap();
            }
            // The rest are cancelled where they are.
        });
        assert!(tally.value.try_lock().is_some(), "workers {workers}");
        let count = entered.load(Ordering::Relaxed) as u64;
        assert_eq!(*tally.value.lock(), count, "workers {workers}");
    }
}

trait AddOne {
    fn add_one(&self);
}

impl AddOne for AtomicUsize {
    fn add_one(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }
}

/// On one worker: a goroutine that says that it is about to wait waits when others see it.
fn about_to_wait<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> urgo::JoinHandle<T> {
    let said = Arc::new(AtomicBool::new(false));
    let goroutine = {
        let said = said.clone();
        urgo::spawn(move || {
            said.store(true, Ordering::Relaxed);
            f()
        })
    };
    wait_until("it waits", || said.load(Ordering::Relaxed));
    goroutine
}

/// A thread has the mutex while the runtime ends: whoever waits in it unwinds, and the thread notices nothing.
#[test]
fn mutex_cancelled_attempts_unwind_and_the_others_go_on() {
    let mutex = Arc::new(Mutex::new(0));
    let drops = Drops::default();
    let guard = mutex.lock();
    let late = {
        let (mutex, drops) = (mutex.clone(), drops.clone());
        runtime(2).run(move || {
            for _ in 0..50 {
                let (mutex, drop) = (mutex.clone(), drops.guard());
                urgo::spawn(move || {
                    let _drop = drop;
                    *mutex.try_lock_for(Duration::MAX).unwrap() += 1;
                });
            }
            urgo::yield_now();
            std::thread::spawn(move || *mutex.lock() += 10)
        })
    };
    assert_eq!(drops.count(), 50);
    assert_eq!(*guard, 0);
    drop(guard);
    late.join().unwrap();
    assert_eq!(*mutex.lock(), 10);
}

/// Cancelled after it was given the mutex, by either way: it has it, and its next wait unwinds.
#[test]
fn mutex_given_to_a_cancelled_goroutine_is_its_own() {
    let mutex = Arc::new(Mutex::new(0));
    for is_fair in [false, true] {
        let mutex = mutex.clone();
        runtime(1).run(move || {
            let guard = mutex.lock();
            let theirs = mutex.clone();
            about_to_wait(move || {
                let mut guard = theirs.lock();
                *guard += 1;
                urgo::sleep(Duration::from_secs(3600));
                *guard += 100;
            });
            if is_fair {
                MutexGuard::unlock_fair(guard);
                assert!(mutex.is_locked());
            }
        });
    }
    assert!(!mutex.is_locked());
    assert_eq!(*mutex.lock(), 2);
}

/// Woken, then overtaken, then cancelled: it leaves the mutex to those that still wait.
#[test]
fn mutex_cancelled_after_being_woken_in_vain_loses_no_wake() {
    let mutex = Arc::new(Mutex::new(0));
    let thread = {
        let mutex = mutex.clone();
        runtime(1).run(move || {
            let guard = mutex.lock();
            let theirs = mutex.clone();
            about_to_wait(move || *theirs.try_lock_for(Duration::MAX).unwrap() += 1);
            let theirs = mutex.clone();
            let thread = std::thread::spawn(move || {
                *theirs.lock() += 10;
            });
            drop(guard);
            // The goroutine is woken, but we are faster, and the end of the runtime cancels it.
            std::mem::forget(mutex.lock());
            thread
        })
    };
    assert!(mutex.is_locked());
    // SAFETY: locked by the main goroutine, whose guard is forgotten.
    unsafe { mutex.force_unlock() };
    thread.join().unwrap();
    assert_eq!(*mutex.lock(), 10);
}

#[test]
fn mutex_fair_unlock_hands_over() {
    runtime(1).run(|| {
        let mutex = Arc::new(Mutex::new(0));
        let mut guard = mutex.lock();
        let other = {
            let mutex = mutex.clone();
            about_to_wait(move || {
                let mut guard = mutex.lock();
                *guard += 1;
                urgo::yield_now();
            })
        };
        // It is the next to have it, however fast we come back.
        MutexGuard::bump(&mut guard);
        assert_eq!(*guard, 1);
        drop(guard);
        other.join().unwrap();
        // With nobody waiting it is an unlock like any other.
        MutexGuard::unlock_fair(mutex.lock());
        assert!(!mutex.is_locked());
    });
}

/// Some never let the mutex be free for longer than they need to take it again; one that waits gets it all the same.
#[test]
fn mutex_under_hard_barging_comes_to_every_waiter() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let mutex = Arc::new(Mutex::new(()));
            let over = Arc::new(AtomicBool::new(false));
            let hogs: Vec<_> = (0..3)
                .map(|_| {
                    let (mutex, over) = (mutex.clone(), over.clone());
                    urgo::spawn(move || {
                        while !over.load(Ordering::Relaxed) {
                            let guard = mutex.lock();
                            // Whoever is woken now comes in vain.
                            urgo::yield_now();
                            drop(guard);
                        }
                    })
                })
                .collect();
            let patient: Vec<_> = (0..20)
                .map(|_| {
                    let mutex = mutex.clone();
                    urgo::spawn(move || drop(mutex.lock()))
                })
                .collect();
            wait_until("everyone had it", || {
                patient.iter().all(|goroutine| goroutine.is_finished())
            });
            over.store(true, Ordering::Relaxed);
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        });
    }
}

#[test]
fn mutex_thread_gets_it_among_barging_goroutines() {
    let mutex = Arc::new(Mutex::new(()));
    let over = Arc::new(AtomicBool::new(false));
    let thread = {
        let (mutex, over) = (mutex.clone(), over.clone());
        std::thread::spawn(move || {
            for _ in 0..20 {
                drop(mutex.lock());
            }
            over.store(true, Ordering::Relaxed);
        })
    };
    runtime(2).run(move || {
        urgo::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let _guard = mutex.lock();
                        urgo::yield_now();
                    }
                });
            }
        });
    });
    thread.join().unwrap();
}

#[test]
fn mutex_may_be_freed_by_whoever_locks_it_last() {
    for _ in 0..200 {
        runtime_free_for_all();
    }
}

/// The last of several owners frees the mutex right after unlocking it, while others may still be unlocking.
fn runtime_free_for_all() {
    let mutex = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let mutex = mutex.clone();
            std::thread::spawn(move || *mutex.lock() += 1)
        })
        .collect();
    drop(mutex);
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn mutex_in_a_static_outlives_runtimes() {
    static SHARED: Mutex<u32> = Mutex::new(0);
    for _ in 0..3 {
        runtime(2).run(|| {
            urgo::scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| *SHARED.lock() += 1);
                }
            });
        });
    }
    assert_eq!(*SHARED.lock(), 30);
}
