//! A goroutine stays on the thread that first ran it: what safe code keeps across a wait is as sound as in a thread.
//!
//! Thousands of goroutines on four workers hold what must not cross threads (`Rc`, borrows of thread-locals, lock guards,
//! errno) over yields, sleeps, joins and socket calls, while fresh goroutines are stolen all the time. `URGO_TEST_SEED`
//! repeats a run.

mod support;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use urgo::net::{TcpListener, TcpStream};

use support::{Random, runtime, seed};

thread_local! {
    /// Goroutines of this thread, by number: each writes its own entry only.
    static ENTRIES: RefCell<HashMap<u64, u64>> = RefCell::new(HashMap::new());
    static OF_THREAD: Cell<Option<ThreadId>> = const { Cell::new(None) };
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn thread() -> ThreadId {
    std::thread::current().id()
}

fn errno() -> i32 {
    // SAFETY: the address is the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}

/// A wait of a random kind.
fn wait(random: &mut Random, socket: &mut Option<(TcpStream, TcpStream)>) {
    match random.below(10) {
        0..5 => urgo::yield_now(),
        5 | 6 => urgo::sleep(Duration::from_micros(random.below(200))),
        7 => {
            let n = random.next();
            assert_eq!(urgo::spawn(move || n).join().unwrap(), n);
        }
        8 => {
            let n = random.next();
            let child = urgo::spawn(move || {
                urgo::yield_now();
                n
            });
            urgo::yield_now();
            assert_eq!(child.join().unwrap(), n);
        }
        _ => match socket {
            Some((a, b)) => {
                let byte = [random.next() as u8];
                a.write_all(&byte).unwrap();
                let mut got = [0];
                b.read_exact(&mut got).unwrap();
                assert_eq!(got, byte);
            }
            None => urgo::yield_now(),
        },
    }
}

/// Runs `body(n, random)` in `count` goroutines on four workers, spawned from many places so that there is much to steal;
/// returns how many were stolen.
fn flood(seed: u64, count: u64, body: fn(u64, &mut Random)) -> u64 {
    runtime(4).run(move || {
        const PER_SPAWNER: u64 = 50;
        let spawners: Vec<_> = (0..count / PER_SPAWNER)
            .map(|s| {
                urgo::spawn(move || {
                    let handles: Vec<_> = (0..PER_SPAWNER)
                        .map(|n| {
                            let number = s * PER_SPAWNER + n;
                            urgo::spawn(move || {
                                let mut random = Random::new(seed ^ (number << 20));
                                let home = thread();
                                body(number, &mut random);
                                assert_eq!(thread(), home, "moved after its first statement");
                            })
                        })
                        .collect();
                    for handle in handles {
                        handle.join().unwrap();
                    }
                })
            })
            .collect();
        for spawner in spawners {
            spawner.join().unwrap();
        }
        let metrics = urgo::debug::metrics();
        metrics.workers.iter().map(|worker| worker.stolen).sum()
    })
}

#[test]
fn a_goroutine_keeps_its_thread_from_its_first_statement_on() {
    let stolen = flood(seed(), 4000, |_, random| {
        let home = thread();
        let worker = urgo::current().worker();
        for _ in 0..10 {
            wait(random, &mut None);
            assert_eq!((thread(), urgo::current().worker()), (home, worker));
        }
    });
    println!("{stolen} stolen");
    assert!(stolen > 0, "nothing was stolen, so nothing was shown");
}

#[test]
fn an_rc_is_counted_rightly_across_waits() {
    flood(seed(), 4000, |number, random| {
        let root = Rc::new(Cell::new(number));
        let mut copies = vec![root.clone()];
        for _ in 0..10 {
            wait(random, &mut None);
            if random.below(2) == 0 {
                copies.push(root.clone());
            } else {
                copies.pop();
            }
            assert_eq!(Rc::strong_count(&root), copies.len() + 1);
            assert_eq!(root.get(), number);
        }
        let shared = root.clone();
        let child = urgo::spawn_local(move || {
            urgo::yield_now();
            shared.set(shared.get() + 1);
        });
        child.join().unwrap();
        assert_eq!(root.get(), number + 1);
    });
}

#[test]
fn a_borrow_of_a_thread_local_lives_across_waits() {
    flood(seed(), 3000, |number, random| {
        let mine = thread();
        OF_THREAD.with(|cell| {
            // The reference is taken before the waits and used after them.
            assert!(
                cell.get().is_none_or(|id| id == mine),
                "another thread's thread-local"
            );
            cell.set(Some(mine));
            for _ in 0..5 {
                wait(random, &mut None);
                assert_eq!(cell.get(), Some(thread()));
            }
        });
        COUNT.with(|count| {
            for _ in 0..5 {
                let before = count.get();
                count.set(before + 1); // nobody comes in between
                assert_eq!(COUNT.get(), before + 1);
                wait(random, &mut None);
                assert!(count.get() > before);
            }
        });
        ENTRIES.with(|entries| {
            for round in 0..5 {
                entries.borrow_mut().insert(number, round);
                wait(random, &mut None);
                assert_eq!(entries.borrow().get(&number), Some(&round));
            }
            entries.borrow_mut().remove(&number);
        });
    });
}

/// A `RefCell` guard of a thread-local held across waits: others of the same thread see it held, nobody else can.
#[test]
fn a_refcell_guard_of_a_thread_local_is_held_across_waits() {
    thread_local! {
        static HELD: RefCell<Option<u64>> = const { RefCell::new(None) };
    }
    static HELD_TIMES: AtomicUsize = AtomicUsize::new(0);
    flood(seed(), 3000, |number, random| {
        HELD.with(|cell| {
            let Ok(mut guard) = cell.try_borrow_mut() else {
                urgo::yield_now();
                return;
            };
            assert_eq!(*guard, None, "two hold one guard");
            *guard = Some(number);
            wait(random, &mut None);
            wait(random, &mut None);
            assert_eq!(*guard, Some(number));
            *guard = None;
            HELD_TIMES.fetch_add(1, Ordering::SeqCst);
        });
    });
    assert!(HELD_TIMES.load(Ordering::SeqCst) >= 4);
}

/// Guards of std mutexes, which must be let go on the thread that took them, held across waits; the others only try.
#[test]
fn a_guard_of_a_std_mutex_is_held_across_waits() {
    static LOCKS: [Mutex<Option<u64>>; 16] = [const { Mutex::new(None) }; 16];
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    flood(seed(), 3000, |number, random| {
        for _ in 0..20 {
            let lock = &LOCKS[random.below(16) as usize];
            let Ok(mut guard) = lock.try_lock() else {
                assert!(!lock.is_poisoned());
                urgo::yield_now();
                continue;
            };
            assert_eq!(guard.replace(number), None);
            let home = thread();
            wait(random, &mut None);
            wait(random, &mut None);
            assert_eq!(thread(), home);
            assert_eq!(guard.take(), Some(number));
            TAKEN.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(TAKEN.load(Ordering::SeqCst) >= 16);
}

/// errno is the thread's: a waiting goroutine finds there what the last one of its thread left, and never another thread's.
/// The compiler may keep its address across the wait, which is right because the thread stays.
#[test]
fn the_address_of_errno_stays_right_across_waits() {
    flood(seed(), 3000, |number, random| {
        // SAFETY: asks for an address only.
        let address = unsafe { libc::__errno_location() } as usize;
        for _ in 0..5 {
            let mine = 1000 + number as i32;
            set_errno(mine);
            assert_eq!(errno(), mine);
            wait(random, &mut None);
            // SAFETY: as above.
            assert_eq!(unsafe { libc::__errno_location() } as usize, address);
            // A failed call writes it where we look for it.
            // SAFETY: no descriptor has this number; the call only fails.
            let result = unsafe { libc::close(-1) };
            assert_eq!((result, errno()), (-1, libc::EBADF));
        }
    });
}

#[test]
fn all_of_it_holds_across_socket_waits_too() {
    flood(seed(), 300, |number, random| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (b, _) = listener.accept().unwrap();
        let mut socket = Some((a, b));
        let home = thread();
        let rc = Rc::new(number);
        ENTRIES.with(|entries| {
            for round in 0..20 {
                entries.borrow_mut().insert(number, round);
                let copy = rc.clone();
                wait(random, &mut socket);
                assert_eq!(Rc::strong_count(&rc), 2);
                assert_eq!(*copy, number);
                assert_eq!(thread(), home);
                assert_eq!(entries.borrow().get(&number), Some(&round));
            }
        });
    });
}
