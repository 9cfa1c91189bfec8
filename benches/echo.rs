//! Question: what does a request cost on a goroutine per connection, against the least that a hand-written ring loop needs?
//!
//! Workload: 64-byte echo over loopback TCP, 64 and 512 connections, one request outstanding on each (closed loop). The server
//! is a child process on one CPU, started anew for every cell of every round; the client is one thread on another CPU that
//! polls its ring and never sleeps, so no server pays for waking it, and it is the same for all servers. Servers in turn:
//!
//! - `urgo`: accept loop, one goroutine per connection, `loop { read; write_all }`, one worker;
//! - `raw recv+send`: a hand-written loop over one ring (DEFER_TASKRUN, NO_SQARRAY), one `io_uring_enter` per turn, one
//!   request of each connection in flight: recv, then send, then recv;
//! - `raw multishot`: multishot recv with a buffer ring, send from the received buffer.
//!
//! Printed: machine, kernel, commit; CPU time of the server process per request with its user/system proportion, requests per
//! second, p50 and p99 of the latency, how busy the server and the client were; ratios formed round by round.
//!
//! It is not: a network (loopback runs the peer's TCP receive path inside `send`, on the sender's CPU), not a latency bench
//! (in a closed loop with the server saturated, latency is connections times service time), and not a scaling bench.
//!
//! Options: those of every bench; `--seconds S` of a cell; `--connections N`; `--spread` for other tunings of the raw loops (poll
//! first, direct descriptors, recv handed over together with the send); `--hog` for a busy loop that takes half of the server's
//! CPU. Server and client do about the same work per request, so a good server may find the client to be the bottleneck, and
//! then its cost per request is what its small batches make it, not what it could be. Beside the hog the client has time to
//! spare by construction; CPU time per request keeps its meaning, latency and requests per second lose theirs.

#[path = "harness/mod.rs"]
mod harness;

#[path = "echo/buffer_ring.rs"]
mod buffer_ring;
#[path = "echo/cell.rs"]
mod cell;
#[path = "echo/client.rs"]
mod client;
#[path = "echo/connections.rs"]
mod connections;
#[path = "echo/histogram.rs"]
mod histogram;
#[path = "echo/raw_multishot.rs"]
mod raw_multishot;
#[path = "echo/raw_oneshot.rs"]
mod raw_oneshot;
#[path = "echo/urgo_server.rs"]
mod urgo_server;

use cell::{Cell, Hog};
use harness::{Options, Report, Summary, allowed_cpus, locked_version, pin, ratios};
use raw_oneshot::Tuning;
use std::net::TcpListener;
use std::time::Duration;

/// Bytes of a request and of its answer.
const MESSAGE_BYTES: usize = 64;
/// Bytes that a server is ready to take in one read.
const READ_BYTES: usize = 1024;
/// Answers per enter of the client from which on it counts as the bottleneck: half of what one enter can run.
const CLIENT_BOUND_BATCH: f64 = 10.0;
/// Hidden first argument of a server process.
const SERVE: &str = "--serve";

/// A server by its name on the command line and in the table.
#[derive(Debug, Clone, Copy)]
struct Server {
    word: &'static str,
    name: &'static str,
    run: fn(TcpListener, usize),
}

const SERVERS: &[Server] = &[
    Server {
        word: "urgo",
        name: "urgo",
        run: urgo_server::serve,
    },
    Server {
        word: "raw",
        name: "raw recv+send",
        run: |listener, _| raw_oneshot::serve(listener, Tuning::SEQUENTIAL),
    },
    Server {
        word: "multishot",
        name: "raw multishot",
        run: |listener, _| raw_multishot::serve(listener),
    },
];

