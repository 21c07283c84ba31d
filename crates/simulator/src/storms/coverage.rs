//! Coverage of a storm: which guards its servers passed, and in which situations.
//!
//! A guard is a decision of a server, for example a refusal, the begin of a cut, or a write that is
//! applied before the epoch is established. Its situation is the server's last synchronisation and
//! the work of its disk.

use std::collections::BTreeMap;

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use replica::{Effect, Input, LeaderEvent, LearnerEvent, Note, Port, Service};
use simulation::queue::Micros;

use super::names;

/// A guard that a server has passed, with the situation of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Name of the guard.
    pub guard: &'static str,
    /// Last synchronisation of the server.
    pub branch: Branch,
    /// State of the server.
    pub situation: Situation,
}

/// Kind of a learner's last synchronisation with a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Branch {
    /// The server has not been synchronised.
    #[default]
    None,
    /// The learner lacked nothing.
    Empty,
    /// The learner received transactions.
    Diff,
    /// The learner cut its log.
    Trunc,
    /// The learner cut its log, and received transactions.
    TruncDiff,
    /// The learner received a tree.
    Snap,
    /// The learner received a tree and transactions.
    SnapDiff,
}

/// State of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Situation {
    /// Progress of its role.
    pub progress: Progress,
    /// Whether the server has begun a snapshot of its tree since the last one was complete.
    pub writes_snapshot: bool,
    /// Whether its log contains records that are not synced.
    pub has_unsynced: bool,
}

/// Progress of a server's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Progress {
    /// The epoch is not established.
    #[default]
    Begun,
    /// The epoch is not established, and the server has applied a transaction of this epoch's leader.
    AppliedEarly,
    /// The epoch is established.
    Established,
}

/// Pairs that a storm reached, each with the time when it was first reached.
pub type Reached = BTreeMap<Pair, Micros>;

/// Recorder of the coverage of one storm.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    is_on: bool,
    /// Time of the current event.
    pub(crate) now: Micros,
    servers: Vec<Place>,
    pub(crate) reached: Reached,
}

#[derive(Debug, Clone, Default)]
struct Place {
    branch: Branch,
    situation: Situation,
}

impl Place {
    fn is_established(&self) -> bool {
        self.situation.progress == Progress::Established
    }
}

impl Coverage {
    /// Begins to record.
    pub(crate) fn begin(&mut self, servers: usize) {
        self.is_on = true;
        self.servers = vec![Place::default(); servers];
    }

    /// Ends to record, because the faults are over.
    pub(crate) fn end(&mut self) {
        self.is_on = false;
    }

    fn pass(&mut self, at: usize, guard: &'static str) {
        if let Some(place) = self.servers.get(at) {
            let pair = Pair {
                guard,
                branch: place.branch,
                situation: place.situation,
            };
            self.reached.entry(pair).or_insert(self.now);
        }
    }

    /// Changes the state of a server.
    fn set(&mut self, at: usize, change: impl FnOnce(&mut Place)) {
        if let Some(place) = self.servers.get_mut(at) {
            change(place);
        }
    }

    /// Records an input before the replica handles it.
    pub(crate) fn input(&mut self, at: usize, input: &Input) {
        if !self.is_on {
            return;
        }
        let guard = match input {
            Input::Learner(_, LearnerEvent::Packets { packets, .. }) => {
                for packet in packets {
                    self.hears_learner(at, packet);
                }
                return;
            }
            Input::Learner(_, LearnerEvent::Closed { .. }) => "learner gone",
            Input::Learner(_, LearnerEvent::SnapshotSent { .. }) => "snapshot sent",
            Input::Learner(_, LearnerEvent::LogRecords { .. }) => "log read",
            Input::Learner(_, LearnerEvent::LogUnusable { .. }) => "log unusable",
            Input::Leader { event, .. } => match event {
                LeaderEvent::Closed => "leader gone",
                LeaderEvent::SnapshotReceived(_) => "snapshot received",
                LeaderEvent::SnapshotDamaged => "snapshot damaged",
                _ => return,
            },
            Input::Synced(_) => {
                let is_early = |place: &Place| !place.is_established();
                if self.servers.get(at).is_some_and(is_early) {
                    self.pass(at, "log synced");
                }
                return self.set(at, |place| place.situation.has_unsynced = false);
            }
            Input::AcceptedEpochSaved(_) => "accepted epoch saved",
            Input::CurrentEpochSaved(_) => "current epoch saved",
            Input::Reloaded { tree: Some(_), .. } => "tree loaded",
            Input::Reloaded { tree: None, .. } => "log not cut",
            Input::SnapshotWritten { .. } => "snapshot adopted",
            Input::TreeKept { .. } => "tree kept",
            Input::DiskFailed => "disk failed",
            Input::Oracle { grants: true } => "oracle grants",
            Input::Oracle { grants: false } => "oracle refuses",
            Input::ListenFailed { .. } => "cannot listen",
            _ => return,
        };
        self.pass(at, guard);
    }

