//! What does a request cost a server?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::net::client::{Closed, Exchange};
use crate::net::{Server, servers};
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "echo",
    question: "What does a request cost on a goroutine per connection, against the least that a hand-written loop needs?",
    work: "Echo over loopback TCP, one request outstanding on each connection (closed loop). The server is on one CPU; the \
           client is one thread on another CPU that polls its ring and never sleeps. One operation is one request; every \
           answer is compared with its request. A server reads as much as one message is long, or 1 KiB, and writes what it \
           has read, in as many turns as the messages come in pieces. \"raw ring\" and \"raw multishot\" are hand-written loops \
           over a ring, with their own buffers and with the kernel's choice of buffers; \"raw epoll\" is one over epoll. tokio is its \
           current-thread scheduler, \"tokio multi\" the other one with one worker.",
    is_not: "a network (loopback runs the peer's TCP receive path inside `send`, on the sender's CPU), not a latency bench (in \
             a closed loop with the server saturated, latency is connections times service time), and not a scaling bench. With \
             one connection the server sleeps between any two requests, and with large messages the client, which compares \
             them, has more to do than the server.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::urgo::echo),
        Contender::server("raw ring", servers::raw_oneshot::echo).of_crate("io-uring"),
        Contender::server("raw multishot", servers::raw_multishot::echo).of_crate("io-uring"),
        Contender::server("raw epoll", servers::raw_epoll::echo),
        Contender::server("monoio", servers::monoio::echo).of_crate("monoio"),
        Contender::server("tokio", servers::tokio::echo).of_crate("tokio"),
        Contender::server("tokio multi", servers::tokio::echo_multi).of_crate("tokio"),
        Contender::server("may", servers::may::echo).of_crate("may"),
        Contender::GO,
    ],
    client: Some(client),
};

fn cases(size: Size) -> Vec<Case> {
    let case = |message: usize, kind: &str, connections: usize| {
        let noun = if connections == 1 {
            "connection"
        } else {
            "connections"
        };
        Case::new(format!("{kind}, {connections} {noun}"), 1, 1)
            .param("message", message)
            .param("connections", connections)
            .param("window_ms", size.of(700, 20))
            .judged_by(Judge::SERVER_CPU)
    };
    let small = |connections| {
        case(64, "64 B", connections).plot(
            "CPU per request against connections",
            "connections",
            connections,
        )
    };
    let with_budget = |connections| {
        small(connections)
            .param("window_ms", 1500)
            .budget(Budget::TimesOf("raw ring", 1.05))
    };
    if size == Size::Quick {
        return vec![small(1), small(16), case(64 << 10, "64 KiB", 4)];
    }
    vec![
        small(1).rounds_max(5),
        small(16).rounds_max(5),
        with_budget(64),
        with_budget(512),
        small(4096).rounds_max(5),
        case(4 << 10, "4 KiB", 64).rounds_max(5),
        case(64 << 10, "64 KiB", 64).rounds_max(5),
    ]
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let window = Duration::from_millis(cell.get("window_ms"));
    let exchange = Exchange::echo(cell.get("message"));
    let mut client = Closed::connect(server.address, cell.get("connections"), exchange);
    client.warm_up(window / 5);
    let before = server.snapshot();
    let seen = client.run(window);
    let mut sample = server.used_since(&before, seen.requests, exchange.checksum());
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