/// Other tunings of the floor, to show that it is the best of them; run with `--spread`.
const SPREAD: &[Server] = &[
    Server {
        word: "raw-poll",
        name: "raw recv+send, poll first",
        run: |listener, _| {
            raw_oneshot::serve(
                listener,
                Tuning {
                    poll_first: true,
                    ..Tuning::SEQUENTIAL
                },
            )
        },
    },
    Server {
        word: "raw-direct",
        name: "raw recv+send, direct",
        run: |listener, _| {
            raw_oneshot::serve(
                listener,
                Tuning {
                    direct: true,
                    ..Tuning::SEQUENTIAL
                },
            )
        },
    },
    Server {
        word: "overlapped",
        name: "raw overlapped",
        run: |listener, _| raw_oneshot::serve(listener, Tuning::OVERLAPPED),
    },
    Server {
        word: "overlapped-first",
        name: "raw overlapped, try first",
        run: |listener, _| {
            raw_oneshot::serve(
                listener,
                Tuning {
                    poll_first: false,
                    ..Tuning::OVERLAPPED
                },
            )
        },
    },
];

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.get(1).is_some_and(|word| word == SERVE) {
        return serve(&words[2], words[3].parse().expect("a CPU number"));
    }
    let mut options = Options::from_args(7);
    let cpus = allowed_cpus();
    let mut report = Report::open("echo", &cpus, &mut options);
    println!("rival:   io-uring {}", locked_version("io-uring"));
    let (server_cpu, client_cpu) = (cpus[0], cpus[cpus.len() - 1]);
    if server_cpu == client_cpu {
        println!(
            "one CPU only: server and client share it, so ratios compare less than they should"
        );
    }
    pin(client_cpu);

    let value = |name: &str| {
        words
            .iter()
            .position(|word| word == name)
            .and_then(|at| words.get(at + 1))
    };
    let seconds = value("--seconds").map(|text| text.parse().expect("--seconds takes a number"));
    let window = Duration::from_secs_f64(seconds.unwrap_or(if options.quick { 0.05 } else { 1.5 }));
    let connections: Vec<usize> = match value("--connections") {
        Some(text) => vec![text.parse().expect("--connections takes a count")],
        None if options.quick => vec![8],
        None => vec![64, 512],
    };
    let hogged = words.iter().any(|word| word == "--hog");
    let spread = if words.iter().any(|word| word == "--spread") {
        SPREAD
    } else {
        &[]
    };
    let servers: Vec<Server> = SERVERS
        .iter()
        .chain(spread)
        .filter(|server| options.wants(server.name))
        .copied()
        .collect();

    for connections in connections {
        let mut cells: Vec<Vec<Cell>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 0..options.rounds {
            for turn in 0..servers.len() {
                let at = if round % 2 == 0 {
                    turn
                } else {
                    servers.len() - 1 - turn
                };
                let _hog = hogged.then(|| Hog::start(server_cpu));
                cells[at].push(Cell::run(servers[at].word, server_cpu, connections, window));
            }
        }
        print_table(&mut report, connections, &servers, &cells);
    }
}

/// The body of a server process: listens, says where, serves until it is killed.
fn serve(word: &str, cpu: usize) {
    cell::die_with_parent();
    let server = SERVERS
        .iter()
        .chain(SPREAD)
        .find(|server| server.word == word)
        .expect("a known server");
    pin(cpu);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    println!("{}", listener.local_addr().expect("a bound socket").port());
    (server.run)(listener, cpu);
}

fn print_table(report: &mut Report, connections: usize, servers: &[Server], cells: &[Vec<Cell>]) {
    let case = format!("echo {MESSAGE_BYTES} B, {connections} connections");
    println!(
        "\n-- {case}: CPU time of the server per request, median (min .. max) of {} rounds",
        cells[0].len()
    );
    println!(
        "{:<26} {:^30} {:>5} {:>9} {:>8} {:>8} {:>6} {:>6} {:>6}",
        "", "us", "user", "req/s", "p50 us", "p99 us", "server", "client", "batch"
    );
    for (server, cells) in servers.iter().zip(cells) {
        let median = |of: fn(&Cell) -> f64| Summary::of(cells.iter().map(of)).median;
        let cost = Summary::of(cells.iter().map(|cell| cell.cpu_us));
        println!(
            "{:<26} {:<30} {:>4.0}% {:>9.0} {:>8.0} {:>8.0} {:>5.0}% {:>5.0}% {:>6.1}",
            server.name,
            format!("{cost:.3}"),
            100.0 * median(|cell| cell.user_share),
            median(|cell| cell.requests_per_second),
            median(|cell| cell.p50_us),
            median(|cell| cell.p99_us),
            100.0 * median(|cell| cell.server_busy),
            100.0 * median(|cell| cell.client_busy),
            median(|cell| cell.client_batch),
        );
        report.line(
            &case,
            server.name,
            "cpu_us",
            cells.iter().map(|cell| cell.cpu_us).collect(),
        );
        report.line(
            &case,
            server.name,
            "requests_per_second",
            cells.iter().map(|cell| cell.requests_per_second).collect(),
        );
        report.line(
            &case,
            server.name,
            "p99_us",
            cells.iter().map(|cell| cell.p99_us).collect(),
        );
    }
    let costs: Vec<Vec<f64>> = cells
        .iter()
        .map(|cells| cells.iter().map(|cell| cell.cpu_us).collect())
        .collect();
    for at in 1..servers.len() {
        println!(
            "ratio {:<44}{:.3}",
            format!("{} / {}", servers[0].name, servers[at].name),
            ratios(&costs[0], &costs[at])
        );
    }
    for (server, cells) in servers.iter().zip(cells) {
        let median = |of: fn(&Cell) -> f64| Summary::of(cells.iter().map(of)).median;
        if median(|cell| cell.client_busy) > 0.9
            && median(|cell| cell.client_batch) > CLIENT_BOUND_BATCH
        {
            println!(
                "note: {}: the client was the bottleneck; compare with --hog",
                server.name
            );
        }
        if median(|cell| cell.server_busy) < 0.95 {
            println!(
                "note: {}: the server slept, or its CPU was shared",
                server.name
            );
        }
    }
}