    fn hears_learner(&mut self, at: usize, packet: &LearnerPacket) {
        let guard = match packet {
            LearnerPacket::AckEpoch {
                current_epoch: None,
                ..
            } => "learner lacks epoch",
            LearnerPacket::AckEpoch { .. } => "learner promises",
            LearnerPacket::Ack { zxid } if zxid.counter() == 0 => "learner in sync",
            LearnerPacket::DigestDiffers { .. } => "digest differs",
            _ => return,
        };
        self.pass(at, guard);
    }

    /// Records an effect of the replica.
    pub(crate) fn effect(&mut self, at: usize, effect: &Effect) {
        if !self.is_on {
            return;
        }
        let guard = match effect {
            Effect::Append(_) => {
                return self.set(at, |place| place.situation.has_unsynced = true);
            }
            Effect::Disk(order) => names::of_order(order),
            Effect::Listen {
                port: Port::Learners,
                ..
            } => {
                self.set_progress(at, Progress::Begun);
                "leads"
            }
            Effect::Dial { .. } => {
                self.set_progress(at, Progress::Begun);
                "follows"
            }
            Effect::Send { packet, .. } => match packet {
                LeaderPacket::Diff { .. } => "send DIFF",
                LeaderPacket::Trunc { .. } => "send TRUNC",
                LeaderPacket::NewLeader { .. } => "send NEWLEADER",
                LeaderPacket::UpToDate => "send UPTODATE",
                _ => return,
            },
            Effect::SendSnapshot { .. } => "send SNAP",
            Effect::ReadLog { .. } => "read log",
            Effect::CloseLink { fault, .. } => names::of_link_fault(fault),
            Effect::HangUp => "hang up",
            Effect::Stop => "stop",
            Effect::Serve(Service::ReadOnly) => "serve reads",
            Effect::Serve(_) => {
                self.set_progress(at, Progress::Established);
                "serve"
            }
            Effect::StopServing => {
                self.set_progress(at, Progress::Begun);
                "stop serving"
            }
            Effect::SendToLeader(packet) => match packet {
                LearnerPacket::AckEpoch {
                    current_epoch: None,
                    ..
                } => "no epoch",
                LearnerPacket::AckEpoch { .. } => "promise",
                LearnerPacket::Ack { zxid } if zxid.counter() == 0 => "in sync",
                _ => return,
            },
            _ => return,
        };
        self.pass(at, guard);
    }

    fn set_progress(&mut self, at: usize, progress: Progress) {
        self.set(at, |place| place.situation.progress = progress);
    }

    /// Records a notable event.
    pub(crate) fn note(&mut self, at: usize, note: &Note<'_>) {
        if !self.is_on {
            return;
        }
        let guard = match note {
            Note::LeaderLeft(fault) => names::of_fault(fault),
            Note::SupporterLost => "supporter lost",
            Note::DigestMismatch { .. } => "digest mismatch",
            Note::LeadingBegins => "epoch established",
            Note::ReceivedByLearner(packet) => {
                let Some(guard) = self.hears_leader(at, packet) else {
                    return;
                };
                guard
            }
            _ => return,
        };
        self.pass(at, guard);
    }

    /// Handles a packet of the leader. Returns the name of its guard, if it has one.
    fn hears_leader(&mut self, at: usize, packet: &LeaderPacket) -> Option<&'static str> {
        let place = self.servers.get_mut(at)?;
        let (branch, is_syncing) = (place.branch, !place.is_established());
        let (branch, guard) = match packet {
            LeaderPacket::Diff { .. } => (Branch::Empty, "DIFF"),
            LeaderPacket::Trunc { .. } => (Branch::Trunc, "TRUNC"),
            LeaderPacket::Snap { .. } => (Branch::Snap, "SNAP"),
            LeaderPacket::Proposal { .. } if is_syncing => match branch {
                Branch::Empty | Branch::None => (Branch::Diff, "PROPOSAL"),
                Branch::Trunc => (Branch::TruncDiff, "PROPOSAL"),
                Branch::Snap => (Branch::SnapDiff, "PROPOSAL"),
                branch => (branch, "PROPOSAL"),
            },
            LeaderPacket::Commit { .. } if is_syncing => (branch, "COMMIT"),
            LeaderPacket::NewLeader { .. } => (branch, "NEWLEADER"),
            LeaderPacket::UpToDate => (branch, "UPTODATE"),
            _ => return None,
        };
        place.branch = branch;
        Some(guard)
    }

    /// Records that a server has applied a transaction that its leader has not established.
    pub(crate) fn applies_early(&mut self, at: usize) {
        if self.is_on {
            self.set_progress(at, Progress::AppliedEarly);
            self.pass(at, "applied early");
        }
    }

    /// Records the begin or the end of a server's snapshot.
    pub(crate) fn snapshot(&mut self, at: usize, is_complete: bool) {
        if self.is_on {
            let guard = if is_complete {
                "snapshot complete"
            } else {
                "snapshot begun"
            };
            self.pass(at, guard);
            self.set(at, |place| place.situation.writes_snapshot = !is_complete);
        }
    }

    /// Records the start of a process. The server keeps the log of its last synchronisation.
    pub(crate) fn starts(&mut self, at: usize) {
        if self.is_on {
            self.pass(at, "start");
            self.set(at, |place| place.situation = Situation::default());
        }
    }
}
