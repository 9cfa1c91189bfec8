//! Nobody starves: counted in turns, not in time.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use urgo::net::{TcpListener, TcpStream};

use crate::support::runtime;

/// Turns of a pair after which the others must have run. A fair queue needs a few.
const TURNS_MAX: usize = 20_000;

/// A hundred goroutines that each want a few turns, spawned where they are called.
fn hundred(done: &Arc<AtomicUsize>) {
    for _ in 0..100 {
        let done = done.clone();
        drop(urgo::spawn(move || {
            for _ in 0..3 {
                urgo::yield_now();
            }
            done.fetch_add(1, Ordering::SeqCst);
        }));
    }
}

#[test]
fn a_pair_that_yields_for_ever_does_not_starve_a_hundred_others() {
    let turns = runtime(1).run(|| {
        let done = Arc::new(AtomicUsize::new(0));
        let turns = Arc::new(AtomicUsize::new(0));
        let pair: Vec<_> = (0..2)
            .map(|_| {
                let (done, turns) = (done.clone(), turns.clone());
                urgo::spawn(move || {
                    while done.load(Ordering::SeqCst) < 100 {
                        let turn = turns.fetch_add(1, Ordering::SeqCst);
                        assert!(turn < TURNS_MAX, "the others starve");
                        urgo::yield_now();
                    }
                })
            })
            .collect();
        hundred(&done);
        for one in pair {
            one.join().unwrap();
        }
        turns.load(Ordering::SeqCst)
    });
    assert!(turns > 0);
}

/// Two goroutines that hand a byte to and fro through a socket pair: each makes the other ready.
#[test]
fn a_pair_that_plays_ping_pong_for_ever_does_not_starve_a_hundred_others() {
    runtime(1).run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut b, _) = listener.accept().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let echo = urgo::spawn(move || {
            let mut byte = [0];
            while b.read(&mut byte).unwrap() == 1 {
                b.write_all(&byte).unwrap();
            }
        });
        let of = done.clone();
        let ping = urgo::spawn(move || {
            let mut byte = [0];
            let mut turns = 0;
            while of.load(Ordering::SeqCst) < 100 {
                a.write_all(&byte).unwrap();
                a.read_exact(&mut byte).unwrap();
                turns += 1;
                assert!(turns < TURNS_MAX, "the others starve");
            }
        });
        hundred(&done);
        ping.join().unwrap();
        echo.join().unwrap();
    });
}

/// A chain in which each goroutine spawns the next and ends: always fresh work. Those who wait for a turn get it.
#[test]
fn an_endless_chain_of_spawns_does_not_starve_those_who_yield() {
    fn chain(stop: Arc<AtomicBool>, links: Arc<AtomicUsize>) {
        let link = links.fetch_add(1, Ordering::SeqCst);
        assert!(link < 100 * TURNS_MAX, "the others starve");
        if !stop.load(Ordering::SeqCst) {
            let next = stop.clone();
            drop(urgo::spawn(move || chain(next, links)));
        }
    }
    runtime(1).run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let links = Arc::new(AtomicUsize::new(0));
        chain(stop.clone(), links.clone());
        let done = Arc::new(AtomicUsize::new(0));
        hundred(&done);
        while done.load(Ordering::SeqCst) < 100 {
            urgo::yield_now();
        }
        stop.store(true, Ordering::SeqCst);
    });
}

/// Goroutines that yield for ever do not keep sockets and timers from being looked at.
#[test]
fn goroutines_that_yield_for_ever_do_not_starve_sockets_and_timers() {
    runtime(1).run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let turns = Arc::new(AtomicUsize::new(0));
        let spinners: Vec<_> = (0..8)
            .map(|_| {
                let (stop, turns) = (stop.clone(), turns.clone());
                urgo::spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        turns.fetch_add(1, Ordering::SeqCst);
                        urgo::yield_now();
                    }
                })
            })
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut b, _) = listener.accept().unwrap();
        let mut byte = [0];
        for _ in 0..100 {
            a.write_all(b"x").unwrap();
            b.read_exact(&mut byte).unwrap();
            urgo::sleep(std::time::Duration::from_micros(100));
        }
        stop.store(true, Ordering::SeqCst);
        for spinner in spinners {
            spinner.join().unwrap();
        }
        assert!(
            turns.load(Ordering::SeqCst) > 100,
            "they did yield meanwhile"
        );
    });
}

