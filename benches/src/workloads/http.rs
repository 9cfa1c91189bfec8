//! What does an HTTP request cost a server?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::net::client::{Closed, http::Answer};
use crate::net::{Server, servers};
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "http",
    question: "What does an HTTP request cost a server?",
    work: "`GET /` over keep-alive connections on loopback, answered with 14 bytes of text, one request outstanding on each \
           connection (\"plain\") or sixteen sent at once and the next sixteen when all are answered (\"pipelined\"). One \
           operation is one request. The server is on one CPU; the client is one thread on another CPU that polls its ring \
           and never sleeps. Every answer is compared, byte for byte but for the time in `Date`, with the first one. urgo is \
           the server of `examples/http` as it is, which alone limits the time of each read. hyper is on tokio's \
           current-thread scheduler with `pipeline_flush`; Go's is net/http.",
    is_not: "a network (loopback runs the peer's TCP receive path inside `send`, on the sender's CPU), not a latency bench (in \
             a closed loop with the server saturated, latency is connections times service time), and not a comparison of \
             features: may_minihttp parses the least, hyper and net/http do the most for other requests than this one.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::http_urgo::hello),
        Contender::server("hyper", servers::hyper::hello).of_crate("hyper"),
        Contender::server("may_minihttp", servers::may_minihttp::hello).of_crate("may_minihttp"),
        Contender::GO,
    ],
    client: Some(client),
};

fn cases(size: Size) -> Vec<Case> {
    let case = |connections: usize, depth: usize| {
        let connections = size.of(connections, 8);
        let name = match depth {
            1 => format!("plain, {connections} connections"),
            _ => format!("{depth} pipelined, {connections} connections"),
        };
        Case::new(name, 1, 1)
            .param("connections", connections)
            .param("depth", depth)
            .param("window_ms", size.of(1500, 50))
            .judged_by(Judge::SERVER_CPU)
            .budget(Budget::AheadOf(&["hyper", "may_minihttp", "go"]))
    };
    match size {
        Size::Full => vec![case(64, 1), case(256, 1), case(64, 16)],
        Size::Quick => vec![case(8, 1), case(8, 16)],
    }
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let window = Duration::from_millis(cell.get("window_ms"));
    let depth = cell.get("depth");
    let answer = Answer::learn(server.address);
    let exchange = answer.exchange(depth);
    let mut client = Closed::connect(server.address, cell.get("connections"), exchange);
    client.warm_up(window / 5);
    let before = server.snapshot();
    let seen = client.run(window);
    let requests = seen.requests * depth as u64;
    let mut sample = server.used_since(&before, requests, answer.checksum());
    sample.set_latencies(&seen.latencies);
    sample.set(
        "client_busy",
        seen.busy.as_secs_f64() / seen.elapsed.as_secs_f64(),
    );
    sample.set("client_batch", requests as f64 / seen.enters.max(1) as f64);
    sample
}
