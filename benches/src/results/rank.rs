//! Whether two series of samples differ by more than their noise.
//!
//! # Algorithm
//! The test of Mann and Whitney, exact. *U* counts the pairs in which the value of the first series is the greater one, a tie
//! as a half. If both series came from the same source, each order of all values would be equally likely; `ways` counts the
//! orders that give each U, and the probability is the share of those that lie at least as far from the middle as the U that
//! was seen. It asks nothing of the shape of the noise, and one wild sample does not turn it.

/// Probability that the test calls two series different that are not.
pub(crate) const LEVEL: f64 = 0.01;

/// Samples of each series without which no order of them is as unlikely as [`LEVEL`].
pub(crate) const SAMPLES_MIN: usize = 5;

/// Probability of a difference as large as this one if there is none.
pub(crate) fn probability(first: &[f64], second: &[f64]) -> f64 {
    let (n, m) = (first.len(), second.len());
    let pairs = first
        .iter()
        .flat_map(|a| second.iter().map(move |b| (a, b)));
    let u: f64 = pairs
        .map(|(a, b)| match a.total_cmp(b) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 1.0,
        })
        .sum();
    let middle = (n * m) as f64 / 2.0;
    let distance = (u - middle).abs();
    let ways = ways(n, m);
    let all: f64 = ways.iter().sum();
    let far = ways.iter().enumerate();
    far.filter(|(u, _)| (*u as f64 - middle).abs() >= distance)
        .map(|(_, ways)| ways / all)
        .sum()
}

/// Number of orders of `n` and `m` values for each U.
fn ways(n: usize, m: usize) -> Vec<f64> {
    // table[j] holds the counts for i values of the first series and j of the second: the greatest of all values is one of the
    // first, which is above all j, or one of the second, which is above none.
    let mut table = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        for j in 1..=m {
            let mut counts = vec![0.0; i * j + 1];
            for (u, ways) in table[j].iter().enumerate() {
                counts[u + j] += ways;
            }
            for (u, ways) in table[j - 1].iter().enumerate() {
                counts[u] += ways;
            }
            table[j] = counts;
        }
    }
    table.swap_remove(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_counted_as_tables_have_them() {
        assert_eq!(ways(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        // 12 over 5.
        assert_eq!(ways(5, 7).iter().sum::<f64>(), 792.0);
    }

    #[test]
    fn series_apart_differ_and_series_mixed_do_not() {
        let low = [1.0, 1.1, 1.2, 1.3, 1.4];
        let high = [2.0, 2.1, 2.2, 2.3, 2.4];
        // Two of the 252 orders are as far apart as these.
        assert!((probability(&low, &high) - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(probability(&low, &high), probability(&high, &low));
        assert!(probability(&low, &high) < LEVEL);
        assert!(probability(&low, &low) > 0.99);
        // Four of each are too few: SAMPLES_MIN says so.
        assert!(probability(&low[1..], &high[1..]) > LEVEL);
    }
}
