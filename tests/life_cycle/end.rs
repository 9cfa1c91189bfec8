//! The end of a run: every goroutine that is left is unwound in spawn order, from whatever it waits for.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use urgo::JoinError;
use urgo::go::{Builder, Placement};
use urgo::net::{TcpListener, TcpStream};

use crate::support::{
    Drops, Log, OnDrop, Random, alone, hush_planned_panics, message, panic_of, runtime, seed,
    wait_until,
};

/// A listener on 127.0.0.1 whose queue is full, so that a further connect waits; keep what is returned.
fn full_listener() -> (std::net::SocketAddr, Vec<std::net::TcpStream>) {
    use socket2::{Domain, Socket, Type};
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut keep = vec![std::net::TcpStream::from(listener)];
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(50))
    {
        keep.push(stream);
    }
    (address, keep)
}

/// What a goroutine does when the end comes.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Sleep,
    SleepForEver,
    Join,
    Accept,
    Read,
    Connect,
    Yield,
}

const WAITS: [Wait; 7] = [
    Wait::Sleep,
    Wait::SleepForEver,
    Wait::Join,
    Wait::Accept,
    Wait::Read,
    Wait::Connect,
    Wait::Yield,
];

fn wait_for_ever(wait: Wait, full: std::net::SocketAddr) {
    match wait {
        Wait::Sleep => urgo::sleep(Duration::from_secs(3600)),
        Wait::SleepForEver => urgo::sleep(Duration::MAX),
        Wait::Join => {
            let sleeper = urgo::spawn(|| urgo::sleep(Duration::MAX));
            let _ = sleeper.join();
        }
        Wait::Accept => drop(TcpListener::bind("127.0.0.1:0").unwrap().accept()),
        Wait::Read => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _b = listener.accept().unwrap();
            let _ = a.read(&mut [0; 16]);
        }
        Wait::Connect => drop(TcpStream::connect(full)),
        Wait::Yield => loop {
            urgo::yield_now();
        },
    }
    panic!("{wait:?} was not cut short");
}

fn unwound_in_spawn_order(workers: usize, placement: fn(usize) -> Placement) {
    let (full, _keep) = full_listener();
    let order = Log::new();
    let ready = Arc::new(AtomicUsize::new(0));
    let count = 4 * WAITS.len();
    runtime(workers).run(|| {
        for n in 0..count {
            let (order, ready) = (order.clone(), ready.clone());
            let builder = Builder::new().placement(placement(n));
            let spawned = builder.spawn(move || {
                let _guard = OnDrop(|| order.add(n));
                ready.fetch_add(1, Ordering::SeqCst);
                wait_for_ever(WAITS[n % WAITS.len()], full);
            });
            drop(spawned.unwrap());
        }
        wait_until("all wait", || ready.load(Ordering::SeqCst) == count);
        // Most of them are in the kernel by now; those that are not end at their next wait.
        urgo::sleep(Duration::from_millis(20));
    });
    assert_eq!(order.entries(), Vec::from_iter(0..count));
}

#[test]
fn whatever_goroutines_wait_for_they_are_unwound_in_spawn_order_on_one_worker() {
    unwound_in_spawn_order(1, |_| Placement::Auto);
}

#[test]
fn whatever_goroutines_wait_for_they_are_unwound_in_spawn_order_on_two_workers() {
    unwound_in_spawn_order(2, |n| Placement::Worker(n % 2));
    unwound_in_spawn_order(2, |_| Placement::Auto);
}

