//! The choice seam: every decision that the program leaves open.

/// Where choices come from; one per worker.
#[derive(Debug)]
pub(crate) enum Choice {
    /// xorshift64* (Vigna 2016), seeded by [`Entropy`](super::Entropy). Fast and plenty for picking victims.
    Live(u64),
}

impl Choice {
    pub(crate) fn live(seed: u64) -> Choice {
        Choice::Live(seed | 1)
    }

    /// A number below `n` (which is not 0).
    #[inline]
    pub(crate) fn below(&mut self, n: usize) -> usize {
        match self {
            Choice::Live(state) => {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                let high = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
                // Lemire's multiply-shift; the bias for small n is far below what a victim choice could show.
                ((high * n as u64) >> 32) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_reaches_every_answer_about_equally() {
        let mut choice = Choice::live(42);
        let mut hits = [0u32; 5];
        for _ in 0..50_000 {
            hits[choice.below(5)] += 1;
        }
        assert!(hits.iter().all(|h| (9_000..11_000).contains(h)), "{hits:?}");
    }
}
