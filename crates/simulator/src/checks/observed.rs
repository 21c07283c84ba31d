//! Reports of a server's actions to the checks.

use host::AnswerOutcome;
use jute::{Decode, Encode, Reader};
use proto::learner::LearnerPacket;
use proto::txn::{Txn, TxnRecord};
use proto::{Epoch, SessionId, Sid, Zxid};
use replica::{Applied, DiskOrder, Effect, Input, Note, Port, Service};
use simulation::checks::ProcessChecks;
use simulation::configured::{index_of, sid_of};
use simulation::settings::EnsembleSettings;
use testkit::SimDisk;
use tree::Tree;
use zab::Record;
use zab::learner::Fault;

use crate::checks::Checks;
use crate::invariants::{RequestId, durable};
use crate::simulated::World;

/// State of a server that the checks need in addition to the reported actions.
#[derive(Debug)]
pub(crate) struct Observed {
    sid: Sid,
    /// Whether the server lacks a vote or may lose it.
    is_observer: bool,
    is_standalone: bool,
    reconfigures: bool,
    /// Whether this server leads or is about to lead.
    leads: bool,
    /// Whether the epoch of its role is established.
    is_active: bool,
    /// Epoch in which this server leads, or epoch of the leader with which it was last in sync.
    epoch: Epoch,
    /// Number of acknowledgements so far.
    acknowledged: u64,
    /// Whether the server has acknowledged the epoch of its current leader.
    has_acknowledged_epoch: bool,
    /// Whether the learner has asked for a snapshot, because its log cannot be cut.
    needs_snapshot: bool,
    /// Transactions that its leader sent during the synchronisation.
    synchronised: Vec<Record>,
    /// Zxid of the last transaction in its tree before the current change.
    end: Zxid,
}

impl Observed {
    /// Returns the state of a server, given its index among all servers. The server's tree ends at
    /// `end`.
    pub(crate) fn new(server: usize, end: Zxid, settings: &EnsembleSettings) -> Self {
        let reconfigures = settings.features.reconfigures;
        Self {
            sid: sid_of(server),
            is_observer: server >= settings.voters || reconfigures,
            is_standalone: settings.is_standalone(),
            reconfigures,
            leads: settings.is_standalone(),
            is_active: false,
            epoch: Epoch(0),
            acknowledged: 0,
            has_acknowledged_epoch: false,
            needs_snapshot: false,
            synchronised: Vec::new(),
            end,
        }
    }

    /// Checks a packet to the leader against the current state of the disk.
    fn sends(
        &mut self,
        packet: &LearnerPacket,
        tree: &Tree,
        disk: &SimDisk,
        settings: &EnsembleSettings,
        to: &mut Checks,
    ) {
        if let LearnerPacket::AckEpoch {
            last_logged,
            current_epoch,
        } = packet
        {
            self.needs_snapshot = *last_logged == Zxid::ZERO && current_epoch.is_none();
        }
        let LearnerPacket::Ack { zxid } = *packet else {
            return;
        };
        // Only the first acknowledgement in an epoch covers the whole tree. After it, transactions
        // may be committed and applied before they are in this server's log.
        let is_first =
            zxid.counter() == 0 && !std::mem::replace(&mut self.has_acknowledged_epoch, true);
        let end = if is_first {
            to.history.end_of_tree(tree.last_zxid())
        } else {
            Zxid::ZERO
        };
        self.acknowledges(zxid, end, disk, settings, to);
    }

    /// Checks an acknowledgement to the leader, or to the clients of a standalone server.
    fn acknowledges(
        &mut self,
        zxid: Zxid,
        end: Zxid,
        disk: &SimDisk,
        settings: &EnsembleSettings,
        to: &mut Checks,
    ) {
        self.acknowledged += 1;
        if self.acknowledged.is_multiple_of(durable::EVERY) || zxid.counter() == 0 {
            let held = durable::acknowledges(self.sid, zxid, end, disk, settings);
            to.hold(durable::NAME, held);
        }
    }

    /// Checks the reason why a server leaves its leader. Returns `true` for an observer that has
    /// accepted a later epoch than its leader knows.
    fn leaves_leader(&self, fault: &Fault, to: &mut Checks) -> bool {
        match fault {
            // A leader with an empty log answers with DIFF until its epoch is established.
            Fault::Unexpected { .. } if self.needs_snapshot => false,
            Fault::UnmatchedCommit { .. } | Fault::Gap { .. } | Fault::Unexpected { .. } => {
                // Correct peers never cause such a fault.
                let text = format!("server {} disconnects from its leader: {fault}", self.sid);
                to.fail("prefix agreement", text);
                false
            }
            fault => self.is_observer && matches!(fault, Fault::EpochBehind { .. }),
        }
    }
}

impl ProcessChecks<Checks> for Observed {
    /// Checks a reply from this server to a request in a session, if the request is a sync.
    fn answers(&self, to: SessionId, what: &AnswerOutcome, tree: &Tree, world: &mut World) {
        if let AnswerOutcome::Sync(Some(asked)) = what {
            let by = RequestId {
                session: to,
                cxid: asked.xid.0,
            };
            world
                .checks
                .syncs(self.sid, by, self.epoch, tree.last_zxid());
        }
    }

    fn input(&mut self, input: &Input, world: &mut World) {
        let World {
            checks, network, ..
        } = world;
        checks.actions.input(self.sid, input, network);
        checks.coverage.input(index_of(self.sid), input);
    }

