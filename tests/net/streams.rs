//! Bytes arrive, all of them, in order.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;

use urgo::net::{Shutdown, TcpStream};

use crate::random::Random;
use crate::side::{Side, on_both, pair};

/// Sends back what comes until the stream ends, then ends its own half.
fn echo(mut stream: TcpStream) {
    let mut buffer = vec![0; 10_000];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        stream.write_all(&buffer[..count]).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

#[test]
fn a_mebibyte_comes_back_as_it_went() {
    on_both(|side| {
        let sent = Arc::new(Random::new("echo").bytes(1 << 20));
        let (client, server) = pair();
        let server = side.spawn(move || echo(server));
        let client = Arc::new(client);
        let writer = {
            let (client, sent) = (Arc::clone(&client), Arc::clone(&sent));
            side.spawn(move || {
                (&*client).write_all(&sent).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            })
        };
        let mut received = Vec::new();
        (&*client).read_to_end(&mut received).unwrap();
        assert!(received == *sent, "the bytes differ on {side:?}");
        writer.join();
        server.join();
    });
}

#[test]
fn a_goroutine_and_a_thread_talk_over_one_connection() {
    crate::side::on_goroutines(|_| {
        let (client, server) = pair();
        let server = Side::Threads.spawn(move || echo(server));
        let client = Side::Goroutines.spawn(move || {
            let mut client = client;
            for round in 0..200_u32 {
                client.write_all(&round.to_le_bytes()).unwrap();
                let mut answer = [0; 4];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(u32::from_le_bytes(answer), round);
            }
        });
        client.join();
        Side::Goroutines.join(server);
    });
}

#[test]
fn one_write_takes_all_it_is_given() {
    on_both(|side| {
        let (mut client, mut server) = pair();
        let reader = side.spawn(move || {
            let mut all = Vec::new();
            server.read_to_end(&mut all).unwrap();
            all.len()
        });
        // Far more than the kernel's buffers hold.
        let bytes = vec![5; 24 << 20];
        assert_eq!(client.write(&bytes).unwrap(), bytes.len(), "{side:?}");
        drop(client);
        assert_eq!(reader.join(), bytes.len());
    });
}

#[test]
fn vectored_calls_keep_the_order_of_their_buffers() {
    on_both(|side| {
        let (mut client, mut server) = pair();
        let written = client
            .write_vectored(&[
                IoSlice::new(b""),
                IoSlice::new(b"abc"),
                IoSlice::new(b"d"),
                IoSlice::new(b"efgh"),
            ])
            .unwrap();
        assert_eq!(written, 8, "{side:?}");
        side.wait_until("all bytes", || server.peek(&mut [0; 8]).unwrap() == 8);
        let (mut first, mut second, mut third) = ([0; 3], [0; 0], [0; 9]);
        let read = server
            .read_vectored(&mut [
                IoSliceMut::new(&mut first),
                IoSliceMut::new(&mut second),
                IoSliceMut::new(&mut third),
            ])
            .unwrap();
        assert_eq!(read, 8, "{side:?}");
        assert_eq!((&first, &third[..5]), (b"abc", &b"defgh"[..]));
    });
}

#[test]
fn more_buffers_than_the_kernel_takes_are_a_short_call_and_no_error() {
    on_both(|side| {
        let (mut client, mut server) = pair();
        let bytes: Vec<[u8; 1]> = (0..3000_u32).map(|n| [n as u8]).collect();
        let buffers: Vec<IoSlice<'_>> = bytes.iter().map(|byte| IoSlice::new(byte)).collect();
        assert_eq!(client.write_vectored(&buffers).unwrap(), 1024, "{side:?}");
        let mut received = vec![[0_u8; 1]; 3000];
        let mut buffers: Vec<IoSliceMut<'_>> = received
            .iter_mut()
            .map(|byte| IoSliceMut::new(byte))
            .collect();
        assert!((1..=1024).contains(&server.read_vectored(&mut buffers).unwrap()));
        assert_eq!(received[..1], bytes[..1]);
    });
}

#[test]
fn a_peek_leaves_the_bytes() {
    on_both(|_| {
        let (mut client, mut server) = pair();
        client.write_all(b"look").unwrap();
        let mut buffer = [0; 16];
        for _ in 0..3 {
            assert_eq!(server.peek(&mut buffer).unwrap(), 4);
            assert_eq!(&buffer[..4], b"look");
        }
        assert_eq!(server.read(&mut buffer).unwrap(), 4);
        drop(client);
        assert_eq!(server.peek(&mut buffer).unwrap(), 0);
        assert_eq!(server.read(&mut buffer).unwrap(), 0);
    });
}

#[test]
fn an_empty_buffer_is_no_end_of_stream() {
    on_both(|_| {
        let (mut client, mut server) = pair();
        // With nothing there: must not wait.
        assert_eq!(server.read(&mut []).unwrap(), 0);
        assert_eq!(server.write(&[]).unwrap(), 0);
        client.write_all(b"data").unwrap();
        assert_eq!(server.read(&mut []).unwrap(), 0);
        assert_eq!(
            server
                .read_vectored(&mut [IoSliceMut::new(&mut [])])
                .unwrap(),
            0
        );
        assert_eq!(server.write_vectored(&[]).unwrap(), 0);
        let mut buffer = [0; 4];
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"data");
    });
}

