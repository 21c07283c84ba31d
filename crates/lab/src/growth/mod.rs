//! Growth of costs: along each axis, the same loads are measured with increasing amounts of one
//! quantity, and the results are drawn.

mod args;
mod axes;
mod draw;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use bench::measure::{self, Load, MeasureError, MeasureSettings, Mix, Progress, Side, Target};

use crate::error::{LabError, Result};

pub(crate) use self::args::GrowthArgs;
use self::axes::{AXES, Axis, AxisStep, BothKinds};

/// Result of each kind of server, or the reason why it was not measured. `None` if this kind of
/// server is not measured at this point.
type Sides = Vec<Option<Result<Side, MeasureError>>>;

/// Results of one load along an axis.
#[derive(Debug)]
struct Curve {
    name: &'static str,
    /// Kind of item by whose number the growth of memory is divided. `None` if memory is not
    /// measured.
    bytes_of: Option<&'static str>,
    points: Vec<Point>,
}

#[derive(Debug)]
struct Point {
    /// Position on the axis.
    at: u32,
    sides: Sides,
    /// Number of items that the load keeps in the server's memory. Used only if memory is measured.
    kept: u64,
}

/// All curves along one axis.
#[derive(Debug)]
struct Growth {
    axis: &'static Axis,
    curves: Vec<Curve>,
}

/// Measures every requested axis, and prints the report. A failed measurement does not stop the
/// other measurements. The report then contains the reason, and the exit code is 1.
pub(crate) fn run(args: &GrowthArgs) -> Result<ExitCode> {
    let mut grown = Vec::new();
    for axis in chosen(args)? {
        grown.push(match axis.ensembles {
            Some(ensembles) => members(args, axis, ensembles(args)),
            None => along(args, axis)?,
        });
    }
    let report = report::Report {
        args,
        grown: &grown,
    };
    let (text, json) = (report.markdown(), format!("{:#}\n", report.json()));
    if let Some(dir) = &args.report {
        measure::write(dir, "growth.md", &text)?;
        measure::write(dir, "growth.json", &json)?;
        for growth in &grown {
            let file = format!("{}.svg", growth.axis.name);
            measure::write(dir, &file, &draw::svg(growth, &report.names(), &file)?)?;
        }
    }
    measure::print(if args.json { &json } else { &text });
    Ok(if report.complaints().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the axes to measure. An axis of ensembles is omitted unless the arguments contain
/// ensembles of the first kind.
fn chosen(args: &GrowthArgs) -> Result<Vec<&'static Axis>> {
    let names: Vec<&str> = AXES.iter().map(|axis| axis.name).collect();
    let ends = args.upto.iter().chain(&args.versus_upto);
    let named = args.only.iter().chain(ends.map(|(name, _)| name));
    for name in named {
        if !names.contains(&name.as_str()) {
            let text = format!(
                "{name:?} is not an axis; known axes are {}",
                names.join(", ")
            );
            return Err(LabError::Argument(text));
        }
    }
    let is_chosen = |axis: &&Axis| {
        let has_servers = axis.ensembles.is_none_or(|of| !of(args)[0].is_empty());
        has_servers && (args.only.is_empty() || args.only.iter().any(|name| name == axis.name))
    };
    Ok(AXES.iter().filter(is_chosen).collect())
}

/// Returns the last value of an axis, or `u32::MAX` if the arguments do not limit it.
fn end(ends: &[(String, u32)], axis: &Axis) -> u32 {
    let end = ends.iter().rfind(|(name, _)| name == axis.name);
    end.map_or(u32::MAX, |(_, end)| *end)
}

/// Measures every load of an axis at each of its points.
fn grow(
    axis: &'static Axis,
    points: impl Iterator<Item = u32>,
    mut measure: impl FnMut(u32, &Load, &Progress) -> Sides,
) -> Growth {
    let mut curves: Vec<Curve> = Vec::new();
    let mut before = 0;
    for at in points {
        for (number, load) in axis.loads.iter().enumerate() {
            let bytes_of = load.bytes_of;
            let load = (load.at)(AxisStep { before, at });
            let progress = Progress::within(&format!("{} {at}, {}", axis.name, load.name));
            let point = Point {
                at,
                sides: measure(at, &load, &progress),
                kept: kept_by(&load),
            };
            match curves.get_mut(number) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    name: load.name,
                    bytes_of,
                    points: vec![point],
                }),
            }
        }
        before = at;
    }
    Growth { axis, curves }
}

