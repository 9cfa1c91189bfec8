//! Calls that a deadline, a close or the runtime's end cuts short while the kernel completes them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use urgo::net::{TcpListener, TcpStream};
use urgo_sys::memory::{fd_count, thread_count};

use crate::streams::{pair, raise_descriptor_limit, wait_until_in_flight};
use crate::support::{PATIENCE, Random, alone, runtime, seed};

const POISON: u8 = 0xAA;

/// A listener whose queue is full, so that a further connect waits; keep what is returned.
fn full_listener() -> (SocketAddr, Vec<StdStream>) {
    use socket2::{Domain, Socket, Type};
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut keep = vec![StdStream::from(listener)];
    while let Ok(stream) = StdStream::connect_timeout(&address, Duration::from_millis(50)) {
        keep.push(stream);
    }
    (address, keep)
}

/// One runtime that ends, after a moment, over accepts and connects with and without deadlines.
fn accepts_and_connects(full: SocketAddr, random: &mut Random) {
    let mut dice = random.clone();
    random.next();
    runtime(2).run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener
            .set_accept_timeout(Some(Duration::from_micros(1 + dice.below(300))))
            .unwrap();
        for number in 0..8 {
            let listener = listener.try_clone().unwrap();
            drop(urgo::spawn(move || {
                loop {
                    // Handed over and dropped, or timed out: either way nothing stays.
                    drop(listener.accept());
                }
            }));
            let limit = Duration::from_micros(1 + dice.below(300));
            drop(urgo::spawn(move || {
                loop {
                    // One connects for real, one waits in vain, one is cut short by the end only.
                    let _ = match number % 3 {
                        0 => TcpStream::connect_timeout(&address, limit),
                        1 => TcpStream::connect_timeout(&full, limit),
                        _ => TcpStream::connect(full),
                    };
                }
            }));
        }
        urgo::sleep(Duration::from_micros(dice.below(3000)));
    });
}

/// Scenario 1, for sockets: a call that brings a descriptor and is cut short in flight.
#[test]
fn accepts_and_connects_cut_short_in_flight_leave_no_descriptor() {
    let seed = seed();
    alone!(&[("URGO_TEST_SEED", &seed.to_string())], || {
        let (full, _keep) = full_listener();
        let mut random = Random::new(crate::support::seed());
        // What is made once per process is there after the first.
        accepts_and_connects(full, &mut random);
        let before = fd_count().unwrap();
        for _ in 0..60 {
            accepts_and_connects(full, &mut random);
        }
        assert_eq!(fd_count().unwrap(), before);
    });
}

/// How a client's connection went: served, or ended without. The client speaks first: a kernel may forget a connection whose
/// listener closes in the midst of the handshake, and says so only to whoever sends.
fn visit(address: SocketAddr) -> Option<bool> {
    // Refused: the listener is gone.
    let mut stream = StdStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE / 2)).unwrap();
    let answered = stream.write_all(b"?").and_then(|()| stream.read(&mut [0]));
    match answered {
        Ok(count) => Some(count == 1),
        Err(error) => {
            let is_ended = matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            );
            assert!(is_ended, "a client was left hanging: {error}");
            Some(false)
        }
    }
}

/// Scenario 2, where close and the runtime's end cut the accepts short (for deadlines see `net/deadlines.rs`).
#[test]
fn accepts_cut_short_leave_no_client_hanging() {
    let seed = seed();
    alone!(&[("URGO_TEST_SEED", &seed.to_string())], || {
        let mut random = Random::new(crate::support::seed());
        let (mut served, mut ended) = (0, 0);
        for round in 0..60 {
            // Not where others listen, who might get the port once it is free.
            let listener = TcpListener::bind("127.0.0.9:0").unwrap();
            let address = listener.local_addr().unwrap();
            let clients: Vec<_> = (0..3)
                .map(|_| {
                    std::thread::spawn(move || {
                        std::iter::from_fn(|| visit(address)).collect::<Vec<bool>>()
                    })
                })
                .collect();
            let (end_us, limit_us) = (random.below(3000), 1 + random.below(300));
            runtime(2).run(move || {
                let listener = Arc::new(listener);
                listener
                    .set_accept_timeout(Some(Duration::from_micros(limit_us)))
                    .unwrap();
                for _ in 0..4 {
                    let listener = listener.clone();
                    drop(urgo::spawn(move || {
                        loop {
                            match listener.accept() {
                                Ok((mut stream, _)) => {
                                    let asked = stream.read_exact(&mut [0]);
                                    drop(asked.and_then(|()| stream.write_all(b"!")));
                                }
                                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                                Err(_) => return,
                            }
                        }
                    }));
                }
                urgo::sleep(Duration::from_micros(end_us));
                if round % 2 == 0 {
                    listener.close().unwrap();
                }
            });
            for client in clients {
                let visits = client.join().unwrap();
                let of_these = visits.iter().filter(|&&was_served| was_served).count();
                served += of_these;
                ended += visits.len() - of_these;
            }
        }
        println!("note: {served} clients served, {ended} ended");
        assert!(served > 0);
    });
}

