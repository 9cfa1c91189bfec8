//! The host-thread seam: OS threads for workers and the blocking pool.

use std::io;
use std::thread::{self, JoinHandle};

/// Where OS threads come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostThreads {
    /// `std::thread`.
    Live,
}

impl HostThreads {
    /// Starts a thread called `name` (at most 15 bytes are seen outside).
    pub(crate) fn start<F>(self, name: String, f: F) -> io::Result<JoinHandle<()>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self {
            HostThreads::Live => thread::Builder::new().name(name).spawn(f),
        }
    }
}
