//! Duration of sets during a snapshot and without a snapshot.

use serde_json::{Value, json};

use super::figures::{EventFigures, EventKind, SideFigures};
use crate::error::Result;
use crate::report::latency_json;
use crate::report::progress::Progress;
use crate::rounds::compare::{self, Schedule, Side};
use crate::rounds::load::{self, Load};
use crate::rounds::round::Round;
use crate::rounds::stats::Stats;
use crate::session::workload::Mix;
use crate::suite::args::SuiteArgs;
use crate::suite::rows::{BREADTH, SET, once};
use crate::target::Target;

/// Measures sets of leaves of the tree below `root`, on each side whose processes are known.
pub(super) fn measure(args: &SuiteArgs, root: &str) -> Result<EventFigures> {
    let load = Load {
        keys: args.znodes,
        breadth: Some(BREADTH),
        ..Load::requests(SET, Mix::Set, 16, 16)
    };
    let mut job = load.job(&args.servers, &once(&args.turns), Some(root))?;
    job.snapshots = Some(args.events.snapshot_time);
    let targets = load::targets(&args.servers)?;
    let watched = |target: &&Target| !target.processes.is_empty();
    let schedule = Schedule {
        rounds: 1,
        keep: true,
    };
    let progress = Progress::within(EventKind::Snapshot.name());
    let measured: Vec<Target> = targets.iter().filter(watched).cloned().collect();
    let mut measured = compare::run(&job, &measured, schedule, &progress)?.into_iter();
    // Restores the order of the targets, with `None` for each target that was not measured.
    let sides: Vec<Option<Side>> = targets
        .iter()
        .map(|target| watched(&target).then(|| measured.next()).flatten())
        .collect();
    let line = |what: String, key, stats: fn(&Round) -> &Stats| SideFigures {
        what,
        key,
        seconds: sides
            .iter()
            .map(|side| p99(stats(round(side.as_ref()?)?)))
            .collect(),
    };
    let lines = vec![
        line(
            format!("p99 of {SET} while no snapshot is written"),
            "p99_without",
            |round| &round.stats,
        ),
        line(
            format!("p99 of {SET} during a snapshot"),
            "p99_during",
            |round| &round.in_snapshots.stats,
        ),
    ];
    Ok(EventFigures {
        lines,
        complaints: sides
            .iter()
            .flatten()
            .flat_map(|side| complaints(args, side))
            .collect(),
        sides: sides.iter().flatten().map(side_json).collect(),
    })
}

fn round(side: &Side) -> Option<&Round> {
    side.rounds.first()
}

fn p99(stats: &Stats) -> Option<f64> {
    (stats.ops() > 0).then(|| stats.percentile(99.0).as_secs_f64())
}

fn complaints(args: &SuiteArgs, side: &Side) -> Vec<String> {
    let limit = args.events.snapshot_time.as_secs_f64();
    let mut complaints = Vec::new();
    for round in &side.rounds {
        complaints.extend(round.stats.complaints());
        complaints.extend(round.in_snapshots.stats.complaints());
        if round.in_snapshots.stats.ops() == 0 {
            complaints.push(format!(
                "the server wrote no snapshot within {limit} s; reduce its snapCount"
            ));
        } else if round.stats.ops() == 0 {
            complaints.push(format!(
                "the server wrote snapshots continuously for {limit} s; increase its snapCount"
            ));
        }
    }
    let named = complaints
        .iter()
        .map(|text| format!("{}: {text}", side.name));
    named.collect()
}

fn side_json(side: &Side) -> Value {
    let phase = |stats: &Stats, seconds: f64| {
        json!({
            "ops": stats.ops(),
            "seconds": seconds,
            "latency_us": latency_json(stats),
        })
    };
    let mut rounds = side.rounds.iter().map(|round| {
        let during = &round.in_snapshots;
        json!({
            "without": phase(&round.stats, round.elapsed.as_secs_f64()),
            "during": phase(&during.stats, during.elapsed.as_secs_f64()),
        })
    });
    let mut json = rounds.next().unwrap_or_else(|| json!({}));
    if let Some(figures) = json.as_object_mut() {
        figures.insert("server".to_owned(), json!(side.name));
    }
    json
}
