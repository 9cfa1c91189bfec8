//! The set-up ladder: the best flags first, then the rest; a ring of half the size when memory is short.

use io_uring::{IoUring, Probe, opcode};

use crate::capabilities::Capabilities;
use crate::enter::{self, Mode};
use crate::host;
use crate::setup_error::SetupError;

/// Oldest kernel whose io_uring has everything that is not in [`Capabilities`].
const KERNEL_FLOOR: (u32, u32) = (6, 1);
/// Smallest ring that memory shortage may lead to, unless the caller asked for less.
const ENTRIES_FLOOR: u32 = 32;
/// Completion entries per submission entry, unless configured.
const CQ_PER_SQ: u32 = 4;
/// The kernel's own maximum; more is clamped.
const ENTRIES_MAX: u32 = 32768;

/// How a ring is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Submission entries, rounded up to a power of two by the kernel. 1 to 32,768.
    pub entries: u32,
    /// Completion entries; 0 means four times `entries`. Not below `entries`.
    pub cq_entries: u32,
    /// Capabilities to do without even where the kernel has them.
    pub disable: Capabilities,
    /// Kernel helper threads for work that ends by itself (file I/O); 0 leaves the kernel's default.
    pub bounded_helpers: u32,
    /// Kernel helper threads for work that may take for ever; 0 leaves the kernel's default, which is near unlimited.
    pub unbounded_helpers: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            entries: 256,
            cq_entries: 0,
            disable: Capabilities::empty(),
            bounded_helpers: 0,
            unbounded_helpers: 0,
        }
    }
}

/// A ring that passed every probe.
pub(crate) struct Made {
    pub(crate) io: IoUring,
    pub(crate) capabilities: Capabilities,
    pub(crate) supported: OpcodeSet,
}

/// One bit per opcode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpcodeSet([u64; 4]);

impl OpcodeSet {
    fn of(probe: &Probe) -> OpcodeSet {
        let mut set = OpcodeSet::default();
        for code in 0..=u8::MAX {
            if probe.is_supported(code) {
                set.0[usize::from(code >> 6)] |= 1 << (code & 63);
            }
        }
        set
    }

    pub(crate) fn contains(&self, code: u8) -> bool {
        self.0[usize::from(code >> 6)] & 1 << (code & 63) != 0
    }
}

pub(crate) fn make(config: &Config) -> Result<Made, SetupError> {
    let disabled = config.disable | Capabilities::disabled_by_environment();
    let io = climb_down(config, disabled)?;
    let mut capabilities = features(&io)?;
    let supported = opcodes(&io)?;
    capabilities |= from_opcodes(&supported);
    capabilities = (capabilities - disabled) | Capabilities::NODROP;
    capabilities = probe_wait(&io, capabilities)?;
    cap_helpers(&io, config)?;
    Ok(Made {
        io,
        capabilities,
        supported,
    })
}

/// Flags first, then size. `EINVAL` drops the optional flag; `ENOMEM` halves the size.
fn climb_down(config: &Config, disabled: Capabilities) -> Result<IoUring, SetupError> {
    let mut entries = config.entries.clamp(1, ENTRIES_MAX);
    let floor = entries.min(ENTRIES_FLOOR);
    let mut cq_entries = if config.cq_entries == 0 {
        entries * CQ_PER_SQ
    } else {
        config.cq_entries
    };
    let mut has_array = disabled.contains(Capabilities::NO_SQARRAY);
    loop {
        match build(
            entries,
            cq_entries.max(entries.next_power_of_two()),
            has_array,
        ) {
            Ok(io) => return Ok(io),
            Err(libc::EINVAL) if !has_array => has_array = true,
            Err(libc::ENOMEM) if entries > floor => {
                entries = (entries / 2).max(floor);
                cq_entries = (cq_entries / 2).max(entries);
            }
            Err(errno) => return Err(explain("io_uring_setup", errno, entries)),
        }
    }
}

fn build(entries: u32, cq_entries: u32, has_array: bool) -> Result<IoUring, i32> {
    #[cfg(feature = "fault-injection")]
    if let Some(errno) = crate::faults::refused_setup() {
        return Err(errno);
    }
    let mut builder = IoUring::builder();
    builder
        .dontfork()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(cq_entries);
    if !has_array {
        builder.setup_no_sqarray();
    }
    builder
        .build(entries)
        .map_err(|error| error.raw_os_error().unwrap_or(0))
}

fn features(io: &IoUring) -> Result<Capabilities, SetupError> {
    let params = io.params();
    let needed = [
        (params.is_feature_nodrop(), "NODROP"),
        (params.is_feature_submit_stable(), "SUBMIT_STABLE"),
        (params.is_feature_ext_arg(), "EXT_ARG"),
        (params.is_feature_fast_poll(), "FAST_POLL"),
        (params.is_feature_native_workers(), "NATIVE_WORKERS"),
    ];
    if let Some((_, name)) = needed.into_iter().find(|(is_there, _)| !is_there) {
        return Err(SetupError::MissingFeature(name));
    }
    let mut capabilities = Capabilities::NODROP;
    capabilities.set(Capabilities::SINGLE_MMAP, params.is_feature_single_mmap());
    capabilities.set(Capabilities::NO_IOWAIT, params.is_feature_no_iowait());
    // No feature bit of its own; it came with this one, and `probe_wait` tries it.
    capabilities.set(Capabilities::ABS_TIMER, params.is_feature_min_timeout());
    capabilities.set(Capabilities::NO_SQARRAY, is_without_array(io));
    Ok(capabilities)
}

fn is_without_array(io: &IoUring) -> bool {
    const IORING_SETUP_NO_SQARRAY: u32 = 1 << 16;
    crate::view::setup_flags(io) & IORING_SETUP_NO_SQARRAY != 0
}

