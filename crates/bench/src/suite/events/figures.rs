//! Kinds of events, and their figures.

use serde_json::{Value, json};

use crate::rounds::compare::ratio;
use crate::suite::fleet::Fleet;

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum EventKind {
    Snapshot,
    Restart,
    LeaderKilled,
}

impl EventKind {
    /// All kinds in the order of execution. Snapshots are measured before the first restart, while
    /// the processes of Java servers are still warm.
    pub(in crate::suite) const ALL: [Self; 3] = [Self::Snapshot, Self::Restart, Self::LeaderKilled];

    pub(in crate::suite) fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "p99 during a snapshot",
            Self::Restart => "restart",
            Self::LeaderKilled => "leader killed",
        }
    }

    /// Returns the options that the measurement requires.
    pub(in crate::suite) fn needs(self) -> &'static str {
        match self {
            Self::Snapshot => "--znodes, and --pid or --start",
            Self::Restart => "--znodes, and --start for a standalone server",
            Self::LeaderKilled => "--start for each of three servers or more",
        }
    }
}

/// Figures of both sides.
#[derive(Debug)]
pub(in crate::suite) struct EventFigures {
    pub(in crate::suite) lines: Vec<SideFigures>,
    /// Details for each measured side.
    pub(in crate::suite) sides: Vec<Value>,
    /// Failures, one per line.
    pub(in crate::suite) complaints: Vec<String>,
}

/// Statistic over the seconds of all turns.
pub(in crate::suite) struct EventFigure {
    pub(in crate::suite) what: String,
    /// Name of the figure in JSON.
    pub(in crate::suite) key: &'static str,
    pub(in crate::suite) of: fn(&[f64]) -> f64,
}

impl EventFigures {
    /// Returns the results of a measurement [in turns](Fleet::in_turns).
    pub(in crate::suite) fn of_turns<const N: usize>(
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

/// Figure for each side, in seconds.
#[derive(Debug)]
pub(in crate::suite) struct SideFigures {
    pub(in crate::suite) what: String,
    /// Name of the figure in JSON.
    pub(in crate::suite) key: &'static str,
    pub(in crate::suite) seconds: Vec<Option<f64>>,
}

impl SideFigures {
    pub(in crate::suite) fn ratio(&self) -> Option<f64> {
        match *self.seconds.as_slice() {
            [Some(one), Some(other)] => Some(ratio(one, other)),
            _ => None,
        }
    }
}
