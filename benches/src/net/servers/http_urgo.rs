//! The server of `examples/http`, file by file: what is measured is the example itself, with its timeouts, its book of
//! connections and its graceful end, and not a server made for a bench.

#[path = "../../../../examples/http/accept.rs"]
mod accept;
#[path = "../../../../examples/http/answer.rs"]
mod answer;
#[path = "../../../../examples/http/connection.rs"]
mod connection;
#[path = "../../../../examples/http/date.rs"]
mod date;
#[path = "../../../../examples/http/input.rs"]
mod input;
#[path = "../../../../examples/http/request.rs"]
mod request;
#[path = "../../../../examples/http/server.rs"]
mod server;
#[path = "../../../../examples/http/status.rs"]
mod status;

use crate::cell::Cell;
use crate::hosts::runtime;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What the example's `main` does, but for options and signals.
pub(crate) fn hello(cell: &Cell, listener: TcpListener) {
    let listener = urgo::net::TcpListener::from(OwnedFd::from(listener));
    let server = Arc::new(server::Server::new(listener));
    runtime(cell)
        .run(move || accept::serve(&server))
        .expect("the server goes on accepting");
}
