//! # The kernel door of urgo
//!
//! **Purpose.** Thin typed doors to the Linux calls that the runtime makes outside io_uring: each names the C call it
//! makes, each handles its errnos by name. No policy lives here: what to do with an outcome is decided above.
//!
//! **Words.** *Guard*: the unmapped end of a stack. *Road*: one of two ways to reach the same end, taken by what the
//! kernel offers ([`guard::GuardRoad`]). *Budget*: how many more mappings this process may make ([`guard::VmaBudget`]).
//! *Switch*: a feature turned off by hand through `URGO_DISABLE` ([`switches`]).
//!
//! **Algorithm.** One file, one decision:
//!
//! | file | decides | C calls |
//! |---|---|---|
//! | [`futex`] | how a thread waits on a word | `futex` |
//! | [`barrier`] | how one side of a handshake gets its barrier for free | `membarrier` |
//! | [`clock`] | what time it is | `clock_gettime`, `rdtsc` / `cntvct_el0` |
//! | [`mapping`] | how address space is reserved and given back | `mmap`, `madvise`, `munmap` |
//! | [`guard`] | how the end of a stack is made to fault | `madvise(MADV_GUARD_INSTALL)`, `mprotect` |
//! | [`cpu`], [`topology`], [`quota`] | which CPUs, how near each other, how much of them | `sched_*affinity`, sysfs, cgroup files |
//! | [`signal`], [`alt_stack`], [`raw_stderr`] | what a signal handler may stand on and say | `sigaction`, `sigaltstack`, `write` |
//! | [`thread`] | properties of the calling thread | `gettid`, `prctl`, `sched_getcpu` |
//! | [`limits`], [`host`], [`memory`] | what the machine allows, is, and how much of it we use | `getrlimit`, `uname`, `/proc` |
//! | [`event_fd`] | a counter that wakes a poll | `eventfd`, `read`, `write` |
//! | [`errno`] | names of kernel errors | - |
//! | [`switches`] | what was turned off by hand | - |
//!
//! System calls go through `rustix` with its raw backend where it has them: no errno thread-local is touched. `libc`
//! does what `rustix` leaves out (`MADV_GUARD_INSTALL`, `sigaction`, `sigaltstack`, affinity masks of any size).
//!
//! **Invariants.** A file that contains `unsafe` says so under `# Safety` at its head. Functions that discard or close
//! memory are `unsafe`: the caller proves that nothing lives there. Functions a signal handler may call say so.
//!
//! **Fails when.** Every error type names cause and remedy. An errno that these calls cannot return in this use is a
//! broken invariant: [`raw_stderr::fatal`].
//!
//! **Imports.** core, std, and `rustix`, `libc`, `memmap2`, `core_affinity`.

#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod alt_stack;
pub mod barrier;
pub mod clock;
pub mod cpu;
pub mod errno;
pub mod event_fd;
pub mod futex;
pub mod guard;
pub mod host;
pub mod limits;
pub mod mapping;
pub mod memory;
pub mod quota;
pub mod raw_stderr;
pub mod signal;
pub mod switches;
pub mod thread;
pub mod topology;

#[cfg(test)]
mod testing;
