//! The ground of a plot: axes, grid, and lines with their names at their ends.

use super::axis::Axis;
use super::ink::{self, GRID, INK};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Point = (i32, i32);

const FONT: &str = "sans-serif";
/// plotters takes a size by which the letters are 1.24 times smaller.
const FONT_SIZE: f64 = 12.0 * 1.24;
/// Of most letters; the rest are thinner.
const LETTER_WIDTH: i32 = 8;
/// Two names one above the other.
const LINE_HEIGHT: i32 = 15;
const NEVER: &str = "a string takes everything";

/// A picture as SVG.
pub(super) fn picture(width: u32, height: u32, draw: impl FnOnce(&Area<'_>)) -> String {
    let mut out = String::new();
    let area = SVGBackend::with_string(&mut out, (width, height)).into_drawing_area();
    draw(&area);
    area.present().expect(NEVER);
    drop(area);
    // Its own line of XML has no place inside of HTML.
    let start = out.find("<svg").unwrap_or(0);
    out[start..].to_owned()
}

pub(super) fn line(area: &Area<'_>, points: Vec<Point>, style: ShapeStyle) {
    area.draw(&PathElement::new(points, style)).expect(NEVER);
}

pub(super) fn dot(area: &Area<'_>, at: Point, size: u32, colour: RGBColor) {
    area.draw(&Circle::new(at, size, colour.filled()))
        .expect(NEVER);
}

pub(super) fn bar(area: &Area<'_>, corners: [Point; 2], colour: RGBAColor) {
    area.draw(&Rectangle::new(corners, colour.filled()))
        .expect(NEVER);
}

pub(super) fn text(area: &Area<'_>, text: &str, at: Point, colour: RGBColor, h: HPos, v: VPos) {
    let style = (FONT, FONT_SIZE).into_font().color(&colour);
    let style = style.pos(Pos::new(h, v));
    area.draw(&Text::new(text.to_owned(), at, style))
        .expect(NEVER);
}

/// A thin line for the eye.
pub(super) fn hair() -> ShapeStyle {
    GRID.stroke_width(1)
}

/// Writes the names of ticks below an axis, from the last one back, leaving out those that would lie on another.
pub(super) fn tick_names(area: &Area<'_>, axis: &Axis, at: impl Fn(f64) -> i32, top: i32) {
    let mut free_to = i32::MAX;
    for (value, name) in axis.ticks.iter().rev() {
        let x = at(*value);
        let widest = name.lines().map(|line| line.chars().count()).max();
        let half = widest.unwrap_or(0) as i32 * LETTER_WIDTH / 2;
        if x + half >= free_to {
            continue;
        }
        for (y, part) in (top..).step_by(LINE_HEIGHT as usize).zip(name.lines()) {
            text(area, part, (x, y), INK, HPos::Center, VPos::Top);
        }
        free_to = x - half - LETTER_WIDTH;
    }
}

/// A line through points, with the range of each, and its name at its end.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pub(super) name: String,
    /// x, y, and least and greatest y.
    pub(super) points: Vec<(f64, f64, [f64; 2])>,
    /// Whether each point is marked.
    pub(super) has_dots: bool,
}

/// The rectangle between two axes.
pub(super) struct Frame<'a, 'b> {
    area: &'a Area<'b>,
    left_top: Point,
    right_bottom: Point,
    x: Axis,
    y: Axis,
}

impl<'a, 'b> Frame<'a, 'b> {
    /// Draws grid and axes, and keeps `room` pixels on the right for names.
    pub(super) fn new(area: &'a Area<'b>, x: Axis, y: Axis, room: i32) -> Frame<'a, 'b> {
        let (width, height) = area.dim_in_pixel();
        let top = if y.title.is_empty() { 10 } else { 30 };
        let has_two_lines = x.ticks.iter().any(|(_, name)| name.contains('\n'));
        let bottom = match (x.title.is_empty(), has_two_lines) {
            (true, false) => 26,
            (true, true) | (false, false) => 46,
            (false, true) => 62,
        };
        let frame = Frame {
            area,
            left_top: (62, top),
            right_bottom: (width as i32 - room, height as i32 - bottom),
            x,
            y,
        };
        frame.grid();
        frame
    }