/// A goroutine in a blocking call cannot be cut short. The others must not wait for it: its call returns only when a
/// goroutine that was spawned after it has been unwound.
#[test]
fn a_blocking_call_does_not_hold_up_the_unwinding_of_others() {
    let drops = Drops::default();
    let timed_out = Arc::new(AtomicBool::new(false));
    for workers in [1, 2] {
        let before = drops.count();
        runtime(workers).run(|| {
            let is_released = Arc::new(AtomicBool::new(false));
            let is_blocked = Arc::new(AtomicBool::new(false));
            let (released, blocked, guard) =
                (is_released.clone(), is_blocked.clone(), drops.guard());
            let timed_out = timed_out.clone();
            drop(urgo::spawn(move || {
                let _guard = guard;
                urgo::blocking(|| {
                    blocked.store(true, Ordering::SeqCst);
                    let started = std::time::Instant::now();
                    while !released.load(Ordering::SeqCst) {
                        if started.elapsed() > Duration::from_secs(10) {
                            timed_out.store(true, Ordering::SeqCst);
                            return;
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                urgo::yield_now();
                panic!("went on after its runtime's end");
            }));
            wait_until("the blocking call", || is_blocked.load(Ordering::SeqCst));
            let is_parked = Arc::new(AtomicBool::new(false));
            let parked = is_parked.clone();
            drop(urgo::spawn(move || {
                let _guard = OnDrop(|| is_released.store(true, Ordering::SeqCst));
                parked.store(true, Ordering::SeqCst);
                urgo::sleep(Duration::MAX);
            }));
            wait_until("the sleeper", || is_parked.load(Ordering::SeqCst));
        });
        assert_eq!(drops.count(), before + 1);
        assert!(
            !timed_out.load(Ordering::SeqCst),
            "the later goroutine was not cancelled"
        );
    }
}

#[test]
fn a_scope_in_a_cancelled_goroutine_outlives_its_children() {
    for workers in [1, 2] {
        let order = Log::new();
        runtime(workers).run(|| {
            let order = order.clone();
            let parked = Arc::new(AtomicUsize::new(0));
            let of = parked.clone();
            drop(urgo::spawn(move || {
                let _guard = OnDrop(|| order.add("parent"));
                let lent = AtomicUsize::new(0);
                urgo::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| {
                            let _guard = OnDrop(|| {
                                lent.fetch_add(1, Ordering::SeqCst);
                                order.add("child");
                            });
                            of.fetch_add(1, Ordering::SeqCst);
                            urgo::sleep(Duration::MAX);
                        });
                    }
                });
                panic!("went on after its runtime's end");
            }));
            wait_until("the children", || parked.load(Ordering::SeqCst) == 3);
        });
        assert_eq!(order.entries(), ["child", "child", "child", "parent"]);
    }
}

#[test]
fn a_goroutine_that_catches_its_cancellation_is_cut_short_at_its_next_wait_again() {
    let (caught, passed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let drops = Drops::default();
    runtime(1).run(|| {
        let (caught, passed, guard) = (caught.clone(), passed.clone(), drops.guard());
        let parked = Arc::new(AtomicBool::new(false));
        let of = parked.clone();
        drop(urgo::spawn(move || {
            let _guard = guard;
            of.store(true, Ordering::SeqCst);
            for n in 0..40 {
                let wait = || match n % 4 {
                    0 => urgo::sleep(Duration::MAX),
                    1 => urgo::yield_now(),
                    2 => drop(TcpListener::bind("127.0.0.1:0").map(|l| l.accept().map(|_| ()))),
                    _ => urgo::safepoint(),
                };
                if catch_unwind(AssertUnwindSafe(wait)).is_err() {
                    caught.fetch_add(1, Ordering::SeqCst);
                }
            }
            urgo::sleep(Duration::MAX);
            passed.fetch_add(1, Ordering::SeqCst);
        }));
        wait_until("it waits", || parked.load(Ordering::SeqCst));
        urgo::sleep(Duration::from_millis(1));
    });
    assert_eq!(drops.count(), 1);
    assert_eq!(caught.load(Ordering::SeqCst), 40, "every wait is cut short");
    assert_eq!(passed.load(Ordering::SeqCst), 0);
}

/// Cleaning up may take waits: they are not cut short, and the others are cancelled all the same meanwhile.
#[test]
fn waits_inside_a_drop_are_waited_out_during_the_end() {
    for workers in [1, 2] {
        let log = Log::new();
        let went_on = Arc::new(AtomicUsize::new(0));
        runtime(workers).run(|| {
            let parked = Arc::new(AtomicUsize::new(0));
            for n in 0..4 {
                let (log, parked, went_on) = (log.clone(), parked.clone(), went_on.clone());
                drop(urgo::spawn(move || {
                    let _guard = OnDrop(|| {
                        let started = std::time::Instant::now();
                        urgo::sleep(Duration::from_millis(3));
                        assert!(started.elapsed() >= Duration::from_millis(3));
                        urgo::yield_now();
                        assert_eq!(urgo::blocking(|| 5), 5);
                        log.add(n);
                    });
                    parked.fetch_add(1, Ordering::SeqCst);
                    urgo::sleep(Duration::MAX);
                    went_on.fetch_add(1, Ordering::SeqCst);
                }));
            }
            wait_until("all wait", || parked.load(Ordering::SeqCst) == 4);
        });
        let mut ended = log.entries();
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2, 3], "{workers} workers");
        assert_eq!(
            went_on.load(Ordering::SeqCst),
            0,
            "a sleep without end ended"
        );
    }
}

