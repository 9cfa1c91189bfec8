//! Readers and writers: who excludes whom, in which order, and nobody starves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::sync::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

use crate::support::{Log, Random, hush_planned_panics, runtime, seed, wait_until};

#[test]
fn readers_share_and_a_writer_has_it_alone() {
    let lock = RwLock::new(1);
    {
        let (a, b) = (lock.read(), lock.try_read().unwrap());
        assert_eq!(*a + *b, 2);
        assert!(lock.try_write().is_none() && lock.is_locked() && !lock.is_locked_exclusive());
    }
    {
        let mut writer = lock.write();
        *writer = 2;
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        assert!(lock.is_locked_exclusive());
    }
    assert!(!lock.is_locked());
    assert_eq!(lock.into_inner(), 2);
}

#[test]
fn a_panic_lets_go_and_poisons_nothing() {
    hush_planned_panics();
    let lock = Arc::new(RwLock::new(0));
    runtime(1).run(|| {
        for is_writer in [true, false] {
            let lock = lock.clone();
            let handle = urgo::spawn(move || {
                let _guards = if is_writer {
                    (Some(lock.write()), None)
                } else {
                    (None, Some(lock.read()))
                };
                panic!("planned");
            });
            assert!(handle.join().is_err());
        }
        *lock.write() += 1;
        assert_eq!(*lock.read(), 1);
    });
}

#[test]
fn waits_for_a_time_only_and_takes_nothing() {
    let check = || {
        let lock = RwLock::new(0);
        let pause = Duration::from_millis(2);
        let reader = lock.read();
        let start = Instant::now();
        assert!(lock.try_write_for(pause).is_none());
        assert!(start.elapsed() >= pause);
        assert!(lock.try_write_until(start).is_none());
        assert!(
            lock.try_read_for(Duration::ZERO).is_some(),
            "no writer is left behind"
        );
        drop(reader);
        let writer = lock.write();
        assert!(lock.try_read_for(pause).is_none());
        assert!(lock.try_read_until(Instant::now() + pause).is_none());
        assert!(lock.try_upgradable_read_for(pause).is_none());
        assert!(lock.try_read_recursive_for(pause).is_none());
        drop(writer);
        assert!(!lock.is_locked());
    };
    check();
    runtime(1).run(check);
}

#[test]
fn upgrades_and_downgrades_keep_the_lock_throughout() {
    let lock = Arc::new(RwLock::new(0));
    let first = lock.upgradable_read();
    assert!(lock.try_upgradable_read().is_none(), "one at a time");
    let reader = lock.read();
    let first = RwLockUpgradableReadGuard::try_upgrade(first).unwrap_err();
    let first = RwLockUpgradableReadGuard::try_upgrade_for(first, Duration::from_millis(2));
    let first = first.unwrap_err();
    drop(reader);
    let mut writer = RwLockUpgradableReadGuard::upgrade(first);
    *writer += 1;
    assert!(lock.try_read().is_none());
    let upgradable = RwLockWriteGuard::downgrade_to_upgradable(writer);
    assert!(lock.try_read().is_some() && lock.try_upgradable_read().is_none());
    let reader = RwLockUpgradableReadGuard::downgrade(upgradable);
    assert!(lock.try_upgradable_read().is_some() && lock.try_write().is_none());
    drop(reader);
    let reader = RwLockWriteGuard::downgrade(lock.write());
    assert!(lock.try_read().is_some() && lock.try_write().is_none());
    drop(reader);
    assert!(lock.try_write().is_some());
}

#[test]
fn guards_can_be_mapped_and_owned() {
    let lock = Arc::new(RwLock::new((1, String::from("x"))));
    {
        let part = RwLockReadGuard::map(lock.read(), |pair| &pair.1);
        assert_eq!(*part, "x");
        assert!(lock.try_write().is_none());
    }
    {
        let mut part = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0);
        *part += 1;
    }
    let owned = lock.read_arc();
    assert_eq!(Arc::strong_count(&lock), 2);
    assert_eq!(owned.0, 2);
    drop(owned);
    lock.write_arc().0 += 1;
    assert_eq!(lock.read().0, 3);
}