#[test]
fn yield_now_lets_each_of_the_others_run_once() {
    runtime(1).run(|| {
        let order = crate::support::Log::new();
        let started = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..5)
            .map(|n| {
                let (order, started) = (order.clone(), started.clone());
                urgo::spawn(move || {
                    started.fetch_add(1, Ordering::SeqCst);
                    while started.load(Ordering::SeqCst) < 5 {
                        urgo::yield_now();
                    }
                    for round in 0..20 {
                        order.add((round, n));
                        urgo::yield_now();
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        let order = order.entries();
        // All had started: every window of five turns holds all five.
        for window in order[10..90].chunks(5) {
            let mut who: Vec<_> = window.iter().map(|entry| entry.1).collect();
            who.sort_unstable();
            assert_eq!(who, [0, 1, 2, 3, 4], "{order:?}");
        }
    });
}

/// Spawns the next link of a chain that goes on until `stop`, on its own worker, and counts it.
fn chain(stop: Arc<AtomicBool>, links: Arc<AtomicUsize>) {
    if !stop.load(Ordering::SeqCst) {
        links.fetch_add(1, Ordering::SeqCst);
        drop(urgo::spawn_local(move || chain(stop, links)));
    }
}

#[test]
fn an_endless_chain_of_local_goroutines_does_not_starve_a_plain_one() {
    let links = Arc::new(AtomicUsize::new(0));
    let of = links.clone();
    runtime(1).run(move || {
        let stop = Arc::new(AtomicBool::new(false));
        chain(stop.clone(), of.clone());
        let plain = urgo::spawn(move || of.load(Ordering::SeqCst));
        while !plain.is_finished() && links.load(Ordering::SeqCst) < TURNS_MAX {
            urgo::yield_now();
        }
        stop.store(true, Ordering::SeqCst);
        let seen = plain.join().unwrap();
        assert!(seen < TURNS_MAX, "started after {seen} links of the chain");
    });
}

#[test]
fn a_busy_worker_starts_what_plain_threads_spawn_in_batches() {
    const SPAWNED: usize = 2_000;
    let runtime = runtime(1);
    let handle = runtime.handle();
    let turns = runtime.run(move || {
        let started = Arc::new(AtomicUsize::new(0));
        let of = started.clone();
        let spawner = std::thread::spawn(move || {
            for _ in 0..SPAWNED {
                let of = of.clone();
                drop(handle.spawn(move || {
                    of.fetch_add(1, Ordering::SeqCst);
                }));
            }
        });
        // Two that yield keep the run queue full. Turns count only once all are spawned.
        let mut turns = 0;
        let other = started.clone();
        let pair = urgo::spawn(move || {
            while other.load(Ordering::SeqCst) < SPAWNED {
                urgo::yield_now();
            }
        });
        while started.load(Ordering::SeqCst) < SPAWNED {
            turns += usize::from(spawner.is_finished());
            urgo::yield_now();
        }
        pair.join().unwrap();
        spawner.join().unwrap();
        turns
    });
    // One per 61 dispatches would be 61,000 turns of each of the pair.
    assert!(turns < 30_000, "{turns} turns");
}

/// The newest fresh goroutine starts first, but not for ever.
#[test]
fn an_endless_chain_of_newer_goroutines_does_not_starve_the_oldest() {
    fn chain(stop: Arc<AtomicBool>, links: Arc<AtomicUsize>) {
        let link = links.fetch_add(1, Ordering::SeqCst);
        assert!(link < 100 * TURNS_MAX, "the oldest starves");
        if !stop.load(Ordering::SeqCst) {
            drop(urgo::spawn(move || chain(stop, links)));
        }
    }
    runtime(1).run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let links = Arc::new(AtomicUsize::new(0));
        let its_stop = stop.clone();
        let oldest = urgo::spawn(move || its_stop.store(true, Ordering::SeqCst));
        chain(stop.clone(), links.clone());
        // The main goroutine waits, so that nothing but fresh ones is there to run.
        oldest.join().unwrap();
    });
}

/// Connections that wait in the backlog are not taken one by one, with a turn of everybody else in between.
#[test]
fn a_busy_worker_takes_many_waiting_connections_in_one_turn() {
    const CLIENTS: usize = 64;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| std::net::TcpStream::connect(address).unwrap())
        .collect();
    runtime(1).run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let turns = Arc::new(AtomicUsize::new(0));
        let (its_stop, its_turns) = (stop.clone(), turns.clone());
        let busy = urgo::spawn(move || {
            while !its_stop.load(Ordering::SeqCst) {
                its_turns.fetch_add(1, Ordering::SeqCst);
                urgo::yield_now();
            }
        });
        let listener = TcpListener::from(std::os::fd::OwnedFd::from(listener));
        let before = turns.load(Ordering::SeqCst);
        for _ in 0..CLIENTS {
            drop(listener.accept().unwrap());
        }
        let meanwhile = turns.load(Ordering::SeqCst) - before;
        stop.store(true, Ordering::SeqCst);
        busy.join().unwrap();
        // One each is what it was; a slow machine has a turn each 500 µs.
        assert!(meanwhile < CLIENTS, "{meanwhile} turns for {CLIENTS}");
    });
    drop(clients);
}

/// A goroutine that computes for long between its yields is one turn in a request's way, not a dozen.
#[test]
fn an_answer_that_has_come_goes_before_a_goroutine_that_yields() {
    const TRIPS: usize = 50;
    runtime(1).run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let turns = Arc::new(AtomicUsize::new(0));
        let (its_stop, its_turns) = (stop.clone(), turns.clone());
        let hog = urgo::spawn(move || {
            while !its_stop.load(Ordering::SeqCst) {
                its_turns.fetch_add(1, Ordering::SeqCst);
                let start = std::time::Instant::now();
                while start.elapsed() < std::time::Duration::from_micros(200) {
                    std::hint::spin_loop();
                }
                urgo::yield_now();
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut b, _) = listener.accept().unwrap();
        let mut byte = [0];
        let before = turns.load(Ordering::SeqCst);
        for _ in 0..TRIPS {
            a.write_all(b"x").unwrap();
            b.read_exact(&mut byte).unwrap();
        }
        let meanwhile = turns.load(Ordering::SeqCst) - before;
        stop.store(true, Ordering::SeqCst);
        hog.join().unwrap();
        assert!(meanwhile <= 5 * TRIPS, "{meanwhile} turns for {TRIPS}");
    });
}
