//! A channel that only ends: nothing is ever sent, and receives fail once it was closed or its moment has come.

use super::buffered::Buffered;
use super::error::{RecvTimeoutError, TryRecvError};
use super::handles::{ReceiverEnd, SenderEnd, pair};
use crate::sched;

/// The channel, and the sender without which it would have ended at once.
pub(super) struct Ending<T> {
    receiver: ReceiverEnd<Buffered<T>>,
    _sender: SenderEnd<Buffered<T>>,
    /// By the scheduler's clock.
    end_ns: u64,
}

impl<T> Ending<T> {
    pub(super) fn at(end_ns: u64) -> Ending<T> {
        let (sender, receiver) = pair(Buffered::oneshot());
        Ending {
            receiver,
            _sender: sender,
            end_ns,
        }
    }

    /// The channel, closed if its moment has come.
    pub(super) fn now(&self) -> &ReceiverEnd<Buffered<T>> {
        if self.end_ns != sched::NEVER && sched::now_ns() >= self.end_ns {
            self.receiver.close();
        }
        &self.receiver
    }

    /// The channel as it is, for questions that the clock does not change.
    pub(super) fn channel(&self) -> &ReceiverEnd<Buffered<T>> {
        &self.receiver
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.now().try_recv()
    }

    pub(super) fn recv(&self, deadline_ns: u64) -> Result<T, RecvTimeoutError> {
        let until = deadline_ns.min(self.end_ns);
        match self.now().recv(until) {
            Err(RecvTimeoutError::Timeout) if until == self.end_ns => {
                self.receiver.close();
                Err(RecvTimeoutError::Disconnected)
            }
            received => received,
        }
    }
}
