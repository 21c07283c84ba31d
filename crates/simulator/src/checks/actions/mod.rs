//! Traces for the formal model in `jepsen/model`: the actions of the servers, with its names.
//!
//! Each event is one action of the model. `jepsen/model/Trace.tla` checks that it is a step of the
//! model with the recorded values. Three kinds of events are recorded later than they happen:
//!
//! - The end of a role is recorded when the next role begins, because the disk must first finish
//!   its work.
//! - A crash is recorded at the next start, because only then is known how much the disk has kept.
//!   Work that the disk had completed without a report is recorded before the crash.
//! - A snapshot file is recorded at the next event of its server, because the power may fail before
//!   the file is durable. It is recorded after the sync of the log that it contains.

mod follower;
mod leader;
mod lists;
mod member;
mod servers;

use std::fmt::Write as _;

use bytes::Bytes;
use config::members::HostPort;
use host::{Fact, content_of};
use proto::{Epoch, Sid, Zxid};
use replica::{Effect, Input, Note};
use simulation::checks::OwnSnapshot;
use simulation::configured::{index_of, server_at, sid_of};
use simulation::network::Network;
use storage::Epochs;

use crate::TracePiece;
use member::{Member, Role, Vote};

/// An action of the model.
#[derive(Debug, Clone, Copy)]
struct Event {
    action: &'static str,
    /// Index of the server.
    at: usize,
    /// Index of the other server, if there is one.
    peer: Option<usize>,
    /// A zxid or an epoch of the model.
    zxid: i64,
    number: i64,
}

/// Files of a server that has started.
#[derive(Debug)]
pub(crate) struct FoundFiles {
    /// Last zxid of the log.
    pub(crate) end: Zxid,
    pub(crate) epochs: Epochs,
    /// Names of the snapshots.
    pub(crate) snapshots: Vec<Zxid>,
    /// Versions of the committed and of the last seen member list, if members can change.
    pub(crate) lists: Option<[Zxid; 2]>,
}

/// Recorder of the actions of all servers in one run.
#[derive(Debug, Default)]
pub(crate) struct ActionTrace {
    is_on: bool,
    /// Whether the servers are real. Their threads run at the same time.
    has_threads: bool,
    members: Vec<Member>,
    events: Vec<Event>,
    /// Minimum number of events in a piece.
    piece_min: usize,
    /// Number of events up to the end of each complete piece.
    cuts: Vec<usize>,
}

/// Factor of the epoch in the model's zxids. The counter is added.
const EPOCH: i64 = 100_000;

/// No epoch in ACKEPOCH.
const NO_EPOCH: i64 = -1;

/// A number that the trace does not contain.
const UNKNOWN: i64 = -2;

fn number_of(zxid: Zxid) -> i64 {
    if zxid.0 < 0 {
        zxid.0
    } else {
        zxid.epoch().0 * EPOCH + i64::from(zxid.counter())
    }
}

/// Returns events as a sequence of TLA+.
fn text_of(events: &[Event]) -> String {
    let mut text = String::from("<<");
    let sid = |at: usize| at + 1;
    for (at, event) in events.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let (action, own, zxid, number) = (event.action, sid(event.at), event.zxid, event.number);
        let peer = event.peer.map_or(0, sid);
        let _ = write!(
            text,
            "{comma}\n<<\"{action}\",{own},{peer},{zxid},{number}>>"
        );
    }
    text + ">>"
}

impl ActionTrace {
    /// Starts to record. All servers are new. A piece of the trace ends where an epoch is
    /// established, after at least `piece_min` events.
    pub(crate) fn begin(&mut self, servers: usize, piece_min: usize) {
        self.is_on = true;
        self.members = (0..servers).map(|_| Member::default()).collect();
        self.piece_min = piece_min;
    }

    /// Ends the trace, because a server continues with a step that the formal model does not have.
    pub(crate) fn end(&mut self) {
        self.is_on = false;
    }

    /// Returns the number of complete pieces.
    pub(crate) fn complete(&self) -> usize {
        self.cuts.len()
    }

    /// Returns the pieces. The last one may be incomplete.
    pub(crate) fn pieces(&self) -> Vec<TracePiece> {
        let ends = self.cuts.iter().copied().chain([self.events.len()]);
        let mut begin = 0;
        let mut pieces = Vec::new();
        for end in ends {
            let events = &self.events[begin..end];
            if !events.is_empty() {
                let text = text_of(events);
                pieces.push(TracePiece {
                    text,
                    events: events.len(),
                });
            }
            begin = end;
        }
        pieces
    }

