//! Events in addition to loads: snapshots, restarts, the loss of a leader.

use serde_json::{Value, json};

use super::super::compare::{self, Schedule, ratio};
use super::super::error::{BenchError, Result};
use super::super::load::{self, Load};
use super::super::progress::Progress;
use super::super::target;
use super::super::workload::Mix;
use super::SuiteArgs;
use super::fleet::Fleet;
use super::limits::ENSEMBLE;
use super::{BREADTH, Row, leader, once, restart, snapshot};

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Snapshot,
    Restart,
    LeaderKilled,
}

impl EventKind {
    /// All kinds in their order of execution. The processes of Java servers are warm until the
    /// first restart.
    pub(super) const ALL: [Self; 3] = [Self::Snapshot, Self::Restart, Self::LeaderKilled];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "p99 during a snapshot",
            Self::Restart => "restart",
            Self::LeaderKilled => "leader killed",
        }
    }

    /// Returns the options that the measurement requires.
    pub(super) fn needs(self) -> &'static str {
        match self {
            Self::Snapshot => "--znodes, and --pid or --start",
            Self::Restart => "--znodes, and --start for a standalone server",
            Self::LeaderKilled => "--start for each of three servers or more",
        }
    }

    fn can_be_measured(self, args: &SuiteArgs, fleet: &Fleet) -> bool {
        let servers = &args.servers;
        let any_started = |is_meant: &dyn Fn(usize) -> bool| {
            let mut sides = fleet.sides.iter().flatten();
            sides.any(|side| is_meant(side.members.len()))
        };
        match self {
            Self::Snapshot => {
                args.znodes > 0 && !(servers.pid.is_empty() && servers.versus_pid.is_empty())
            }
            Self::Restart => args.znodes > 0 && any_started(&|members| members == 1),
            Self::LeaderKilled => any_started(&|members| members >= ENSEMBLE),
        }
    }
}

/// Result of one kind of event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    pub(super) found: Result<EventFigures>,
}

/// Figures of both sides.
#[derive(Debug)]
pub(super) struct EventFigures {
    pub(super) lines: Vec<SideFigures>,
    /// Details of each measured side.
    pub(super) sides: Vec<Value>,
    /// Failures, one per line.
    pub(super) complaints: Vec<String>,
}

/// A statistic of the seconds of all turns.
pub(super) struct EventFigure {
    pub(super) what: String,
    /// Name in JSON.
    pub(super) key: &'static str,
    pub(super) of: fn(&[f64]) -> f64,
}

impl EventFigures {
    /// Returns the results of a measurement [in turns](Fleet::in_turns).
    pub(super) fn of_turns<const N: usize>(
        fleet: &Fleet,
        seconds: &[Vec<f64>],
        figures: [EventFigure; N],
    ) -> Self {
        let line = |figure: EventFigure| {
            let of_side = |turns: &Vec<f64>| (!turns.is_empty()).then(|| (figure.of)(turns));
            SideFigures {
                seconds: seconds.iter().map(of_side).collect(),
                what: figure.what,
                key: figure.key,
            }
        };
        let sides = fleet.sides.iter().zip(seconds);
        let sides = sides.filter_map(|(side, turns)| {
            let name = side.as_ref()?.target.name();
            (!turns.is_empty()).then(|| json!({ "server": name, "seconds": turns }))
        });
        Self {
            lines: figures.into_iter().map(line).collect(),
            sides: sides.collect(),
            complaints: Vec::new(),
        }
    }
}

/// A figure of each side, in seconds.
#[derive(Debug)]
pub(super) struct SideFigures {
    pub(super) what: String,
    /// Name in JSON.
    pub(super) key: &'static str,
    pub(super) seconds: Vec<Option<f64>>,
}

impl SideFigures {
    pub(super) fn ratio(&self) -> Option<f64> {
        match *self.seconds.as_slice() {
            [Some(one), Some(other)] => Some(ratio(one, other)),
            _ => None,
        }
    }
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

/// All measured events, and those that were skipped because an option was missing.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Result of filling the servers.
    pub(super) filled: Option<Row>,
    pub(super) happened: Vec<Event>,
    pub(super) left_out: Vec<EventKind>,
    /// Further failures.
    pub(super) complaints: Vec<String>,
}

impl Events {
    /// Fills the servers, if requested, and measures the chosen events.
    pub(super) fn measure(args: &SuiteArgs, fleet: &mut Fleet, chosen: &[EventKind]) -> Self {
        let (kinds, left_out): (Vec<EventKind>, Vec<EventKind>) = chosen
            .iter()
            .partition(|kind| kind.can_be_measured(args, fleet));
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
    // A restart has changed the processes.
    for target in load::targets(&fleet.watched(args).servers)? {
        progress.stage(&target.name());
        fleet.runtime.block_on(target.clean(root))?;
    }
    Ok(())
}