fn opcodes(io: &IoUring) -> Result<OpcodeSet, SetupError> {
    let mut probe = Probe::new();
    match io.submitter().register_probe(&mut probe) {
        Ok(()) => Ok(OpcodeSet::of(&probe)),
        Err(error) => Err(explain(
            "io_uring_register",
            error.raw_os_error().unwrap_or(0),
            0,
        )),
    }
}

fn from_opcodes(supported: &OpcodeSet) -> Capabilities {
    let has_futex = supported.contains(opcode::FutexWait::CODE);
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::FUTEX_WAIT, has_futex);
    capabilities.set(
        Capabilities::MSG_RING,
        has_futex
            && supported.contains(opcode::MsgRingData::CODE)
            && is_message_safe(host::kernel_version()),
    );
    // The multishot forms have no opcode of their own: accept has it since 5.19, receive since 6.0 like this opcode.
    let has_zero_copy = supported.contains(opcode::SendZc::CODE);
    capabilities.set(Capabilities::SEND_ZC, has_zero_copy);
    capabilities.set(Capabilities::MULTISHOT_ACCEPT, has_zero_copy);
    capabilities.set(Capabilities::MULTISHOT_RECV, has_zero_copy);
    capabilities
}

/// From 6.11 on, a message to a ring with deferred completions could be freed while its sender still looked at it
/// (CVE-2025-38453); mended in 6.12.39, 6.15.7 and 6.16. A vendor kernel that mended it under another number only loses
/// the shorter way to kick.
fn is_message_safe(version: (u32, u32, u32)) -> bool {
    match version {
        (6, 11 | 13 | 14, _) => false,
        (6, 12, patch) => patch >= 39,
        (6, 15, patch) => patch >= 7,
        _ => true,
    }
}

/// Sleeps with a deadline in the past on the empty ring. `ETIME` proves the flags; `EINVAL` drops them one by one.
/// Also proves that a filter which let set-up pass lets `enter` pass.
fn probe_wait(io: &IoUring, mut capabilities: Capabilities) -> Result<Capabilities, SetupError> {
    loop {
        let mode = Mode::Sleep {
            deadline_ns: Some(1),
            is_absolute: capabilities.contains(Capabilities::ABS_TIMER),
            no_iowait: capabilities.contains(Capabilities::NO_IOWAIT),
        };
        match enter::try_enter(io, 0, mode) {
            Ok(_) | Err(libc::ETIME | libc::EINTR) => return Ok(capabilities),
            Err(libc::EINVAL) if capabilities.contains(Capabilities::NO_IOWAIT) => {
                capabilities.remove(Capabilities::NO_IOWAIT);
            }
            Err(libc::EINVAL) if capabilities.contains(Capabilities::ABS_TIMER) => {
                capabilities.remove(Capabilities::ABS_TIMER);
            }
            Err(errno) => return Err(explain("io_uring_enter", errno, 0)),
        }
    }
}

fn cap_helpers(io: &IoUring, config: &Config) -> Result<(), SetupError> {
    if config.bounded_helpers == 0 && config.unbounded_helpers == 0 {
        return Ok(());
    }
    let mut limits = [config.bounded_helpers, config.unbounded_helpers];
    io.submitter()
        .register_iowq_max_workers(&mut limits)
        .map_err(|error| explain("io_uring_register", error.raw_os_error().unwrap_or(0), 0))
}

/// From errno and the host's state to cause and remedy.
pub(crate) fn explain(call: &'static str, errno: i32, entries: u32) -> SetupError {
    match errno {
        libc::ENOSYS => too_old().unwrap_or(SetupError::NotImplemented),
        libc::EPERM | libc::EACCES => match host::io_uring_disabled() {
            0 => SetupError::NotPermitted {
                is_filtered: host::is_filtered(),
            },
            value => SetupError::DisabledBySysctl {
                value,
                group: host::io_uring_group(),
            },
        },
        libc::EMFILE | libc::ENFILE => SetupError::OutOfDescriptors {
            limit: host::descriptor_limit(),
            system_wide: errno == libc::ENFILE,
        },
        libc::ENOMEM => match host::memlock_bytes() {
            Some(memlock_bytes) if memlock_bytes < MEMLOCK_AMPLE_BYTES => SetupError::MemoryLimit {
                memlock_bytes,
                entries,
            },
            _ => SetupError::OutOfMemory,
        },
        libc::EINVAL => too_old().unwrap_or(SetupError::MissingFeature(
            "SINGLE_ISSUER with DEFER_TASKRUN",
        )),
        errno => SetupError::Os { call, errno },
    }
}

/// A locked-memory limit from here up is not what stopped a small ring: 256 of them fit.
const MEMLOCK_AMPLE_BYTES: u64 = 4 << 20;

fn too_old() -> Option<SetupError> {
    let (major, minor, _) = host::kernel_version();
    let found = (major, minor);
    (found < KERNEL_FLOOR).then_some(SetupError::KernelTooOld {
        found,
        needs: KERNEL_FLOOR,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_not_used_where_the_kernel_frees_them_too_early() {
        for version in [
            (6, 11, 11),
            (6, 12, 38),
            (6, 13, 0),
            (6, 14, 99),
            (6, 15, 6),
        ] {
            assert!(!is_message_safe(version), "{version:?}");
        }
        for version in [
            (6, 7, 0),
            (6, 10, 14),
            (6, 12, 39),
            (6, 15, 7),
            (6, 16, 0),
            (6, 18, 44),
            (7, 0, 0),
        ] {
            assert!(is_message_safe(version), "{version:?}");
        }
    }
}