/// Scenario 10: the deadline and the data come together, in slots that are reused all the time.
#[test]
fn a_completion_that_races_its_deadline_reaches_its_own_call_only() {
    let mut random = Random::new(seed());
    let builder = urgo::Runtime::builder().workers(2).ring_entries(16);
    builder.build().unwrap().run(move || {
        let timeouts = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..32_u8)
            .map(|tag| {
                let (stream, mut other) = pair();
                let (mut dice, timeouts) = (random.clone(), timeouts.clone());
                random.next();
                drop(urgo::spawn(move || {
                    for number in 0..100 {
                        urgo::sleep(Duration::from_micros(dice.below(200)));
                        other.write_all(&[tag, number]).unwrap();
                    }
                    other
                }));
                urgo::spawn(move || {
                    stream
                        .set_read_timeout(Some(Duration::from_micros(100)))
                        .unwrap();
                    for number in 0..100 {
                        let mut got = [POISON; 2];
                        let count = loop {
                            match (&stream).read(&mut got) {
                                Ok(count) => break count,
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                                    assert_eq!(got, [POISON; 2], "written after a timeout");
                                    timeouts.fetch_add(1, Ordering::SeqCst);
                                }
                            }
                        };
                        assert_eq!((count, got), (2, [tag, number]));
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert!(timeouts.load(Ordering::SeqCst) > 0, "no deadline passed");
    });
}

/// Scenario 11: the result is there, not yet taken, and is cancelled by the runtime's end.
#[test]
fn an_operation_that_completes_as_the_runtime_ends_neither_holds_it_nor_loses_its_byte() {
    alone!(|| {
        let mut taken = 0;
        for round in 0..300 {
            let (stream, mut other) = pair();
            let (stream, got) = (Arc::new(stream), Arc::new(AtomicBool::new(false)));
            let (reading, got_it) = (stream.clone(), got.clone());
            runtime(1 + round % 2).run(move || {
                let started = Arc::new(AtomicUsize::new(0));
                let starting = started.clone();
                drop(urgo::spawn(move || {
                    starting.store(1, Ordering::SeqCst);
                    let mut byte = [0];
                    if (&*reading).read(&mut byte).is_ok() {
                        assert_eq!(byte, [7]);
                        got_it.store(true, Ordering::SeqCst);
                    }
                }));
                while started.load(Ordering::SeqCst) == 0 {
                    urgo::yield_now();
                }
                for _ in 0..round % 5 {
                    urgo::yield_now();
                }
                other.write_all(&[7]).unwrap();
                // The other end stays open, so that the read cannot end otherwise.
                std::mem::forget(other);
            });
            if got.load(Ordering::SeqCst) {
                taken += 1;
            } else {
                let mut byte = [0];
                stream.set_read_timeout(Some(PATIENCE / 2)).unwrap();
                (&*stream)
                    .read_exact(&mut byte)
                    .expect("the byte is in the socket");
                assert_eq!(byte, [7]);
            }
        }
        println!("note: {taken} of 300 reads ended with their byte");
    });
}

/// Scenario 12: a thousand reads are in flight when the runtime ends; their sockets and buffers live on.
#[test]
fn after_the_end_the_kernel_writes_into_no_buffer() {
    alone!(|| {
        raise_descriptor_limit();
        let (streams, mut others): (Vec<_>, Vec<_>) = (0..1000).map(|_| pair()).unzip();
        let streams: Vec<Arc<TcpStream>> = streams.into_iter().map(Arc::new).collect();
        let buffers: Vec<_> = (0..1000)
            .map(|_| Arc::new(Mutex::new(vec![POISON; 4])))
            .collect();
        let reads: Vec<_> = streams.iter().cloned().zip(buffers.clone()).collect();
        runtime(2).run(move || {
            let started = Arc::new(AtomicUsize::new(0));
            for (stream, buffer) in reads {
                let started = started.clone();
                drop(urgo::spawn(move || {
                    let mut buffer = buffer.lock().unwrap();
                    started.fetch_add(1, Ordering::SeqCst);
                    drop((&*stream).read(&mut buffer));
                }));
            }
            wait_until_in_flight(&started, 1000);
        });
        for other in &mut others {
            other.write_all(b"late").unwrap();
        }
        for (stream, buffer) in streams.iter().zip(&buffers) {
            let mut late = [0; 4];
            // The byte that a read still in flight had taken would be missing here.
            (&**stream).read_exact(&mut late).unwrap();
            assert_eq!(&late, b"late");
            let buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(*buffer, [POISON; 4]);
        }
    });
}

/// Scenario 18, for sockets: calls that wait take no thread of the kernel's each.
#[test]
fn a_thousand_reads_in_flight_take_no_threads() {
    alone!(|| {
        raise_descriptor_limit();
        let (streams, others): (Vec<_>, Vec<_>) = (0..1000).map(|_| pair()).unzip();
        runtime(2).run(move || {
            let before = thread_count().unwrap();
            let started = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = streams
                .into_iter()
                .map(|mut stream| {
                    let started = started.clone();
                    urgo::spawn(move || {
                        started.fetch_add(1, Ordering::SeqCst);
                        stream.read(&mut [0]).unwrap()
                    })
                })
                .collect();
            wait_until_in_flight(&started, 1000);
            assert_eq!(thread_count().unwrap(), before);
            drop(others);
            for handle in handles {
                assert_eq!(handle.join().unwrap(), 0);
            }
            assert_eq!(thread_count().unwrap(), before);
        });
    });
}
