//! Axes, their points, and their loads.

use bench::measure::{Load, Mix, SessionWork};

use super::args::{EnsembleArg, GrowthArgs};

/// Quantity that can grow.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    /// Unit of the points.
    pub(super) unit: &'static str,
    pub(super) points: &'static [u32],
    pub(super) loads: &'static [AxisLoad],
    /// Whether the znodes of each load are kept for the next load.
    pub(super) is_kept: bool,
    /// Ensembles of both kinds of servers, if the points are ensembles.
    pub(super) ensembles: Option<fn(&GrowthArgs) -> BothKinds<'_>>,
}

/// Point of an axis, and the previous point.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisStep {
    pub(super) before: u32,
    pub(super) at: u32,
}

/// Measurement along an axis.
#[derive(Debug)]
pub(super) struct AxisLoad {
    pub(super) at: fn(AxisStep) -> Load,
    /// Kind of item by whose number the growth of the server process's memory is divided. `None` if
    /// memory is not measured.
    pub(super) bytes_of: Option<&'static str>,
}

/// Ensembles of the first and the second kind of servers.
pub(super) type BothKinds<'a> = [&'a [EnsembleArg]; 2];

/// Returns a load for which time is measured.
const fn timed(at: fn(AxisStep) -> Load) -> AxisLoad {
    AxisLoad { at, bytes_of: None }
}

/// Returns a load for which time and memory are measured. Each `thing` stays in memory.
const fn kept(thing: &'static str, at: fn(AxisStep) -> Load) -> AxisLoad {
    AxisLoad {
        at,
        bytes_of: Some(thing),
    }
}

/// Number of children per parent in the tree of znodes.
const BREADTH: u32 = 1000;
/// Number of sessions among which the watches are distributed.
const WATCHERS: u32 = 100;

/// All axes. Axes that measure memory come first, because freed memory is used again, which hides
/// growth.
pub(super) const AXES: &[Axis] = &[
    Axis {
        name: "sessions",
        unit: "sessions",
        points: &[10, 100, 1_000, 5_000, 19_500],
        loads: &[
            kept("session", |AxisStep { at, .. }| {
                among(Load::sessions("idle", SessionWork::Idle, at), 1)
            }),
            timed(|AxisStep { at, .. }| Load::requests("get, one in flight each", Mix::Get, at, 1)),
            timed(|AxisStep { at, .. }| Load::requests("set, one in flight each", Mix::Set, at, 1)),
        ],
        is_kept: false,
        ensembles: None,
    },
    Axis {
        name: "watches",
        unit: "watches, of 100 sessions",
        points: &[1_000, 10_000, 100_000, 1_000_000],
        loads: &[kept("watch", |AxisStep { at, .. }| {
            let load = Load::sessions(
                "set, event, get with a watch",
                SessionWork::FanOut,
                WATCHERS,
            );
            among(load, at / WATCHERS)
        })],
        is_kept: false,
        ensembles: None,
    },
    Axis {
        name: "znodes",
        unit: "znodes of 100 bytes",
        points: &[10_000, 100_000, 1_000_000, 3_000_000, 10_000_000],
        loads: &[
            kept("znode", |AxisStep { before, at }| {
                let mix = Mix::Fill {
                    from: before,
                    znodes: at,
                    breadth: BREADTH,
                };
                Load::requests("create 16 x 16", mix, 16, 16)
            }),
            timed(|AxisStep { at, .. }| {
                in_tree(Load::requests("get 16 x 16", Mix::Get, 16, 16), at)
            }),
            timed(|AxisStep { at, .. }| {
                in_tree(Load::requests("set 16 x 16", Mix::Set, 16, 16), at)
            }),
        ],
        is_kept: true,
        ensembles: None,
    },
    Axis {
        name: "children",
        unit: "children of one znode",
        points: &[10, 100, 1_000, 10_000, 100_000, 1_000_000],
        loads: &[
            timed(|AxisStep { at, .. }| among(Load::requests("get 16 x 16", Mix::Get, 16, 16), at)),
            timed(|AxisStep { at, .. }| among(Load::requests("set 16 x 16", Mix::Set, 16, 16), at)),
            timed(|AxisStep { at, .. }| Load {
                ops: Some(SEQUENCES),
                ..among(
                    Load::requests("create sequential 16 x 1", Mix::Sequence, 16, 1),
                    at,
                )
            }),
            timed(|AxisStep { at, .. }| {
                among(Load::requests("getChildren 1 x 1", Mix::Children, 1, 1), at)
            }),
        ],
        is_kept: false,
        ensembles: None,
    },
    Axis {
        name: "payload",
        unit: "bytes of data",
        points: &[10, 100, 1_000, 10_000, 100_000, 1_000_000],
        loads: &[
            timed(|AxisStep { at, .. }| with_data(Load::requests("get 4 x 1", Mix::Get, 4, 1), at)),
            timed(|AxisStep { at, .. }| with_data(Load::requests("set 4 x 1", Mix::Set, 4, 1), at)),
        ],
        is_kept: false,
        ensembles: None,
    },
    Axis {
        name: "voters",
        unit: "voters",
        points: &[],
        loads: OF_ENSEMBLES,
        is_kept: false,
        ensembles: Some(|args| [&args.voters, &args.versus_voters]),
    },
    Axis {
        name: "observers",
        unit: "members, of which three vote",
        points: &[],
        loads: OF_ENSEMBLES,
        is_kept: false,
        ensembles: Some(|args| [&args.observers, &args.versus_observers]),
    },
];

const OF_ENSEMBLES: &[AxisLoad] = &[
    timed(|_| Load::requests("get 16 x 16", Mix::Get, 16, 16)),
    timed(|_| Load::requests("set 16 x 16", Mix::Set, 16, 16)),
    timed(|_| Load::requests("set 1 x 1", Mix::Set, 1, 1)),
];

/// Number of sequential znodes to create. It is low, so that the parent keeps about its intended
/// number of children.
const SEQUENCES: u64 = 2_000;

fn with_data(load: Load, bytes: u32) -> Load {
    Load {
        payload: bytes,
        keys: 16,
        ..load
    }
}

fn among(load: Load, znodes: u32) -> Load {
    Load {
        keys: znodes,
        ..load
    }
}

/// Makes a load use znodes of the tree that [`Mix::Fill`] has created.
fn in_tree(load: Load, znodes: u32) -> Load {
    Load {
        breadth: Some(BREADTH),
        ..among(load, znodes)
    }
}
