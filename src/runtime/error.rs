//! Why a runtime could not be built, or its main goroutine did not end.

use crate::go::SpawnError;
use crate::goroutine::StackError;
use crate::sched::StartError;
use std::{fmt, io};

/// Why a runtime could not be built. Says cause and remedy; nothing is left behind.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A builder's option is out of range.
    InvalidOption {
        /// The builder's method.
        option: &'static str,
        /// The value given.
        value: usize,
        /// The values allowed.
        allowed: &'static str,
    },
    /// The list of CPUs is empty.
    NoCpus,
    /// A CPU was named that the process may not use.
    CpuNotAllowed {
        /// The CPU named.
        cpu: usize,
        /// The process's affinity mask, as a list.
        allowed: String,
    },
    /// The process's affinity mask could not be read.
    Affinity(io::Error),
    /// A worker could not be pinned to its CPU.
    Pin {
        /// The CPU.
        cpu: usize,
        /// The kernel's answer.
        error: io::Error,
    },
    /// io_uring is not to be had here, or not enough of it.
    Ring(urgo_uring::SetupError),
    /// A worker's thread could not be started.
    Thread(io::Error),
    /// A worker's alternate signal stack could not be set up.
    AltStack(urgo_sys::alt_stack::AltStackError),
    /// A worker's eventfd could not be made.
    EventFd(io::Error),
    /// The fault handler could not be installed.
    Signal(io::Error),
}

impl BuildError {
    pub(super) fn from_start(error: StartError) -> BuildError {
        match error {
            StartError::Ring(error) => BuildError::Ring(error),
            StartError::Thread(error) => BuildError::Thread(error),
            StartError::Pin { cpu, error } => BuildError::Pin { cpu, error },
            StartError::AltStack(error) => BuildError::AltStack(error),
            StartError::EventFd(error) => BuildError::EventFd(error),
            StartError::Signal(error) => BuildError::Signal(error),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::InvalidOption {
                option,
                value,
                allowed,
            } => {
                write!(f, "Builder::{option}({value}) is out of range: {allowed}")
            }
            BuildError::NoCpus => {
                f.write_str("no CPU to run on: Builder::cpus was given an empty list")
            }
            BuildError::CpuNotAllowed { cpu, allowed } => write!(
                f,
                "CPU {cpu} is not in this process's affinity mask ({allowed}): name CPUs from the mask, or widen it \
                 (taskset, cpuset cgroup)"
            ),
            BuildError::Affinity(error) => {
                write!(f, "the process's CPU mask cannot be read: {error}")
            }
            BuildError::Pin { cpu, error } => write!(
                f,
                "a worker cannot be pinned to CPU {cpu}: {error} (the CPU may have gone offline; Builder::pin(false) does \
                 without pinning)"
            ),
            BuildError::Ring(error) => write!(f, "{error}"),
            BuildError::Thread(error) => write!(
                f,
                "a worker's thread cannot be started: {error} (see ulimit -u, the cgroup's pids.max, and free memory)"
            ),
            BuildError::AltStack(error) => {
                write!(f, "no alternate signal stack for a worker: {error}")
            }
            BuildError::EventFd(error) => {
                write!(f, "no eventfd for a worker: {error} (see ulimit -n)")
            }
            BuildError::Signal(error) => {
                write!(f, "the stack overflow handler cannot be installed: {error}")
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Ring(error) => Some(error),
            BuildError::AltStack(error) => Some(error),
            BuildError::Affinity(error)
            | BuildError::Pin { error, .. }
            | BuildError::Thread(error)
            | BuildError::EventFd(error)
            | BuildError::Signal(error) => Some(error),
            _ => None,
        }
    }
}

/// The main goroutine did not come to an end of its own.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// It called [`exit_goroutine`](crate::exit_goroutine), so there is no value to return.
    Exited,
    /// The runtime was ended while it ran.
    Cancelled,
    /// No stack could be had for it.
    NoStack(StackError),
    /// It could not be spawned.
    Spawn(SpawnError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Exited => f.write_str(
                "the main goroutine called exit_goroutine, so it has no value to return",
            ),
            RunError::Cancelled => f.write_str("the main goroutine was cancelled"),
            RunError::NoStack(error) => write!(f, "the main goroutine could not start: {error}"),
            RunError::Spawn(error) => write!(f, "the main goroutine could not be spawned: {error}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::NoStack(error) => Some(error),
            RunError::Spawn(error) => Some(error),
            _ => None,
        }
    }
}
