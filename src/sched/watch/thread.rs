//! The watch thread: how it is asked for, started and ended, and what it says.

use super::super::remote::Remote;
use super::episode::{Finding, State, Watched};
use super::running::{Running, Seen};
use super::thread_state::{self, Doing};
use crate::seam::{Clock, HostThreads};
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use urgo_sys::cpu::CpuSet;

const VARIABLE: &str = "URGO_REPORT_STUCK";

/// A runtime's watch, if one was asked for.
#[derive(Debug)]
pub(crate) struct Watch {
    limit: Duration,
    stop: Arc<Stop>,
}

#[derive(Debug, Default)]
struct Stop {
    is_stopping: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    /// What the environment asks for.
    pub(crate) fn asked_for() -> Option<Watch> {
        let text = std::env::var_os(VARIABLE)?;
        let limit = text.to_str().and_then(limit);
        if limit.is_none() {
            say(&format_args!(
                "urgo: {VARIABLE} is ignored: it must be a number of milliseconds, from 1 on"
            ));
        }
        Some(Watch {
            limit: limit?,
            stop: Arc::default(),
        })
    }

    /// Starts the thread, which ends after `begin_stop`.
    pub(crate) fn start(
        &self,
        remotes: &[Arc<Remote>],
        mask: Option<CpuSet>,
        host_threads: HostThreads,
        clock: Clock,
    ) -> io::Result<JoinHandle<()>> {
        let (limit, stop) = (self.limit, self.stop.clone());
        let workers: Vec<_> = remotes
            .iter()
            .map(|remote| (remote.clone(), Watched::default()))
            .collect();
        host_threads.start("urgo-watch".to_owned(), move || {
            if let Some(mask) = &mask {
                // A mask that the kernel refuses now (hotplug) leaves the inherited one.
                let _ = urgo_sys::cpu::set_affinity(mask);
            }
            watch(workers, limit, &stop, clock);
        })
    }

    /// Any thread. Lets the thread end.
    pub(crate) fn begin_stop(&self) {
        *self
            .stop
            .is_stopping
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
    }
}

fn limit(text: &str) -> Option<Duration> {
    let milliseconds: u32 = text.trim().parse().ok()?;
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()))
}

fn watch(mut workers: Vec<(Arc<Remote>, Watched)>, limit: Duration, stop: &Stop, clock: Clock) {
    let limit_ns = limit.as_nanos() as u64;
    loop {
        let is_last = {
            let stopping = stop
                .is_stopping
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let waited = stop
                .changed
                .wait_timeout_while(stopping, limit / 2, |stopping| !*stopping);
            *waited.unwrap_or_else(PoisonError::into_inner).0
        };
        for (remote, watched) in &mut workers {
            let Some((running, thread)) = remote
                .running
                .as_ref()
                .and_then(|running| Some((running, running.thread()?)))
            else {
                continue;
            };
            let seen = running.look();
            let state = || state_of(running, thread, seen.as_ref()?);
            let finding = watched.look(clock.now_ns(), limit_ns, seen.clone(), state);
            if let Some(finding) = finding {
                report(remote.index, thread, &finding);
            }
        }
        if is_last {
            return;
        }
    }
}

/// What the worker's thread does in this dispatch; `None` if the dispatch is over.
fn state_of(running: &Running, thread: u32, seen: &Seen) -> Option<State> {
    let state = (thread_state::doing(thread), thread_state::times(thread));
    let is_same = running.look()?.dispatch == seen.dispatch;
    is_same.then_some(state)
}

fn report(worker: usize, thread: u32, finding: &Finding) {
    match finding {
        Finding::Stuck {
            seen,
            held_ns,
            doing,
            unsaid,
        } => {
            let (who, ms, advice) = (Who(seen), held_ns / 1_000_000, advice(*doing));
            let before = match unsaid {
                0 => String::new(),
                n => format!(" [{n} shorter ones since the last report]"),
            };
            say(&format_args!(
                "urgo: worker {worker} (thread {thread}) is stuck: {who} has kept it for {ms} ms, {doing}: {advice}{before}"
            ));
            tracing::warn!(
                worker,
                thread,
                goroutine = seen.id,
                name = seen.name,
                site = %seen.site,
                ms,
                %doing,
                advice,
                "a goroutine keeps its worker"
            );
        }
        Finding::Over { seen, held_ns } => {
            let (who, ms) = (Who(seen), held_ns / 1_000_000);
            say(&format_args!(
                "urgo: worker {worker} goes on: {who} let go of it after {ms} ms"
            ));
            tracing::warn!(
                worker,
                thread,
                goroutine = seen.id,
                name = seen.name,
                site = %seen.site,
                ms,
                "a goroutine that kept its worker has let go of it"
            );
        }
    }
}

fn advice(doing: Doing) -> &'static str {
    match doing {
        Doing::Computes => "call urgo::yield_now() now and then, or compute in urgo::blocking",
        Doing::Futex(_) => {
            "it waits for a lock of std (or of a C library), which a goroutine of the same worker may hold across a \
             wait: let go of it before you wait, or use urgo::sync::Mutex; instead of std's channels, condition \
             variables and joins use urgo's, or urgo::blocking"
        }
        Doing::Call(_) => {
            "the call blocks the worker's thread: use urgo::blocking, or what urgo has instead"
        }
        Doing::Fault => "it waits for a page from disk, or a debugger has stopped it",
        Doing::Unknown => {
            "it computes, or blocks the worker's thread: see urgo::yield_now and urgo::blocking"
        }
    }
}

/// Writes a line in one go, without std's lock on stderr.
fn say(text: &dyn fmt::Display) {
    urgo_sys::raw_stderr::write_all(format!("{text}\n").as_bytes());
}

struct Who<'a>(&'a Seen);

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { id, name, site, .. } = self.0;
        write!(f, "goroutine {id}")?;
        if !name.is_empty() {
            write!(f, " '{}'", name.escape_debug())?;
        }
        write!(f, " spawned at {}:{}", site.file(), site.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_of_milliseconds_from_one_on() {
        assert_eq!(limit("50"), Some(Duration::from_millis(50)));
        assert_eq!(limit(" 1 "), Some(Duration::from_millis(1)));
        for text in ["", "0", "-5", "50ms", "1.5", "4294967296"] {
            assert_eq!(limit(text), None, "{text}");
        }
    }
}
