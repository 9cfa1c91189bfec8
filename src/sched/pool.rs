//! The pool of OS threads for calls that block: grown on demand, capped, unpinned.
//!
//! # Algorithm
//!
//! One queue under one lock. A job that finds no idle thread starts one, up to the cap; beyond it jobs wait in the queue.
//! A thread that was idle for a while ends. Threads have the process's own CPU mask, not a worker's: the mask is taken
//! when the runtime is built and set by each thread.

use crate::goroutine::discard;
use crate::limits::BLOCKING_IDLE_SECS;
use crate::seam::HostThreads;
use core::cell::Cell;
use core::ptr;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use urgo_sys::cpu::CpuSet;

thread_local! {
    /// Whose thread this is; never followed.
    static OWNER: Cell<*const Inner> = const { Cell::new(ptr::null()) };
}

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// See the module. A handle: clones are the same pool.
#[derive(Clone)]
pub(crate) struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    work: Condvar,
    cap: usize,
    mask: Option<CpuSet>,
    host_threads: HostThreads,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Jobs that run at this moment.
    running: usize,
    started: u64,
    stopping: bool,
    handles: Vec<std::thread::JoinHandle<()>>,
}

impl Pool {
    pub(crate) fn new(cap: usize, mask: Option<CpuSet>, host_threads: HostThreads) -> Pool {
        let (state, work) = (Mutex::default(), Condvar::new());
        Pool {
            inner: Arc::new(Inner {
                state,
                work,
                cap,
                mask,
                host_threads,
            }),
        }
    }

    /// Any thread. Queues `job` for a thread of the pool; gives it back if there is no thread and none can be started.
    pub(crate) fn submit(&self, job: Job) -> Result<(), (Job, io::Error)> {
        let mut state = self.inner.lock();
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            self.inner.work.notify_one();
            return Ok(());
        }
        if state.threads < self.inner.cap {
            match self.start_thread(&mut state) {
                Ok(()) => {}
                // Some thread will come round to it.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    let job = state
                        .queue
                        .pop_back()
                        .expect("pushed above, under this lock");
                    return Err((job, error));
                }
            }
        }
        Ok(())
    }

    fn start_thread(&self, state: &mut State) -> io::Result<()> {
        let inner = self.inner.clone();
        let name = format!("urgo-block-{}", state.started);
        let handle = self.inner.host_threads.start(name, move || inner.work())?;
        state.started += 1;
        state.threads += 1;
        state.handles.retain(|handle| !handle.is_finished());
        state.handles.push(handle);
        Ok(())
    }

    /// Threads there are now.
    pub(crate) fn threads(&self) -> usize {
        self.inner.lock().threads
    }

    /// Jobs that run or wait for a thread.
    pub(crate) fn calls(&self) -> usize {
        let state = self.inner.lock();
        state.running + state.queue.len()
    }

    /// Whether the calling thread is one of the pool's, which cannot wait for the pool's end.
    pub(crate) fn is_own_thread(&self) -> bool {
        OWNER.get() == Arc::as_ptr(&self.inner)
    }

    /// Lets all threads end once the queue is empty.
    pub(crate) fn begin_stop(&self) {
        self.inner.lock().stopping = true;
        self.inner.work.notify_all();
    }

    /// As `begin_stop`, and waits for them. Blocks the calling thread, which is none of them.
    pub(crate) fn stop(&self) {
        self.begin_stop();
        let handles = std::mem::take(&mut self.inner.lock().handles);
        for handle in handles {
            // Jobs catch their panics, so a thread of the pool does not end by one.
            let _ = handle.join();
        }
    }
}

fn discard_job(job: Job) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
        discard(payload);
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("cap", &self.inner.cap)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn work(&self) {
        OWNER.set(ptr::from_ref(self));
        if let Some(mask) = &self.mask {
            // A mask that the kernel refuses now (hotplug) leaves the inherited one: slower, not wrong.
            let _ = urgo_sys::cpu::set_affinity(mask);
        }
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                state.running += 1;
                drop(state);
                // `blocking` catches its closure's panics; this is for what a job drops.
                discard_job(job);
                state = self.lock();
                state.running -= 1;
                continue;
            }
            if state.stopping {
                break;
            }
            state.idle += 1;
            let waited = self
                .work
                .wait_timeout(state, Duration::from_secs(BLOCKING_IDLE_SECS));
            let (next, timeout) = waited.unwrap_or_else(|e| e.into_inner());
            state = next;
            state.idle -= 1;
            if timeout.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}
