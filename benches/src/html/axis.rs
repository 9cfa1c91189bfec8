//! Axes: where a value lies, and which values are written beside.

use crate::results::short;

/// A range of values, from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    is_log: bool,
    min: f64,
    max: f64,
    /// Values with what is written at them.
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) title: String,
}

/// Values that differ by more than this need a logarithmic axis to be seen side by side.
const SPREAD_MAX: f64 = 20.0;

impl Axis {
    /// From zero, or logarithmic if the values are far apart.
    pub(super) fn of(values: &[f64], title: impl Into<String>) -> Axis {
        let (min, max) = extremes(values);
        if min > 0.0 && max / min > SPREAD_MAX {
            Axis::log(values, title)
        } else {
            Axis::linear(max, title)
        }
    }

    /// From 0 to a bit more than `max`.
    fn linear(max: f64, title: impl Into<String>) -> Axis {
        let max = if max > 0.0 { max * 1.06 } else { 1.0 };
        let step = nice_step(max / 5.0);
        let ticks = (0..).map(|at| f64::from(at) * step);
        Axis {
            is_log: false,
            min: 0.0,
            max,
            ticks: ticks.take_while(|v| *v <= max).map(marked).collect(),
            title: title.into(),
        }
    }

    /// Logarithmic, around `values`; those that are not positive lie at its lower end.
    pub(super) fn log(values: &[f64], title: impl Into<String>) -> Axis {
        let positive: Vec<f64> = values.iter().copied().filter(|v| *v > 0.0).collect();
        let (min, max) = match extremes(&positive) {
            (min, max) if min > 0.0 => (min / 1.25, max * 1.25),
            _ => (0.1, 10.0),
        };
        let steps: &[f64] = if max / min < 300.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let decades = min.log10().floor() as i32..=max.log10().ceil() as i32;
        let ticks = decades.flat_map(|decade| steps.iter().map(move |s| s * 10f64.powi(decade)));
        Axis {
            is_log: true,
            min,
            max,
            ticks: ticks
                .filter(|v| (min..=max).contains(v))
                .map(marked)
                .collect(),
            title: title.into(),
        }
    }

    /// Logarithmic with a tick at each of these values, which are not empty.
    pub(super) fn log_at(values: &[f64], title: impl Into<String>) -> Axis {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (min, max) = extremes(&values);
        Axis {
            is_log: true,
            min: min.max(f64::MIN_POSITIVE) / 1.1,
            max: max * 1.1,
            ticks: values.into_iter().map(marked).collect(),
            title: title.into(),
        }
    }

    /// Logarithmic in how rare the slower ones are: 1 is all of them, 10 one in ten. Percentiles are written beside.
    pub(super) fn rarity(max: f64) -> Axis {
        let marks = [
            (1.0, "0 %"),
            (2.0, "50 %"),
            (10.0, "90 %"),
            (1e2, "99 %"),
            (1e3, "99.9 %"),
            (1e4, "99.99 %"),
            (1e5, "99.999 %"),
        ];
        let ticks = marks.iter().filter(|(value, _)| *value <= max);
        Axis {
            is_log: true,
            min: 1.0,
            max,
            ticks: ticks.map(|(v, text)| (*v, (*text).to_owned())).collect(),
            title: "share of requests that were at least as fast".to_owned(),
        }
    }

    /// One place for each of these names.
    pub(super) fn places(names: Vec<String>) -> Axis {
        Axis {
            is_log: false,
            min: -0.2,
            max: names.len() as f64 - 0.8,
            ticks: (0..names.len()).map(|at| at as f64).zip(names).collect(),
            title: String::new(),
        }
    }

    /// Whether it is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// Where `value` lies, from 0 to 1.
    pub(super) fn at(&self, value: f64) -> f64 {
        let scale = |value: f64| match self.is_log {
            true => value.max(self.min).log10(),
            false => value,
        };
        let (min, max) = (scale(self.min), scale(self.max));
        ((scale(value) - min) / (max - min)).clamp(0.0, 1.0)
    }
}

fn extremes(values: &[f64]) -> (f64, f64) {
    let fold = values.iter().fold((f64::MAX, f64::MIN), |(min, max), v| {
        (min.min(*v), max.max(*v))
    });
    if values.is_empty() { (0.0, 0.0) } else { fold }
}

/// The next of 1, 2, 5, 10, 20 ...
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.iter().find(|step| **step * power >= least * 0.999);
    step.unwrap_or(&10.0) * power
}

fn marked(value: f64) -> (f64, String) {
    if (1e3..1e4).contains(&value) {
        return (value, short(value));
    }
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = format!("{scaled:.6}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    (value, format!("{digits}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn near_values_start_at_zero_and_far_ones_are_logarithmic() {
        let near = Axis::of(&[50.0, 240.0], "ns");
        assert_eq!(texts(&near), ["0", "100", "200"]);
        assert!(!near.is_log() && near.at(0.0) == 0.0 && near.at(240.0) < 1.0);
        let far = Axis::of(&[50.0, 24_000.0], "ns");
        assert_eq!(texts(&far), ["100", "1,000", "10 k"]);
        assert!(far.is_log() && far.at(50.0) > 0.0);
    }

    #[test]
    fn an_axis_takes_whatever_comes() {
        for values in [&[][..], &[0.0], &[0.0, 5.0], &[7.0]] {
            for axis in [Axis::of(values, ""), Axis::log(values, "")] {
                let at = axis.at(3.0);
                assert!((0.0..=1.0).contains(&at), "{values:?}: {at}");
            }
        }
    }

    #[test]
    fn a_percentile_lies_where_its_rarity_does() {
        let axis = Axis::rarity(1e4);
        assert_eq!(
            texts(&axis),
            ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]
        );
        assert!((axis.at(1e2) - 0.5).abs() < 1e-9);
    }
}
