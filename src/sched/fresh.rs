//! The fresh queue: one worker's goroutines that have not started.
//!
//! The worker starts the newest first, as Cilk does, and thieves take the oldest: a tree of goroutines then grows in depth, where
//! few of them wait for their children at one time, and what is stolen is a large part of it. (Oldest first, a tree of a million
//! leaves has all its hundred thousand parents waiting at once, each on a stack of its own: ten times the time, a hundred
//! times the memory.) So that the oldest does not wait for ever, the worker takes a few from that end every now and then.
//!
//! With several workers it is a work-stealing deque, whose other end the thieves have. A worker that is alone in its
//! runtime has no thieves, and needs neither the locked instruction of a pop nor the deque's growing and shrinking.

use super::task::Task;
use crate::limits::FRESH_BATCH;
use core::cell::RefCell;
use crossbeam_deque::{Steal, Stealer, Worker as Deque};
use std::collections::VecDeque;

/// See the module. Owner worker only.
pub(crate) enum Fresh {
    Alone(RefCell<VecDeque<Task>>),
    Shared(Deque<Task>),
}

impl Fresh {
    /// A queue for one of `workers` workers.
    pub(crate) fn new(workers: usize) -> Fresh {
        if workers == 1 {
            Fresh::Alone(RefCell::default())
        } else {
            Fresh::Shared(Deque::new_lifo())
        }
    }

    /// What thieves hold.
    pub(crate) fn stealer(&self) -> Option<Stealer<Task>> {
        match self {
            Fresh::Alone(_) => None,
            Fresh::Shared(deque) => Some(deque.stealer()),
        }
    }

    #[inline]
    pub(crate) fn push(&self, task: Task) {
        match self {
            Fresh::Alone(queue) => queue.borrow_mut().push_back(task),
            Fresh::Shared(deque) => deque.push(task),
        }
    }

    /// The newest.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Task> {
        match self {
            Fresh::Alone(queue) => queue.borrow_mut().pop_back(),
            Fresh::Shared(deque) => deque.pop(),
        }
    }

    /// The oldest. `stealer` is this queue's own.
    pub(crate) fn pop_oldest(&self, stealer: Option<&Stealer<Task>>) -> Option<Task> {
        match self {
            Fresh::Alone(queue) => queue.borrow_mut().pop_front(),
            // A thief that is faster takes it to run it.
            Fresh::Shared(_) => stealer?.steal().success(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Fresh::Alone(queue) => queue.borrow().len(),
            Fresh::Shared(deque) => deque.len(),
        }
    }

    /// Takes one from `victim` to run and a batch besides into this queue.
    pub(crate) fn steal_from(&self, victim: &Stealer<Task>) -> Steal<Task> {
        match self {
            Fresh::Alone(_) => Steal::Empty,
            Fresh::Shared(deque) => victim.steal_batch_and_pop(deque),
        }
    }

    /// Takes one from the injector to run and a batch besides into this queue.
    pub(crate) fn take_injected(&self, injector: &crossbeam_deque::Injector<Task>) -> Steal<Task> {
        match self {
            Fresh::Alone(queue) => {
                let first = injector.steal();
                if first.is_success() {
                    let rest = std::iter::from_fn(|| injector.steal().success());
                    // The oldest of them is to be the next, so it comes to the end.
                    for task in rest
                        .take(FRESH_BATCH as usize - 1)
                        .collect::<Vec<_>>()
                        .into_iter()
                        .rev()
                    {
                        queue.borrow_mut().push_back(task);
                    }
                }
                first
            }
            Fresh::Shared(deque) => injector.steal_batch_and_pop(deque),
        }
    }

    /// Gives memory back after a peak.
    pub(crate) fn trim(&self) {
        if let Fresh::Alone(queue) = self
            && let Ok(mut queue) = queue.try_borrow_mut()
        {
            let keep = queue.len() * 2;
            queue.shrink_to(keep);
        }
    }
}
