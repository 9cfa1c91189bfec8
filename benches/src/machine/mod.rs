//! # Purpose
//!
//! The machine under a measurement: its CPUs, clocks and counters, and the facts that a number belongs to.
//!
//! # Imports
//!
//! Nothing of this crate.

mod clocks;
mod counters;
mod cpus;
mod facts;
mod limits;
mod process;
mod threads;

pub(crate) use clocks::{cpu_ns_of, process_cpu_ns};
pub(crate) use counters::{SYSCALLS_FD, SyscallCount, inherited_count};
pub(crate) use cpus::{allowed_cpus, pin_to};
#[cfg(test)]
pub(crate) use facts::Build;
pub(crate) use facts::{Facts, locked_version};
pub(crate) use limits::allow_descriptors;
pub(crate) use process::{
    Usage, die_with, peak_bytes_of, resident_bytes_of, runnable_ns_of, switches_of,
};
pub(crate) use threads::{busiest_share, thread_times_of};
