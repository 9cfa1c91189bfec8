//! One pair of verbs over the channels of every crate. They are always inlined: what is measured is the channel, not this shim.

use std::sync::mpsc;

/// A sending end. Its clones send into the same channel.
pub(crate) trait Put: Clone + Send + 'static {
    /// Sends, and waits for room or for a receiver where the channel has a bound.
    ///
    /// # Panics
    /// If there is no receiver any more: the benches never end a channel that way.
    fn put(&self, value: u64);
}

/// A receiving end.
pub(crate) trait Take: Send + 'static {
    /// Waits for a value; `None` once the channel is empty and all senders are gone.
    fn take(&self) -> Option<u64>;
}

macro_rules! ends {
    ($($sender:ty, $receiver:ty;)*) => {$(
        impl Put for $sender {
            #[inline(always)]
            fn put(&self, value: u64) {
                assert!(self.send(value).is_ok(), "no receiver is left");
            }
        }

        impl Take for $receiver {
            #[inline(always)]
            fn take(&self) -> Option<u64> {
                self.recv().ok()
            }
        }
    )*};
}

ends! {
    crossbeam_channel::Sender<u64>, crossbeam_channel::Receiver<u64>;
    kanal::Sender<u64>, kanal::Receiver<u64>;
    mpsc::SyncSender<u64>, mpsc::Receiver<u64>;
    may::sync::mpsc::Sender<u64>, may::sync::mpsc::Receiver<u64>;
    may::sync::mpmc::Sender<u64>, may::sync::mpmc::Receiver<u64>;
    urgo::chan::Sender<u64>, urgo::chan::Receiver<u64>;
}
