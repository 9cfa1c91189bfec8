//! Closing ends what waits, frees what was held, and touches nobody else.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use urgo::net::{ClosedError, TcpListener, TcpStream};

use crate::random::Random;
use crate::side::{Side, listen, on_all_pairs, on_both, on_goroutines, pair};

fn assert_closed<T: Debug>(result: io::Result<T>, what: &str) {
    let error = result.expect_err(what);
    assert!(ClosedError::is_in(&error), "{what}: {error:?}");
    assert_eq!(error.kind(), ErrorKind::NotConnected, "{what}");
}

/// Lets a call begin to wait. Whether it has or not, the promise is the same.
fn let_it_wait(side: Side) {
    side.sleep(Duration::from_millis(20));
}

#[test]
fn a_close_ends_a_read_and_the_peer_sees_the_end() {
    on_all_pairs(|main, waiting, closing| {
        let (mut client, server) = pair();
        let server = Arc::new(server);
        let reading = Arc::clone(&server);
        let reader = waiting.spawn(move || (&*reading).read(&mut [0; 8]));
        let_it_wait(main);
        let closer = Arc::clone(&server);
        main.join(closing.spawn(move || closer.close().unwrap()));
        assert_closed(main.join(reader), "the read that waited");
        assert_eq!(
            client.read(&mut [0; 8]).unwrap(),
            0,
            "{waiting:?}, {closing:?}"
        );

        assert_closed((&*server).read(&mut [0; 8]), "read");
        assert_closed((&*server).read(&mut []), "empty read");
        assert_closed((&*server).write(b"x"), "write");
        assert_closed(
            (&*server).write_vectored(&[io::IoSlice::new(b"x")]),
            "vectored write",
        );
        assert_closed(server.peek(&mut [0; 8]), "peek");
        assert_closed(server.peer_addr(), "peer_addr");
        assert_closed(server.try_clone(), "try_clone");
        assert_closed(server.set_nodelay(true), "set_nodelay");
        assert_closed(server.close(), "second close");
    });
}

#[test]
fn a_close_ends_a_write() {
    on_all_pairs(|main, waiting, closing| {
        let (_client, server) = pair();
        let server = Arc::new(server);
        let writing = Arc::clone(&server);
        // Nobody reads, so this waits however much was taken at first.
        let writer = waiting.spawn(move || (&*writing).write_all(&vec![0; 64 << 20]));
        let_it_wait(main);
        let closer = Arc::clone(&server);
        main.join(closing.spawn(move || closer.close().unwrap()));
        assert_closed(main.join(writer), "the write that waited");
    });
}

#[test]
fn a_close_ends_an_accept_and_frees_the_port_at_once() {
    on_all_pairs(|main, waiting, closing| {
        let listener = Arc::new(listen());
        let address = listener.local_addr().unwrap();
        let accepters: Vec<_> = (0..3)
            .map(|_| {
                let accepting = Arc::clone(&listener);
                waiting.spawn(move || accepting.accept())
            })
            .collect();
        let_it_wait(main);
        let closer = Arc::clone(&listener);
        // Bound by the closer itself, right after `close`: the accepts may not even have returned.
        let again = main.join(closing.spawn(move || {
            closer.close().unwrap();
            TcpListener::bind(address).unwrap()
        }));
        for accepter in accepters {
            assert_closed(main.join(accepter), "the accept that waited");
        }
        assert_closed(listener.accept(), "accept");
        assert_closed(listener.local_addr(), "local_addr");
        let client = waiting.spawn(move || TcpStream::connect(address).unwrap());
        again.accept().unwrap();
        main.join(client);
    });
}

#[test]
fn a_close_ends_calls_on_one_clone_only() {
    on_all_pairs(|main, waiting, closing| {
        let (mut client, server) = pair();
        let copy = Arc::new(server.try_clone().unwrap());
        let reading = Arc::clone(&copy);
        let reader = waiting.spawn(move || (&*reading).read(&mut [0; 8]));
        let_it_wait(main);
        let closer = Arc::clone(&copy);
        main.join(closing.spawn(move || closer.close().unwrap()));
        assert_closed(main.join(reader), "the read that waited");

        // The connection lives on in the other handle.
        let mut server = server;
        client.write_all(b"still here").unwrap();
        let mut buffer = [0; 10];
        server.read_exact(&mut buffer).unwrap();
        server.write_all(&buffer).unwrap();
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"still here");
        // The last handle's close ends it.
        drop(copy);
        server.close().unwrap();
        assert_eq!(client.read(&mut buffer).unwrap(), 0);
    });
}

