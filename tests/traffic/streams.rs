//! Streams of counted bytes whose readers and writers are timed out, cancelled, unwound and closed all the time.

use crate::support::{OnDrop, Random};
use crate::{Game, add};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use urgo::JoinHandle;
use urgo::context::{Context, ContextError};
use urgo::net::{TcpListener, TcpStream};

fn pair(is_tcp: bool) -> (TcpStream, TcpStream) {
    if is_tcp {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        return (client, listener.accept().unwrap().0);
    }
    let (one, other) = UnixStream::pair().unwrap();
    (
        TcpStream::from(OwnedFd::from(one)),
        TcpStream::from(OwnedFd::from(other)),
    )
}

/// The byte at a position. Not periodic in anything that a buffer or a page is.
fn byte_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A writer and a reader of one stream, and who reads in vain on another.
pub(crate) fn start(game: &Game, seed: u64) -> Vec<JoinHandle<()>> {
    let mut random = Random::new(seed);
    let (ours, theirs) = pair(random.below(2) == 0);
    let (writes, reads, vain) = (game.clone(), game.clone(), game.clone());
    let seeds = [random.next(), random.next(), random.next()];
    vec![
        urgo::spawn(move || write(&writes, ours, seeds[0])),
        urgo::spawn(move || read(&reads, theirs, seeds[1])),
        urgo::spawn(move || read_in_vain(&vain, seeds[2])),
    ]
}

/// A context that is over soon, and perhaps a goroutine that cancels it first.
fn limit(random: &mut Random) -> Context {
    let timeout = Duration::from_micros(random.below(3000));
    let context = Context::background().with_timeout(timeout);
    if random.below(3) == 0 {
        let other = context.clone();
        let turns = random.below(8);
        drop(urgo::spawn(move || {
            (0..turns).for_each(|_| urgo::yield_now());
            other.cancel();
        }));
    }
    context
}

/// Counts why a call failed, if it is a reason that the game knows.
fn note(game: &Game, error: &io::Error) {
    match ContextError::of(error) {
        Some(ContextError::Cancelled) => add(&game.tally.cancelled, 1),
        Some(ContextError::DeadlineExceeded) => add(&game.tally.timed_out, 1),
        None if error.kind() == io::ErrorKind::TimedOut => add(&game.tally.timed_out, 1),
        None => panic!("an error that nobody made: {error}"),
    }
}

fn write(game: &Game, mut stream: TcpStream, seed: u64) {
    let mut random = Random::new(seed);
    let mut position = 0;
    while game.goes_on() {
        // Fresh memory for each call, freed as soon as it returns.
        let most = if random.below(64) == 0 { 200_000 } else { 500 };
        let length = 1 + random.below(most);
        let bytes: Vec<u8> = (position..position + length).map(byte_at).collect();
        let context = limit(&mut random);
        let mut sent = 0;
        while sent < bytes.len() {
            match context.enter(|| stream.write(&bytes[sent..])) {
                Ok(count) => sent += count,
                Err(error) => {
                    note(game, &error);
                    break;
                }
            }
        }
        position += sent as u64;
        if random.below(2) == 0 {
            urgo::sleep(Duration::from_micros(random.below(4000)));
        }
    }
    // The reader checks that this is where the bytes end.
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut total = [0; 8];
    stream.read_exact(&mut total).unwrap();
    assert_eq!(
        u64::from_le_bytes(total),
        position,
        "bytes sent and received"
    );
    add(&game.tally.bytes, position);
}

fn read(game: &Game, mut stream: TcpStream, seed: u64) {
    let mut random = Random::new(seed);
    let mut position = 0;
    loop {
        let mut buffer = vec![0xaa; 1 + random.below(20_000) as usize];
        let context = if game.goes_on() {
            limit(&mut random)
        } else {
            Context::background()
        };
        if random.below(4) == 0 {
            let timeout = Duration::from_micros(1 + random.below(1000));
            stream.set_read_timeout(Some(timeout)).unwrap();
        }
        match context.enter(|| stream.read(&mut buffer)) {
            Ok(0) => break,
            Ok(count) => {
                for byte in &buffer[..count] {
                    assert_eq!(*byte, byte_at(position), "the byte at {position}");
                    position += 1;
                }
                assert!(buffer[count..].iter().all(|byte| *byte == 0xaa));
            }
            Err(error) => {
                note(game, &error);
                assert!(
                    buffer.iter().all(|byte| *byte == 0xaa),
                    "bytes without a result"
                );
            }
        }
    }
    stream.write_all(&position.to_le_bytes()).unwrap();
}

/// Readers of a silent stream: each is cut short by a cancellation, by closing, or by unwinding; its buffer goes at once.
fn read_in_vain(game: &Game, seed: u64) {
    let mut random = Random::new(seed);
    let unwound = Arc::new(AtomicU64::new(0));
    while game.goes_on() {
        let (stream, other) = pair(random.below(4) == 0);
        let stream = Arc::new(stream);
        for _ in 0..4 {
            let (theirs, counts) = (stream.clone(), unwound.clone());
            let size = 1 + random.below(5000) as usize;
            let reader = urgo::spawn(move || {
                let mut buffer = vec![0xaa; size];
                let _guard = OnDrop(|| {
                    counts.fetch_add(1, Ordering::Relaxed);
                });
                let result = (&*theirs).read(&mut buffer);
                assert!(buffer.iter().all(|byte| *byte == 0xaa));
                result
            });
            (0..random.below(6)).for_each(|_| urgo::yield_now());
            reader.cancel();
            match reader.join() {
                Err(error) => assert!(error.is_cancelled(), "{error}"),
                Ok(result) => panic!("read from a silent stream: {result:?}"),
            }
        }
        add(&game.tally.unwound, unwound.swap(0, Ordering::Relaxed));
        let theirs = stream.clone();
        let size = 1 + random.below(300) as usize;
        let reader = urgo::spawn(move || (&*theirs).read(&mut vec![0xaa; size]));
        (0..random.below(6)).for_each(|_| urgo::yield_now());
        stream.close().unwrap();
        assert!(reader.join().unwrap().is_err(), "read from a closed stream");
        add(&game.tally.closed, 1);
        drop(other);
    }
}
