//! An HTTP/1.1 server written the way a Go programmer would: one accept loop, one `spawn` per connection, and plain
//! blocking reads and writes inside. It serves `GET /`, `POST /echo` (the body comes back) and `GET /status` (JSON).
//!
//! ```text
//! cargo run --release --example http -- --addr 127.0.0.1:8080
//! curl -i http://127.0.0.1:8080/
//! ```
//!
//! Read it in this order: this file (start, accept loop, end), `connection.rs` (one client from hello to hang-up),
//! `request.rs` (what a request may look like), `answer.rs` (what we say), then the small ones: `server.rs` (who is
//! connected, how everybody is told to stop), `input.rs` (the read buffer), `date.rs`, `status.rs`.

#![deny(unsafe_code)]

mod answer;
mod connection;
mod date;
mod input;
mod request;
mod server;
mod status;

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use server::Server;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use urgo::net::TcpListener;

/// How long requests in flight may take after the first SIGINT or SIGTERM.
const GRACE_TIME: Duration = Duration::from_secs(10);
/// Pauses of the accept loop while the process is out of descriptors: the first, and the longest.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// At most one message about accept errors in this time, however many there are.
const ACCEPT_MESSAGE_EVERY: Duration = Duration::from_secs(10);

/// An HTTP/1.1 server on urgo: GET / says hello, POST /echo returns the body, GET /status shows the runtime as JSON.
///
/// SIGINT (Ctrl-C) or SIGTERM ends it gracefully: the port is free at once, requests in flight are answered. A second
/// signal ends it at once.
#[derive(Parser)]
#[command(name = "http")]
struct Options {
    /// Address and port to listen on; port 0 lets the system choose one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    addr: String,

    /// Number of workers [default: one for each CPU the process may use]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,

    /// CPUs to pin the workers to, for example 0,1 [default: those of the process's affinity mask]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Option<Vec<usize>>,
}

fn main() -> ExitCode {
    match start(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("http: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(options: &Options) -> Result<(), String> {
    let mut builder = urgo::Runtime::builder();
    if let Some(workers) = options.workers {
        builder = builder.workers(workers.get());
    }
    if let Some(cpus) = &options.cpus {
        builder = builder.cpus(cpus);
    }
    let runtime = builder
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;

    let addr = &options.addr;
    let listener =
        TcpListener::bind(addr).map_err(|error| format!("cannot listen on {addr}: {error}"))?;
    let local = listener.local_addr().map_err(|error| error.to_string())?;
    let server = Arc::new(Server::new(listener));
    stop_on_signals(Arc::clone(&server))
        .map_err(|error| format!("cannot watch for signals: {error}"))?;

    // A closed stdout is no reason to refuse service.
    let _ = writeln!(io::stdout(), "listening on http://{local} (Ctrl-C ends it)")
        .and_then(|()| io::stdout().flush());

    runtime.run(move || {
        let accepted = accept_loop(&server);
        server.stop();
        wait_for_connections(&server);
        accepted.map_err(|error| format!("cannot accept connections: {error}"))
    })
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

/// Stops the server at the first SIGINT or SIGTERM and ends the process at the second. An ordinary thread does this: a
/// signal is heard even if every worker is busy.
fn stop_on_signals(server: Arc<Server>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut signals = signals.forever();
            if signals.next().is_some() {
                server.stop();
            }
            if let Some(signal) = signals.next() {
                signal_hook::low_level::exit(128 + signal);
            }
        })?;
    Ok(())
}