/// Returns the number of items that a load keeps in memory. Used only if memory is measured.
fn kept_by(load: &Load) -> u64 {
    match load.mix {
        Mix::Fill { znodes, .. } => znodes.into(),
        _ => u64::from(load.sessions) * u64::from(load.keys),
    }
}

fn along(args: &GrowthArgs, axis: &'static Axis) -> Result<Growth> {
    let targets = measure::targets(&args.servers)?;
    let root = axis.is_kept.then(measure::new_root);
    let upto = end(&args.upto, axis);
    let ends = [upto, upto.min(end(&args.versus_upto, axis))];
    let points = axis.points.iter().copied();
    let points = points.filter(|point| *point <= upto);
    let grown = grow(axis, points, |at, load, progress| {
        let each = targets.iter().zip(ends);
        let sides = each.map(|(target, end)| {
            (at <= end).then(|| one_side(args, load, root.as_deref(), target, progress))
        });
        sides.collect()
    });
    if let Some(root) = root {
        clean(&targets, &root);
    }
    Ok(grown)
}

/// Measures a load on one kind of server. A failure does not stop the measurement of the other
/// kind.
fn one_side(
    args: &GrowthArgs,
    load: &Load,
    root: Option<&str>,
    target: &Target,
    progress: &Progress,
) -> Result<Side, MeasureError> {
    let settings = MeasureSettings {
        servers: &args.servers,
        turns: &args.turns,
        root,
    };
    measure::run(load, target, settings, progress)
}

fn clean(targets: &[Target], root: &str) {
    for target in targets {
        // An error is only printed. If the server ended under its load, the report contains that
        // failure.
        if let Err(error) = measure::clean(target, root) {
            let server = target.name();
            terminal::complain!(
                "zoarium-lab: cannot delete all znodes of the run at {server}: {error}"
            );
        }
    }
}

/// Measures an axis on which each point is a separate ensemble.
fn members(args: &GrowthArgs, axis: &'static Axis, kinds: BothKinds<'_>) -> Growth {
    let mut sizes: Vec<u32> = kinds
        .iter()
        .copied()
        .flatten()
        .map(|one| one.size)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let measure = |at: u32, load: &Load, progress: &Progress| {
        let kinds = kinds.iter().filter(|kind| !kind.is_empty());
        let sides = kinds.map(|kind| {
            let ensemble = kind.iter().find(|ensemble| ensemble.size == at)?;
            let target = measure::target_at(&ensemble.servers, &args.servers);
            Some(target.and_then(|target| one_side(args, load, None, &target, progress)))
        });
        sides.collect()
    };
    grow(axis, sizes.into_iter(), measure)
}

impl Point {
    fn side(&self, kind: usize) -> Option<&Side> {
        self.sides.get(kind)?.as_ref()?.as_ref().ok()
    }
}

/// Figure that a curve shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    P50,
    P99,
    Cpu,
    Bytes,
}

impl Figure {
    /// Returns the figure of one kind of server, in microseconds or bytes per item. Returns `None`
    /// if it was not measured.
    fn of(self, curve: &Curve, point: &Point, kind: usize) -> Option<f64> {
        let side = point.side(kind)?;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        match self {
            Figure::P50 => Some(micros(side.percentile(50.0))),
            Figure::P99 => Some(micros(side.percentile(99.0))),
            // Seconds per million operations are microseconds per operation.
            Figure::Cpu => side.server_cpu_per_million(),
            Figure::Bytes => {
                // Memory of an earlier point may be used again, so growth is counted from the first
                // point.
                let first = curve.points.first()?.side(kind)?;
                let before = first.resident_before()?;
                let now = side.resident_after()?;
                Some(now.saturating_sub(before) as f64 / point.kept as f64)
            }
        }
    }
}
