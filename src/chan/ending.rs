//! A channel that only ends: nothing is ever sent, and receives fail once it was closed or its moment has come.
//!
//! # Safety
//!
//! `Send` and `Sync` are asserted, as for receivers.

#![allow(unsafe_code)]

use super::Receiver;
use super::buffered::Buffered;
use super::error::{RecvTimeoutError, TryRecvError};
use super::handles::{ReceiverEnd, SenderEnd, pair};
use super::receiver::ReceiverFlavor;
use crate::sched;
use std::any::Any;
use std::sync::Arc;

/// The channel, for whoever is to end it.
pub(crate) struct End<T>(Arc<Channel<T>>);

struct Channel<T> {
    receiver: ReceiverEnd<Buffered<T>>,
    /// Without it the channel would have ended at once.
    _sender: SenderEnd<Buffered<T>>,
    /// By the scheduler's clock.
    end_ns: u64,
}

/// The channel, for receivers.
pub(super) struct Ending<T> {
    channel: Arc<Channel<T>>,
    /// What must stay for as long as somebody may wait for the end.
    _keeper: Arc<dyn Any + Send + Sync>,
}

impl<T> End<T> {
    /// A channel that ends when it is closed, at the latest at `end_ns`.
    pub(crate) fn at(end_ns: u64) -> End<T> {
        let (sender, receiver) = pair(Buffered::oneshot());
        End(Arc::new(Channel {
            receiver,
            _sender: sender,
            end_ns,
        }))
    }

    pub(crate) fn close(&self) {
        self.0.receiver.close();
    }

    /// A receiver that keeps `keeper`.
    pub(crate) fn receiver(&self, keeper: Arc<dyn Any + Send + Sync>) -> Receiver<T> {
        let ending = Ending {
            channel: self.0.clone(),
            _keeper: keeper,
        };
        Receiver {
            flavor: ReceiverFlavor::Ending(Arc::new(ending)),
        }
    }
}

impl<T> Clone for End<T> {
    fn clone(&self) -> End<T> {
        End(self.0.clone())
    }
}

// SAFETY: as for `Receiver`: nothing of type `T` is ever in the channel, and the rest is locked.
unsafe impl<T: Send> Send for Channel<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Channel<T> {}

impl<T> Ending<T> {
    /// The channel, closed if its moment has come.
    pub(super) fn now(&self) -> &ReceiverEnd<Buffered<T>> {
        if self.has_come() {
            self.channel.receiver.close();
        }
        &self.channel.receiver
    }

    fn has_come(&self) -> bool {
        let end_ns = self.channel.end_ns;
        end_ns != sched::NEVER && sched::now_ns() >= end_ns
    }

    /// The channel as it is, for questions that the clock does not change.
    pub(super) fn channel(&self) -> &ReceiverEnd<Buffered<T>> {
        &self.channel.receiver
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.channel.end_ns
    }

    pub(super) fn is_same(&self, other: &Ending<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }

    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.now().try_recv()
    }

    pub(super) fn recv(&self, deadline_ns: u64) -> Result<T, RecvTimeoutError> {
        match self.now().recv(deadline_ns.min(self.channel.end_ns)) {
            // The moment has come, or the caller's deadline, or whatever else ends the caller's wait.
            Err(RecvTimeoutError::Timeout) if self.has_come() => {
                self.channel.receiver.close();
                Err(RecvTimeoutError::Disconnected)
            }
            received => received,
        }
    }
}
