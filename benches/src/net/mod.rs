//! # Purpose
//!
//! Servers in processes of their own, and the clients that measure them.
//!
//! # Imports
//!
//! `cell`, `machine`, and of `run` how a process is started.

mod buffer_ring;
pub(crate) mod client;
mod epoll;
mod hash;
mod server;
pub(crate) mod servers;

pub(crate) use hash::fnv;
pub(crate) use server::Server;
