//! Checks of every observed step by the invariants. The first violation is kept.

pub(crate) mod actions;
pub(crate) mod observed;
pub(crate) mod received;
pub(crate) mod trace;

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::request::{ReadRequest, Request};
use proto::txn::{Txn, TxnRecord};
use proto::{Epoch, ErrorCode, OpCode, SessionId, Sid, Zxid};
use simulation::checks::{HeldBack, OwnSnapshot, StepChecks};
use simulation::configured::{index_of, sid_of};
use simulation::network::{Endpoint, Message};
use simulation::queue::Micros;
use simulation::settings::EnsembleSettings;
use storage::{Epochs, list_snapshots};
use testkit::SimDisk;
use tree::Tree;
use zab::Record;

use crate::checks::observed::decode;
use crate::history::History;
use crate::history::check::Histories;
use crate::invariants::access::{Access, Identity};
use crate::invariants::acknowledged::Acknowledged;
use crate::invariants::digest::Digests;
use crate::invariants::expired::{self, Ends};
use crate::invariants::fifo::{self, Fifo};
use crate::invariants::linearizable::Linearizable;
use crate::invariants::one_leader::OneLeader;
use crate::invariants::primary_order::PrimaryOrder;
use crate::invariants::quota::Quota;
use crate::invariants::reads::ReadReply;
use crate::invariants::session_owner::SessionOwner;
use crate::invariants::sync::Syncs;
use crate::invariants::watches::Armed;
use crate::invariants::{
    CheckResult, RequestId, bounds, ephemerals, on_disk, prefix, reads, short_lived, watches,
};
use crate::simulated::{Event, OwnEvent, Server, World};
use crate::storms::coverage::Coverage;
use crate::storms::plan::Plan;
use actions::{ActionTrace, FoundFiles};
use observed::Observed;
use received::Received;
use trace::{StableTrace, Trace};

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// Description of the violation.
    pub text: String,
}

#[derive(Debug)]
pub(crate) struct Checks {
    /// Parameters of the run.
    pub(crate) plan: Plan,
    pub(crate) trace: StableTrace,
    /// Actions for the formal model.
    pub(crate) actions: ActionTrace,
    pub(crate) coverage: Coverage,
    /// Hashes of the messages that members have received, if the explorer runs.
    pub(crate) received: Option<Received>,
    pub(crate) histories: Histories,
    pub(crate) violation: Option<Violation>,
    pub(crate) history: History,
    pub(crate) one_leader: OneLeader,
    pub(crate) acknowledged: Acknowledged,
    primary_order: PrimaryOrder,
    pub(crate) digests: Digests,
    session_owner: SessionOwner,
    fifo: Fifo,
    access: Access,
    syncs: Syncs,
    quota: Quota,
    ends: Ends,
    linearizable: Linearizable,
    /// Number of successful requests from clients, by operation.
    pub(crate) succeeded: BTreeMap<OpCode, usize>,
    /// Expired sessions that the ensemble still has to check.
    pub(crate) expired: Vec<SessionId>,
    /// Whether an observer found a leader with an earlier epoch than the observer has accepted. The
    /// observer has no vote, so it cannot join until the leader changes, as with Apache ZooKeeper.
    pub(crate) is_observer_ahead: bool,
    /// Server that, in the current step, has applied a transaction of a leader that is not
    /// established.
    pub(crate) applies_early: Option<usize>,
}

impl Checks {
    pub(crate) fn new(seed: u64, plan: Plan, trace: Trace) -> Self {
        Self {
            trace: StableTrace {
                is_on: trace == Trace::Stable,
            },
            actions: ActionTrace::default(),
            coverage: Coverage::default(),
            received: None,
            histories: Histories::new(seed, plan.servers()),
            violation: None,
            history: History::new(&plan),
            one_leader: OneLeader::default(),
            acknowledged: Acknowledged::default(),
            primary_order: PrimaryOrder::default(),
            digests: Digests::default(),
            session_owner: SessionOwner::default(),
            fifo: Fifo::default(),
            access: Access::default(),
            syncs: Syncs::default(),
            quota: Quota::default(),
            ends: Ends::default(),
            linearizable: Linearizable::default(),
            succeeded: BTreeMap::new(),
            expired: Vec::new(),
            is_observer_ahead: false,
            applies_early: None,
            plan,
        }
    }

    /// Records a violation. Only the first one is kept, because later ones may follow from it.
    pub(crate) fn fail(&mut self, invariant: &'static str, text: String) {
        self.violation.get_or_insert(Violation { invariant, text });
    }

