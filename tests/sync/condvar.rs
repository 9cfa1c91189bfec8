//! `Condvar`: no notification is lost, none counts twice, whoever waits; waits end with the mutex locked.

use crate::support::{Drops, Random, panic_of, runtime, seed, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use urgo::sync::{Condvar, Mutex, MutexGuard};

#[derive(Default)]
struct Pair {
    value: Mutex<usize>,
    changed: Condvar,
}

fn pair() -> Arc<Pair> {
    Arc::default()
}

#[test]
fn condvar_tells_whether_somebody_was_notified() {
    let condvar = Condvar::new();
    assert!(!condvar.notify_one());
    assert_eq!(condvar.notify_all(), 0);
    assert_eq!(size_of::<Condvar>(), 4);
    assert_eq!(format!("{condvar:?}"), "Condvar { .. }");
    let pair = pair();
    let theirs = pair.clone();
    let thread = std::thread::spawn(move || theirs.changed.wait(&mut theirs.value.lock()));
    wait_until("it waits and is notified", || pair.changed.notify_one());
    thread.join().unwrap();
    assert!(!pair.changed.notify_one());
}

#[test]
fn condvar_waits_end_with_the_mutex_locked() {
    let body = || {
        let pair = pair();
        let mut guard = pair.value.lock();
        let before = Instant::now();
        let short = Duration::from_millis(2);
        assert!(pair.changed.wait_for(&mut guard, short).timed_out());
        assert!(before.elapsed() >= short && pair.value.is_locked());
        let soon = Instant::now() + short;
        assert!(pair.changed.wait_until(&mut guard, soon).timed_out());
        assert!(Instant::now() >= soon);
        let soon = urgo::time::Instant::now() + short;
        assert!(pair.changed.wait_until(&mut guard, soon).timed_out());
        let result = pair.changed.wait_while_for(&mut guard, |v| *v == 0, short);
        assert!(result.timed_out());
        let result = pair.changed.wait_while_for(&mut guard, |v| *v == 1, short);
        assert!(!result.timed_out());
        let result = pair
            .changed
            .wait_while_until(&mut guard, |v| *v == 0, Instant::now());
        assert!(result.timed_out() && pair.value.is_locked());
        // The condition is looked at once more when the time is up.
        let mut asked = 0;
        let result = pair.changed.wait_while_for(
            &mut guard,
            |_| {
                asked += 1;
                asked < 2
            },
            short,
        );
        assert!(!result.timed_out());
        let text = panic_of(|| {
            let mut guard = guard;
            pair.changed.wait_while(&mut guard, |_| panic!("planned"));
        });
        assert_eq!(text, "planned");
        assert!(!pair.value.is_locked());
    };
    crate::support::hush_planned_panics();
    body();
    runtime(1).run(body);
}

/// `n` goroutines that wait in `pair` for a turn; one worker, so that they wait when this returns.
fn waiting(
    pair: &Arc<Pair>,
    n: usize,
    order: &Arc<Mutex<Vec<usize>>>,
) -> Vec<urgo::JoinHandle<()>> {
    let come = Arc::new(AtomicUsize::new(0));
    let goroutines = (0..n)
        .map(|_| {
            let (pair, come, order) = (pair.clone(), come.clone(), order.clone());
            urgo::spawn(move || {
                let mut guard = pair.value.lock();
                let i = come.fetch_add(1, Ordering::Relaxed);
                pair.changed.wait(&mut guard);
                order.lock().push(i);
            })
        })
        .collect();
    wait_until("they wait", || come.load(Ordering::Relaxed) == n);
    goroutines
}

#[test]
fn condvar_notifies_one_or_all_that_wait_and_no_more() {
    for holds in [false, true] {
        runtime(1).run(move || {
            let (pair, order) = (pair(), Arc::default());
            let goroutines = waiting(&pair, 8, &order);
            let guard = holds.then(|| pair.value.lock());
            assert!(pair.changed.notify_one() && pair.changed.notify_one());
            drop(guard);
            wait_until("two go", || order.lock().len() == 2);
            for _ in 0..10 {
                urgo::yield_now();
            }
            let mut first = order.lock().clone();
            first.sort_unstable();
            assert_eq!(first, [0, 1], "those that came first");
            let guard = holds.then(|| pair.value.lock());
            assert_eq!(pair.changed.notify_all(), 6);
            assert_eq!(pair.changed.notify_all(), 0);
            drop(guard);
            goroutines.into_iter().for_each(|g| g.join().unwrap());
            assert_eq!(order.lock().len(), 8);
        });
    }
}

#[test]
fn condvar_is_for_goroutines_threads_and_several_runtimes() {
    for workers in [1, 2, 4] {
        let pair = pair();
        let wait = |pair: &Arc<Pair>| {
            let pair = pair.clone();
            move || {
                let mut guard = pair.value.lock();
                pair.changed.wait_while(&mut guard, |value| *value == 0);
                *guard -= 1;
            }
        };
        let mut threads: Vec<_> = (0..4).map(|_| std::thread::spawn(wait(&pair))).collect();
        for _ in 0..2 {
            let waits: Vec<_> = (0..50).map(|_| wait(&pair)).collect();
            threads.push(std::thread::spawn(move || {
                runtime(workers).run(|| {
                    let goroutines: Vec<_> = waits.into_iter().map(urgo::spawn).collect();
                    goroutines.into_iter().for_each(|g| g.join().unwrap());
                });
            }));
        }
        // One notification for each permit, sometimes with the mutex held, sometimes without.
        for i in 0..104 {
            let mut guard = pair.value.lock();
            *guard += 1;
            if i % 2 == 0 {
                drop(guard);
                pair.changed.notify_one();
            } else {
                pair.changed.notify_one();
                drop(guard);
            }
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*pair.value.lock(), 0);
    }
}

/// A bounded queue between producers and consumers, with two condvars on one mutex: every item arrives once. A lost
/// notification would leave somebody waiting for ever.
#[test]
fn condvar_loses_no_notification_between_producers_and_consumers() {
    struct Queue {
        items: Mutex<Vec<u64>>,
        not_empty: Condvar,
        not_full: Condvar,
    }
    for (workers, all) in [(1, false), (2, false), (2, true), (4, false)] {
        let queue = Arc::new(Queue {
            items: Mutex::new(Vec::new()),
            not_empty: Condvar::new(),
            not_full: Condvar::new(),
        });
        let tell = move |condvar: &Condvar| {
            if all {
                condvar.notify_all();
            } else {
                condvar.notify_one();
            }
        };
        let produce = |queue: Arc<Queue>, first: u64| {
            move || {
                for i in 0..500 {
                    let mut items = queue.items.lock();
                    queue.not_full.wait_while(&mut items, |q| q.len() >= 3);
                    items.push(first + i);
                    drop(items);
                    tell(&queue.not_empty);
                }
            }
        };
        let consume = |queue: Arc<Queue>| {
            move || {
                let mut sum = 0;
                for _ in 0..500 {
                    let mut items = queue.items.lock();
                    while items.is_empty() {
                        queue.not_empty.wait(&mut items);
                    }
                    sum += items.remove(0);
                    tell(&queue.not_full);
                }
                sum
            }
        };
        // Two producers and two consumers are threads.
        let makers: Vec<_> = (0..2)
            .map(|i| std::thread::spawn(produce(queue.clone(), i * 1000)))
            .collect();
        let takers: Vec<_> = (0..2)
            .map(|_| std::thread::spawn(consume(queue.clone())))
            .collect();
        let theirs = queue.clone();
        let sum: u64 = runtime(workers).run(move || {
            let makers: Vec<_> = (2..10)
                .map(|i| urgo::spawn(produce(theirs.clone(), i * 1000)))
                .collect();
            let takers: Vec<_> = (2..10)
                .map(|_| urgo::spawn(consume(theirs.clone())))
                .collect();
            makers.into_iter().for_each(|g| g.join().unwrap());
            takers.into_iter().map(|g| g.join().unwrap()).sum()
        });
        makers.into_iter().for_each(|t| t.join().unwrap());
        let rest: u64 = takers.into_iter().map(|t| t.join().unwrap()).sum();
        let expected: u64 = (0..10).map(|i| i * 1000 * 500 + 499 * 500 / 2).sum();
        assert_eq!(sum + rest, expected);
        assert!(queue.items.lock().is_empty());
    }
}

/// Waiters that hold two different mutexes wait in one condvar; all are notified, each comes back with its own.
#[test]
fn condvar_serves_two_mutexes_at_once() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let shared = Arc::new((Mutex::new(0), Mutex::new(0), Condvar::new()));
            let goroutines: Vec<_> = (0..40)
                .map(|i| {
                    let shared = shared.clone();
                    urgo::spawn(move || {
                        let (one, other, condvar) = &*shared;
                        let mutex = if i % 2 == 0 { one } else { other };
                        let mut guard = mutex.lock();
                        while *guard == 0 {
                            condvar.wait(&mut guard);
                        }
                        *guard += 1;
                    })
                })
                .collect();
            urgo::yield_now();
            let (one, other, condvar) = &*shared;
            *other.lock() = 1;
            condvar.notify_all();
            let mut guard = one.lock();
            *guard = 1;
            condvar.notify_all();
            drop(guard);
            goroutines.into_iter().for_each(|g| g.join().unwrap());
            assert_eq!((*one.lock(), *other.lock()), (21, 21));
        });
    }
}