    /// Records that a leader has established its epoch.
    fn establishes(&mut self, at: usize) {
        self.members[at].is_established = true;
        self.add("EstablishEpoch", at, Some(at), 0, 0);
        let begin = self.cuts.last().copied().unwrap_or(0);
        if self.events.len() - begin >= self.piece_min {
            self.cuts.push(self.events.len());
        }
    }

    /// Records an input of a replica before the replica handles it.
    pub(crate) fn input(&mut self, sid: Sid, input: &Input, network: &Network) {
        if !self.is_on {
            return;
        }
        let at = index_of(sid);
        self.finish_snapshot(at);
        let sender = |connection| {
            let ends = network.get(connection).map(|link| &link.ends);
            let mut servers = ends.into_iter().flatten().filter_map(|end| end.server());
            servers.find(|server| *server != at).map(sid_of)
        };
        Fact::of_input(input, sender, |fact| self.happens(at, fact));
    }

    /// Records an effect of a replica.
    pub(crate) fn effect(&mut self, sid: Sid, effect: &Effect) {
        if !self.is_on {
            return;
        }
        let at = index_of(sid);
        self.finish_snapshot(at);
        let server = |address: &HostPort| server_at(address).map(|(server, _)| sid_of(server));
        if let Some(fact) = Fact::of_effect(effect, server) {
            self.happens(at, fact);
        }
    }

    /// Records a notable event.
    pub(crate) fn note(&mut self, sid: Sid, note: &Note<'_>) {
        if let Some(fact) = Fact::of_note(note).filter(|_| self.is_on) {
            self.happens(index_of(sid), fact);
        }
    }

    /// Records a fact about a server.
    fn happens(&mut self, at: usize, fact: Fact) {
        match fact {
            Fact::Voted { .. } => self.members[at].votes.extend(Vote::of(fact)),
            Fact::MetLearner {
                link,
                sid,
                accepted,
            } => self.meets_learner(at, link, index_of(sid), accepted),
            Fact::ReceivedAckEpoch { link } => self.receives_ack_epoch(at, link),
            Fact::ReceivedAck { link, zxid } => self.receives_ack(at, link, zxid),
            Fact::LostLearner { link } => self.drops_learner(at, link),
            Fact::ReceivedTree { attempt } => self.receives_tree(at, attempt),
            Fact::Synced { upto } => self.syncs(at, upto),
            Fact::SavedAccepted { epoch } => self.has_saved_accepted(at, epoch),
            Fact::SavedCurrent { epoch } => {
                self.members[at].saving_current = None;
                self.add("SaveCurrentEpoch", at, None, epoch.0, 0);
            }
            Fact::Reloaded { has_tree, end } => self.reloads(at, has_tree, end),
            Fact::TookOver {} => self.has_taken_over(at),
            Fact::Leads {} => self.decides_leading(at),
            Fact::Follows { leader, attempt } => {
                self.decides_following(at, index_of(leader), attempt);
            }
            Fact::HungUp {} => self.members[at].is_draining = true,
            Fact::StoppedListening { hands_over } => {
                let member = &mut self.members[at];
                (member.is_draining, member.hands_over) = (true, hands_over);
                member.learners.clear();
            }
            Fact::InstalledConfig { version } => self.installs_config(at, version),
            Fact::RefusedSync {} => self.refuses_sync(at),
            Fact::Established {} => self.establishes(at),
            Fact::Applied {
                last,
                zxid,
                content,
            } => self.applies(at, last, zxid, content),
            other => self.requests(at, other),
        }
    }

    /// Records packets that a server sends, and work that it requests from its disk. Other facts
    /// are about packets from the leader.
    fn requests(&mut self, at: usize, fact: Fact) {
        match fact {
            Fact::SentFollowerInfo { accepted } => self.sends_follower_info(at, accepted),
            Fact::SentAckEpoch { last, current } => self.sends_ack_epoch(at, last, current),
            Fact::SentDiff { link, zxid } => self.opens(at, link, "SyncFollowerDIFF", zxid),
            Fact::SentTrunc { link, zxid } => self.opens(at, link, "SyncFollowerTRUNC", zxid),
            Fact::SentSnap { link, zxid } => self.opens(at, link, "SyncFollowerSNAP", zxid),
            Fact::SentNewLeader { link } => self.completes_sync(at, link),
            Fact::ClosedLink { link, is_ahead } => self.closes_link(at, link, is_ahead),
            Fact::Appended { zxid, content } if self.members[at].is_leading() => {
                let action = if content < 0 {
                    "ProposeReconfig"
                } else {
                    "SendPROPOSAL"
                };
                self.add(action, at, None, number_of(zxid), content);
            }
            Fact::TakesOver { last } => self.members[at].taking_over = Some(last),
            Fact::SavesAccepted { epoch } => {
                self.members[at].saving_accepted = Some(epoch);
                if self.members[at].is_leading() {
                    self.fixes_epoch(at, epoch);
                }
            }
            Fact::SavesCurrent { epoch } => self.members[at].saving_current = Some(epoch),
            of_packet => self.receives_from_leader(at, of_packet),
        }
    }

