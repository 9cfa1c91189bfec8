//! What does an HTTP connection that waits cost in memory?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::machine::resident_bytes_of;
use crate::net::client::http::Answer;
use crate::net::{Server, servers};
use std::time::{Duration, Instant};

pub(super) const WORKLOAD: Workload = Workload {
    name: "http_idle",
    question: "What memory does an HTTP connection keep while it waits for its next request?",
    work: "Keep-alive connections to the servers of `http`, one request answered on each, then silence. Counted is what the \
           server's process has more than after its first 64 connections: resident memory and page tables, once it has been \
           the same for a second and a half, or after ten seconds.",
    is_not: "the kernel's memory for sockets and their polls, which is the same or nearly so for all and is not in it; and not \
             the memory of a connection in use, which has grown buffers.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::http_urgo::hello),
        Contender::server("hyper", servers::hyper::hello).of_crate("hyper"),
        Contender::server("may_minihttp", servers::may_minihttp::hello).of_crate("may_minihttp"),
        Contender::GO,
    ],
    client: Some(client),
};

/// Connections before the first look.
const WARM_UP: usize = 64;
/// Pause between two looks. Servers that give memory back when a connection is quiet do so after about a second.
const LOOK_EVERY: Duration = Duration::from_millis(1500);
/// The last look comes by then.
const SETTLE_TIME: Duration = Duration::from_secs(10);

const MEMORY: Judge = Judge {
    metric: "bytes_each",
    unit: "bytes",
    what: "memory per connection",
};

fn cases(size: Size) -> Vec<Case> {
    let connections = size.of(8000, 50);
    vec![
        Case::new(format!("{connections} connections"), 1, connections)
            .judged_by(MEMORY)
            .budget(Budget::AtMost(6144.0))
            .rounds_max(3),
    ]
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let connections = cell.ops();
    let answer = Answer::learn(server.address);
    let open =
        |count: usize| -> Vec<_> { (0..count).map(|_| answer.connect(server.address)).collect() };
    let _warm_up = open(WARM_UP);
    let before_bytes = settled_bytes(cell, server);
    let start = server.snapshot();
    let _measured = open(connections);
    let mut sample = server.used_since(&start, connections as u64, answer.checksum());
    let bytes = settled_bytes(cell, server).saturating_sub(before_bytes);
    sample.set("bytes_each", bytes as f64 / connections as f64);
    sample
}

/// The server's memory when it does not change any more.
fn settled_bytes(cell: &Cell, server: &Server) -> u64 {
    let look = || resident_bytes_of(server.pid()).expect("the server runs");
    let deadline = Instant::now() + SETTLE_TIME;
    let mut bytes = look();
    while !cell.is_quick() {
        std::thread::sleep(LOOK_EVERY);
        let before = std::mem::replace(&mut bytes, look());
        if bytes == before || Instant::now() >= deadline {
            break;
        }
    }
    bytes
}
