//! The entropy seam.

use std::hash::{BuildHasher, RandomState};

/// Where seeds come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entropy {
    /// The operating system, through std's hash keys.
    Live,
}

impl Entropy {
    /// A seed that differs between processes and calls.
    pub(crate) fn seed(self) -> u64 {
        match self {
            Entropy::Live => RandomState::new().hash_one(0x7572_676f_u32),
        }
    }
}
