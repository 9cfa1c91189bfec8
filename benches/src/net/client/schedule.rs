//! When requests are due.

use std::time::Duration;

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// Each one the same time after the one before: clocks and sensors.
    Even,
    /// Exponential, a Poisson process: many clients that know nothing of each other.
    Random,
}

/// Moments in ns from the start of a run, in ascending order; the same ones for every contender.
#[derive(Debug)]
pub(super) struct Schedule {
    mean_ns: f64,
    spacing: Spacing,
    state: u64,
    due_ns: f64,
    end_ns: f64,
}

impl Schedule {
    /// All moments within `length`.
    pub(super) fn new(per_second: f64, spacing: Spacing, length: Duration) -> Schedule {
        assert!(per_second > 0.0, "{per_second} requests per second");
        Schedule {
            mean_ns: 1e9 / per_second,
            spacing,
            state: 0,
            due_ns: 0.0,
            end_ns: length.as_nanos() as f64,
        }
    }

    /// Above 0, at most 1: the splitmix64 generator's upper 53 bits.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.due_ns += self.mean_ns
            * match self.spacing {
                Spacing::Even => 1.0,
                Spacing::Random => -self.uniform().ln(),
            };
        (self.due_ns < self.end_ns).then_some(self.due_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(spacing: Spacing) -> Vec<f64> {
        let moments: Vec<u64> = Schedule::new(1e6, spacing, Duration::from_millis(100)).collect();
        moments
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect()
    }

    #[test]
    fn both_spacings_keep_the_rate_and_only_one_varies() {
        let (even, random) = (gaps(Spacing::Even), gaps(Spacing::Random));
        assert_eq!(even.len(), 99_998);
        assert!(even.iter().all(|&gap| gap == 1000.0));
        assert!(
            (99_000..101_000).contains(&random.len()),
            "{}",
            random.len()
        );
        // Of exponential gaps with mean 1 the share above 3 is exp(-3), 4.98 %.
        let long = random.iter().filter(|&&gap| gap > 3000.0).count() as f64;
        assert!((0.047..0.053).contains(&(long / random.len() as f64)));
    }
}