    fn grid(&self) {
        let ((left, top), (right, bottom)) = (self.left_top, self.right_bottom);
        for (value, _) in &self.x.ticks {
            let (x, _) = self.pixel(*value, f64::MIN);
            line(self.area, vec![(x, top), (x, bottom)], hair());
        }
        let at = |value: f64| self.pixel(value, f64::MIN).0;
        tick_names(self.area, &self.x, at, bottom + 8);
        for (value, name) in &self.y.ticks {
            let (_, y) = self.pixel(f64::MIN, *value);
            line(self.area, vec![(left, y), (right, y)], hair());
            text(
                self.area,
                name,
                (left - 8, y),
                INK,
                HPos::Right,
                VPos::Center,
            );
        }
        let middle = ((left + right) / 2, bottom + 26);
        text(
            self.area,
            &self.x.title,
            middle,
            INK,
            HPos::Center,
            VPos::Top,
        );
        text(self.area, &self.y.title, (8, 4), INK, HPos::Left, VPos::Top);
    }

    fn pixel(&self, x: f64, y: f64) -> Point {
        let ((left, top), (right, bottom)) = (self.left_top, self.right_bottom);
        let part =
            |from: i32, to: i32, part: f64| from + (f64::from(to - from) * part).round() as i32;
        (
            part(left, right, self.x.at(x)),
            part(bottom, top, self.y.at(y)),
        )
    }

    /// A bound.
    pub(super) fn level(&self, value: f64, name: &str) {
        let (left, y) = self.pixel(f64::MIN, value);
        let right = self.right_bottom.0;
        line(self.area, vec![(left, y), (right, y)], INK.stroke_width(1));
        text(
            self.area,
            name,
            (right + 6, y),
            INK,
            HPos::Left,
            VPos::Center,
        );
    }

    /// Curves with their names at the right; urgo, drawn last, lies above the others.
    pub(super) fn curves(&self, curves: &[Curve]) {
        let mut order: Vec<&Curve> = curves.iter().collect();
        order.sort_by_key(|curve| curve.name == "urgo");
        for curve in &order {
            self.curve(curve);
        }
        let mut ends: Vec<(i32, &str)> = order
            .iter()
            .filter_map(|curve| {
                let (x, y, _) = curve.points.last()?;
                Some((self.pixel(*x, *y).1, curve.name.as_str()))
            })
            .collect();
        ends.sort();
        let wanted: Vec<i32> = ends.iter().map(|(y, _)| *y).collect();
        let bottom = self.right_bottom.1 + LINE_HEIGHT;
        for (y, (_, name)) in spread(&wanted, LINE_HEIGHT, bottom).into_iter().zip(ends) {
            let at = (self.right_bottom.0 + 10, y);
            text(self.area, name, at, ink::of(name), HPos::Left, VPos::Center);
        }
    }

    fn curve(&self, curve: &Curve) {
        let colour = ink::of(&curve.name);
        let width = if curve.name == "urgo" { 3 } else { 2 };
        let points = curve.points.iter().map(|(x, y, _)| self.pixel(*x, *y));
        line(self.area, points.collect(), colour.stroke_width(width));
        if !curve.has_dots {
            return;
        }
        for (x, y, [least, greatest]) in &curve.points {
            let range = [*least, *greatest].map(|y| self.pixel(*x, y));
            line(self.area, range.to_vec(), colour.mix(0.6).stroke_width(2));
            dot(self.area, self.pixel(*x, *y), 3 + width / 3, colour);
        }
    }
}

/// Places near `wanted`, which ascends, `apart` from each other and not below `bottom`.
fn spread(wanted: &[i32], apart: i32, bottom: i32) -> Vec<i32> {
    let mut places = wanted.to_vec();
    for at in 1..places.len() {
        places[at] = places[at].max(places[at - 1] + apart);
    }
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = (*place).min(limit);
        limit = *place - apart;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_lie_on_each_other() {
        assert_eq!(spread(&[10, 12, 90], 15, 200), [10, 25, 90]);
        assert_eq!(spread(&[90, 95, 99], 15, 100), [70, 85, 100]);
        assert!(spread(&[], 15, 100).is_empty());
    }
}
