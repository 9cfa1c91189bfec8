//! Medians and ratios.

/// Median and extremes of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    /// Middle value; mean of the two middle ones for an even count.
    pub(crate) median: f64,
    /// Least value.
    pub(crate) min: f64,
    /// Greatest value.
    pub(crate) max: f64,
}

impl Summary {
    /// `None` if there are no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Summary {
            median: (low + high) / 2.0,
            min,
            max,
        })
    }
}

/// Ratio of two series, formed round by round, so that noise that lasts longer than a round cancels out.
pub(crate) fn ratios(subject: &[f64], rival: &[f64]) -> Option<Summary> {
    Summary::of(
        subject
            .iter()
            .zip(rival)
            .map(|(subject, rival)| subject / rival),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        let summary = Summary::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.min, summary.median, summary.max), (1.0, 2.5, 4.0));
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn ratios_are_formed_round_by_round() {
        // The machine was slow by 10 in the last round: that does not show.
        let ratio = ratios(&[1.0, 1.0, 10.0], &[2.0, 2.0, 20.0]).unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.5, 0.5, 0.5));
    }
}
