//! # Purpose
//!
//! Clients that measure a server. Each is one thread on a CPU of its own that polls and never sleeps, so no server pays for
//! waking it, and it is the same for all servers.

mod closed;
mod exchange;
pub(crate) mod http;

pub(crate) use closed::Closed;
pub(crate) use exchange::Exchange;