    pub(crate) fn hold(&mut self, invariant: &'static str, held: CheckResult) {
        if let Err(text) = held {
            self.fail(invariant, text);
        }
    }

    pub(crate) fn history_end(&self) -> Zxid {
        self.history.end()
    }

    /// Checks a proposal by a leader whose tree ends at `applied`.
    pub(crate) fn proposes(&mut self, sid: Sid, record: &Record, applied: Zxid) {
        let held = self.primary_order.proposes(sid, record);
        self.hold(PrimaryOrder::NAME, held);
        if let Some(txn) = decode(record) {
            self.ends.proposes(&txn);
            self.quota.proposes(&txn, applied);
        }
        let held = bounds::proposes(sid, record, self.plan.features.record_bytes_max);
        self.hold(bounds::NAME, held);
    }

    /// Checks a commit by an established leader whose tree ended at `last` before the transaction.
    pub(crate) fn commits(&mut self, sid: Sid, record: &Record, last: Zxid) {
        let last = self.history.end_of_tree(last);
        if self.one_leader.newest() > record.zxid.epoch() {
            // This leader does not know yet that its successor has already committed the
            // transaction.
            return self.delivers(sid, record, last);
        }
        self.hold(
            prefix::NAME,
            prefix::commits(sid, record, last, &self.history),
        );
        self.commit(record, record.zxid.epoch());
    }

    /// Adds a transaction to the model as committed in this epoch.
    fn commit(&mut self, record: &Record, epoch: Epoch) {
        if self.violation.is_some() {
            return;
        }
        let held = self.primary_order.commits(record, self.history.end());
        self.hold(PrimaryOrder::NAME, held);
        if let Err(text) = self.history.push(record, epoch) {
            return self.fail(prefix::NAME, text);
        }
        let Some(entry) = self.history.entries.last() else {
            return;
        };
        let owned = self.session_owner.committed(&entry.txn);
        let ordered = self.fifo.committed(&entry.txn);
        let lives = ephemerals::committed(&entry.txn, &self.history);
        let permitted = self.access.committed(&entry.txn, &self.history);
        let is_due = if self.plan.has_wrong_clocks {
            Ok(())
        } else {
            short_lived::committed(&entry.txn, &self.history)
        };
        let has_room = if self.plan.features.enforces_quota {
            self.quota.committed(&entry.txn, &self.history)
        } else {
            Ok(())
        };
        if matches!(entry.txn.txn, Txn::DeleteContainer { .. }) {
            *self.succeeded.entry(OpCode::DeleteContainer).or_default() += 1;
        }
        self.hold(Access::NAME, permitted);
        self.hold(short_lived::NAME, is_due);
        self.hold(Quota::NAME, has_room);
        self.hold(SessionOwner::NAME, owned);
        self.hold(Fifo::NAME, ordered);
        self.hold(ephemerals::NAME, lives);
    }

    /// Checks a server that has established an epoch with a history up to `last`. Everything in
    /// this history after the last committed transaction is now committed. The digests show whether
    /// the tree of the server matches its history.
    pub(crate) fn leads(&mut self, sid: Sid, epoch: Epoch, last: Zxid, tree: &Tree) {
        let held = self.one_leader.leads(sid, epoch);
        self.hold(OneLeader::NAME, held);
        let last = self.history.end_of_tree(last);
        let end = self.history.end_before(epoch);
        self.hold(Acknowledged::NAME, self.acknowledged.leads(sid, last, end));
        if self.one_leader.newest() > epoch {
            // The quorum has already moved to the next leader. The previous leader does not know
            // that yet and commits nothing.
            return self.serves(sid, last, tree);
        }
        for record in self.primary_order.between(self.history.end(), last) {
            self.commit(&record, epoch);
        }
        self.serves(sid, last, tree);
        if self.history.end() != last {
            let end = self.history.end();
            let text = format!(
                "server {sid} leads with a tree up to {last}, although its log ends at {end}"
            );
            self.fail(prefix::NAME, text);
        }
    }

    /// Checks a standalone server that begins to serve with a history up to `last`. All of this
    /// history is now committed. Everything that the server has proposed after `last` is lost.
    pub(crate) fn stands_alone(&mut self, sid: Sid, last: Zxid, tree: &Tree) {
        let end = self.history.end();
        self.hold(Acknowledged::NAME, self.acknowledged.leads(sid, last, end));
        for record in self.primary_order.between(end, last) {
            self.commit(&record, record.zxid.epoch());
        }
        self.primary_order.forget_after(last);
        self.serves(sid, last, tree);
    }