    /// Records that the log is on disk. Records of an earlier role are part of its end.
    fn syncs(&mut self, at: usize, upto: Zxid) {
        let member = &mut self.members[at];
        member.on_disk = member.on_disk.max(upto);
        if member.role != Role::Looking && !member.is_draining && upto > member.synced {
            member.synced = upto;
            member.logged = member.on_disk;
            self.add("SyncLog", at, None, number_of(upto), 0);
            self.finish_snapshot(at);
        }
    }

    fn has_saved_accepted(&mut self, at: usize, epoch: Epoch) {
        let member = &mut self.members[at];
        let saved = member.saving_accepted.take();
        match member.role {
            Role::Leading => self.add("SendLEADERINFO", at, None, epoch.0, 0),
            // The promise is on disk, but the role is ending.
            Role::Following(leader) if member.is_draining => {
                self.add("SendACKEPOCH", at, Some(leader), UNKNOWN, UNKNOWN);
            }
            Role::Following(_) => member.saving_accepted = saved,
            Role::Looking => {}
        }
    }

    /// Records that a server applies a committed transaction to a tree that ends at `last`. The
    /// model compares the end of each new tree.
    pub(crate) fn applied(&mut self, sid: Sid, last: Zxid, zxid: Zxid, txn: &Bytes) {
        if self.is_on {
            self.applies(index_of(sid), last, zxid, content_of(txn));
        }
    }

    fn applies(&mut self, at: usize, last: Zxid, zxid: Zxid, content: i64) {
        if !self.members[at].is_draining {
            if !std::mem::replace(&mut self.members[at].has_applied, true) {
                self.add("TreeEnd", at, None, number_of(last), 0);
            }
            self.add("Applied", at, None, number_of(zxid), content);
        }
    }

    /// Records the begin of a snapshot that is named after `zxid`.
    pub(crate) fn begins_snapshot(&mut self, sid: Sid, zxid: Zxid) {
        if self.is_on {
            self.starts_snapshot(index_of(sid), zxid);
        }
    }

    fn starts_snapshot(&mut self, at: usize, zxid: Zxid) {
        self.finish_snapshot(at);
        let action = if self.has_threads {
            "StartSnapshotAside"
        } else {
            "StartSnapshot"
        };
        self.add(action, at, None, number_of(zxid), 0);
    }

    /// Records a complete snapshot.
    pub(crate) fn writes_snapshot(&mut self, sid: Sid, written: OwnSnapshot) {
        if self.is_on {
            let at = index_of(sid);
            self.finish_snapshot(at);
            self.members[at].written = Some(written);
        }
    }

    /// Records the last snapshot, unless the trace does not contain the sync of its log yet.
    fn finish_snapshot(&mut self, at: usize) {
        let member = &mut self.members[at];
        let logged = member.logged;
        let is_due =
            |written: &mut OwnSnapshot| written.covers <= logged || written.covers > written.logged;
        if let Some(written) = member.written.take_if(is_due) {
            self.finishes_snapshot(at, written);
        }
    }

    fn finishes_snapshot(&mut self, at: usize, written: OwnSnapshot) {
        let (name, covers) = (number_of(written.zxid), number_of(written.covers));
        self.add("FinishSnapshot", at, None, name, covers);
    }

    /// Records a start of a server.
    pub(crate) fn starts(&mut self, at: usize, found: &FoundFiles) {
        if !self.is_on {
            return;
        }
        if self.members[at].has_started {
            self.complete_work(at, found);
            self.finds_lists(at, found);
            let zxid = number_of(found.end);
            self.add("Crash", at, None, zxid, 0);
            self.add("Promised", at, None, found.epochs.accepted.0, 0);
            self.add("Restart", at, None, zxid, found.epochs.current.0);
        }
        self.members[at] = Member {
            has_started: true,
            on_disk: found.end,
            logged: found.end,
            ..Member::default()
        };
    }

    /// Records that a server refuses its files. The disks of a trace are correct.
    pub(crate) fn cannot_start(&mut self, at: usize) {
        if self.is_on {
            self.add("CannotStart", at, None, 0, 0);
        }
    }

    fn add(
        &mut self,
        action: &'static str,
        at: usize,
        peer: Option<usize>,
        zxid: i64,
        number: i64,
    ) {
        self.events.push(Event {
            action,
            at,
            peer,
            zxid,
            number,
        });
    }
}
