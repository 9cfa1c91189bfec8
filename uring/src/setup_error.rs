//! Why a ring could not be made, and what to do about it.

use std::fmt;

/// A ring could not be made. The text names the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// The kernel lacks what every ring needs.
    KernelTooOld {
        /// Version of the running kernel, as `major.minor`.
        found: (u32, u32),
        /// The floor.
        needs: (u32, u32),
    },
    /// The sysctl `kernel.io_uring_disabled` forbids it.
    DisabledBySysctl {
        /// 1: only privileged processes and one group may; 2: nobody may.
        value: u32,
        /// `kernel.io_uring_group`; `None` when none is set.
        group: Option<u32>,
    },
    /// The kernel or a filter answered "not permitted".
    NotPermitted {
        /// A seccomp filter is active, so it is probably the one who refused. `None` when that cannot be told.
        is_filtered: Option<bool>,
    },
    /// The system call does not exist here: an old kernel, a sandbox such as gVisor, or a filter answering `ENOSYS`.
    NotImplemented,
    /// The locked-memory limit leaves no room for even the smallest ring.
    MemoryLimit {
        /// `RLIMIT_MEMLOCK`, soft, in bytes.
        memlock_bytes: u64,
        /// Submission entries of the smallest ring tried.
        entries: u32,
    },
    /// The process (or the whole system) has no free descriptor.
    OutOfDescriptors {
        /// `RLIMIT_NOFILE`, soft; `None` is unlimited.
        limit: Option<u64>,
        /// True when the system-wide table is full, not the process's.
        system_wide: bool,
    },
    /// The kernel has no memory for the ring.
    OutOfMemory,
    /// The kernel is new enough by number, but a needed feature is missing.
    MissingFeature(&'static str),
    /// Anything else.
    Os {
        /// The system call.
        call: &'static str,
        /// Its errno.
        errno: i32,
    },
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::KernelTooOld { found, needs } => write!(
                f,
                "this kernel (Linux {}.{}) is too old for io_uring as used here: Linux {}.{} or newer is needed",
                found.0, found.1, needs.0, needs.1
            ),
            SetupError::DisabledBySysctl {
                value: 1,
                group: Some(group),
            } => write!(
                f,
                "io_uring is not permitted: kernel.io_uring_disabled is 1, so only group {group} (kernel.io_uring_group) \
                 and privileged processes may use it; join that group or set `sysctl kernel.io_uring_disabled=0`"
            ),
            SetupError::DisabledBySysctl { value, .. } => write!(
                f,
                "io_uring is not permitted: kernel.io_uring_disabled is {value}; allow it with \
                 `sysctl kernel.io_uring_disabled=0`"
            ),
            SetupError::NotPermitted {
                is_filtered: Some(true),
            } => write!(
                f,
                "io_uring is not permitted: a seccomp filter is active and refuses io_uring_setup, \
                 io_uring_enter or io_uring_register; container runtimes do so by default, run with a profile that \
                 allows these three (for a trial: `--security-opt seccomp=unconfined`)"
            ),
            SetupError::NotPermitted { .. } => write!(
                f,
                "io_uring is not permitted here, by a security module (SELinux, AppArmor) or a sandbox; its policy must \
                 allow io_uring_setup, io_uring_enter and io_uring_register"
            ),
            SetupError::NotImplemented => write!(
                f,
                "io_uring does not exist here (ENOSYS): the kernel was built without it, or a sandbox (gVisor, a seccomp \
                 profile) hides it; run on Linux 6.1 or newer with io_uring visible"
            ),
            SetupError::MemoryLimit {
                memlock_bytes,
                entries,
            } => write!(
                f,
                "the locked-memory limit (RLIMIT_MEMLOCK, {memlock_bytes} bytes) leaves no room for a ring of {entries} \
                 entries; raise it with `ulimit -l`, LimitMEMLOCK= or /etc/security/limits.conf"
            ),
            SetupError::OutOfDescriptors {
                system_wide: true, ..
            } => {
                write!(
                    f,
                    "the system has no free file descriptor for a ring; raise fs.file-max or close some"
                )
            }
            SetupError::OutOfDescriptors { limit, .. } => write!(
                f,
                "no free file descriptor for a ring (RLIMIT_NOFILE is {}); raise it with `ulimit -n` or close some",
                limit.map_or("unlimited".to_string(), |n| n.to_string())
            ),
            SetupError::OutOfMemory => {
                write!(
                    f,
                    "the kernel has no memory for a ring, even a small one; look at the cgroup's memory limit"
                )
            }
            SetupError::MissingFeature(feature) => {
                write!(
                    f,
                    "this kernel's io_uring lacks {feature}, which is needed; Linux 6.1 or newer has it"
                )
            }
            SetupError::Os { call, errno } => {
                write!(
                    f,
                    "{call} failed: {}",
                    std::io::Error::from_raw_os_error(*errno)
                )
            }
        }
    }
}

impl std::error::Error for SetupError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_up_error_names_a_remedy() {
        let errors = [
            (
                SetupError::KernelTooOld {
                    found: (5, 15),
                    needs: (6, 1),
                },
                "6.1",
            ),
            (
                SetupError::DisabledBySysctl {
                    value: 2,
                    group: None,
                },
                "sysctl kernel.io_uring_disabled=0",
            ),
            (
                SetupError::DisabledBySysctl {
                    value: 1,
                    group: Some(998),
                },
                "group 998",
            ),
            (
                SetupError::NotPermitted {
                    is_filtered: Some(true),
                },
                "seccomp",
            ),
            (
                SetupError::NotPermitted {
                    is_filtered: Some(false),
                },
                "policy",
            ),
            (SetupError::NotImplemented, "6.1"),
            (
                SetupError::MemoryLimit {
                    memlock_bytes: 65536,
                    entries: 32,
                },
                "ulimit -l",
            ),
            (
                SetupError::OutOfDescriptors {
                    limit: Some(1024),
                    system_wide: false,
                },
                "ulimit -n",
            ),
            (
                SetupError::OutOfDescriptors {
                    limit: Some(1024),
                    system_wide: true,
                },
                "fs.file-max",
            ),
            (SetupError::OutOfMemory, "cgroup"),
            (SetupError::MissingFeature("EXT_ARG"), "EXT_ARG"),
        ];
        for (error, remedy) in errors {
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }
}
