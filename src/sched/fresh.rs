//! The fresh queue: one worker's goroutines that have not started.
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
            Fresh::Shared(Deque::new_fifo())
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

    /// The oldest.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Task> {
        match self {
            Fresh::Alone(queue) => queue.borrow_mut().pop_front(),
            Fresh::Shared(deque) => deque.pop(),
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
                    for _ in 1..FRESH_BATCH {
                        let Steal::Success(task) = injector.steal() else {
                            break;
                        };
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
