//! Hosts that say no, or little: what a runtime does where io_uring, memory, threads, descriptors or CPUs are withheld, and
//! that it costs nothing while it idles. Each test has a process of its own.

mod support;

#[path = "hosts/cpus.rs"]
mod cpus;
#[path = "hosts/idle.rs"]
mod idle;
#[path = "hosts/refusals.rs"]
mod refusals;