/// Permits handed out under a condvar, with waits that time out at random: a notification is not lost on one whose time
/// was up, so whoever waits without a deadline gets its permit.
#[test]
fn condvar_notifications_are_not_lost_on_those_whose_time_was_up() {
    let seed = seed();
    for workers in [1, 2, 4] {
        let pair = pair();
        let timed_out = Arc::new(AtomicUsize::new(0));
        let (theirs, late) = (pair.clone(), timed_out.clone());
        runtime(workers).run(move || {
            let pair = theirs;
            let over = Arc::new(AtomicBool::new(false));
            let hasty: Vec<_> = (0..50_u64)
                .map(|i| {
                    let (pair, over, late) = (pair.clone(), over.clone(), late.clone());
                    let mut random = Random::new(seed ^ i << 8);
                    urgo::spawn(move || {
                        while !over.load(Ordering::Relaxed) {
                            let timeout = Duration::from_micros(random.below(150));
                            let mut value = pair.value.lock();
                            let waits = *value == 0;
                            if waits && pair.changed.wait_for(&mut value, timeout).timed_out() {
                                late.fetch_add(1, Ordering::Relaxed);
                            } else if *value > 0 {
                                *value -= 1;
                            } else {
                                // The permit was taken by one that came by.
                                continue;
                            }
                            drop(value);
                            let mut value = pair.value.lock();
                            *value += usize::from(random.below(2) == 0);
                            pair.changed.notify_one();
                        }
                    })
                })
                .collect();
            let mut random = Random::new(seed);
            for _ in 0..200 {
                let mut value = pair.value.lock();
                *value += 1;
                pair.changed.notify_one();
                pair.changed.wait_while(&mut value, |value| *value == 0);
                drop(value);
                if random.below(4) == 0 {
                    urgo::sleep(Duration::from_micros(random.below(100)));
                }
            }
            over.store(true, Ordering::Relaxed);
            hasty.into_iter().for_each(|g| g.join().unwrap());
        });
        println!("{} waits timed out", timed_out.load(Ordering::Relaxed));
        assert!(!pair.value.is_locked() && pair.changed.notify_all() == 0);
    }
}

