//! Starting a runtime's workers: each makes its own ring on its own thread, and the first failure undoes the rest.

use super::fresh::Fresh;
use super::overflow;
use super::pool::Pool;
use super::remote::Remote;
use super::shared::Shared;
use super::watch::Watch;
use super::worker::Worker;
use crate::atomic::Ordering;
use crate::seam::{Driver, HostThreads};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use urgo_sys::alt_stack::{AltStack, AltStackError};
use urgo_sys::cpu::CpuSet;
use urgo_sys::event_fd::EventFd;
use urgo_sys::topology::Topology;
use urgo_uring::{Capabilities, Config, SetupError};

/// What a runtime is to be like, checked by its builder.
#[derive(Debug)]
pub(crate) struct Plan {
    /// One entry per worker: the CPU it is pinned to.
    pub(crate) cpus: Vec<Option<usize>>,
    /// The process's own mask, for helper threads.
    pub(crate) mask: Option<CpuSet>,
    pub(crate) stack_bytes: usize,
    pub(crate) ring: Config,
    pub(crate) blocking_threads: usize,
}

/// Why a worker could not start.
#[derive(Debug)]
pub(crate) enum StartError {
    Ring(SetupError),
    Thread(io::Error),
    Pin { cpu: usize, error: io::Error },
    AltStack(AltStackError),
    EventFd(io::Error),
    Signal(io::Error),
}

/// Starts all workers and waits until each has its ring. Blocks the calling thread for about a millisecond.
pub(crate) fn start(plan: Plan) -> Result<(Arc<Shared>, Vec<JoinHandle<()>>), StartError> {
    overflow::install().map_err(StartError::Signal)?;
    // Registered early: it takes longer the more threads there are.
    urgo_sys::barrier::is_available();
    let host_threads = HostThreads::Live;
    let workers = plan.cpus.len();
    let deques: Vec<Fresh> = plan.cpus.iter().map(|_| Fresh::new(workers)).collect();
    let watch = Watch::asked_for();
    let remotes: Box<[Arc<Remote>]> = deques
        .iter()
        .zip(&plan.cpus)
        .enumerate()
        .map(|(index, (deque, cpu))| {
            Arc::new(Remote::new(index, *cpu, deque.stealer(), watch.is_some()))
        })
        .collect();
    let pinned: CpuSet = plan.cpus.iter().flatten().copied().collect();
    let pool = Pool::new(plan.blocking_threads, plan.mask.clone(), host_threads);
    let shared = Shared::new(
        remotes,
        plan.stack_bytes,
        Topology::read(&pinned),
        pool,
        watch,
    );
    let (report, reports) = mpsc::channel();
    let mut threads = Vec::new();
    if let Some(watch) = &shared.watch {
        // Ended by the last worker to leave.
        let thread = watch.start(&shared.remotes, plan.mask, host_threads, shared.clock);
        threads.push(thread.map_err(StartError::Thread)?);
    }
    let mut outcome = Ok(());
    for (index, deque) in deques.into_iter().enumerate() {
        let (shared_of, ring, report) = (shared.clone(), plan.ring.clone(), report.clone());
        let body = move || worker_thread(index, shared_of, deque, &ring, report);
        match host_threads.start(format!("urgo-w{index}"), body) {
            Ok(thread) => threads.push(thread),
            Err(error) => outcome = outcome.and(Err(StartError::Thread(error))),
        }
    }
    drop(report);
    let mut running = 0;
    for result in reports {
        running += usize::from(result.is_ok());
        outcome = outcome.and(result);
    }
    match outcome {
        Ok(()) => Ok((shared, threads)),
        Err(error) => {
            shared.abandon_start(running);
            shared.end_watch();
            for thread in threads {
                // A worker that could not start has said so already.
                let _ = thread.join();
            }
            Err(error)
        }
    }
}

fn worker_thread(
    index: usize,
    shared: Arc<Shared>,
    deque: Fresh,
    ring: &Config,
    report: Sender<Result<(), StartError>>,
) {
    let remote = shared.remotes[index].clone();
    let made = prepare(&remote, ring);
    let (result, ready) = match made {
        Ok((driver, alt_stack)) => (Ok(()), Some((driver, alt_stack))),
        Err(error) => (Err(error), None),
    };
    let worker =
        ready.map(|(driver, alt_stack)| (Worker::new(remote, shared, deque, driver), alt_stack));
    // The builder waits for this; if it is gone, the runtime is being undone and stops at once.
    let _ = report.send(result);
    // The builder counts until every sender is gone.
    drop(report);
    if let Some((worker, alt_stack)) = worker {
        let unwinding = AbortOnUnwind;
        worker.run();
        std::mem::forget(unwinding);
        drop(alt_stack);
    }
}

fn prepare(remote: &Remote, ring: &Config) -> Result<(Driver, AltStack), StartError> {
    if let Some(cpu) = remote.cpu {
        urgo_sys::cpu::pin(cpu).map_err(|error| StartError::Pin { cpu, error })?;
    }
    // Without it timers are up to 50 µs later: worth trying, not worth failing.
    let _ = urgo_sys::thread::set_timer_slack_ns(NonZeroU64::MIN);
    if let Some(running) = &remote.running {
        running.set_thread(urgo_sys::thread::gettid().cast_unsigned());
    }
    let alt_stack = AltStack::install().map_err(StartError::AltStack)?;
    let driver = Driver::live(ring).map_err(StartError::Ring)?;
    remote.ring_fd.store(driver.fd(), Ordering::Relaxed);
    if !driver.capabilities().contains(Capabilities::FUTEX_WAIT) {
        let eventfd = EventFd::new(true).map_err(StartError::EventFd)?;
        let _ = remote.eventfd.set(eventfd);
    }
    Ok((driver, alt_stack))
}

/// A worker's loop never unwinds: goroutines' panics end in their own frames. If one got here all the same, goroutines would
/// be left on a thread that is no worker any more.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}
