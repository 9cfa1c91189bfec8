//! The plots themselves, each as SVG.

use super::axis::Axis;
use super::frame::{Curve, Frame, bar, dot, hair, line, picture, text, tick_names};
use super::ink::{self, INK};
use crate::cell::Latencies;
use crate::results::{Line, Summary, short};
use plotters::prelude::Color;
use plotters::style::text_anchor::{HPos, VPos};

const WIDTH: u32 = 860;
const HEIGHT: u32 = 330;
/// For the longest name of a contender.
const NAMES: i32 = 120;
const ROW: i32 = 26;

/// Medians of all contenders of a case with their ranges, one below the other; `None` if nobody has any.
pub(super) fn medians(lines: &[Line]) -> Option<String> {
    let rows: Vec<(&Line, Summary)> = lines
        .iter()
        .filter_map(|line| Some((line, Summary::of(line.judged().iter().copied())?)))
        .collect();
    let unit = &rows.first()?.0.judge.unit;
    let values: Vec<f64> = rows.iter().flat_map(|(_, s)| [s.min, s.max]).collect();
    let scale = |axis: &Axis| if axis.is_log() { ", logarithmic" } else { "" };
    let axis = Axis::of(&values, "");
    let title = format!("{} in {unit}{}", rows[0].0.judge.what, scale(&axis));
    let bottom = 8 + ROW * rows.len() as i32;
    let (left, right) = (150, WIDTH as i32 - 110);
    let x = |value: f64| left + (f64::from(right - left) * axis.at(value)).round() as i32;
    Some(picture(WIDTH, bottom as u32 + 46, |area| {
        for (value, _) in &axis.ticks {
            line(area, vec![(x(*value), 4), (x(*value), bottom)], hair());
        }
        tick_names(area, &axis, x, bottom + 6);
        let middle = ((left + right) / 2, bottom + 24);
        text(area, &title, middle, INK, HPos::Center, VPos::Top);
        for (at, (contender, summary)) in rows.iter().enumerate() {
            let y = 8 + ROW * at as i32 + ROW / 2;
            let colour = ink::of(&contender.contender);
            let name = &contender.contender;
            text(area, name, (left - 12, y), INK, HPos::Right, VPos::Center);
            // The length of a bar on a logarithmic axis would mean nothing.
            if !axis.is_log() {
                let corners = [(left, y - 8), (x(summary.median), y + 8)];
                bar(area, corners, colour.mix(0.3));
            }
            let range = vec![(x(summary.min), y), (x(summary.max), y)];
            line(area, range, colour.stroke_width(3));
            dot(area, (x(summary.median), y), 5, colour);
            let at = (x(summary.max) + 12, y);
            let value = format!("{} {unit}", short(summary.median));
            text(area, &value, at, INK, HPos::Left, VPos::Center);
        }
    }))
}

/// One curve per contender over a logarithmic x axis with a tick at each x.
pub(super) fn curves(curves: &[Curve], x_title: &str, y_title: &str) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let xs: Vec<f64> = points().map(|(x, _, _)| *x).collect();
    let ys: Vec<f64> = points().flat_map(|(_, _, range)| *range).collect();
    let y = Axis::of(&ys, "");
    let scale = if y.is_log() { ", logarithmic" } else { "" };
    let y = Axis::of(&ys, format!("{y_title}{scale}"));
    picture(WIDTH, HEIGHT, |area| {
        Frame::new(area, Axis::log_at(&xs, x_title), y, NAMES).curves(curves);
    })
}

/// Latencies by percentile, as HdrHistogram draws them.
pub(super) fn latencies(all: &[(&str, Latencies)]) -> String {
    const STEPS: i32 = 160;
    const RARITY_MAX: f64 = 1e5;
    let rarest = |latencies: &Latencies| (latencies.len() as f64).clamp(10.0, RARITY_MAX);
    let rarity_max = all
        .iter()
        .map(|(_, some)| rarest(some))
        .fold(10.0, f64::max);
    let curve = |(name, latencies): &(&str, Latencies)| {
        let point = |step: i32| {
            let rarity = rarest(latencies).powf(f64::from(step) / f64::from(STEPS));
            let us = latencies.value_at_quantile(1.0 - 1.0 / rarity) as f64 / 1e3;
            (rarity, us, [us, us])
        };
        Curve {
            name: (*name).to_owned(),
            points: (0..=STEPS).map(point).collect(),
            has_dots: false,
        }
    };
    let curves: Vec<Curve> = all.iter().map(curve).collect();
    let points = curves.iter().flat_map(|curve| &curve.points);
    let ys: Vec<f64> = points.map(|(_, y, _)| *y).collect();
    let y = Axis::log(&ys, "latency in µs, logarithmic");
    picture(WIDTH, HEIGHT, |area| {
        Frame::new(area, Axis::rarity(rarity_max), y, NAMES).curves(&curves);
    })
}

/// urgo's medians over runs, with the budget if that is a number.
pub(super) fn history(points: &[(String, Summary)], unit: &str, most: Option<f64>) -> String {
    let names = points.iter().map(|(name, _)| name.clone()).collect();
    let curve = Curve {
        name: "urgo".to_owned(),
        points: points
            .iter()
            .enumerate()
            .map(|(at, (_, s))| (at as f64, s.median, [s.min, s.max]))
            .collect(),
        has_dots: true,
    };
    let values = points.iter().flat_map(|(_, s)| [s.min, s.max]).chain(most);
    let y = Axis::of(&values.collect::<Vec<_>>(), unit);
    picture(430, 190, |area| {
        let frame = Frame::new(area, Axis::places(names), y, 62);
        if let Some(most) = most {
            frame.level(most, "budget");
        }
        frame.curves(&[curve]);
    })
}
