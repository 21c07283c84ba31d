//! Everything that is watched, in one place: hands what happens to the invariants.

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::request::{ReadRequest, Request};
use proto::txn::{Txn, TxnRecord};
use proto::{Epoch, ErrorCode, OpCode, SessionId, Sid, Zxid};
use testkit::SimDisk;
use tree::Tree;
use zab::Record;

use crate::history::History;
use crate::invariants::access::{Access, Identity};
use crate::invariants::acknowledged::Acknowledged;
use crate::invariants::bounds::HeldBack;
use crate::invariants::digest::Digests;
use crate::invariants::expired::{self, Ends};
use crate::invariants::fifo::{self, Fifo};
use crate::invariants::linearizable::Linearizable;
use crate::invariants::one_leader::OneLeader;
use crate::invariants::primary_order::PrimaryOrder;
use crate::invariants::quota::Quota;
use crate::invariants::reads::Told;
use crate::invariants::session_owner::SessionOwner;
use crate::invariants::sync::Syncs;
use crate::invariants::watches::Armed;
use crate::invariants::{Held, bounds, ephemerals, on_disk, prefix, reads, short_lived, watches};
use crate::observed::decode;
use crate::plan::Plan;
use crate::queue::Micros;

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// How.
    pub text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Checks {
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
    /// How often each operation was carried out for a client.
    pub(crate) succeeded: BTreeMap<OpCode, usize>,
    /// Bytes of the longest transaction that members read.
    record_bytes_max: usize,
    pub(crate) enforces_quota: bool,
    /// Whether clocks on walls go wrong: then nobody can say when a znode's time is up.
    has_wrong_clocks: bool,
    /// Sessions whose time was up, to be looked at.
    pub(crate) expired: Vec<SessionId>,
}