/// A goroutine that is being cancelled may say good-bye: its calls in a `Drop` end, with an error or without.
#[test]
fn socket_calls_inside_a_drop_come_to_an_end_during_the_end() {
    for workers in [1, 2] {
        let log = Log::new();
        runtime(workers).run(|| {
            let parked = Arc::new(AtomicUsize::new(0));
            for _ in 0..4 {
                let (log, parked) = (log.clone(), parked.clone());
                drop(urgo::spawn(move || {
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    let address = listener.local_addr().unwrap();
                    let mut a = TcpStream::connect(address).unwrap();
                    let (mut b, _) = listener.accept().unwrap();
                    let _guard = OnDrop(|| {
                        let wrote = b.write(b"bye").is_ok();
                        let read = b.read(&mut [0]).is_ok(); // nobody writes to it
                        let accepted = listener.accept().is_ok(); // nobody connects
                        log.add((wrote, read, accepted));
                    });
                    parked.fetch_add(1, Ordering::SeqCst);
                    let _ = a.read(&mut [0; 3]);
                }));
            }
            wait_until("all wait", || parked.load(Ordering::SeqCst) == 4);
        });
        let all = log.entries();
        assert_eq!(all.len(), 4);
        assert!(
            all.iter().all(|&(_, read, accepted)| !read && !accepted),
            "{all:?}"
        );
    }
}

#[test]
fn a_spawn_during_the_end_is_refused() {
    let ran = Arc::new(AtomicBool::new(false));
    let seen = Log::new();
    let drops = Drops::default();
    runtime(2).run(|| {
        let parked = Arc::new(AtomicBool::new(false));
        let (of, ran, seen, drops) = (parked.clone(), ran.clone(), seen.clone(), drops.clone());
        drop(urgo::spawn(move || {
            let _guard = OnDrop(|| {
                let (ran_by_spawn, guard) = (ran.clone(), drops.guard());
                let late = urgo::spawn(move || {
                    ran_by_spawn.store(true, Ordering::SeqCst);
                    drop(guard);
                });
                seen.add(late.is_finished());
                seen.add(matches!(late.join(), Err(JoinError::Cancelled)));
                let ran = ran.clone();
                let late = urgo::Handle::current().spawn(move || ran.store(true, Ordering::SeqCst));
                seen.add(matches!(late.join(), Err(JoinError::Cancelled)));
            });
            of.store(true, Ordering::SeqCst);
            urgo::sleep(Duration::MAX);
        }));
        wait_until("it waits", || parked.load(Ordering::SeqCst));
    });
    assert_eq!(seen.entries(), [true, true, true]);
    assert!(!ran.load(Ordering::SeqCst));
    assert_eq!(drops.count(), 1, "the refused closure was dropped");
}

#[test]
fn goroutines_that_never_started_are_dropped_with_their_closures() {
    let drops = Drops::default();
    let ran = Arc::new(AtomicUsize::new(0));
    runtime(1).run(|| {
        for _ in 0..1000 {
            let (guard, ran) = (drops.guard(), ran.clone());
            drop(urgo::spawn(move || {
                let _guard = guard;
                ran.fetch_add(1, Ordering::SeqCst);
            }));
        }
    });
    assert_eq!(drops.count(), 1000);
    assert!(ran.load(Ordering::SeqCst) <= 1000);
}

#[test]
fn the_main_goroutines_panic_comes_out_after_the_cleaning_up() {
    hush_planned_panics();
    let drops = Drops::default();
    let payload = catch_unwind(AssertUnwindSafe(|| {
        runtime(2).run(|| {
            let parked = Arc::new(AtomicUsize::new(0));
            for _ in 0..10 {
                let (guard, parked) = (drops.guard(), parked.clone());
                drop(urgo::spawn(move || {
                    let _guard = guard;
                    parked.fetch_add(1, Ordering::SeqCst);
                    urgo::sleep(Duration::MAX);
                }));
            }
            wait_until("all wait", || parked.load(Ordering::SeqCst) == 10);
            panic!("planned, of main");
        })
    }))
    .unwrap_err();
    assert_eq!(message(&*payload), "planned, of main");
    assert_eq!(drops.count(), 10);
    let said = panic_of(|| urgo::run(|| std::panic::panic_any("planned text")));
    assert_eq!(said, "planned text");
}

