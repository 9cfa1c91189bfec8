//! # Purpose
//!
//! Clients that measure a server. Each is one thread on a CPU of its own that polls and never sleeps, so no server pays for
//! waking it, and it is the same for all servers.

mod closed;
mod exchange;
mod flow;
pub(crate) mod http;
mod open;
mod schedule;
mod short;
mod wire;

pub(crate) use closed::Closed;
pub(crate) use exchange::Exchange;
pub(crate) use flow::{Flow, Way};
pub(crate) use open::Open;
pub(crate) use schedule::Spacing;
pub(crate) use short::Short;