impl Checks {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            record_bytes_max: plan.features.record_bytes_max,
            enforces_quota: plan.features.enforces_quota,
            has_wrong_clocks: plan.has_wrong_clocks,
            history: History::new(plan),
            ..Self::default()
        }
    }

    /// The first violation counts; what follows from it does not.
    pub(crate) fn fail(&mut self, invariant: &'static str, text: String) {
        self.violation.get_or_insert(Violation { invariant, text });
    }

    pub(crate) fn hold(&mut self, invariant: &'static str, held: Held) {
        if let Err(text) = held {
            self.fail(invariant, text);
        }
    }

    pub(crate) fn history_end(&self) -> Zxid {
        self.history.end()
    }

    /// A leader proposes this; its tree ends at `applied`.
    pub(crate) fn proposes(&mut self, sid: Sid, record: &Record, applied: Zxid) {
        let held = self.primary_order.proposes(sid, record);
        self.hold(PrimaryOrder::NAME, held);
        if let Some(txn) = decode(record) {
            self.ends.proposes(&txn);
            self.quota.proposes(&txn, applied);
        }
        let held = bounds::proposes(sid, record, self.record_bytes_max);
        self.hold(bounds::NAME, held);
    }

    /// A leader in office commits this; its tree ends at `last`.
    pub(crate) fn commits(&mut self, sid: Sid, record: &Record, last: Zxid) {
        let last = self.history.end_of_tree(last);
        if self.one_leader.newest() > record.zxid.epoch() {
            // It does not know of the next leader, who has committed this already.
            return self.delivers(sid, record, last);
        }
        self.hold(
            prefix::NAME,
            prefix::commits(sid, record, last, &self.history),
        );
        self.commit(record, record.zxid.epoch());
    }

    /// This is committed in this epoch.
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
        let is_due = match self.has_wrong_clocks {
            true => Ok(()),
            false => short_lived::committed(&entry.txn, &self.history),
        };
        let has_room = match self.enforces_quota {
            true => self.quota.committed(&entry.txn, &self.history),
            false => Ok(()),
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

    /// A server has established an epoch with a history up to `last`: what that holds behind the end of what was
    /// committed is committed now. Digests tell whether its tree is made of it.
    pub(crate) fn leads(&mut self, sid: Sid, epoch: Epoch, last: Zxid, tree: &Tree) {
        let held = self.one_leader.leads(sid, epoch);
        self.hold(OneLeader::NAME, held);
        let last = self.history.end_of_tree(last);
        let end = self.history.end_before(epoch);
        self.hold(Acknowledged::NAME, self.acknowledged.leads(sid, last, end));
        if self.one_leader.newest() > epoch {
            // Its quorum has gone over to the next one; it does not know yet and commits nothing.
            return self.serves(sid, last, tree);
        }
        for record in self.primary_order.between(self.history.end(), last) {
            self.commit(&record, epoch);
        }
        self.serves(sid, last, tree);
        if self.history.end() != last {
            let end = self.history.end();
            let text =
                format!("server {sid} leads with a tree up to {last}, its log ends at {end}");
            self.fail(prefix::NAME, text);
        }
    }

    /// A standalone server begins to serve, with a history up to `last`: all of that is committed now, and what it
    /// has proposed since is gone.
    pub(crate) fn stands_alone(&mut self, sid: Sid, last: Zxid, tree: &Tree) {
        let end = self.history.end();
        self.hold(Acknowledged::NAME, self.acknowledged.leads(sid, last, end));
        for record in self.primary_order.between(end, last) {
            self.commit(&record, record.zxid.epoch());
        }
        self.primary_order.forget_after(last);
        self.serves(sid, last, tree);
    }

    /// A server begins to serve, with a tree whose last transaction is `last`.
    pub(crate) fn serves(&mut self, sid: Sid, last: Zxid, tree: &Tree) {
        let last = self.history.end_of_tree(last);
        self.hold(prefix::NAME, prefix::serves(sid, last, &self.history));
        let held = self.digests.compare(sid, last, tree.digest());
        self.hold(Digests::NAME, held);
    }

    /// A server is about to start with this disk, or everything is over.
    pub(crate) fn on_disk(&mut self, sid: Sid, disk: &SimDisk, plan: &Plan) {
        let known = (&self.history, self.one_leader.newest());
        let held = on_disk::compare(sid, (disk, plan), known, &mut self.digests);
        self.hold(Digests::NAME, held);
    }

    /// A server has written a snapshot that is named after `zxid`, and its tree ends at `last`.
    pub(crate) fn writes_snapshot(&mut self, sid: Sid, zxid: Zxid, last: Zxid) {
        let held = on_disk::written(sid, (zxid, last), &self.history);
        self.hold(on_disk::NAME, held);
    }

    /// A learner that serves delivers this.
    pub(crate) fn delivers(&mut self, sid: Sid, record: &Record, last: Zxid) {
        let last = self.history.end_of_tree(last);
        self.hold(
            prefix::NAME,
            prefix::delivers(sid, record, last, &self.history),
        );
    }

    /// A server that serves has applied this.
    pub(crate) fn applied(&mut self, sid: Sid, txn: &TxnRecord, tree: &Tree) {
        self.hold(ephemerals::NAME, ephemerals::applied(sid, txn, tree));
        let held = self.digests.applied(sid, txn, tree);
        self.hold(Digests::NAME, held);
    }

    pub(crate) fn expires(&mut self, session: SessionId) {
        self.expired.push(session);
    }

    /// A client sends a request over this connection, the nth of its session.
    pub(crate) fn asks(
        &mut self,
        by: (SessionId, i32),
        connection: u64,
        identity: Option<Identity>,
        request: &Request,
        at: Micros,
    ) {
        self.session_owner.asks(by.0, by.1, connection);
        self.access.asks(by.0, by.1, identity);
        if matches!(request, Request::Sync(_)) {
            let newest = self.acknowledged.newest();
            self.syncs.asks(by, self.one_leader.newest(), newest);
        }
        self.linearizable.asks(by, request, at);
    }

    /// A request is answered.
    pub(crate) fn answered(
        &mut self,
        by: (SessionId, i32),
        result: &Result<Bytes, ErrorCode>,
        at: Micros,
    ) {
        // Of a read that stands directly behind its sync.
        let is_current = self.syncs.is_current((by.0, by.1 - 1));
        self.linearizable.answered(by, result, is_current, at);
    }

    /// A server in sync with the leader of `epoch`, whose tree ends at `last`, answers a sync.
    pub(crate) fn syncs(&mut self, sid: Sid, by: (SessionId, i32), epoch: Epoch, last: Zxid) {
        let held = self.syncs.answers(sid, by, epoch, last);
        self.hold(Syncs::NAME, held);
    }

    /// A client hears that its session is over.
    pub(crate) fn told_over(&mut self, session: SessionId) {
        let held = self.ends.told_over(session, &self.history);
        self.hold(expired::NAME, held);
    }

    /// A server holds back so much.
    pub(crate) fn holds_back(&mut self, sid: Sid, held_back: HeldBack) {
        let held = bounds::holds_back(sid, held_back);
        self.hold(bounds::NAME, held);
    }

    /// All has been quiet for longer than any session lives; clients have these.
    pub(crate) fn judge_sessions(&mut self, of_clients: &[SessionId]) {
        let held = expired::at_the_end(of_clients, &self.history);
        self.hold(expired::NAME, held);
    }

    /// Nothing is under way any more.
    pub(crate) fn judge_calls(&mut self) {
        let held = self.linearizable.judge();
        self.hold(Linearizable::NAME, held);
    }

    /// Searches that were given up.
    pub(crate) fn undecided(&self) -> usize {
        self.linearizable.undecided
    }

    /// An operation was carried out for a client.
    pub(crate) fn succeeds(&mut self, op: OpCode) {
        *self.succeeded.entry(op).or_default() += 1;
    }

    /// A client is answered: `seen` is what it has seen, `armed` what it watches.
    pub(crate) fn replies(
        &mut self,
        (session, cxid, expected): (SessionId, i32, Option<i32>),
        (zxid, seen): (Zxid, Zxid),
        armed: &[Armed],
    ) {
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

    pub(crate) fn read(&mut self, request: &ReadRequest, told: Told<'_>) {
        let zxid = self.history.end_of_tree(told.zxid);
        let held = reads::read(request, Told { zxid, ..told }, &self.history);
        self.hold(reads::NAME, held);
    }
}