#[test]
fn a_reply_after_the_end_of_the_request_arrives_whole() {
    on_both(|side| {
        let (mut client, mut server) = pair();
        let server = side.spawn(move || {
            let mut request = Vec::new();
            server.read_to_end(&mut request).unwrap();
            assert_eq!(request, b"question");
            server.write_all(&vec![42; 3 << 20]).unwrap();
        });
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).unwrap();
        assert_eq!(reply.len(), 3 << 20, "{side:?}");
        assert!(reply.iter().all(|&byte| byte == 42));
        assert!(client.write(b"more").is_err(), "the half is shut");
        server.join();
    });
}

#[test]
fn a_shutdown_ends_a_read_that_waits() {
    on_both(|side| {
        let (client, server) = pair();
        let server = Arc::new(server);
        let reader = {
            let server = Arc::clone(&server);
            side.spawn(move || (&*server).read(&mut [0; 8]).unwrap())
        };
        side.sleep(std::time::Duration::from_millis(20));
        server.shutdown(Shutdown::Read).unwrap();
        assert_eq!(reader.join(), 0, "{side:?}");
        drop(client);
    });
}

#[test]
fn one_stream_is_read_and_written_at_once() {
    on_both(|side| {
        const TOTAL: usize = 8 << 20;
        let (left, right) = pair();
        let ends = [Arc::new(left), Arc::new(right)];
        let mut tasks = Vec::new();
        for (number, end) in ends.iter().enumerate() {
            let (reading, writing) = (Arc::clone(end), Arc::clone(end));
            tasks.push(side.spawn(move || {
                let mut sent = 0;
                while sent < TOTAL {
                    let chunk: Vec<u8> = (sent..TOTAL.min(sent + 70_001))
                        .map(|at| (at * 7 + number) as u8)
                        .collect();
                    (&*writing).write_all(&chunk).unwrap();
                    sent += chunk.len();
                }
            }));
            tasks.push(side.spawn(move || {
                let (mut received, mut buffer) = (0, vec![0; 50_000]);
                while received < TOTAL {
                    let count = (&*reading).read(&mut buffer).unwrap();
                    assert_ne!(count, 0);
                    for &byte in &buffer[..count] {
                        assert_eq!(
                            byte,
                            (received * 7 + (1 - number)) as u8,
                            "at {received} on {side:?}"
                        );
                        received += 1;
                    }
                }
            }));
        }
        for task in tasks {
            task.join();
        }
    });
}