/// On one worker: spawns what announces itself and then waits for the lock, and returns when it waits.
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
fn readers_queue_behind_a_waiting_writer_and_go_in_together() {
    runtime(1).run(|| {
        let lock = Arc::new(RwLock::new(()));
        let log = Log::new();
        let inside = Arc::new(AtomicUsize::new(0));
        let first = lock.read();
        let mut handles = Vec::new();
        for name in ["writer", "reader", "reader", "last writer"] {
            let (lock, log, inside) = (lock.clone(), log.clone(), inside.clone());
            handles.push(spawn_waiting(move || {
                if name == "reader" {
                    let _reader = lock.read();
                    inside.fetch_add(1, Ordering::SeqCst);
                    // Each waits for the other, inside.
                    wait_until("the other reader", || inside.load(Ordering::SeqCst) == 2);
                    log.add(name);
                } else {
                    let _writer = lock.write();
                    log.add(name);
                }
            }));
        }
        assert!(lock.try_read().is_none(), "a writer waits");
        // Who reads already may go on reading.
        drop(lock.read_recursive());
        assert!(lock.try_read_recursive().is_some());
        drop(first);
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(log.entries(), ["writer", "reader", "reader", "last writer"]);
    });
}

#[test]
fn an_upgrade_goes_before_writers_that_wait() {
    runtime(1).run(|| {
        let lock = Arc::new(RwLock::new(0));
        let upgradable = lock.upgradable_read();
        let reader = lock.clone().read_arc();
        let other = lock.clone();
        let writer = spawn_waiting(move || {
            let mut value = other.write();
            assert_eq!(*value, 1);
            *value = 2;
        });
        let held = spawn_local_later(reader);
        *RwLockUpgradableReadGuard::upgrade(upgradable) = 1;
        writer.join().unwrap();
        held.join().unwrap();
        assert_eq!(*lock.read(), 2);
    });
}

/// Drops `value` a few turns later, on the same worker.
fn spawn_local_later<T: 'static>(value: T) -> urgo::JoinHandle<()> {
    urgo::spawn_local(move || {
        for _ in 0..5 {
            urgo::yield_now();
        }
        drop(value);
    })
}

#[test]
fn those_behind_a_writer_that_gave_up_move_up() {
    runtime(1).run(|| {
        let lock = Arc::new(RwLock::new(()));
        let first = lock.read();
        let other = lock.clone();
        let writer = spawn_waiting(move || {
            assert!(other.try_write_for(Duration::from_millis(5)).is_none());
        });
        // Behind the writer; the first reader never lets go.
        drop(lock.read());
        writer.join().unwrap();
        drop(first);
    });
    // And one that was cancelled, with a thread behind it.
    let lock = Arc::new(RwLock::new(()));
    let first = lock.clone().read_arc();
    let thread = runtime(1).run(|| {
        let other = lock.clone();
        drop(spawn_waiting(move || {
            drop(other.try_write_for(Duration::MAX))
        }));
        assert!(lock.try_read().is_none());
        let other = lock.clone();
        let begun = Arc::new(AtomicBool::new(false));
        let said = begun.clone();
        let thread = std::thread::spawn(move || {
            said.store(true, Ordering::SeqCst);
            drop(other.read());
        });
        wait_until("the thread", || begun.load(Ordering::SeqCst));
        thread
    });
    thread.join().unwrap();
    drop(first);
    assert!(lock.try_write().is_some());
}

