//! The growth of costs: along each axis, the same loads are measured with more and more of one
//! quantity, and the results are drawn.

mod axes;
mod draw;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use super::args::GrowthArgs;
use super::compare::{self, Schedule, Side};
use super::error::{BenchError, Result};
use super::load::{self, Load};
use super::output;
use super::progress::Progress;
use super::target::{self, Target};
use super::workload::Mix;

use axes::{AXES, Axis, AxisStep, BothKinds};

/// One load along an axis.
#[derive(Debug)]
struct Curve {
    name: &'static str,
    /// Unit of each byte of growth, if memory is measured.
    bytes_of: Option<&'static str>,
    points: Vec<Point>,
}

#[derive(Debug)]
struct Point {
    /// Position on the axis.
    at: u32,
    /// Each kind of server, or the reason why it was not measured. `None` if the server does
    /// not exist.
    sides: Vec<Option<Result<Side>>>,
    /// Number of items in the server's memory that were added since before the first point.
    kept: u64,
}

/// All curves along one axis.
#[derive(Debug)]
struct Growth {
    axis: &'static Axis,
    curves: Vec<Curve>,
}

/// Measures every requested axis, and prints the report. A failed measurement is a gap with a
/// reason, and the others continue. The exit code is then 1.
pub(crate) fn run(args: &GrowthArgs) -> Result<ExitCode> {
    let mut grown = Vec::new();
    for axis in chosen(args)? {
        grown.push(match axis.ensembles {
            Some(ensembles) => members(args, axis, ensembles(args))?,
            None => along(args, axis)?,
        });
    }
    let report = report::Report {
        args,
        grown: &grown,
    };
    let (text, json) = (report.markdown(), format!("{:#}\n", report.json()));
    if let Some(dir) = &args.report {
        output::write(dir, "growth.md", &text)?;
        output::write(dir, "growth.json", &json)?;
        for growth in &grown {
            let file = format!("{}.svg", growth.axis.name);
            output::write(dir, &file, &draw::svg(growth, &report.names(), &file)?)?;
        }
    }
    output::print(if args.json { &json } else { &text });
    Ok(if report.complaints().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the axes to measure. Axes of members require ensembles.
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
            return Err(BenchError::Argument(text));
        }
    }
    let is_chosen = |axis: &&Axis| {
        let has_servers = axis.ensembles.is_none_or(|of| !of(args)[0].is_empty());
        has_servers && (args.only.is_empty() || args.only.iter().any(|name| name == axis.name))
    };
    Ok(AXES.iter().filter(is_chosen).collect())
}

/// Returns the last point of an axis.
fn end(ends: &[(String, u32)], axis: &Axis) -> u32 {
    let end = ends.iter().rfind(|(name, _)| name == axis.name);
    end.map_or(u32::MAX, |(_, end)| *end)
}

/// Measures every load of an axis at each of its points.
fn grow(
    axis: &'static Axis,
    points: impl Iterator<Item = u32>,
    mut measure: impl FnMut(u32, &Load, &Progress) -> Vec<Option<Result<Side>>>,
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

/// Returns the number of items in memory under a load, if memory is measured.
fn kept_by(load: &Load) -> u64 {
    match load.mix {
        Mix::Fill { znodes, .. } => znodes.into(),
        _ => u64::from(load.sessions) * u64::from(load.keys),
    }
}

fn along(args: &GrowthArgs, axis: &'static Axis) -> Result<Growth> {
    let targets = load::targets(&args.servers)?;
    let root = axis.is_kept.then(target::new_root);
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
        clean(&targets, &root)?;
    }
    Ok(grown)
}

/// Measures one kind of server separately. If it fails earlier than the other one, the other
/// continues.
fn one_side(
    args: &GrowthArgs,
    load: &Load,
    root: Option<&str>,
    target: &Target,
    progress: &Progress,
) -> Result<Side> {
    let is_once = load.ops.is_some() || matches!(load.mix, Mix::Fill { .. });
    let schedule = Schedule {
        rounds: if is_once { 1 } else { args.turns.rounds },
        keep: root.is_some(),
    };
    let job = load.job(&args.servers, &args.turns, root)?;
    let mut sides = compare::run(&job, std::slice::from_ref(target), schedule, progress)?;
    sides.pop().ok_or(BenchError::Stalled(0))
}

fn clean(targets: &[Target], root: &str) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build();
    let runtime = runtime.map_err(BenchError::io("start a runtime"))?;
    let progress = Progress::new();
    for target in targets {
        progress.stage(&format!("{}: clean up", target.name()));
        // A server that ended under its load was already reported.
        if let Err(error) = runtime.block_on(target.clean(root)) {
            tracing::warn!(server = target.name(), %error, "cannot delete all znodes of the run");
        }
    }
    Ok(())
}

/// Measures an axis on which each point is a separate ensemble.
fn members(args: &GrowthArgs, axis: &'static Axis, kinds: BothKinds<'_>) -> Result<Growth> {
    let mut sizes: Vec<u32> = kinds
        .iter()
        .copied()
        .flatten()
        .map(|one| one.size)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let access = args.servers.access.open()?;
    let measure = |at: u32, load: &Load, progress: &Progress| {
        let kinds = kinds.iter().filter(|kind| !kind.is_empty());
        let sides = kinds.map(|kind| {
            let ensemble = kind.iter().find(|ensemble| ensemble.size == at)?;
            let servers = std::slice::from_ref(&ensemble.servers);
            let target = Target::new(servers, &[], access.clone());
            Some(target.and_then(|target| one_side(args, load, None, &target, progress)))
        });
        sides.collect()
    };
    Ok(grow(axis, sizes.into_iter(), measure))
}

impl Point {
    fn side(&self, kind: usize) -> Option<&Side> {
        self.sides.get(kind)?.as_ref()?.as_ref().ok()
    }
}

/// Figure of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    P50,
    P99,
    Cpu,
    Bytes,
}

impl Figure {
    /// Returns the figure in microseconds, or in bytes.
    fn of(self, curve: &Curve, point: &Point, kind: usize) -> Option<f64> {
        let side = point.side(kind)?;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        match self {
            Figure::P50 => Some(micros(side.stats().percentile(50.0))),
            Figure::P99 => Some(micros(side.stats().percentile(99.0))),
            // Seconds per million are microseconds per one.
            Figure::Cpu => side.server_cpu_per_million(),
            Figure::Bytes => {
                // Memory of an earlier point may be used again, so growth is counted from the first
                // point.
                let first = curve.points.first()?.side(kind)?;
                let before = first.rounds.first()?.memory_before?.resident;
                let now = side.memory()?.resident;
                Some(now.saturating_sub(before) as f64 / point.kept as f64)
            }
        }
    }
}
