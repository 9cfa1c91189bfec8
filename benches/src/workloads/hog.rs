//! How long do requests wait beside somebody who computes all the time?

use super::latency::measure;
use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::machine::runnable_ns_of;
use crate::net::client::Spacing;
use crate::net::{Server, servers};
use std::time::Instant;

pub(super) const WORKLOAD: Workload = Workload {
    name: "hog",
    question: "How long do requests wait beside somebody who computes all the time?",
    work: "Echo of 64 B over 16 loopback connections, each with one request per 5 ms, evenly spaced over all (open loop: \
           latencies count from the moment a request was due). The server has one worker. Beside it runs nothing, or a \
           goroutine that computes for 100 µs, yields and starts again, or, in Go alone, one that computes without end. \
           `runnable` is the share of the time in which the server ran or wanted to: with a hog all of it, which is checked.",
    is_not: "a measure of preemption, except for Go: neither urgo nor tokio can take the CPU from a goroutine or a task that \
             computes without end, so they are not in that case. monoio and may are in none with a hog, because they look \
             for I/O only when nothing is ready to run: with a task that yields and is ready again they answer nothing, ever. Go \
             beside a hog answers each connection once in about 10 ms, less often than it is asked; so its latencies are those \
             of a queue that grows, and the longer the run, the longer they get.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::urgo::echo),
        Contender::server("monoio", servers::monoio::echo).of_crate("monoio"),
        Contender::server("tokio", servers::tokio::echo).of_crate("tokio"),
        Contender::server("may", servers::may::echo).of_crate("may"),
        Contender::GO,
    ],
    client: Some(client),
};

const P999: Judge = Judge {
    metric: "p999_us",
    unit: "µs",
    what: "99.9th percentile of latency",
};
/// A hog always wants to run, whether it gets a CPU or not.
const RUNNABLE_MIN: f64 = 0.9;

fn cases(size: Size) -> Vec<Case> {
    let case = |name: &str, hog: &str| {
        Case::new(name, 1, 1)
            .param("message", 64)
            .param("connections", 16)
            .param("period_ms", 5)
            .param("window_ms", size.of(2000, 50))
            .param("hog", hog)
            .judged_by(P999)
            .rounds_max(3)
    };
    vec![
        case("without a hog", "none"),
        case("beside a hog that yields every 100 µs", "polite")
            .only(&["urgo", "tokio", "go"])
            .budget(Budget::AtMost(5000.0)),
        case("beside a loop that never yields", "loop").only(&["go"]),
    ]
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let per_second = cell.get::<f64>("connections") * 1e3 / cell.get::<f64>("period_ms");
    let (start, before_ns) = (Instant::now(), runnable_ns_of(server.pid()));
    let mut sample = measure(cell, server, per_second, Spacing::Even);
    if let (Some(before), Some(after)) = (before_ns, runnable_ns_of(server.pid())) {
        let share = (after - before) as f64 / start.elapsed().as_nanos() as f64;
        sample.set("runnable", share);
        assert!(
            cell.get::<String>("hog") == "none" || share >= RUNNABLE_MIN,
            "there is no hog: the server wanted to run for {share:.2} of the time"
        );
    }
    sample
}
