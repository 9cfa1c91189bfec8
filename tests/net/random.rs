//! Random numbers that a printed seed brings back.

use std::hash::{BuildHasher, RandomState};

/// A seeded generator (splitmix64).
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// Seeded by `URGO_SEED`, or afresh; prints the seed, which the test harness shows if the test fails.
    pub(crate) fn new(what: &str) -> Random {
        let seed = match std::env::var("URGO_SEED") {
            Ok(text) => text.parse().expect("URGO_SEED is a number"),
            Err(_) => RandomState::new().hash_one(what),
        };
        println!("{what}: URGO_SEED={seed}");
        Random { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next() as u8)
            .take(count)
            .collect()
    }
}