/// Letting go fairly hands the lock over: who let go and comes again at once is behind those that waited.
#[test]
fn unlocking_fairly_hands_over() {
    runtime(1).run(|| {
        let lock = Arc::new(RwLock::new(0));
        let mut guard = lock.write();
        let other = lock.clone();
        let writer = spawn_waiting(move || *other.write() = 1);
        RwLockWriteGuard::bump(&mut guard);
        assert_eq!(*guard, 1);
        drop(guard);
        writer.join().unwrap();
        let upgradable = lock.upgradable_read();
        let other = lock.clone();
        let writer = spawn_waiting(move || *other.write() = 2);
        RwLockUpgradableReadGuard::unlock_fair(upgradable);
        assert!(lock.try_write().is_none(), "it was handed over");
        writer.join().unwrap();
        assert_eq!(*lock.read(), 2);
    });
}

/// Readers that always overlap do not keep a writer out, nor writers that always queue a reader.
#[test]
fn neither_side_starves() {
    for workers in [1, 2, 4] {
        runtime(workers).run(|| {
            let lock = Arc::new(RwLock::new(()));
            for is_writer in [true, false] {
                let is_over = Arc::new(AtomicBool::new(false));
                let crowd: Vec<_> = (0..8)
                    .map(|_| {
                        let (lock, is_over) = (lock.clone(), is_over.clone());
                        urgo::spawn(move || {
                            while !is_over.load(Ordering::SeqCst) {
                                let _guards = if is_writer {
                                    (Some(lock.read()), None)
                                } else {
                                    (None, Some(lock.write()))
                                };
                                urgo::yield_now();
                            }
                        })
                    })
                    .collect();
                for _ in 0..20 {
                    if is_writer {
                        drop(lock.write());
                    } else {
                        drop(lock.read());
                    }
                }
                is_over.store(true, Ordering::SeqCst);
                for one in crowd {
                    one.join().unwrap();
                }
            }
        });
    }
}

#[test]
fn threads_and_goroutines_hammer_one_lock() {
    static LOCK: RwLock<(u64, u64)> = RwLock::new((0, 0));
    let seed = seed();
    let mut written = 0;
    for workers in [1, 2, 4] {
        let writes = Arc::new(AtomicUsize::new(0));
        let work = |mut random: Random, writes: Arc<AtomicUsize>, rounds: u32| {
            move || {
                for _ in 0..rounds {
                    let write = |mut pair: RwLockWriteGuard<'_, (u64, u64)>| {
                        pair.0 += 1;
                        urgo::yield_now();
                        pair.1 += 1;
                        writes.fetch_add(1, Ordering::Relaxed);
                    };
                    let time = Duration::from_micros(random.below(100));
                    match random.below(8) {
                        0 => write(LOCK.write()),
                        1 => LOCK.try_write_for(time).into_iter().for_each(write),
                        2 => LOCK.try_write().into_iter().for_each(write),
                        3 => {
                            let pair = LOCK.upgradable_read();
                            let before = pair.0;
                            urgo::yield_now();
                            let pair = RwLockUpgradableReadGuard::upgrade(pair);
                            assert_eq!((before, before), *pair);
                            write(pair);
                        }
                        4 => {
                            if let Some(pair) = LOCK.try_read_for(time) {
                                assert_eq!(pair.0, pair.1);
                            }
                        }
                        5 => {
                            let outer = LOCK.read();
                            urgo::yield_now();
                            assert_eq!(*outer, *LOCK.read_recursive());
                        }
                        _ => {
                            let pair = LOCK.read();
                            let before = *pair;
                            urgo::yield_now();
                            assert_eq!((before.0, before), (before.1, *pair));
                        }
                    }
                }
            }
        };
        let threads: Vec<_> = (0..4)
            .map(|i| std::thread::spawn(work(Random::new(seed ^ i), writes.clone(), 300)))
            .collect();
        runtime(workers).run(|| {
            let handles: Vec<_> = (0..100)
                .map(|i| urgo::spawn(work(Random::new(seed ^ (i + 50)), writes.clone(), 100)))
                .collect();
            for handle in handles {
                handle.join().unwrap();
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
        written += writes.load(Ordering::Relaxed) as u64;
        assert_eq!(*LOCK.read(), (written, written));
        assert!(!LOCK.is_locked());
    }
}
