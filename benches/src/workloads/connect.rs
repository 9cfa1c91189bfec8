//! What does a short connection cost a server?

use crate::catalogue::{Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::net::client::Short;
use crate::net::{Server, fnv, servers};
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "connect",
    question: "What does it cost to accept a connection, answer once on it and see it end?",
    work: "Echo of one message of 64 B on each connection, 16 connections at a time. The server is on one CPU; the client is one \
           thread on another CPU that never sleeps. It opens a connection, sends, compares the answer, ends the connection with a \
           reset (so that no port stays in use) and opens the next one. One operation is one connection. The servers are those \
           of `echo`: each accepts, and starts a goroutine, a task or a coroutine for each connection.",
    is_not: "the most connections that a server can take: nearly all of the TCP handshake runs in the client's `connect`, so the \
             client has the greater share of the work, and the server waits for it now and then.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::urgo::echo),
        Contender::server("raw ring", servers::raw_oneshot::echo).of_crate("io-uring"),
        Contender::server("raw epoll", servers::raw_epoll::echo),
        Contender::server("monoio", servers::monoio::echo).of_crate("monoio"),
        Contender::server("tokio", servers::tokio::echo).of_crate("tokio"),
        Contender::server("may", servers::may::echo).of_crate("may"),
        Contender::GO,
    ],
    client: Some(client),
};

const CPU_PER_CONNECTION: Judge = Judge {
    unit: "µs/connection",
    ..Judge::SERVER_CPU
};

fn cases(size: Size) -> Vec<Case> {
    vec![
        Case::new("16 at a time", 1, 1)
            .param("message", 64)
            .param("at_a_time", 16)
            .param("window_ms", size.of(1000, 20))
            .judged_by(CPU_PER_CONNECTION)
            .rounds_max(5),
    ]
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let window = Duration::from_millis(cell.get("window_ms"));
    let message: Vec<u8> = (0..cell.get("message")).map(|at: usize| at as u8).collect();
    let mut client = Short::start(server.address, &message, cell.get("at_a_time"));
    client.run(window / 5);
    let before = server.snapshot();
    let seen = client.run(window);
    let mut sample = server.used_since(&before, seen.connections, fnv(&message, 1));
    sample.set_latencies(&seen.latencies);
    if let Some(per_second) = sample.metrics.remove("requests_per_second") {
        sample.set("connections_per_second", per_second);
    }
    sample
}