/// Exactly as many notifications as waiters, some of which give up: whoever says that it was notified was, and every
/// notification that was accepted is accounted for.
#[test]
fn condvar_accepted_notifications_are_those_that_waits_report() {
    let seed = seed();
    for workers in [1, 2, 4] {
        let pair = pair();
        let (reported, left) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(100)),
        );
        let theirs = (pair.clone(), reported.clone(), left.clone());
        let accepted = runtime(workers).run(move || {
            let (pair, reported, left) = theirs;
            for i in 0..100_u64 {
                let (pair, reported, left) = (pair.clone(), reported.clone(), left.clone());
                let mut random = Random::new(seed ^ i << 8);
                urgo::spawn(move || {
                    for _ in 0..30 {
                        let timeout = Duration::from_micros(random.below(200));
                        let mut guard = pair.value.lock();
                        if !pair.changed.wait_for(&mut guard, timeout).timed_out() {
                            reported.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    left.fetch_sub(1, Ordering::Relaxed);
                });
            }
            let mut random = Random::new(!seed);
            let mut accepted = 0;
            while left.load(Ordering::Relaxed) > 0 {
                let guard = (random.below(2) == 0).then(|| pair.value.lock());
                accepted += match random.below(3) {
                    0 => pair.changed.notify_all(),
                    _ => usize::from(pair.changed.notify_one()),
                };
                if random.below(3) == 0 {
                    urgo::yield_now();
                }
                drop(guard);
                urgo::sleep(Duration::from_micros(random.below(60)));
            }
            accepted
        });
        assert_eq!(
            reported.load(Ordering::Relaxed),
            accepted,
            "workers {workers}"
        );
    }
}