#[test]
fn a_closed_listener_clone_leaves_the_port_to_the_other() {
    on_all_pairs(|main, waiting, closing| {
        let listener = listen();
        let copy = Arc::new(listener.try_clone().unwrap());
        let accepting = Arc::clone(&copy);
        let accepter = waiting.spawn(move || accepting.accept());
        let_it_wait(main);
        let closer = Arc::clone(&copy);
        main.join(closing.spawn(move || closer.close().unwrap()));
        assert_closed(main.join(accepter), "the accept that waited");
        let address = listener.local_addr().unwrap();
        let client = waiting.spawn(move || TcpStream::connect(address).unwrap());
        listener.accept().unwrap();
        main.join(client);
    });
}

#[test]
fn incoming_ends_when_the_listener_is_closed() {
    on_all_pairs(|main, waiting, closing| {
        let listener = Arc::new(listen());
        let address = listener.local_addr().unwrap();
        let accepting = Arc::clone(&listener);
        let server = waiting.spawn(move || accepting.incoming().map(Result::unwrap).count());
        for _ in 0..5 {
            // The answer to the client's end shows that the connection was accepted and dropped.
            let mut client = TcpStream::connect(address).unwrap();
            let _ = client.read(&mut [0; 1]);
        }
        main.join(closing.spawn(move || listener.close().unwrap()));
        assert_eq!(main.join(server), 5);
    });
}

#[test]
fn a_closed_handle_keeps_its_number_until_it_is_dropped() {
    on_both(|side| {
        let (_client, server) = pair();
        let number = server.as_raw_fd();
        server.close().unwrap();
        let others: Vec<_> = (0..8).map(|_| pair()).collect();
        for (client, server) in &others {
            assert_ne!(client.as_raw_fd(), number, "{side:?}");
            assert_ne!(server.as_raw_fd(), number, "{side:?}");
        }
        // SAFETY: asks for the flags of a number that `server` owns.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        assert_eq!(flags, libc::FD_CLOEXEC, "open, and closed on exec");
    });
}

#[test]
fn bytes_that_were_taken_before_a_close_are_delivered() {
    on_both(|side| {
        for _ in 0..50 {
            let (mut client, server) = pair();
            let server = Arc::new(server);
            let reading = Arc::clone(&server);
            let reader = side.spawn(move || {
                let mut all = Vec::new();
                let mut buffer = [0; 1000];
                loop {
                    match (&*reading).read(&mut buffer) {
                        Ok(0) => panic!("an end of stream that the peer did not send"),
                        Ok(count) => all.extend_from_slice(&buffer[..count]),
                        Err(error) => {
                            assert!(ClosedError::is_in(&error), "{error:?}");
                            return all;
                        }
                    }
                }
            });
            for number in 0..100_u8 {
                if client.write_all(&[number]).is_err() {
                    break;
                }
                if number == 60 {
                    server.close().unwrap();
                }
            }
            let all = side.join(reader);
            assert!(
                all.iter()
                    .enumerate()
                    .all(|(at, &byte)| usize::from(byte) == at),
                "{all:?}"
            );
        }
    });
}

/// Closing one handle while others with numbers just freed come and go: no call on another handle may notice.
#[test]
fn closing_never_disturbs_the_next_owner_of_a_number() {
    on_goroutines(|main| {
        let mut random = Random::new("next owner");
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let side = if number % 4 == 3 {
                    Side::Threads
                } else {
                    Side::Goroutines
                };
                let pause_us = random.below(300);
                side.spawn(move || {
                    for round in 0..60_u8 {
                        let (mut client, server) = pair();
                        let server = Arc::new(server);
                        let reading = Arc::clone(&server);
                        let reader = side.spawn(move || {
                            let mut buffer = [0; 1];
                            (&*reading).read_exact(&mut buffer).unwrap();
                            assert_eq!(buffer[0], round);
                            assert_closed((&*reading).read(&mut buffer), "the read that waited");
                        });
                        side.sleep(Duration::from_micros(pause_us));
                        client.write_all(&[round]).unwrap();
                        side.sleep(Duration::from_micros(pause_us));
                        // Only once the byte was taken.
                        side.wait_until("the byte to be read", || is_taken(&server));
                        server.close().unwrap();
                        side.join(reader);
                    }
                })
            })
            .collect();
        for task in tasks {
            main.join(task);
        }
    });
}

/// The byte that the peer wrote has arrived and is not in the socket any more. Only the second is not enough: a busy
/// kernel carries loopback packets over later.
fn is_taken(stream: &TcpStream) -> bool {
    let (fd, mut waiting) = (stream.as_raw_fd(), 0_i32);
    // `struct tcp_info` up to and with `tcpi_bytes_received`, which libc's does not have.
    let mut info = [0_u64; 17];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` is a local of `length` bytes, which the kernel fills at most.
    let asked = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!((asked, length as usize), (0, size_of_val(&info)));
    // SAFETY: FIONREAD writes an int to a local.
    let asked = unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut waiting) };
    assert_eq!(asked, 0);
    info[16] > 0 && waiting == 0
}
