//! A worker without work: searching, falling asleep in its ring, waking up. The protocol is in [`idle`](super::super::idle).
//!
//! # Safety
//!
//! Arms the worker's sleep word, which outlives its ring.

#![allow(unsafe_code)]

use super::super::idle;
use super::super::task::Task;
use super::{Worker, bump};
use crate::limits::{BUSY_SUBMISSIONS, TALK_SPIN_US};
use crossbeam_deque::Steal;
use std::os::fd::AsRawFd;
use urgo_sys::event_fd::EventFd;
use urgo_uring::Capabilities;

impl Worker {
    /// Nothing to run: looks for work of others, then sleeps in the ring until there is some.
    pub(super) fn idle(&self) {
        // Submit, and see what comes of it, before the trouble of falling asleep: under load most operations complete
        // while they are submitted.
        let busy = self.with_driver(|driver| {
            driver.sq_pending() >= BUSY_SUBMISSIONS && {
                // A stall shows again at the next flush.
                let _ = driver.flush_and_poll();
                driver.cq_ready()
            }
        });
        if busy {
            self.flush_at.set(u64::MAX);
            return;
        }
        self.publish_counts();
        if self.search() {
            return;
        }
        if self.shared.stop.is_stopping() && self.await_stop_move() {
            return;
        }
        let deadline = self.deadline();
        if deadline.is_some_and(|at| at <= self.shared.clock.now_ns()) {
            self.trim_if_due();
            self.fire_timers();
            if !self.run_queue.is_empty() {
                return;
            }
        }
        let protocol = &self.shared.idle;
        protocol.announce_sleep(&self.remote.sleep);
        let stays_awake =
            self.has_work() || self.shared.stop.has_moved(self.stop_epoch.get()) || !self.arm();
        if !stays_awake {
            bump(&self.remote.counts.sleeps, 1);
            let asleep = self.shared.clock.ticks();
            // Whatever ended the wait, the loop looks at every source next.
            let _ = self.with_driver(|driver| driver.wait(deadline));
            // Not worth it: the other side fell asleep meanwhile, too, and has to be woken for the next word.
            let was_short = self.shared.clock.ticks().saturating_sub(asleep) < 2 * self.talk_spin;
            self.is_talking.set(was_short && self.remote.has_mail());
            self.flush_at.set(u64::MAX);
        } else if self.with_driver(|driver| driver.sq_pending()) > 0 {
            let _ = self.with_driver(|driver| driver.flush());
        }
        if protocol.wake_up(&self.remote.sleep) == idle::Roused::Drafted {
            // Work for anyone was posted, and we count as searching for it.
            self.search_drafted();
        }
    }