/// A wait that the end of the runtime cuts short has the mutex while it unwinds, and leaves it free.
#[test]
fn condvar_cancelled_waiters_have_the_mutex_while_they_unwind() {
    struct Leaves<'a, 'b>(&'a mut MutexGuard<'b, usize>, &'a Pair);
    impl Drop for Leaves<'_, '_> {
        fn drop(&mut self) {
            assert!(self.1.value.is_locked());
            **self.0 += 1;
        }
    }
    for workers in [1, 2, 4] {
        let pair = pair();
        let drops = Drops::default();
        let (theirs, unwound) = (pair.clone(), drops.clone());
        runtime(workers).run(move || {
            for _ in 0..100 {
                let (pair, drop) = (theirs.clone(), unwound.guard());
                urgo::spawn(move || {
                    let _drop = drop;
                    let mut guard = pair.value.lock();
                    let leaves = Leaves(&mut guard, &pair);
                    pair.changed.wait(leaves.0);
                    unreachable!("nobody notifies");
                });
            }
            // Some wait in the condvar by now, some have not begun.
            urgo::yield_now();
        });
        assert_eq!(drops.count(), 100);
        assert!(!pair.value.is_locked() && !pair.changed.notify_one());
    }
}

/// Notified, queued for the mutex, and then cancelled: the notification goes to the next, here a thread.
#[test]
fn condvar_cancelled_waiter_passes_its_notification_on() {
    let pair = pair();
    let notified = Arc::new(AtomicBool::new(false));
    let (theirs, told) = (pair.clone(), notified.clone());
    let thread = runtime(1).run(move || {
        let pair = theirs;
        drop(waiting(&pair, 1, &Arc::default()));
        let theirs = pair.clone();
        let come = Arc::new(AtomicBool::new(false));
        let here = come.clone();
        let thread = std::thread::spawn(move || {
            let mut guard = theirs.value.lock();
            here.store(true, Ordering::Relaxed);
            theirs.changed.wait(&mut guard);
            told.store(true, Ordering::Relaxed);
        });
        wait_until("the thread waits", || {
            come.load(Ordering::Relaxed) && !pair.value.is_locked()
        });
        let guard = pair.value.lock();
        assert!(pair.changed.notify_one());
        // It waits for the mutex now, which a thread lets go when the runtime has begun to end.
        let (send, receive) = std::sync::mpsc::channel();
        let theirs = pair.clone();
        std::thread::spawn(move || {
            receive.recv().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            // SAFETY: locked by the main goroutine, whose guard is forgotten.
            unsafe { theirs.value.force_unlock() };
        });
        std::mem::forget(guard);
        send.send(()).unwrap();
        thread
    });
    wait_until("the notification is passed on", || {
        notified.load(Ordering::Relaxed)
    });
    thread.join().unwrap();
    assert!(!pair.value.is_locked());
}

#[test]
fn condvar_barging_lockers_do_not_keep_the_notified_out() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let (pair, over) = (pair(), Arc::new(AtomicBool::new(false)));
            let hogs: Vec<_> = (0..2)
                .map(|_| {
                    let (pair, over) = (pair.clone(), over.clone());
                    urgo::spawn(move || {
                        while !over.load(Ordering::Relaxed) {
                            let guard = pair.value.lock();
                            urgo::yield_now();
                            drop(guard);
                        }
                    })
                })
                .collect();
            let goroutines: Vec<_> = (0..10)
                .map(|_| {
                    let pair = pair.clone();
                    urgo::spawn(move || {
                        let mut guard = pair.value.lock();
                        pair.changed.wait_while(&mut guard, |value| *value == 0);
                    })
                })
                .collect();
            *pair.value.lock() = 1;
            pair.changed.notify_all();
            wait_until("all come back", || {
                goroutines.iter().all(|goroutine| goroutine.is_finished())
            });
            over.store(true, Ordering::Relaxed);
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        });
    }
}