#[test]
fn handles_that_outlive_the_runtime_keep_their_results() {
    let drops = Drops::default();
    let (kept, cancelled, panicked, unwanted) = runtime(2).run(|| {
        let guard = drops.guard();
        let kept = urgo::spawn(move || (guard, String::from("kept"), [7_u8; 500]));
        let cancelled = urgo::spawn(|| urgo::sleep(Duration::MAX));
        let panicked = urgo::spawn(|| {
            crate::support::hush_planned_panics();
            panic!("planned");
        });
        let guard = drops.guard();
        let unwanted = urgo::spawn(move || guard);
        wait_until("they end", || {
            kept.is_finished() && panicked.is_finished() && unwanted.is_finished()
        });
        (kept, cancelled, panicked, unwanted)
    });
    assert!(cancelled.is_finished());
    assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
    let (guard, text, bytes) = kept.join().unwrap();
    assert_eq!((text.as_str(), bytes[499]), ("kept", 7));
    drop(guard);
    let error: Result<(), _> = panicked.join();
    assert!(error.unwrap_err().is_panic());
    assert_eq!(drops.count(), 1);
    drop(unwanted);
    assert_eq!(drops.count(), 2);
}

/// Deadlines run out, accepts and reads are cancelled and connections come in at the very moment at which the main
/// goroutine returns.
#[test]
fn ending_while_cancellations_are_in_flight_ends_well_three_hundred_times() {
    let seed = seed();
    alone!(&[("URGO_TEST_SEED", &seed.to_string())], || {
        let mut random = Random::new(crate::support::seed());
        for _ in 0..300 {
            let delay_us = random.below(1500);
            let mut dice = random.clone();
            random.next();
            urgo::Runtime::builder()
                .workers(2)
                .build()
                .unwrap()
                .run(move || {
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    let address = listener.local_addr().unwrap();
                    for _ in 0..4 {
                        let (accepting, timeout_us) =
                            (listener.try_clone().unwrap(), dice.below(1500) + 1);
                        drop(urgo::spawn(move || {
                            let Ok((mut stream, _)) = accepting.accept() else {
                                return;
                            };
                            let limit = Duration::from_micros(timeout_us);
                            stream.set_read_timeout(Some(limit)).unwrap();
                            let _ = stream.read(&mut [0; 64]);
                        }));
                        let limit_us = dice.below(1500) + 1;
                        drop(urgo::spawn(move || {
                            let Ok(mut stream) = TcpStream::connect(address) else {
                                return;
                            };
                            let limit = Duration::from_micros(limit_us);
                            stream.set_read_timeout(Some(limit)).unwrap();
                            let _ = stream.read(&mut [0; 64]);
                        }));
                    }
                    urgo::sleep(Duration::from_micros(delay_us));
                });
        }
    });
}

#[test]
fn a_port_is_free_as_soon_as_run_has_returned() {
    // Another process may take the very port in the instant in which it is free. That is rare; a port that stays busy
    // would be so in every round.
    let mut taken = 0;
    for round in 0..30 {
        let address = listen_and_end(round % 4);
        if let Err(error) = std::net::TcpListener::bind(address) {
            taken += 1;
            assert!(taken <= 3, "round {round}: {error}");
        }
    }
}

/// Runs a server with `clients` connections, ends it, and says where it listened.
fn listen_and_end(clients: usize) -> std::net::SocketAddr {
    runtime(2).run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(Mutex::new(0));
        let of = accepted.clone();
        drop(urgo::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                *of.lock().unwrap() += 1;
                drop(urgo::spawn(move || drop(stream.read(&mut [0; 16]))));
            }
        }));
        let clients: Vec<_> = (0..clients)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        wait_until("all accepted", || {
            *accepted.lock().unwrap() == clients.len()
        });
        address
    })
}

/// A buffer that is flushed in a `Drop` while its goroutine is cancelled reaches the peer: what needs no waiting is done.
#[test]
fn a_flush_in_a_drop_of_a_cancelled_goroutine_loses_nothing() {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut said = String::new();
        peer.read_to_string(&mut said).unwrap();
        said
    });
    runtime(1).run(|| {
        let parked = Arc::new(AtomicUsize::new(0));
        let of = parked.clone();
        drop(urgo::spawn(move || {
            let stream = TcpStream::connect(address).unwrap();
            let mut out = std::io::BufWriter::new(stream);
            out.write_all(b"kept").unwrap();
            of.store(1, Ordering::SeqCst);
            urgo::sleep(Duration::MAX);
        }));
        wait_until("it waits", || parked.load(Ordering::SeqCst) == 1);
    });
    assert_eq!(reader.join().unwrap(), "kept");
}
