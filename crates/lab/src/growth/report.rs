//! Report about growth, in Markdown for human readers and in JSON for programs.

use std::fmt::Write;

use bench::measure::Side;
use bench::measure::table::{head, line, number, percentile};
use serde_json::{Value, json};

use super::args::GrowthArgs;
use super::{Curve, Figure, Growth, Point};

/// All results of one run of `zoarium-lab growth`.
pub(super) struct Report<'a> {
    pub(super) args: &'a GrowthArgs,
    pub(super) grown: &'a [Growth],
}

impl Report<'_> {
    /// Returns the names of both kinds of servers, or only the first name if one kind was measured.
    pub(super) fn names(&self) -> Vec<String> {
        let args = self.args;
        let called = |name: &Option<String>, servers: &[String]| {
            name.clone().unwrap_or_else(|| servers.join(","))
        };
        let mut names = vec![called(&args.name, &args.servers.server)];
        let has_two = |growth: &Growth| {
            let mut points = growth.curves.iter().flat_map(|curve| &curve.points);
            points.any(|point| point.sides.len() > 1)
        };
        if self.grown.iter().any(has_two) {
            names.push(called(&args.versus_name, &args.servers.versus));
        }
        names
    }

    /// Returns one line of text for each failure.
    pub(super) fn complaints(&self) -> Vec<String> {
        let names = self.names();
        let mut complaints = Vec::new();
        for growth in self.grown {
            for curve in &growth.curves {
                for point in &curve.points {
                    let at = format!("{} {}, {}", growth.axis.name, point.at, curve.name);
                    for (side, name) in point.sides.iter().zip(&names) {
                        let found = match side {
                            None => Vec::new(),
                            Some(Err(error)) => vec![format!("not measured: {error}")],
                            Some(Ok(side)) => side.complaints(),
                        };
                        let found = found.into_iter();
                        complaints.extend(found.map(|what| format!("{at}: {name}: {what}")));
                    }
                }
            }
        }
        complaints
    }

    pub(super) fn json(&self) -> Value {
        let axes = self.grown.iter().map(|growth| {
            json!({
                "axis": growth.axis.name,
                "unit": growth.axis.unit,
                "curves": growth.curves.iter().map(Curve::json).collect::<Vec<_>>(),
            })
        });
        json!({
            "servers": self.names(),
            "rounds": self.args.turns.rounds,
            "seconds": self.args.turns.duration.as_secs_f64(),
            "warmup_seconds": self.args.turns.warmup.as_secs_f64(),
            "axes": axes.collect::<Vec<_>>(),
        })
    }

    pub(super) fn markdown(&self) -> String {
        let turns = &self.args.turns;
        let names = self.names();
        let mut out = format!("servers: {}\n", names.join("; "));
        let _ = writeln!(
            out,
            "\nTurns: {}, each of {} s after {} s of warmup. CPU is the processor time of the server per operation.",
            turns.rounds,
            turns.duration.as_secs_f64(),
            turns.warmup.as_secs_f64(),
        );
        for growth in self.grown {
            for curve in &growth.curves {
                let _ = writeln!(out, "\n{}: {}\n", growth.axis.name, curve.name);
                curve.table(&mut out, growth.axis.unit, &names);
            }
        }
        let complaints = self.complaints();
        if !complaints.is_empty() {
            let _ = writeln!(out, "\nProblems:\n");
        }
        for complaint in complaints {
            let _ = writeln!(out, "- {complaint}");
        }
        out
    }
}

impl Curve {
    fn table(&self, out: &mut String, unit: &str, names: &[String]) {
        let bytes = self.bytes_of.map(|thing| format!("bytes per {thing}"));
        let mut columns = vec![unit.to_owned()];
        for (kind, name) in names.iter().enumerate() {
            // Only the first column of each server contains the server's name.
            columns.push(format!("{name}: ops/s"));
            columns.extend(["p50", "p99", "CPU us"].map(str::to_owned));
            columns.extend(bytes.clone());
            debug_assert!(kind < 2);
        }
        head(out, &columns.iter().map(String::as_str).collect::<Vec<_>>());
        for point in &self.points {
            let mut cells = vec![point.at.to_string()];
            for kind in 0..names.len() {
                let side = point.side(kind);
                cells.push(number(side.map(Side::ops_per_second), 0));
                cells.extend([percentile(side, 50.0), percentile(side, 99.0)]);
                cells.push(number(Figure::Cpu.of(self, point, kind), 2));
                if self.bytes_of.is_some() {
                    cells.push(number(Figure::Bytes.of(self, point, kind), 0));
                }
            }
            line(out, &cells);
        }
    }

    fn json(&self) -> Value {
        json!({
            "load": self.name,
            "bytes_of": self.bytes_of,
            "points": self.points.iter().map(|point| self.point(point)).collect::<Vec<_>>(),
        })
    }

    fn point(&self, point: &Point) -> Value {
        let sides = point
            .sides
            .iter()
            .enumerate()
            .map(|(kind, side)| match side {
                None => Value::Null,
                Some(Err(error)) => json!({ "error": error.to_string() }),
                Some(Ok(side)) => json!({
                    "ops_per_second": side.ops_per_second(),
                    "p50_us": Figure::P50.of(self, point, kind),
                    "p99_us": Figure::P99.of(self, point, kind),
                    "cpu_us": Figure::Cpu.of(self, point, kind),
                    "bytes": self.bytes_of.and_then(|_| Figure::Bytes.of(self, point, kind)),
                }),
            });
        json!({ "at": point.at, "servers": sides.collect::<Vec<_>>() })
    }
}
