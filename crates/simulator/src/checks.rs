//! Everything that is watched, in one place: hands what happens to the invariants.

use bytes::Bytes;
use proto::request::ReadRequest;
use proto::txn::TxnRecord;
use proto::{Epoch, ErrorCode, SessionId, Sid, Zxid};
use tree::Tree;
use zab::Record;

use crate::history::History;
use crate::invariants::acknowledged::Acknowledged;
use crate::invariants::digest::Digests;
use crate::invariants::fifo::{self, Fifo};
use crate::invariants::one_leader::OneLeader;
use crate::invariants::primary_order::PrimaryOrder;
use crate::invariants::session_owner::SessionOwner;
use crate::invariants::watches::Armed;
use crate::invariants::{Held, ephemerals, prefix, reads, watches};

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
    digests: Digests,
    session_owner: SessionOwner,
    fifo: Fifo,
    /// Sessions whose time was up, to be looked at.
    pub(crate) expired: Vec<SessionId>,
}

impl Checks {
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

    pub(crate) fn proposes(&mut self, sid: Sid, record: &Record) {
        let held = self.primary_order.proposes(sid, record);
        self.hold(PrimaryOrder::NAME, held);
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

    /// A server begins to serve, with a tree whose last transaction is `last`.
    pub(crate) fn serves(&mut self, sid: Sid, last: Zxid, tree: &Tree) {
        let last = self.history.end_of_tree(last);
        self.hold(prefix::NAME, prefix::serves(sid, last, &self.history));
        let held = self.digests.compare(sid, last, tree.digest());
        self.hold(Digests::NAME, held);
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

    pub(crate) fn asks(&mut self, session: SessionId, cxid: i32, connection: u64) {
        self.session_owner.asks(session, cxid, connection);
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

    pub(crate) fn read(
        &mut self,
        request: &ReadRequest,
        zxid: Zxid,
        result: &Result<Bytes, ErrorCode>,
    ) {
        self.hold(
            reads::NAME,
            reads::read(
                request,
                self.history.end_of_tree(zxid),
                result,
                &self.history,
            ),
        );
    }
}
