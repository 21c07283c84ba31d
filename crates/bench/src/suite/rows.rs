//! Rows of a suite, and their loads.

use crate::args::TurnsArgs;
use crate::error::Result;
use crate::rounds::compare::Side;
use crate::rounds::load::Load;
use crate::rounds::round::SessionWork;
use crate::session::workload::Mix;

const GET: &str = "get 16 x 16";
pub(super) const SET: &str = "set 16 x 16";
pub(super) const SET_OF_MANY: &str = "set 128 x 16";

/// Loads in the order of their measurement. A name such as `get 16 x 16` contains the number of
/// sessions and the number of pending requests per session.
pub(super) const LOADS: &[Load] = &[
    Load::requests(GET, Mix::Get, 16, 16),
    Load::requests("get 1 x 1", Mix::Get, 1, 1),
    Load::requests(SET, Mix::Set, 16, 16),
    Load::requests(SET_OF_MANY, Mix::Set, 128, 16),
    Load::requests("set 16 x 1", Mix::Set, 16, 1),
    Load::requests("set 1 x 1", Mix::Set, 1, 1),
    Load {
        payload: 1024,
        ..Load::requests("set 1 KB, 16 x 16", Mix::Set, 16, 16)
    },
    Load::requests("create 16 x 16", Mix::Create, 16, 16),
    Load::requests(
        "mixed 90:10, 16 x 16",
        Mix::Mixed { read_percent: 90 },
        16,
        16,
    ),
    Load::sessions("connect, 16 sessions", SessionWork::Storm, 16),
    Load {
        keys: 8,
        ..Load::sessions("lock, 32 sessions on 8", SessionWork::Locks, 32)
    },
    Load {
        keys: 1,
        ..Load::sessions("watch, 1000 sessions", SessionWork::FanOut, 1000)
    },
];

/// Number of children of each parent in the tree that fills the servers.
pub(super) const BREADTH: u32 = 1000;

/// Result of one load.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) load: Load,
    /// Results of one or two sides, or the reason why there are none.
    pub(super) sides: Result<Vec<Side>>,
}

/// Returns the arguments, changed to a single round.
pub(super) fn once(turns: &TurnsArgs) -> TurnsArgs {
    TurnsArgs {
        rounds: 1,
        ..turns.clone()
    }
}
