//! A server process, as its client sees it.

use crate::catalogue::{Role, Workload};
use crate::cell::{Cell, Sample};
use crate::machine::{
    SyscallCount, allow_descriptors, cpu_ns_of, inherited_count, peak_bytes_of, switches_of,
};
use crate::run::{COMMAND_SERVE, GO_PROGRAM, confined, say};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

/// A child process that serves; killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Kept open: a server that says something later shall not be ended by it.
    _stdout: BufReader<ChildStdout>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    count: Option<SyscallCount>,
}

/// What a server had used up at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    at: Instant,
    cpu_ns: u64,
    switches: u64,
    syscalls: u64,
}

impl Server {
    /// Starts the cell's contender on the cell's CPUs and waits until it listens.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn start(workload: &Workload, cell: &Cell) -> Server {
        let contender = workload
            .contender(&cell.contender)
            .expect("a contender of the catalogue");
        let go = matches!(contender.role, Role::Go)
            .then(|| std::env::var(GO_PROGRAM).expect("the Go program was built"));
        // For both sides of many connections.
        allow_descriptors();
        let mut command = say(COMMAND_SERVE, cell, go.as_deref());
        // This process is measured with a counter in hand only when the runner counts.
        let count = inherited_count().map(|_| SyscallCount::open().expect("as the runner did"));
        confined(&mut command, &cell.cpus, count.as_ref());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the server's program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout
            .read_line(&mut line)
            .expect("the server says its port");
        let port: u16 = line
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{}: said {line:?} instead of its port", cell.contender));
        Server {
            child,
            _stdout: stdout,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            count,
        }
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has used up until now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let runs = "the server runs";
        Snapshot {
            syscalls: self.count.as_ref().map_or(0, SyscallCount::now),
            switches: switches_of(self.pid()).expect(runs),
            cpu_ns: cpu_ns_of(self.pid()).expect(runs),
            at: Instant::now(),
        }
    }

    /// What it has used since `before`, for `requests` requests: `server_cpu_us`, `server_busy` (share of one CPU),
    /// `requests_per_second`, `switches`, `syscalls` per request, and `peak_bytes`. `checksum` is of what the client got.
    pub(crate) fn used_since(&self, before: &Snapshot, requests: u64, checksum: u64) -> Sample {
        assert!(requests > 0, "no request was answered");
        let now = self.snapshot();
        let elapsed = now.at - before.at;
        let each = requests as f64;
        let cpu_ns = (now.cpu_ns - before.cpu_ns) as f64;
        let mut sample = Sample::new(requests, checksum);
        sample.set("server_cpu_us", cpu_ns / 1e3 / each);
        sample.set("server_busy", cpu_ns / 1e9 / elapsed.as_secs_f64());
        sample.set("requests_per_second", each / elapsed.as_secs_f64());
        sample.set("wall_us", elapsed.as_secs_f64() * 1e6 / each);
        // A thread that has ended takes its count with it; then there is no figure rather than a wrong one.
        if let Some(switches) = now.switches.checked_sub(before.switches) {
            sample.set("switches", switches as f64 / each);
        }
        if self.count.is_some() {
            sample.set("syscalls", (now.syscalls - before.syscalls) as f64 / each);
        }
        sample.set(
            "peak_bytes",
            peak_bytes_of(self.pid()).expect("the server runs") as f64,
        );
        sample
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Our own child: it can be killed and reaped, unless it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
