//! What does a connection cost on which nothing happens?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::machine::{cpu_ns_of, peak_bytes_of, resident_bytes_of, switches_of};
use crate::net::{Server, servers};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub(super) const WORKLOAD: Workload = Workload {
    name: "idle",
    question: "What does a connection cost on which nothing happens?",
    work: "10,000 loopback connections, each of which has had one request of 64 B answered by an echo server with one worker, \
           and then nothing. Memory is what the server's process has more than with one connection, resident pages and page \
           tables, divided by the connections. The share of a CPU and the changes of context are those of the server's process \
           while nothing happens. Afterwards every connection is asked once more, so all of them were alive.",
    is_not: "the kernel's memory for sockets, which is the same for all and not in these figures; nor a measure of servers whose \
             handlers have used much of their stacks or have larger buffers.",
    cases,
    contenders: &[
        Contender::server("urgo", servers::urgo::echo),
        Contender::server("raw epoll", servers::raw_epoll::echo),
        Contender::server("monoio", servers::monoio::echo).of_crate("monoio"),
        Contender::server("tokio", servers::tokio::echo).of_crate("tokio"),
        Contender::server("may", servers::may::echo).of_crate("may"),
        Contender::GO,
    ],
    client: Some(client),
};

const MEMORY: Judge = Judge {
    metric: "bytes_each",
    unit: "B",
    what: "memory per connection",
};
const IDLE_CPU: Judge = Judge {
    metric: "cpu_percent",
    unit: "%",
    what: "share of a CPU",
};
/// In percent, what stands for nothing at all, so that there are ratios: less than one wake in a window of three seconds.
const SHARE_MIN: f64 = 0.0001;
/// Until the last request's traces have gone.
const SETTLE_TIME: Duration = Duration::from_millis(200);
/// One request takes microseconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

fn cases(size: Size) -> Vec<Case> {
    let connections = size.of(10_000, 100);
    let case = |name: &str, judge, window_ms: usize| {
        Case::new(name, 1, connections)
            .param("message", 64)
            .param("window_ms", window_ms)
            .judged_by(judge)
            .rounds_max(3)
    };
    vec![
        case("memory", MEMORY, size.of(300, 30)),
        case("CPU", IDLE_CPU, size.of(3000, 30)).budget(Budget::AtMost(0.1)),
    ]
}

fn client(cell: &Cell, server: &Server) -> Sample {
    let (connections, pid) = (cell.ops(), server.pid());
    let message: Vec<u8> = (0..cell.get::<usize>("message"))
        .map(|at| at as u8)
        .collect();
    // The first one makes the server build what it has once only.
    let mut first = connect(server.address);
    ask(&mut first, &message);
    std::thread::sleep(SETTLE_TIME);
    let memory = || resident_bytes_of(pid).expect("the server runs");
    let before_bytes = memory();
    let mut parked: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let mut stream = connect(server.address);
            ask(&mut stream, &message);
            stream
        })
        .collect();
    std::thread::sleep(SETTLE_TIME);
    let mut sample = Sample::new(connections as u64, 0);
    // Below zero if the server gave memory back meanwhile: that shall be seen.
    let more_bytes = memory() as f64 - before_bytes as f64;
    sample.set("bytes_each", more_bytes / connections as f64);
    let peak_bytes = peak_bytes_of(pid).expect("the server runs");
    sample.set("peak_bytes", peak_bytes as f64);
    watch(
        pid,
        Duration::from_millis(cell.get("window_ms")),
        &mut sample,
    );
    parked.iter_mut().for_each(|stream| ask(stream, &message));
    sample
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("TCP_NODELAY");
    stream
        .set_read_timeout(Some(ANSWER_TIME_MAX))
        .expect("a time above zero");
    stream
}

/// One request, whose answer is compared with it.
fn ask(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(message).expect("the connection is alive");
    let mut answer = vec![0; message.len()];
    stream.read_exact(&mut answer).expect("an answer in time");
    assert_eq!(answer, message, "a wrong answer");
}

/// What the process does while nothing happens.
fn watch(pid: u32, window: Duration, sample: &mut Sample) {
    let used = || {
        let runs = "the server runs";
        (cpu_ns_of(pid).expect(runs), switches_of(pid).expect(runs))
    };
    let (before, start) = (used(), Instant::now());
    std::thread::sleep(window);
    let (after, seconds) = (used(), start.elapsed().as_secs_f64());
    let cpu_seconds = (after.0 - before.0) as f64 / 1e9;
    let share = 100.0 * cpu_seconds / seconds;
    sample.set("cpu_percent", share.max(SHARE_MIN));
    // A thread that has ended takes its count with it; then there is no figure rather than a wrong one.
    if let Some(switches) = after.1.checked_sub(before.1) {
        sample.set("switches_per_second", switches as f64 / seconds);
    }
}
