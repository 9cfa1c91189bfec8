//! Is work shared out when connections are not equally busy?

use crate::catalogue::{Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::machine::{busiest_share, thread_times_of};
use crate::net::client::{Closed, Exchange};
use crate::net::servers::{self, WORK_BYTES, work};
use crate::net::{Server, fnv};
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "imbalance",
    question: "Is work shared out between two workers when every second connection is idle?",
    work: "64 loopback connections, opened one after the other. Every second one is busy: it has one request outstanding, over \
           and over, each of 64 B and with about 20 µs of computing on the server (a hash, which is checked). Nothing is ever sent on \
           the others. So a server that deals connections to its two workers in turn, and leaves them there, has one worker do \
           all. The server is on both CPUs; the client is one thread that sleeps while there is nothing to do, and shares one \
           of them. `busiest_share` is the share that the busiest thread of the server has in the CPU time of its two busiest \
           threads: 0.5 at best, 1 at worst.",
    is_not: "a measure of what a request costs (see echo), nor of a second CPU as such: the client takes part of it.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::urgo::imbalance),
        Contender::server("tokio", servers::tokio::imbalance).of_crate("tokio"),
        Contender::server("may", servers::may::imbalance).of_crate("may"),
        Contender::GO,
    ],
    client: Some(client),
};

const WALL_PER_REQUEST: Judge = Judge {
    metric: "wall_us",
    unit: "µs",
    what: "wall time",
};

/// One connection of so many is busy.
const BUSY_STEP: usize = 2;

fn cases(size: Size) -> Vec<Case> {
    vec![
        Case::new("every second connection busy, 2 workers", 2, 1)
            .param("connections", 64)
            .param("hash_rounds", 300)
            .param("window_ms", size.of(1000, 20))
            .judged_by(WALL_PER_REQUEST)
            .rounds_max(5),
    ]
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let window = Duration::from_millis(cell.get("window_ms"));
    let request: [u8; WORK_BYTES] = std::array::from_fn(|at| at as u8);
    let mut answer = request;
    work(&mut answer, cell.get("hash_rounds"));
    let exchange = Exchange::fixed(request.to_vec(), answer.to_vec());
    let connections = cell.get("connections");
    let mut client = Closed::connect_sleepy(server.address, connections, exchange, BUSY_STEP);
    client.warm_up(window / 5);
    let runs = "the server runs";
    let threads = thread_times_of(server.pid()).expect(runs);
    let before = server.snapshot();
    let seen = client.run(window);
    let mut sample = server.used_since(&before, seen.requests, fnv(&answer, 1));
    let threads_after = thread_times_of(server.pid()).expect(runs);
    let share = busiest_share(&threads, &threads_after).unwrap_or_else(|why| panic!("{why}"));
    if let Some(share) = share {
        sample.set("busiest_share", share);
    }
    sample.set_latencies(&seen.latencies);
    sample
}
