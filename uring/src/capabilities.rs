//! What the running kernel gives, probed once per ring, less what the user switched off.

use crate::host;

bitflags::bitflags! {
    /// What this ring can do beyond the floor (Linux 6.1). Probed at set-up, never guessed from a version number.
    ///
    /// The environment variable `URGO_DISABLE` (comma separated) masks the ones with a name in the table; so does
    /// [`Config::disable`](crate::Config).
    ///
    /// | capability | since | name for `URGO_DISABLE` |
    /// |---|---|---|
    /// | `NO_SQARRAY` | 6.6 | `no_sqarray` |
    /// | `MSG_RING` | 5.18, used from 6.7 | `msg_ring` |
    /// | `FUTEX_WAIT` | 6.7 | `futex_op` |
    /// | `NO_IOWAIT` | 6.15 | `no_iowait` |
    /// | `ABS_TIMER` | 6.12 | `abs_timer` |
    /// | `SEND_ZC` | 6.0 | `send_zc` |
    /// | `MULTISHOT_ACCEPT` | 5.19 | `multishot` |
    /// | `MULTISHOT_RECV` | 6.0 | `multishot` |
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Capabilities: u32 {
        /// The ring has no index array: one indirection less per SQE.
        const NO_SQARRAY = 1 << 0;
        /// Kicks between rings by `MSG_RING`. Only trusted where the kernel also has futex ops: before, a message to a
        /// ring with deferred completions was slow and had memory-safety bugs.
        const MSG_RING = 1 << 1;
        /// A thread without a ring can wake this one with a plain futex wake on its sleep word.
        const FUTEX_WAIT = 1 << 2;
        /// A sleeping ring is not counted as iowait.
        const NO_IOWAIT = 1 << 3;
        /// The wait takes an absolute deadline.
        const ABS_TIMER = 1 << 4;
        /// Zero-copy send.
        const SEND_ZC = 1 << 5;
        /// One accept request, many connections.
        const MULTISHOT_ACCEPT = 1 << 6;
        /// One receive request, many buffers.
        const MULTISHOT_RECV = 1 << 7;
        /// Both queues live in one mapping.
        const SINGLE_MMAP = 1 << 8;
        /// Completions survive a full completion queue. Always set: set-up fails without it.
        const NODROP = 1 << 9;
    }
}

impl Capabilities {
    /// What `URGO_DISABLE` masks in this process.
    pub fn disabled_by_environment() -> Capabilities {
        let switches = [
            ("no_sqarray", Capabilities::NO_SQARRAY),
            ("msg_ring", Capabilities::MSG_RING),
            ("futex_op", Capabilities::FUTEX_WAIT),
            ("no_iowait", Capabilities::NO_IOWAIT),
            ("abs_timer", Capabilities::ABS_TIMER),
            ("send_zc", Capabilities::SEND_ZC),
            (
                "multishot",
                Capabilities::MULTISHOT_ACCEPT | Capabilities::MULTISHOT_RECV,
            ),
        ];
        switches
            .into_iter()
            .filter(|(name, _)| host::is_switched_off(name))
            .fold(Capabilities::empty(), |mask, (_, capability)| {
                mask | capability
            })
    }
}
