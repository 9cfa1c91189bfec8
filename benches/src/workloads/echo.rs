//! What does a request cost a server?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::net::client::{Closed, Exchange};
use crate::net::{Server, servers};
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "echo",
    question: "What does a request cost on a goroutine per connection, against the least that a hand-written loop needs?",
    work: "Echo over loopback TCP, one request outstanding on each connection (closed loop). The server is on one CPU; the \\
           client is one thread on another CPU that polls its ring and never sleeps. One operation is one request; every \\
           answer is compared with its request.",
    is_not: "a network (loopback runs the peer's TCP receive path inside `send`, on the sender's CPU), not a latency bench (in \\
             a closed loop with the server saturated, latency is connections times service time), and not a scaling bench.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::urgo::echo),
        Contender::server("raw ring", servers::raw_oneshot::echo).from_crate("io-uring"),
        Contender::server("raw multishot", servers::raw_multishot::echo).from_crate("io-uring"),
        Contender::GO,
    ],
    client: Some(client),
};

fn cases(size: Size) -> Vec<Case> {
    let connections: &[usize] = match size {
        Size::Full => &[64, 512],
        Size::Quick => &[8],
    };
    let case = |&connections: &usize| {
        Case::new(format!("64 B, {connections} connections"), 1, 1)
            .param("message", 64)
            .param("connections", connections)
            .param("window_ms", size.of(1500, 50))
            .judged_by(Judge::SERVER_CPU)
            .budget(Budget::TimesOf("raw ring", 1.05))
    };
    connections.iter().map(case).collect()
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let window = Duration::from_millis(cell.get("window_ms"));
    let mut client = Closed::connect(
        server.address,
        cell.get("connections"),
        Exchange::echo(cell.get("message")),
    );
    client.run(window / 5);
    let before = server.snapshot();
    let seen = client.run(window);
    let mut sample = server.used_since(&before, seen.requests, 0);
    sample.set_latencies(&seen.latencies);
    sample.set(
        "client_busy",
        seen.busy.as_secs_f64() / seen.elapsed.as_secs_f64(),
    );
    sample.set(
        "client_batch",
        seen.requests as f64 / seen.enters.max(1) as f64,
    );
    sample
}