    /// Checks a server that begins to serve with a tree whose last transaction is `last`.
    pub(crate) fn serves(&mut self, sid: Sid, last: Zxid, tree: &Tree) {
        let last = self.history.end_of_tree(last);
        self.hold(prefix::NAME, prefix::serves(sid, last, &self.history));
        let held = self.digests.compare(sid, last, tree.digest());
        self.hold(Digests::NAME, held);
    }

    /// Checks the disk of a server, before each start of the server and at the end of the run.
    pub(crate) fn on_disk(&mut self, sid: Sid, disk: &SimDisk, settings: &EnsembleSettings) {
        let newest = self.one_leader.newest();
        let held = on_disk::compare(
            sid,
            disk,
            settings,
            &self.history,
            newest,
            &mut self.digests,
        );
        self.hold(Digests::NAME, held);
    }

    /// Checks a transaction that a serving learner delivers.
    pub(crate) fn delivers(&mut self, sid: Sid, record: &Record, last: Zxid) {
        let last = self.history.end_of_tree(last);
        self.hold(
            prefix::NAME,
            prefix::delivers(sid, record, last, &self.history),
        );
    }

    /// Checks the transactions of a synchronisation after which the learner serves. All of them are
    /// now committed.
    pub(crate) fn synchronised(&mut self, sid: Sid, records: &[Record]) {
        for record in records {
            self.hold(prefix::NAME, prefix::receives(sid, record, &self.history));
        }
    }

    /// Checks a transaction that a serving server has applied.
    pub(crate) fn applied(&mut self, sid: Sid, txn: &TxnRecord, tree: &Tree) {
        self.hold(ephemerals::NAME, ephemerals::applied(sid, txn, tree));
        let held = self.digests.applied(sid, txn, tree);
        self.hold(Digests::NAME, held);
    }

    pub(crate) fn expires(&mut self, session: SessionId) {
        self.expired.push(session);
    }

    /// Records a request. `connection` is the number of the connection within the session.
    pub(crate) fn asks(
        &mut self,
        by: RequestId,
        connection: u64,
        identity: Option<Identity>,
        request: &Request,
        at: Micros,
    ) {
        self.session_owner.asks(by.session, by.cxid, connection);
        self.access.asks(by.session, by.cxid, identity);
        if matches!(request, Request::Sync(_)) {
            let newest = self.acknowledged.newest();
            self.syncs.asks(by, self.one_leader.newest(), newest);
        }
        self.linearizable.asks(by, request, at);
    }

    /// Checks the reply to a request.
    pub(crate) fn answered(
        &mut self,
        by: RequestId,
        result: &Result<Bytes, ErrorCode>,
        at: Micros,
    ) {
        // A read is current if it directly follows its sync.
        let is_current = self.syncs.is_current(by.before());
        self.linearizable.answered(by, result, is_current, at);
    }

    /// Checks the reply to a sync. The server that replies is in sync with the leader of `epoch`,
    /// and its tree ends at `last`.
    pub(crate) fn syncs(&mut self, sid: Sid, by: RequestId, epoch: Epoch, last: Zxid) {
        let held = self.syncs.answers(sid, by, epoch, last);
        self.hold(Syncs::NAME, held);
    }

    /// Records that a server begins to serve clients in an epoch.
    pub(crate) fn serves_clients(&mut self, sid: Sid, epoch: Epoch) {
        self.ends.serves(sid, epoch);
    }

    /// Returns whether a server must know a session that a client resumes on this server.
    pub(crate) fn must_know(&self, sid: Sid, session: SessionId) -> bool {
        self.ends.must_know(sid, session, &self.history)
    }

    /// Checks that the end of a session has been proposed when a server reports it to the client.
    pub(crate) fn told_over(&mut self, session: SessionId) {
        let held = self.ends.told_over(session, &self.history);
        self.hold(expired::NAME, held);
    }

    /// Checks the remaining sessions after a quiet time longer than every session timeout. The
    /// sessions in `of_clients` have clients and may remain.
    pub(crate) fn judge_sessions(&mut self, of_clients: &[SessionId]) {
        let held = expired::at_the_end(of_clients, &self.history);
        self.hold(expired::NAME, held);
    }

    /// Checks that the calls of all clients are linearizable. No calls are pending any more.
    pub(crate) fn judge_calls(&mut self) {
        let held = self.linearizable.judge();
        self.hold(Linearizable::NAME, held);
    }

    /// Returns the number of linearizability searches that reached the step limit.
    pub(crate) fn undecided(&self) -> usize {
        self.linearizable.undecided
    }

    /// Counts a successful request of a client.
    pub(crate) fn succeeds(&mut self, op: OpCode) {
        *self.succeeded.entry(op).or_default() += 1;
    }

