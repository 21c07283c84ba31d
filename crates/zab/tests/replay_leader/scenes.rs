//! The recorded leaders, their initial state, and the deliberate differences of Zoarium.

use zoarium_zab::leader::LinkFault;

/// One leader of one recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) file: &'static str,
    pub(crate) leader: i64,
    pub(crate) voters: &'static [i64],
    /// Connected voters without recorded links.
    pub(crate) unrecorded: &'static [i64],
    pub(crate) start: Start,
    /// The setting `forceSnapshotSync`.
    pub(crate) force_snapshot: bool,
}

/// A zxid as epoch and counter.
pub(crate) type Position = (i64, u32);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    /// Just elected: the recording shows the epoch being established.
    Elected {
        accepted: i64,
        current: i64,
        last: Position,
    },
    /// Leads an epoch over links whose recording begins in the middle.
    Leading {
        epoch: i64,
        /// The end of the log at that time.
        before: Position,
    },
}

const fn leads(file: &'static str, leader: i64, unrecorded: &'static [i64]) -> Scene {
    Scene {
        file,
        leader,
        voters: &[1, 2, 3],
        unrecorded,
        start: Start::Leading {
            epoch: 1,
            before: (0, 0),
        },
        force_snapshot: false,
    }
}

const fn elected(file: &'static str, leader: i64, voters: &'static [i64], start: Start) -> Scene {
    Scene {
        voters,
        start,
        ..leads(file, leader, &[])
    }
}

const fn from(epoch: i64, last: Position) -> Start {
    Start::Elected {
        accepted: epoch,
        current: epoch,
        last,
    }
}

const fn probed(file: &'static str) -> Scene {
    Scene {
        voters: &[1, 2, 3, 5],
        ..leads(file, 3, &[1, 2])
    }
}

const fn quorum_of_probes(file: &'static str) -> Scene {
    Scene {
        start: Start::Leading {
            epoch: 1001,
            before: (0, 0),
        },
        voters: &[1, 5, 6],
        ..leads(file, 1, &[])
    }
}

const fn reconfigured(file: &'static str, voters: &'static [i64]) -> Scene {
    Scene {
        voters,
        ..leads(file, 3, &[])
    }
}

pub(crate) const SCENES: &[Scene] = &[
    elected("learner-diff-empty", 3, &[1, 2, 3], from(0, (0, 0))),
    elected("learner-diff", 2, &[1, 2, 3], from(1, (1, 4))),
    elected("leader-loss", 2, &[1, 2, 3], from(1, (1, 3))),
    elected("epoch-after-seeding", 1, &[1, 2, 3], from(5, (0, 0))),
    elected("probe-quorum-epoch", 1, &[1, 5, 6], from(1, (0, 0))),
    Scene {
        unrecorded: &[1, 2],
        ..elected("observer-diff-empty", 3, &[1, 2, 3], from(0, (0, 0)))
    },
    // The leader that a reconfiguration names, without an election.
    elected("reconfig-remove-leader", 1, &[1, 2], from(1, (1, 10))),
    Scene {
        start: Start::Leading {
            epoch: 4,
            before: (0, 0),
        },
        ..leads("epoch-behind-learner", 2, &[3])
    },
    leads("learner-rejoin", 3, &[2]),
    leads("learner-late-join", 2, &[1]),
    leads("learner-diff-missed", 3, &[2]),
    Scene {
        force_snapshot: true,
        ..leads("learner-snap", 2, &[1])
    },
    Scene {
        start: Start::Leading {
            epoch: 2,
            before: (1, 2),
        },
        ..leads("learner-trunc", 2, &[1])
    },
    leads("steady-writes", 3, &[2]),
    leads("observer-informs", 3, &[1, 2]),
    leads("forwarded-requests", 3, &[2]),
    leads("forwarded-by-observer", 3, &[1, 2]),
    leads("revalidate", 3, &[]),
    leads("sync", 3, &[2]),
    leads("ping-touches", 3, &[2]),
    leads("local-sessions", 3, &[2]),
    leads("observer-master", 3, &[2]),
    Scene {
        start: Start::Leading {
            epoch: 2,
            before: (1, 3),
        },
        ..leads("quorum-loss", 2, &[])
    },
    reconfigured("reconfig-add", &[1, 2, 3]),
    reconfigured("reconfig-promote", &[1, 2, 3, 5]),
    reconfigured("reconfig-demote", &[1, 2, 3, 4, 5]),
    reconfigured("reconfig-remove", &[1, 2, 3, 5]),
    reconfigured("reconfig-remove-leader", &[1, 2, 3]),
    probed("probe-learner"),
    probed("probe-learner-diff-empty"),
    probed("probe-learner-diff"),
    probed("probe-learner-trunc"),
    probed("probe-learner-snap"),
    probed("probe-learner-epoch-start"),
    probed("probe-observer"),
    probed("reactions-leader"),
    Scene {
        voters: &[1, 2, 3, 5],
        ..leads("reactions-undecodable-request", 3, &[])
    },
    quorum_of_probes("probe-quorum-outstanding"),
    quorum_of_probes("probe-quorum-ack-lag"),
];

/// A Java server that does not lead: it serves an observer as a follower. `observer_masters.rs`
/// replays it.
pub(crate) const OBSERVER_MASTERS: &[(&str, i64)] = &[("observer-master", 1)];

/// Here Java proposes a second transaction under the last zxid, for a request that it cannot
/// decode, and never commits anything again. Zoarium gives every proposal the next zxid, so the
/// comparison ends there.
pub(crate) const ENDS_AT_A_REPEATED_ZXID: &str = "reactions-undecodable-request";

/// Here a voter that has accepted a later epoch than the leader's connects again and again. Java
/// repeats its own epoch each time. Zoarium steps down the second time, so the comparison ends
/// there.
pub(crate) const ENDS_AT_A_VOTER_AHEAD: &str = "epoch-behind-learner";

/// A link that Zoarium drops and Java serves. The comparison of that link ends there.
/// docs/COMPATIBILITY.md lists each.
pub(crate) struct Dropped {
    pub(crate) file: &'static str,
    pub(crate) conn: u64,
    pub(crate) is_reason: fn(&LinkFault) -> bool,
}

const fn dropped(conn: u64, is_reason: fn(&LinkFault) -> bool) -> Dropped {
    Dropped {
        file: "reactions-leader",
        conn,
        is_reason,
    }
}

pub(crate) const DROPPED: &[Dropped] = &[
    // Without LEADERINFO and ACKEPOCH, its log cannot be compared.
    dropped(23, is_too_old),
    dropped(24, is_too_old),
    dropped(26, is_too_old),
    // The learner's acknowledgement does not mean that it has accepted the epoch.
    dropped(39, |fault| matches!(fault, LinkFault::Unexpected { .. })),
    // The learner has a different log.
    dropped(42, |fault| matches!(fault, LinkFault::NeverProposed(_))),
    // One server, one vote.
    dropped(53, |fault| matches!(fault, LinkFault::Replaced { .. })),
];

fn is_too_old(fault: &LinkFault) -> bool {
    matches!(fault, LinkFault::ProtocolVersion { .. })
}
