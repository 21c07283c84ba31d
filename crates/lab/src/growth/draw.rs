//! One drawing of each axis, with a panel for each figure. Both scales are logarithmic.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Curve, Figure, Growth};
use crate::error::{LabError, Result};

const SIZE: (u32, u32) = (1000, 760);
const PANELS: [(Figure, &str); 4] = [
    (Figure::P50, "p50, microseconds"),
    (Figure::P99, "p99, microseconds"),
    (
        Figure::Cpu,
        "processor time of the server per operation, microseconds",
    ),
    (Figure::Bytes, "bytes per znode, session or watch"),
];
const FONT: (&str, u32) = ("sans-serif", 13);
const COLOURS: [RGBColor; 4] = [
    RGBColor(31, 99, 180),
    RGBColor(200, 80, 20),
    RGBColor(40, 140, 60),
    RGBColor(130, 60, 160),
];

/// Curve of one kind of server, as far as it was measured.
struct Drawn<'a> {
    name: &'a str,
    colour: RGBColor,
    /// Whether the curve belongs to the second kind of server.
    is_second: bool,
    points: Vec<(f64, f64)>,
}

/// Returns the text of an SVG file.
pub(super) fn svg(growth: &Growth, names: &[String], file: &str) -> Result<String> {
    let mut text = String::new();
    draw(growth, names, &mut text).map_err(|reason| LabError::Drawing {
        file: file.to_owned(),
        reason,
    })?;
    Ok(text)
}

fn draw(growth: &Growth, names: &[String], text: &mut String) -> Result<(), String> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(draw_error)?;
    let title = match names {
        [one] => format!("{}: {one}", growth.axis.name),
        names => format!("{}: {} (dashed)", growth.axis.name, names.join(", and ")),
    };
    let below = root
        .titled(&title, ("sans-serif", 18))
        .map_err(draw_error)?;
    for (area, (figure, label)) in below.split_evenly((2, 2)).iter().zip(PANELS) {
        let curves = drawn(growth, figure);
        if let (Some(x), Some(y)) = (range(&curves, |(x, _)| x), range(&curves, |(_, y)| y)) {
            // The first panel has space for the names at the top.
            let has_names = figure == Figure::P50;
            let lines = if has_names { growth.curves.len() } else { 0 };
            let y = y.start..y.end * ROOM_OF_A_NAME.powi(i32::try_from(lines).unwrap_or(0));
            let panel = Panel {
                area,
                label,
                unit: growth.axis.unit,
                has_names,
            };
            panel.draw(x, y, &curves)?;
        }
    }
    root.present().map_err(draw_error)
}

fn draw_error(error: impl Display) -> String {
    error.to_string()
}

fn drawn(growth: &Growth, figure: Figure) -> Vec<Drawn<'_>> {
    let mut all = Vec::new();
    for (curve, colour) in growth.curves.iter().zip(COLOURS.iter().cycle()) {
        if figure == Figure::Bytes && curve.bytes_of.is_none() {
            continue;
        }
        for kind in 0..2 {
            let points = points(curve, figure, kind);
            if !points.is_empty() {
                all.push(Drawn {
                    name: curve.name,
                    colour: *colour,
                    is_second: kind == 1,
                    points,
                });
            }
        }
    }
    all
}

/// Returns the points of a curve without zeros, which a logarithmic scale does not contain.
fn points(curve: &Curve, figure: Figure, kind: usize) -> Vec<(f64, f64)> {
    let points = curve.points.iter();
    let points =
        points.filter_map(|point| Some((f64::from(point.at), figure.of(curve, point, kind)?)));
    points.filter(|(x, y)| *x > 0.0 && *y > 0.0).collect()
}

/// Returns the range from the least to the greatest value, with a margin. `None` without a value.
fn range(curves: &[Drawn<'_>], of: fn((f64, f64)) -> f64) -> Option<Range<f64>> {
    let values = curves
        .iter()
        .flat_map(|curve| &curve.points)
        .copied()
        .map(of);
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    (most > 0.0).then(|| least / ROOM..most * ROOM)
}

const ROOM: f64 = 1.5;

/// Factor by which the vertical range of a panel grows for each curve name at its top.
const ROOM_OF_A_NAME: f64 = 2.0;

struct Panel<'a, 'b> {
    area: &'a DrawingArea<SVGBackend<'b>, Shift>,
    label: &'a str,
    unit: &'a str,
    has_names: bool,
}

impl Panel<'_, '_> {
    fn draw(&self, x: Range<f64>, y: Range<f64>, curves: &[Drawn<'_>]) -> Result<(), String> {
        let mut chart = ChartBuilder::on(self.area)
            .margin(10)
            .caption(self.label, FONT)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(x.log_scale(), y.log_scale())
            .map_err(draw_error)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.unit)
            .label_style(FONT)
            .disable_mesh()
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value));
        mesh.draw().map_err(draw_error)?;
        for curve in curves {
            let (colour, style) = (curve.colour, curve.colour.stroke_width(2));
            let points = curve.points.iter().copied();
            if curve.is_second {
                let line = DashedLineSeries::new(points.clone(), 6, 5, style);
                chart.draw_series(line).map_err(draw_error)?;
            } else {
                let line = LineSeries::new(points.clone(), style);
                let line = chart.draw_series(line).map_err(draw_error)?;
                line.label(curve.name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            }
            let dots = points.map(|point| Circle::new(point, 3, colour.filled()));
            chart.draw_series(dots).map_err(draw_error)?;
        }
        if self.has_names {
            let mut labels = chart.configure_series_labels();
            let labels = labels.position(SeriesLabelPosition::UpperLeft);
            labels.label_font(FONT).draw().map_err(draw_error)?;
        }
        Ok(())
    }
}

/// Formats a number as `10`, `1k`, `20k` or `1M`.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    }
}