    /// Checks the reply to a request. `expected` is the cxid of the session's oldest request
    /// without a reply. `seen` is the last zxid that the client has seen, and `armed` are its
    /// watches.
    pub(crate) fn replies(
        &mut self,
        by: RequestId,
        expected: Option<i32>,
        zxid: Zxid,
        seen: Zxid,
        armed: &[Armed],
    ) {
        let RequestId { session, cxid } = by;
        self.hold(Fifo::NAME, fifo::replies(session, cxid, expected));
        let (now, before) = (
            self.history.end_of_tree(zxid),
            self.history.end_of_tree(seen),
        );
        self.hold(Fifo::NAME, fifo::sees(session, now, before));
        self.hold(
            watches::NAME,
            watches::reveals(session, zxid, armed, &self.history),
        );
    }

    pub(crate) fn acknowledged(&mut self, zxid: Zxid, session: SessionId, cxid: i32) {
        let held = self
            .acknowledged
            .acknowledge(zxid, session, cxid, &self.history);
        self.hold(Acknowledged::NAME, held);
    }

    pub(crate) fn read(&mut self, request: &ReadRequest, told: ReadReply<'_>) {
        let zxid = self.history.end_of_tree(told.zxid);
        let held = reads::read(request, ReadReply { zxid, ..told }, &self.history);
        self.hold(reads::NAME, held);
    }
}

impl StepChecks for Checks {
    type OwnEvent = OwnEvent;
    type OfProcess = Observed;

    fn blank() -> Self {
        Self::new(0, Plan::quiet(), Trace::Off)
    }

    fn of_process(server: usize, end: Zxid, settings: &EnsembleSettings) -> Observed {
        Observed::new(server, end, settings)
    }

    fn fail(&mut self, rule: &'static str, text: String) {
        Self::fail(self, rule, text);
    }

    fn event(&mut self, now: Micros, event: &Event) {
        self.trace.event(now, event);
        self.coverage.now = now;
    }

    fn message(&mut self, now: Micros, connection: u64, to: Endpoint, message: &Message) {
        self.trace.message(now, connection, to, message);
        if let Some(received) = &mut self.received {
            received.note(connection, to, message);
        }
    }

    fn starts(world: &mut World, server: usize, disk: &SimDisk) {
        world.checks.on_disk(sid_of(server), disk, &world.settings);
    }

    fn started(world: &mut World, server: &Server) {
        let (index, log) = (server.host.process.server, &server.host.disk.history);
        world.checks.coverage.starts(index);
        // After a power failure, lost sectors of unsynced records may look like corruption. The formal
        // model rejects any other member that starts without its records.
        if world.settings.loses_sectors && !server.replica.is_trusted() {
            world.checks.actions.end();
        }
        let (disk, dirs) = (log.disk().clone(), log.dirs().clone());
        let end = log.appended();
        if let (Ok(epochs), Ok(snapshots)) = (
            Epochs::inspect(&*disk, &dirs, end),
            list_snapshots(&*disk, &dirs.snap),
        ) {
            let found = FoundFiles {
                end,
                epochs,
                snapshots: snapshots.iter().map(|file| file.zxid).collect(),
                lists: lists_of(server).filter(|_| world.settings.features.reconfigures),
            };
            world.checks.actions.starts(index, &found);
        }
        world.checks.histories.begin(index, disk, dirs, log.end());
        world.checks.digests.replaced(sid_of(index));
    }

    fn stepped(world: &mut World, server: usize) {
        let Checks {
            histories, history, ..
        } = &mut world.checks;
        histories.may_turn(server, world.is_healed, history);
    }

    /// Checks the amount of data that a server holds back.
    fn holds_back(&mut self, sid: Sid, held_back: HeldBack) {
        let held = bounds::holds_back(sid, held_back);
        self.hold(bounds::NAME, held);
    }

    fn begins_snapshot(&mut self, sid: Sid, zxid: Zxid) {
        self.actions.begins_snapshot(sid, zxid);
        self.coverage.snapshot(index_of(sid), false);
    }

    /// Checks a new snapshot file.
    fn writes_snapshot(&mut self, sid: Sid, written: OwnSnapshot) {
        self.actions.writes_snapshot(sid, written);
        self.coverage.snapshot(index_of(sid), true);
        let held = on_disk::written(sid, written.zxid, written.last, &self.history);
        self.hold(on_disk::NAME, held);
    }
}

/// Returns the versions of the committed and of the last seen member list.
fn lists_of(server: &Server) -> Option<[Zxid; 2]> {
    let lists = server.replica.lists()?;
    Some([lists.committed(), lists.newest()].map(|list| Zxid(list.version.0)))
}
