//! Events that are measured in addition to loads: snapshots, restarts and the loss of a leader.

pub(super) mod figures;
mod leader;
mod restart;
mod snapshot;
mod writers;

use serde_json::{Value, json};

use self::figures::{EventFigures, EventKind};
use super::args::SuiteArgs;
use super::fleet::Fleet;
use super::limits::ENSEMBLE;
use super::rows::{BREADTH, Row, once};
use crate::error::{BenchError, Result};
use crate::report::progress::Progress;
use crate::rounds::compare::{self, Schedule};
use crate::rounds::load::{self, Load};
use crate::session::workload::Mix;
use crate::target;

/// Returns whether the options suffice for the measurement.
fn can_be_measured(kind: EventKind, args: &SuiteArgs, fleet: &Fleet) -> bool {
    let servers = &args.servers;
    let any_started = |is_meant: &dyn Fn(usize) -> bool| {
        let mut sides = fleet.sides.iter().flatten();
        sides.any(|side| is_meant(side.members.len()))
    };
    match kind {
        EventKind::Snapshot => {
            args.znodes > 0 && !(servers.pid.is_empty() && servers.versus_pid.is_empty())
        }
        EventKind::Restart => args.znodes > 0 && any_started(&|members| members == 1),
        EventKind::LeaderKilled => any_started(&|members| members >= ENSEMBLE),
    }
}

/// Result of one kind of event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    pub(super) found: Result<EventFigures>,
}

impl Event {
    pub(super) fn complaints(&self) -> Vec<String> {
        let name = self.kind.name();
        match &self.found {
            Err(error) => vec![format!("{name}: not measured: {error}")],
            Ok(found) => {
                let complaints = found.complaints.iter();
                complaints.map(|text| format!("{name}: {text}")).collect()
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        let name = self.kind.name();
        let found = match &self.found {
            Err(error) => return json!({ "event": name, "error": error.to_string() }),
            Ok(found) => found,
        };
        let lines = || found.lines.iter();
        let seconds = lines().map(|line| (line.key.to_owned(), json!(line.seconds)));
        let ratios = lines().map(|line| (line.key.to_owned(), json!(line.ratio())));
        json!({
            "event": name,
            "seconds": seconds.collect::<serde_json::Map<_, _>>(),
            "ratios": ratios.collect::<serde_json::Map<_, _>>(),
            "servers": found.sides,
        })
    }
}

/// All measured events, and the events that were skipped because an option was missing.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Result of filling the servers.
    pub(super) filled: Option<Row>,
    pub(super) happened: Vec<Event>,
    pub(super) left_out: Vec<EventKind>,
    /// Failures that do not belong to an event, such as a failed clean-up.
    pub(super) complaints: Vec<String>,
}

impl Events {
    /// Fills the servers if requested, and measures the chosen events.
    pub(super) fn measure(args: &SuiteArgs, fleet: &mut Fleet, chosen: &[EventKind]) -> Self {
        let (kinds, left_out): (Vec<EventKind>, Vec<EventKind>) = chosen
            .iter()
            .partition(|kind| can_be_measured(**kind, args, fleet));
        let mut events = Self {
            left_out,
            ..Self::default()
        };
        let is_chosen = |kind| kinds.contains(&kind);
        if args.znodes > 0 {
            let root = target::new_root();
            let filled = fill(args, &root);
            let mut happen = |kind, measure: &mut dyn FnMut() -> Result<EventFigures>| {
                if is_chosen(kind) {
                    let found = match &filled.sides {
                        Ok(_) => measure(),
                        Err(_) => Err(BenchError::Argument(
                            "the znodes for this measurement could not be created".to_owned(),
                        )),
                    };
                    events.happened.push(Event { kind, found });
                }
            };
            happen(EventKind::Snapshot, &mut || snapshot::measure(args, &root));
            happen(EventKind::Restart, &mut || restart::measure(args, fleet));
            events.filled = Some(filled);
            if let Err(error) = clean(args, &root, fleet) {
                events
                    .complaints
                    .push(format!("the created znodes were not deleted: {error}"));
            }
        }
        if is_chosen(EventKind::LeaderKilled) {
            let kind = EventKind::LeaderKilled;
            let found = leader::measure(args, fleet);
            events.happened.push(Event { kind, found });
        }
        events
    }
}

fn fill(args: &SuiteArgs, root: &str) -> Row {
    let mix = Mix::Fill {
        from: 0,
        znodes: args.znodes,
        breadth: BREADTH,
    };
    let load = Load::requests("fill", mix, 16, 16);
    let schedule = Schedule {
        rounds: 1,
        keep: true,
    };
    let fill = || {
        let job = load.job(&args.servers, &once(&args.turns), Some(root))?;
        let targets = load::targets(&args.servers)?;
        compare::run(&job, &targets, schedule, &Progress::within("fill"))
    };
    let sides = fill();
    Row { load, sides }
}

/// Deletes the znodes with which the servers were filled.
fn clean(args: &SuiteArgs, root: &str, fleet: &Fleet) -> Result<()> {
    let progress = Progress::within("clean up");
    // A restart has changed the process ids.
    for target in load::targets(&fleet.watched(args).servers)? {
        progress.stage(&target.name());
        fleet.runtime.block_on(target.clean(root))?;
    }
    Ok(())
}
