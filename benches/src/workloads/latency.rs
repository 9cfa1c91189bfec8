//! How long does a request wait at a server that has time to spare?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::net::client::{Closed, Exchange, Open, Spacing};
use crate::net::{Server, servers};
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "latency",
    question: "How long does a request wait at a server that has time to spare?",
    work: "Echo of 64 B over 64 loopback connections, with an open loop: requests come at random moments (a Poisson process, \
           the same moments for all), at half of the requests per second, or 80 % of them, that Go reaches in the same case \
           with all 64 connections always busy (the median of three short tries, or what `run --rate` says). They are dealt to the connections in turn; one whose connection is still busy \
           waits in the client, and its latency counts from the moment it was due, so no latency is left out because the \
           server was slow (\"coordinated omission\"). The server is on one CPU; the client polls on another one. \
           `client_late_us` is how far behind its schedule the client itself was at worst but one percent: it is part of every \
           latency. With a hog, a goroutine on the same worker computes for 100 µs, yields, and starts again.",
    is_not: "a network, whose time comes on top of all of this; nor a measure of throughput, since all do the same number of \
             requests. A server that is slower than Go works nearer to its limit, and all are busier than the load says \
             (`server_busy`), since requests that come one by one cost more than those that come together.",
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

/// Those who can have a hog beside them.
const WITH_HOG: &[&str] = &["urgo", "tokio", "go"];

const P999: Judge = Judge {
    metric: "p999_us",
    unit: "µs",
    what: "99.9th percentile of latency",
};

fn cases(size: Size) -> Vec<Case> {
    let case = |name: &str, load: f64, hog: &str| {
        Case::new(name, 1, 1)
            .param("message", 64)
            .param("connections", size.of(64, 8))
            .param("window_ms", size.of(1500, 30))
            .param("load", load)
            .param("hog", hog)
            .judged_by(P999)
            .budget(Budget::AheadOf(&["go", "tokio"]))
            .calibrated_by("go")
            .rounds_max(5)
    };
    vec![
        case("50 % load", 0.5, "none"),
        case("80 % load", 0.8, "none"),
        case("50 % load, beside a hog that yields", 0.5, "polite").only(WITH_HOG),
    ]
}

fn client(cell: &Cell, server: &Server) -> Sample {
    if cell.find::<u8>("calibrate") == Some(1) {
        return calibrate(cell, server);
    }
    measure(cell, server, cell.get("rate"), Spacing::Random)
}

/// The share `load` of what the server can do with all connections always busy, as metric `rate`.
fn calibrate(cell: &Cell, server: &Server) -> Sample {
    let window = Duration::from_millis(cell.get("window_ms"));
    let exchange = Exchange::echo(cell.get("message"));
    let mut client = Closed::connect(server.address, cell.get("connections"), exchange);
    client.warm_up(window / 5);
    let seen = client.run(window);
    let reached = seen.requests as f64 / seen.elapsed.as_secs_f64();
    let mut sample = Sample::new(seen.requests, exchange.checksum());
    sample.set("rate", reached * cell.get::<f64>("load"));
    sample
}

/// Latencies in an open loop, after a fifth of the time to warm up.
pub(super) fn measure(cell: &Cell, server: &Server, per_second: f64, spacing: Spacing) -> Sample {
    let window = Duration::from_millis(cell.get("window_ms"));
    let exchange = Exchange::echo(cell.get("message"));
    let mut client = Open::connect(server.address, cell.get("connections"), exchange);
    client.run(per_second, spacing, window / 5);
    let before = server.snapshot();
    let kept = client.run(per_second, spacing, window);
    let mut sample = server.used_since(&before, kept.requests, exchange.checksum());
    sample.set_latencies(&kept.latencies);
    let late_us = |quantile| kept.late.value_at_quantile(quantile) as f64 / 1e3;
    sample.set("client_late_us", late_us(0.99));
    sample.set("client_late_p999_us", late_us(0.999));
    sample
}
