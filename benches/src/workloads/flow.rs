//! What does a stream of bytes cost a server?

use crate::catalogue::{Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::net::client::{Flow, Way};
use crate::net::{Server, fnv, servers};
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "flow",
    question: "What does a stream of bytes cost a server?",
    work: "Bytes one way over loopback TCP, as fast as they go, on 1 connection and on 16. A source writes blocks of 64 KiB; a sink \
           reads up to 64 KiB at a time, and throws it away. The server is on one CPU; the client is one thread on another CPU \
           that never sleeps and copies nothing, so that it is not what holds the stream up. One operation is one MiB. The first \
           bytes of a source are compared; a sink counts its bytes and says at the end how many there were, which is compared, too.",
    is_not: "a network: loopback hands pages over, and the peer's TCP receive path runs inside the sender's `send`. A sink \
             hardly ever waits for its client, and then in a sleep that ends at once.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::urgo::flow),
        Contender::server("raw epoll", servers::raw_epoll::flow),
        Contender::server("monoio", servers::monoio::flow).of_crate("monoio"),
        Contender::server("tokio", servers::tokio::flow).of_crate("tokio"),
        Contender::server("may", servers::may::flow).of_crate("may"),
        Contender::GO,
    ],
    client: Some(client),
};

/// Bytes of each connection of a source that are compared.
const COMPARED_BYTES: usize = 1 << 20;

const CPU_PER_MIB: Judge = Judge {
    unit: "µs/MiB",
    ..Judge::SERVER_CPU
};

fn cases(size: Size) -> Vec<Case> {
    let case = |way: &str, connections: usize| {
        let noun = if connections == 1 {
            "connection"
        } else {
            "connections"
        };
        Case::new(format!("{way}, {connections} {noun}"), 1, 1)
            .param("way", way)
            .param("connections", connections)
            .param("window_ms", size.of(500, 20))
            .judged_by(CPU_PER_MIB)
            .rounds_max(5)
    };
    vec![
        case("source", 1),
        case("source", 16),
        case("sink", 1),
        case("sink", 16),
    ]
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let way = match cell.get::<String>("way").as_str() {
        "source" => Way::In,
        _ => Way::Out,
    };
    let window = Duration::from_millis(cell.get("window_ms"));
    let mut client = Flow::connect(server.address, cell.get("connections"), way);
    if way == Way::In {
        client.check_first(COMPARED_BYTES);
    }
    client.run(window / 5);
    let before = server.snapshot();
    let mib = client.run(window) >> 20;
    let mut sample = server.used_since(&before, mib, fnv(b"compared", 1));
    if let Some(per_second) = sample.metrics.remove("requests_per_second") {
        sample.set("mib_per_second", per_second);
    }
    if way == Way::Out {
        client.check_given();
    }
    sample
}
