//! Faults, each with a name, its needs of the machine, a begin and an end.
//!
//! The begin and the end are events of the history, of the process `nemesis` and of the type
//! `info`, with the fault's name as `f`:
//!
//! ```text
//! {"f":"kill","value":{"fault":3,"event":"begin","members":[2]}, ...}
//! {"f":"kill","value":{"fault":3,"event":"end","members":[2]}, ...}
//! ```
//!
//! `fault` is the same number in both. The other fields depend on the fault. A fault without a
//! target has `"event":"none"` and no end.

mod clock;
mod deposed;
mod disk;
pub mod growth;
mod links;
mod members;
mod partition;
mod processes;
mod rot;

use std::ops::Range;

use fastrand::Rng;
use serde_json::{Map, Value};

use crate::cluster::{Cluster, ClusterError, Machine, Need};

/// Description of a fault in an event.
pub type Facts = Map<String, Value>;

/// One kind of fault, of which at most one is in progress.
pub trait Nemesis {
    /// Begins the fault and returns its description, or `None` if there is no target now.
    ///
    /// # Errors
    /// If it was not possible. [`end`](Self::end) then reverts the completed part.
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError>;

    /// Reverts the fault.
    ///
    /// # Errors
    /// If it was not possible. It is tried again when all other faults have ended.
    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError>;
}

/// A nemesis of the table.
#[derive(Debug)]
pub struct Kind {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description, in one line.
    pub what: &'static str,
    /// Its needs of the machine.
    pub needs: &'static [Need],
    /// Duration of a fault, in ms.
    pub lasts_ms: Range<u64>,
    /// Minimum pause after a fault of this kind, in ms.
    pub rests_ms: u64,
    make: fn() -> Box<dyn Nemesis>,
}

impl Kind {
    /// Returns a nemesis without a fault in progress.
    pub fn make(&self) -> Box<dyn Nemesis> {
        (self.make)()
    }

    /// Returns whether the members begin with two lists, for a growth by files.
    pub fn grows(&self) -> bool {
        self.name == growth::NAME
    }

    /// Returns why this machine cannot make the fault, or `None` if it can.
    pub fn lack(&self, machine: &Machine) -> Option<String> {
        self.needs.iter().find_map(|&need| machine.lack(need))
    }
}

/// All kinds, in the order of the list.
pub const ALL: &[Kind] = &[
    Kind {
        name: "kill",
        what: "SIGKILL of one member, a majority or all members, and then their restart",
        needs: &[],
        lasts_ms: 300..5000,
        rests_ms: 0,
        make: || Box::<processes::Kill>::default(),
    },
    Kind {
        name: "pause",
        what: "SIGSTOP of one member or a majority, then SIGCONT",
        needs: &[],
        lasts_ms: 300..8000,
        rests_ms: 0,
        make: || Box::<processes::Pause>::default(),
    },
    Kind {
        name: "restart",
        what: "SIGKILL of one follower, and its restart while the others continue",
        needs: &[],
        lasts_ms: 500..3000,
        rests_ms: 1000,
        make: || Box::<processes::Restart>::default(),
    },
    Kind {
        name: "partition",
        what: "network cuts: halves, a bridge, a ring, one direction, the leader or another member alone",
        needs: &[Need::Network],
        lasts_ms: 1000..10_000,
        rests_ms: 0,
        make: || Box::<partition::Partition>::default(),
    },
    Kind {
        name: "deposed",
        what: "the leader and all clients are separated from the other members until the leader has returned to them",
        needs: &[Need::Network],
        lasts_ms: 3000..6000,
        rests_ms: 4000,
        make: || Box::<deposed::Deposed>::default(),
    },
    Kind {
        name: "links",
        what: "links between members that delay, lose, repeat, reorder or throttle packets in some directions",
        needs: &[Need::Network, Need::LinkShaping],
        lasts_ms: 1000..10_000,
        rests_ms: 0,
        make: || Box::<links::Links>::default(),
    },
    Kind {
        name: "clock",
        what: "wall clocks of some members jump or stop",
        needs: &[Need::Preload],
        lasts_ms: 500..6000,
        rests_ms: 0,
        make: || Box::<clock::Clock>::default(),
    },
    Kind {
        name: "fsync",
        what: "syncs of one member are slow, blocked, or fail",
        needs: &[Need::Preload],
        lasts_ms: 500..5000,
        rests_ms: 0,
        make: || Box::<disk::Fsync>::default(),
    },
    Kind {
        name: "hold",
        what: "the disk of one member blocks every sync: of a leader, a follower and an observer, in turn",
        needs: &[Need::Preload],
        lasts_ms: 1000..10_000,
        rests_ms: 0,
        make: || Box::<disk::Hold>::default(),
    },
    Kind {
        name: "power",
        what: "SIGKILL of one member, a majority or all members, and the loss of all writes that were not synced",
        needs: &[Need::UnsyncedNotes],
        lasts_ms: 300..5000,
        rests_ms: 0,
        make: || Box::<disk::Power>::default(),
    },
    Kind {
        name: "disk-full",
        what: "the disk for the log and snapshots of one member is full",
        needs: &[Need::Preload],
        lasts_ms: 500..5000,
        rests_ms: 0,
        make: || Box::<disk::Full>::default(),
    },
    Kind {
        name: "rot",
        what: "changed bytes in an old log or snapshot of one stopped member, while the other members have a quorum",
        needs: &[],
        lasts_ms: 2000..8000,
        rests_ms: 0,
        make: || Box::<rot::Rot>::default(),
    },
    Kind {
        name: "membership",
        what: "one member leaves through reconfig, and joins again",
        needs: &[],
        lasts_ms: 1000..8000,
        rests_ms: 0,
        make: || Box::<members::Membership>::default(),
    },
    Kind {
        name: "upgrade",
        what: "one member runs the other product on the same directory, and then its own product again",
        needs: &[Need::Java],
        lasts_ms: 4000..12_000,
        rests_ms: 0,
        make: || Box::<members::Upgrade>::default(),
    },
    Kind {
        name: growth::NAME,
        what: "an ensemble grows from three to five members by changed files in the wrong order; requires five members",
        needs: &[],
        lasts_ms: 5000..12_000,
        rests_ms: 0,
        make: || Box::<growth::Growth>::default(),
    },
];

/// Returns the kind of this name.
pub fn by_name(name: &str) -> Option<&'static Kind> {
    ALL.iter().find(|kind| kind.name == name)
}

/// Returns random members: one (the leader in half of the cases), or a majority.
fn one_or_majority(cluster: &Cluster, rng: &mut Rng) -> Vec<u64> {
    match rng.u8(..3) {
        0 => {
            let ids = cluster.ids();
            let mut some = rng.choose_multiple(ids.iter().copied(), ids.len() / 2 + 1);
            some.sort_unstable();
            some
        }
        _ => one(cluster, rng).into_iter().collect(),
    }
}

/// Returns one member that is up, the leader in half of the cases.
fn one(cluster: &Cluster, rng: &mut Rng) -> Option<u64> {
    let leader = if rng.bool() { cluster.leader() } else { None };
    leader.or_else(|| rng.choice(cluster.up()))
}

fn facts<const N: usize>(entries: [(&str, Value); N]) -> Facts {
    let owned = entries.map(|(key, value)| (key.to_owned(), value));
    owned.into_iter().collect()
}
