//! Timeouts end the waiting and lose nothing.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use urgo::net::{TcpListener, TcpStream};

use crate::random::Random;
use crate::side::{Side, listen, on_both, on_goroutines, pair};

#[test]
fn a_read_times_out_and_the_bytes_come_with_the_next() {
    on_both(|side| {
        let (mut client, mut server) = pair();
        let timeout = Duration::from_millis(20);
        server.set_read_timeout(Some(timeout)).unwrap();
        let started = Instant::now();
        let error = server.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{side:?}");
        assert!(started.elapsed() >= timeout, "never early");
        assert_eq!(
            server.peek(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        client.write_all(b"late").unwrap();
        server.set_read_timeout(None).unwrap();
        let mut buffer = [0; 4];
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"late");
    });
}

/// A counted sequence in random bursts, read with timeouts of a millisecond that race with the bursts.
fn timeouts_under_bursts(side: Side, reads: usize) {
    let (mut client, mut server) = pair();
    let mut random = Random::new("bursts");
    let writer = side.spawn(move || {
        let mut next = 0_u64;
        // Until the reader has seen enough and is gone.
        loop {
            let burst = 1 + random.below(200) as usize;
            let bytes: Vec<u8> = (0..burst as u64).map(|at| sequence(next + at)).collect();
            if client.write_all(&bytes).is_err() {
                return;
            }
            next += burst as u64;
            let pause_us = match random.below(8) {
                0 => 800 + random.below(400),
                1 => random.below(2000),
                _ => random.below(100),
            };
            side.sleep(Duration::from_micros(pause_us));
        }
    });
    server
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    let (mut next, mut timeouts, mut buffer) = (0_u64, 0, [0; 64]);
    for _ in 0..reads {
        match server.read(&mut buffer) {
            Ok(count) => {
                assert_ne!(count, 0, "the writer is still there");
                for &byte in &buffer[..count] {
                    assert_eq!(byte, sequence(next), "byte {next} on {side:?}");
                    next += 1;
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{side:?}");
                timeouts += 1;
            }
        }
    }
    drop(server);
    writer.join();
    println!("{side:?}: {next} bytes, {timeouts} timeouts in {reads} reads");
    assert!(
        timeouts > 0 && next > 0,
        "{timeouts} timeouts and {next} bytes show nothing on {side:?}"
    );
}

/// The byte at a position, such that a lost or repeated stretch shows.
fn sequence(position: u64) -> u8 {
    (position ^ (position >> 8) ^ (position >> 16)) as u8
}

#[test]
fn reads_that_time_out_lose_and_repeat_no_byte() {
    on_goroutines(|side| timeouts_under_bursts(side, 20_000));
    timeouts_under_bursts(Side::Threads, 4_000);
}

/// Connections that race with the deadlines of `accept`: each is handed over, exactly once.
fn accept_deadlines(side: Side, rounds: usize) {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    let mut random = Random::new("accepts");
    let clients = side.spawn(move || {
        for round in 0..rounds as u32 {
            side.sleep(Duration::from_micros(random.below(400)));
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&round.to_le_bytes()).unwrap();
            // The answer says that this very connection was handed over; a lost one would hang here.
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(u32::from_le_bytes(answer), round);
        }
    });
    let mut timeouts = 0;
    let mut random = Random::new("accept timeouts");
    for round in 0..rounds {
        let (mut stream, _) = loop {
            listener
                .set_accept_timeout(Some(Duration::from_micros(1 + random.below(400))))
                .unwrap();
            match listener.accept() {
                Ok(accepted) => break accepted,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TimedOut, "{side:?}");
                    timeouts += 1;
                }
            }
        };
        let mut number = [0; 4];
        stream.read_exact(&mut number).unwrap();
        assert_eq!(u32::from_le_bytes(number) as usize, round, "{side:?}");
        stream.write_all(&number).unwrap();
    }
    clients.join();
    println!("{side:?}: {timeouts} timeouts in {rounds} rounds");
    assert!(timeouts > 0, "no deadline passed on {side:?}");
}

#[test]
fn accepts_that_time_out_lose_no_connection() {
    on_goroutines(|side| accept_deadlines(side, 1_000));
    accept_deadlines(Side::Threads, 1_000);
}

