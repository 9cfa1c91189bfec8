//! The accept loop, and the end of the server.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection;
use super::server::Server;

/// How long requests in flight may take after the server was told to stop.
const GRACE_TIME: Duration = Duration::from_secs(10);
/// Pauses of the accept loop while the process is out of descriptors: the first, and the longest.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// At most one message about accept errors in this time, however many there are.
const ACCEPT_MESSAGE_EVERY: Duration = Duration::from_secs(10);

/// Serves until the server is told to stop, then lets the connections finish. `Err`: it could not go on accepting.
pub(crate) fn serve(server: &Arc<Server>) -> io::Result<()> {
    let accepted = accept_loop(server);
    server.stop();
    wait_for_connections(server);
    accepted
}

/// The accept loop: one goroutine for each connection, until the listener is closed.
///
/// What is wrong with one connection, or for a while, does not end it; out of descriptors, it waits for some to come
/// back instead of spinning.
fn accept_loop(server: &Arc<Server>) -> io::Result<()> {
    let mut pause = ACCEPT_PAUSE_MIN;
    let mut last_message: Option<Instant> = None;
    loop {
        match server.listener.accept() {
            Ok((stream, _peer)) => {
                pause = ACCEPT_PAUSE_MIN;
                let guest = server.welcome(stream);
                urgo::spawn(move || connection::serve(&guest));
            }
            Err(_) if server.is_stopping() => return Ok(()),
            Err(error) if is_one_connections_trouble(&error) => {}
            Err(error) if is_shortage(&error) => {
                if last_message.is_none_or(|then| then.elapsed() >= ACCEPT_MESSAGE_EVERY) {
                    eprintln!("http: cannot accept for now, new clients wait: {error}");
                    last_message = Some(Instant::now());
                }
                urgo::sleep(pause);
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A client that left between its handshake and our accept, or a network error that accept(2) passes on: the next one
/// may be fine.
fn is_one_connections_trouble(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | Interrupted
            | NetworkDown
            | HostUnreachable
            | NetworkUnreachable
            | TimedOut
    ) || matches!(error.raw_os_error(), Some(libc::EPROTO | libc::EPERM))
}

/// Out of descriptors or memory: passes when somebody gives some back.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Waits until the last connection is gone, at most for the grace time. (What is left then, the end of `run` cuts.)
fn wait_for_connections(server: &Server) {
    let deadline = Instant::now() + GRACE_TIME;
    let mut pause = Duration::from_millis(1);
    while server.connections() > 0 {
        if Instant::now() >= deadline {
            eprintln!(
                "http: {} connections were not done in time",
                server.connections()
            );
            return;
        }
        urgo::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
