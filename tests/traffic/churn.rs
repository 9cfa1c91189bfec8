//! Connections that come and go while those who accept and connect are timed out: each visitor is served, or sees the end.

use crate::support::Random;
use crate::{Game, add};
use std::io::{Read, Write};
use std::time::Duration;
use urgo::JoinHandle;
use urgo::context::{Context, ContextError};
use urgo::net::{TcpListener, TcpStream};

pub(crate) fn start(game: &Game, seed: u64) -> Vec<JoinHandle<()>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut random = Random::new(seed);
    let (seed, own) = (random.next(), game.clone());
    let mut players = vec![urgo::spawn(move || accept(&own, &listener, seed))];
    for _ in 0..3 {
        let (seed, own) = (random.next(), game.clone());
        players.push(urgo::spawn(move || {
            let mut random = Random::new(seed);
            while own.goes_on() {
                visit(&own, address, &mut random);
            }
        }));
    }
    players
}

fn accept(game: &Game, listener: &TcpListener, seed: u64) {
    let mut random = Random::new(seed);
    while game.goes_on() {
        let timeout = Duration::from_micros(random.below(2000));
        let context = Context::background().with_timeout(timeout);
        match context.enter(|| listener.accept()) {
            Ok((mut stream, _)) => drop(Context::background().enter(|| {
                urgo::spawn(move || {
                    let mut number = [0; 8];
                    stream.read_exact(&mut number)?;
                    stream.write_all(&number)
                })
            })),
            Err(error) => {
                assert_eq!(
                    ContextError::of(&error),
                    Some(ContextError::DeadlineExceeded),
                    "{error}"
                );
                add(&game.tally.timed_out, 1);
            }
        }
    }
}

fn visit(game: &Game, address: std::net::SocketAddr, random: &mut Random) {
    let context = Context::background().with_timeout(Duration::from_micros(random.below(4000)));
    let connected = context.enter(|| TcpStream::connect(address));
    let Ok(mut stream) = connected else {
        let error = connected.unwrap_err();
        // Or the listener has gone with the game.
        let is_expected = ContextError::of(&error).is_some() || !game.goes_on();
        assert!(is_expected, "{error}");
        return;
    };
    // Patience is the test's own: whoever was connected is served, or the listener has gone with the game.
    stream
        .set_read_timeout(Some(crate::support::PATIENCE))
        .unwrap();
    let number = random.next().to_le_bytes();
    let mut answer = [0; 8];
    let served = stream
        .write_all(&number)
        .and_then(|()| stream.read_exact(&mut answer));
    match served {
        Ok(()) => {
            assert_eq!(answer, number, "somebody else's answer");
            add(&game.tally.visits, 1);
        }
        Err(error) => assert!(!game.goes_on(), "a visitor was not served: {error}"),
    }
}