    /// Checks an effect of the replica against the current state of the disk.
    fn effect(&mut self, effect: &Effect, tree: &Tree, disk: &SimDisk, world: &mut World) {
        if world.prints && is_telling(effect) {
            world.say(self.sid, || effect.to_string());
        }
        world.checks.actions.effect(self.sid, effect);
        world.checks.coverage.effect(index_of(self.sid), effect);
        let end = tree.last_zxid();
        // When an epoch begins, the last zxid of a leader's tree has counter 0. `self.end` then
        // remains the last transaction before that epoch.
        if end.counter() != 0 || !self.leads || end < self.end {
            self.end = end;
        }
        if let Effect::SendToLeader(packet) = effect {
            self.sends(packet, tree, disk, &world.settings, &mut world.checks);
        }
        let to = &mut world.checks;
        match effect {
            Effect::Listen {
                port: Port::Learners,
                ..
            } => self.leads = true,
            Effect::Dial { .. } => {
                self.leads = false;
                self.has_acknowledged_epoch = false;
            }
            Effect::Append(record) if self.leads => {
                to.proposes(self.sid, record, tree.last_zxid());
                // A leader itself proposes the end of an expired session, with cxid 0.
                let txn = decode(record).filter(|txn| txn.header.cxid == 0);
                if let Some(txn) = txn.filter(|txn| matches!(txn.txn, Txn::CloseSession { .. })) {
                    to.expires(txn.header.session);
                }
            }
            Effect::Serve(Service::Deciding | Service::Forwarding) => {
                self.is_active = true;
                if self.leads {
                    self.epoch = tree.last_zxid().epoch();
                }
                to.serves_clients(self.sid, self.epoch);
                if self.leads && self.is_standalone {
                    to.stands_alone(self.sid, self.end, tree);
                } else if self.leads {
                    // The last zxid of the leader's tree is now the start of the new epoch.
                    // `self.end` is the last transaction before that epoch.
                    to.leads(self.sid, tree.last_zxid().epoch(), self.end, tree);
                } else {
                    to.synchronised(self.sid, &std::mem::take(&mut self.synchronised));
                    to.serves(self.sid, tree.last_zxid(), tree);
                }
            }
            // The server acknowledges NEWLEADER here.
            Effect::SendToLeader(LearnerPacket::Ack { zxid }) if zxid.counter() == 0 => {
                self.epoch = zxid.epoch();
            }
            Effect::StopServing => {
                self.is_active = false;
                self.synchronised.clear();
            }
            Effect::Disk(DiskOrder::TakeOver { .. }) => to.digests.replaced(self.sid),
            Effect::Disk(DiskOrder::SaveMembers { .. }) if !self.reconfigures => {
                let text = format!("server {}: {effect}", self.sid);
                to.fail("one member list", text);
            }
            _ => {}
        }
    }

    /// Records that everything up to `last` is committed on this server.
    fn established(&self, last: Zxid, world: &mut World) {
        world.checks.trace.established(world.now(), self.sid, last);
        world.checks.histories.committed(self.sid, last);
    }

    /// Checks an applied transaction against the current state of the disk.
    fn applied(&mut self, applied: &Applied<'_>, tree: &Tree, disk: &SimDisk, world: &mut World) {
        let record = applied.record;
        let zxid = record.header.zxid;
        world
            .checks
            .trace
            .applied(world.now(), self.sid, zxid, tree.digest());
        if self.is_standalone {
            self.acknowledges(
                record.header.zxid,
                Zxid::ZERO,
                disk,
                &world.settings,
                &mut world.checks,
            );
        }
        if !applied.is_committed {
            let at = index_of(self.sid);
            world.checks.applies_early = Some(at);
            world.checks.coverage.applies_early(at);
        }
        if applied.is_committed {
            world.checks.histories.applied(self.sid, record);
        }
        let to = &mut world.checks;
        let last = std::mem::replace(&mut self.end, record.header.zxid);
        let bytes = Record::new(record.header.zxid, record.to_bytes());
        if applied.is_committed {
            to.actions.applied(self.sid, last, bytes.zxid, &bytes.txn);
        }
        if !self.is_active {
            // The tree may come from a snapshot that already contains parts of the transaction.
            self.synchronised.push(bytes);
            return;
        }
        if self.leads {
            to.commits(self.sid, &bytes, last);
        } else {
            to.delivers(self.sid, &bytes, last);
        }
        to.applied(self.sid, record, tree);
    }

    /// Handles a notable event that the replica reports.
    fn note(&self, note: &Note<'_>, world: &mut World) {
        world.checks.actions.note(self.sid, note);
        world.checks.coverage.note(index_of(self.sid), note);
        if let Note::DigestMismatch { .. } = note {
            world.checks.digests.notice(self.sid);
        }
        if let Note::LeaderLeft(fault) = note {
            world.say(self.sid, || format!("disconnects from its leader: {fault}"));
            world.checks.is_observer_ahead |= self.leaves_leader(fault, &mut world.checks);
        }
    }
}

pub(crate) fn decode(record: &Record) -> Option<TxnRecord> {
    TxnRecord::decode(&mut Reader::new(record.txn.clone())).ok()
}

/// Returns whether an effect deserves a line in the trace.
fn is_telling(effect: &Effect) -> bool {
    use proto::leader::LeaderPacket;
    match effect {
        Effect::Send { packet, .. } => !matches!(packet, LeaderPacket::Ping { .. }),
        Effect::SendToLeader(packet) => !matches!(packet, LearnerPacket::Ping { .. }),
        Effect::Flush | Effect::Show(_) | Effect::Release { .. } => false,
        Effect::Election(_) => false,
        _ => true,
    }
}