    /// While the runtime ends workers wait for each other at every hand-over of the cursor: waits a little without sleeping,
    /// since a wake from sleep takes a hundred times as long. `true` if something has changed.
    #[cold]
    pub(super) fn await_stop_move(&self) -> bool {
        let until = self.shared.clock.ticks().saturating_add(self.spin * 8);
        loop {
            if self.shared.stop.has_moved(self.stop_epoch.get())
                || self.remote.has_mail()
                || self.with_driver(|driver| driver.cq_ready())
            {
                return true;
            }
            if self.shared.clock.ticks() >= until
                || self.with_driver(|driver| driver.has_work_flag())
            {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Makes sure that others can rouse this worker out of its ring. `false`: do not sleep this time.
    pub(super) fn arm(&self) -> bool {
        self.with_driver(|driver| {
            if self.remote.eventfd.get().is_none() {
                // SAFETY: the sleep word is in `Remote`, which this worker holds until after its driver is dropped.
                let word =
                    unsafe { driver.arm_sleep_word(self.remote.sleep.raw(), idle::SLEEPING) };
                if word || driver.capabilities().contains(Capabilities::FUTEX_WAIT) {
                    return word;
                }
                // The kernel has refused the futex operation for good. Whoever wakes us from now on sees the eventfd;
                // whoever did not see it yet woke a word on which nobody sleeps, but then the word is no longer
                // `SLEEPING`, so look around once more.
                match EventFd::new(true) {
                    Ok(eventfd) => drop(self.remote.eventfd.set(eventfd)),
                    Err(_) => return false,
                }
                driver.arm_eventfd(self.remote.eventfd.get().map_or(-1, AsRawFd::as_raw_fd));
                return false;
            }
            driver.arm_eventfd(self.remote.eventfd.get().map_or(-1, AsRawFd::as_raw_fd))
        })
    }

    /// Every source, as step 4 of the idle protocol demands.
    pub(super) fn has_work(&self) -> bool {
        self.remote.has_mail()
            || self.with_placed(|placed| !placed.is_empty())
            || !self.shared.injector.is_empty()
            || self.with_driver(|driver| driver.cq_ready())
            || self
                .shared
                .remotes
                .iter()
                .any(|remote| remote.stealer.as_ref().is_some_and(|s| !s.is_empty()))
    }

    /// Looks for fresh goroutines of others. `true` if something is there to run.
    pub(super) fn search(&self) -> bool {
        if self.victims.is_empty() {
            return false;
        }
        let until = self.search_until();
        while !self.shared.idle.start_search() {
            if let Some(has_work) = self.linger(until) {
                return has_work;
            }
        }
        loop {
            let found = self.steal();
            if found || self.remote.has_mail() || self.with_driver(|driver| driver.cq_ready()) {
                self.leave_search();
                return true;
            }
            // Deferred completions come out in the enter that we would sleep in.
            if self.with_driver(|driver| driver.has_work_flag())
                || self.shared.clock.ticks() >= until
            {
                // We fall asleep next, and look at everything behind that protocol's fence.
                self.shared.idle.end_search();
                self.is_talking.set(false);
                return false;
            }
            core::hint::spin_loop();
        }
    }

    /// Another worker searches: waits as long for what comes to this one alone, since of two goroutines that talk across
    /// workers the one is still leaving its search when the other has nothing to do. `None`: that search is over and there is
    /// work for anyone, so it is this worker's turn. (Whoever posts it rouses a sleeper only, and this one does not sleep.)
    fn linger(&self, until: u64) -> Option<bool> {
        loop {
            if self.remote.has_mail() || self.with_driver(|driver| driver.cq_ready()) {
                return Some(true);
            }
            if self.with_driver(|driver| driver.has_work_flag())
                || self.shared.clock.ticks() >= until
            {
                self.is_talking.set(false);
                return Some(false);
            }
            if !self.shared.idle.is_searched() && self.shared.has_fresh() {
                return None;
            }
            core::hint::spin_loop();
        }
    }

    /// `Clock::ticks` until which a search that has just begun goes on. A long one never lets a timer wait.
    fn search_until(&self) -> u64 {
        let spin = if self.is_talking.get()
            && self
                .deadline()
                .is_none_or(|at| at > self.shared.clock.now_ns() + 1000 * TALK_SPIN_US)
        {
            self.talk_spin
        } else {
            self.spin
        };
        self.shared.clock.ticks().saturating_add(spin)
    }

    pub(super) fn search_drafted(&self) {
        self.steal();
        self.leave_search();
    }

    pub(super) fn leave_search(&self) {
        self.shared.leave_search(|remote| self.rouse(remote));
    }

    /// After fresh work was posted for anyone.
    #[inline]
    pub(crate) fn rouse_anyone(&self) {
        if !self.victims.is_empty() {
            self.shared.rouse_anyone(|remote| self.rouse(remote));
        }
    }

    /// One round over injector and victims, nearest first, random order within a distance.
    pub(super) fn steal(&self) -> bool {
        if let Some(g) = self.take_injected() {
            self.run_queue.push(g);
            return true;
        }
        for level in &self.victims {
            let start = self.with_choice(|choice| choice.below(level.len()));
            for i in 0..level.len() {
                let victim = &self.shared.remotes[level[(start + i) % level.len()]];
                let Some(stealer) = &victim.stealer else {
                    continue;
                };
                loop {
                    match self.fresh.steal_from(stealer) {
                        Steal::Success(Task(g)) => {
                            bump(&self.remote.counts.stolen, 1 + self.fresh.len() as u64);
                            if let Some(g) = self.start(g) {
                                self.run_queue.push(g);
                            }
                            return true;
                        }
                        Steal::Retry => core::hint::spin_loop(),
                        Steal::Empty => break,
                    }
                }
            }
        }
        false
    }
}
