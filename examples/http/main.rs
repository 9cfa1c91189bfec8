//! An HTTP/1.1 server written the way a Go programmer would: one accept loop, one `spawn` per connection, and plain
//! blocking reads and writes inside. It serves `GET /`, `POST /echo` (the body comes back) and `GET /status` (JSON).
//!
//! ```text
//! cargo run --release --example http -- --addr 127.0.0.1:8080
//! curl -i http://127.0.0.1:8080/
//! ```
//!
//! Read it in this order: this file (start), `accept.rs` (accept loop, end), `connection.rs` (one client from hello to
//! hang-up), `request.rs` (what a request may look like), `answer.rs` (what we say), then the small ones: `server.rs` (who
//! is connected, how everybody is told to stop), `input.rs` (the read buffer), `date.rs`, `status.rs`. All but this file
//! are also a server of the benches, where they are modules of another crate.

#![deny(unsafe_code)]

mod accept;
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

use clap::Parser;
use server::Server;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use urgo::net::TcpListener;

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

    runtime
        .run(move || accept::serve(&server))
        .map_err(|error| format!("cannot accept connections: {error}"))
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
