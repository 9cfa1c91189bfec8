//! Latencies in log-linear buckets: 64 per power of two, so a percentile is off by less than 2 %.

const BITS: u32 = 6;

/// Counts of values in ns.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// An empty one.
    pub(crate) fn new() -> Histogram {
        Histogram {
            counts: vec![0; ((64 - BITS as usize) + 1) << BITS],
            total: 0,
        }
    }

    /// Counts one value.
    pub(crate) fn add(&mut self, value_ns: u64) {
        let shift = (63 - (value_ns | 1).leading_zeros()).saturating_sub(BITS);
        self.counts[((shift as usize) << BITS) + (value_ns >> shift) as usize] += 1;
        self.total += 1;
    }

    /// The value below which `part` (0 to 1) of all values lie, in ns; 0 if there are none.
    pub(crate) fn quantile_ns(&self, part: f64) -> u64 {
        let rank = (self.total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            seen += count;
            if count > 0 && seen >= rank {
                // A bucket above the first 2 << BITS holds its shift in the index; see `add`.
                let shift = (at >> BITS).saturating_sub(1);
                return ((at - (shift << BITS)) as u64) << shift;
            }
        }
        0
    }
}