#[test]
fn a_write_that_times_out_tells_how_much_went() {
    on_both(|side| {
        let (mut client, mut server) = pair();
        client
            .set_write_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        let bytes = vec![1; 64 << 20];
        let mut sent = 0;
        // The first calls may return a part; once nothing more fits, the timeout is an error.
        let error = loop {
            match client.write(&bytes) {
                Ok(count) => {
                    assert!(0 < count && count < bytes.len(), "{count} on {side:?}");
                    sent += count;
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{side:?}");
        assert_ne!(sent, 0);
        drop(client);
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), sent, "{side:?}");
    });
}

#[test]
fn a_connect_times_out_where_nobody_answers() {
    on_both(|side| {
        // A queue of one, filled: the kernel drops further requests, as a host that is switched off would.
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket
            .bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        let error = loop {
            assert!(queued.len() < 16, "the queue does not fill up");
            match TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
                Ok(stream) => queued.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{side:?}");
        let error = TcpStream::connect_timeout(&address, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_timeout_of_zero_is_refused() {
    on_both(|_| {
        let (client, _server) = pair();
        let listener = listen();
        let zero = Some(Duration::ZERO);
        assert_eq!(
            client.set_read_timeout(zero).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            client.set_write_timeout(zero).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            listener.set_accept_timeout(zero).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn the_longest_timeout_means_never() {
    on_both(|side| {
        let (mut client, mut server) = pair();
        for timeout in [
            Duration::MAX,
            Duration::from_nanos(u64::MAX),
            Duration::from_nanos(u64::MAX - 1),
        ] {
            server.set_read_timeout(Some(timeout)).unwrap();
            let reader = side.spawn(move || {
                let mut buffer = [0; 1];
                server.read_exact(&mut buffer).unwrap();
                server
            });
            side.sleep(Duration::from_millis(5));
            client.write_all(b"x").unwrap();
            server = reader.join();
        }
        assert!(TcpStream::connect_timeout(&listen_for_ever(side), Duration::MAX).is_ok());
    });
}

/// The address of a listener that accepts one connection.
fn listen_for_ever(side: Side) -> std::net::SocketAddr {
    let listener: TcpListener = listen();
    listener.set_accept_timeout(Some(Duration::MAX)).unwrap();
    let address = listener.local_addr().unwrap();
    side.spawn(move || listener.accept().map(drop));
    address
}

#[test]
fn clones_share_their_timeouts() {
    on_both(|side| {
        let (client, _server) = pair();
        let mut copy = client.try_clone().unwrap();
        client
            .set_read_timeout(Some(Duration::from_millis(10)))
            .unwrap();
        copy.set_write_timeout(Some(Duration::from_millis(7)))
            .unwrap();
        assert_eq!(
            copy.read_timeout().unwrap(),
            Some(Duration::from_millis(10))
        );
        assert_eq!(
            client.write_timeout().unwrap(),
            Some(Duration::from_millis(7))
        );
        assert_eq!(
            copy.read(&mut [0; 1]).unwrap_err().kind(),
            ErrorKind::TimedOut,
            "{side:?}"
        );
        drop(client);
        assert_eq!(
            copy.read(&mut [0; 1]).unwrap_err().kind(),
            ErrorKind::TimedOut,
            "{side:?}"
        );
    });
}

#[test]
fn a_nonblocking_handle_does_not_wait() {
    on_both(|side| {
        let listener = listen();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "{side:?}"
        );
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = None;
        side.wait_until("the connection", || {
            server = listener.accept().ok();
            server.is_some()
        });
        let (mut server, _) = server.unwrap();

        server.set_nonblocking(true).unwrap();
        let mut copy = server.try_clone().unwrap();
        for stream in [&mut server, &mut copy] {
            assert_eq!(
                stream.read(&mut [0; 4]).unwrap_err().kind(),
                ErrorKind::WouldBlock,
                "{side:?}"
            );
            assert_eq!(
                stream.peek(&mut [0; 4]).unwrap_err().kind(),
                ErrorKind::WouldBlock,
                "{side:?}"
            );
        }
        let bytes = vec![0; 1 << 20];
        let error = loop {
            if let Err(error) = server.write(&bytes) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{side:?}");

        // And back.
        server.set_nonblocking(false).unwrap();
        listener.set_nonblocking(false).unwrap();
        client.write_all(b"come").unwrap();
        let mut buffer = [0; 4];
        server.read_exact(&mut buffer).unwrap();
        let accepter = side.spawn(move || listener.accept().map(|_| listener));
        side.sleep(Duration::from_millis(10));
        let listener_address = client.peer_addr().unwrap();
        let _second = TcpStream::connect(listener_address).unwrap();
        accepter.join().unwrap();
    });
}
