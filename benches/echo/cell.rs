//! One cell of the table: a server process, a client, one measured window.
//!
//! # Safety
//! One call of libc, which takes plain integers.

use crate::client::Client;
use crate::harness::{cpu_ns_of, cpu_ticks_of, pin};
use crate::{MESSAGE_BYTES, SERVE};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What one window showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// CPU time of the server process per request.
    pub(crate) cpu_us: f64,
    /// Part of it spent in user code, from 10 ms ticks.
    pub(crate) user_share: f64,
    /// Requests per second.
    pub(crate) requests_per_second: f64,
    /// Median latency.
    pub(crate) p50_us: f64,
    /// 99th percentile of the latency.
    pub(crate) p99_us: f64,
    /// CPU time of the server by wall time.
    pub(crate) server_busy: f64,
    /// Part of its time in which the client was not polling in vain.
    pub(crate) client_busy: f64,
    /// Answers per time that the client entered the kernel. Near the kernel's limit of 20: the client is the bottleneck.
    pub(crate) client_batch: f64,
}

impl Cell {
    /// Starts the server `word` on `cpu`, warms it up, measures one window, ends it.
    pub(crate) fn run(word: &str, cpu: usize, connections: usize, window: Duration) -> Cell {
        let server = ServerProcess::start(word, cpu);
        let mut client = Client::connect(server.address, connections);
        client.run(window / 5);
        let pid = server.child.id();
        let cpu_before_ns = cpu_ns_of(pid).expect("the server runs");
        let ticks_before = cpu_ticks_of(pid).expect("the server runs");
        let seen = client.run(window);
        let cpu_ns = (cpu_ns_of(pid).expect("the server runs") - cpu_before_ns) as f64;
        let ticks = cpu_ticks_of(pid).expect("the server runs");
        let (user, system) = (
            (ticks.0 - ticks_before.0) as f64,
            (ticks.1 - ticks_before.1) as f64,
        );
        assert!(
            seen.requests > 0,
            "{word}: no answer to a {MESSAGE_BYTES}-byte request in {window:?}"
        );
        Cell {
            cpu_us: cpu_ns / seen.requests as f64 / 1e3,
            user_share: user / (user + system).max(1.0),
            requests_per_second: seen.requests as f64 / seen.elapsed.as_secs_f64(),
            p50_us: seen.latencies.quantile_ns(0.50) as f64 / 1e3,
            p99_us: seen.latencies.quantile_ns(0.99) as f64 / 1e3,
            server_busy: cpu_ns / 1e9 / seen.elapsed.as_secs_f64(),
            client_batch: seen.requests as f64 / seen.enters.max(1) as f64,
            client_busy: seen.busy.as_secs_f64() / seen.elapsed.as_secs_f64(),
        }
    }
}

/// A child process of this binary, killed and reaped when dropped.
struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    fn start(word: &str, cpu: usize) -> ServerProcess {
        let binary = std::env::current_exe().expect("the path of this binary");
        let mut command = Command::new(binary);
        command
            .args([SERVE, word, &cpu.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("a child of this binary");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("the server says its port");
        let port = line
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{word}: said {line:?} instead of its port"));
        ServerProcess {
            child,
            address: (Ipv4Addr::LOCALHOST, port).into(),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.child
            .kill()
            .and_then(|()| self.child.wait().map(drop))
            .expect("our own child");
    }
}

/// A thread of the client's process that keeps a CPU busy until it is dropped.
#[derive(Debug)]
pub(crate) struct Hog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Starts a busy loop on `cpu`.
    pub(crate) fn start(cpu: usize) -> Hog {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            pin(cpu);
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Hog {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Lets the kernel kill this process when the one that started it ends, so that no server stays behind.
pub(crate) fn die_with_parent() {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    assert_eq!(result, 0, "prctl: {}", std::io::Error::last_os_error());
}
