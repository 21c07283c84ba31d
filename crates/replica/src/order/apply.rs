//! Application of committed transactions to the tree, with the resulting replies, events and
//! session changes.

use jute::{Decode, Encode, Reader};
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, SessionId, Zxid};
use zab::Record;
use zab::learner::Learner;

use super::long_requests::OrderItem;
use super::proposals::InFlight;
use crate::interface::effect::{Applied, Effect};
use crate::interface::host::{Host, State, Turn};
use crate::interface::input::Ticket;
use crate::interface::large_bytes::LargeBytes;
use crate::interface::note::{Note, Stage};
use crate::limits;
use crate::replica::Replica;
use crate::roles::Role;
use crate::roles::transitions::begin_unestablished;
use crate::session::Owner;

impl<H: Host> Replica<H> {
    /// Applies committed transactions. Answers each `sync` of the leader's own clients at its
    /// position among them.
    pub(crate) fn apply_committed(&mut self, turn: &mut Turn<'_, H>) {
        while let Some(before) = self.committed_before_own_sync() {
            self.committed -= before;
            self.apply(before, turn);
            self.answer_own_sync(turn);
        }
        let committed = std::mem::take(&mut self.committed);
        self.apply(committed, turn);
        self.report_mismatch(turn);
    }

    /// Applies this number of transactions in groups, so that readers can run between groups.
    fn apply(&mut self, mut committed: usize, turn: &mut Turn<'_, H>) {
        let state = turn.state;
        if committed > 0 && !self.is_established() {
            begin_unestablished(turn);
        }
        while committed > 0 {
            let group = committed.min(limits::APPLY_GROUP_MAX);
            committed -= group;
            // The loop borrows the transactions, because each of them is expensive to move.
            let mut in_flight = std::mem::take(&mut self.in_flight);
            let group = group.min(in_flight.len());
            turn.note(Note::Begins(Stage::TreeAwaited));
            let mut tree = state.tree_mut();
            turn.note(Note::Ends(Stage::TreeAwaited));
            for (next, left) in in_flight.iter().zip((0..group).rev()) {
                self.apply_one(&mut tree, next, left == 0, turn);
            }
            drop(tree);
            in_flight.drain(..group);
            self.in_flight = in_flight;
            turn.host.tree_released();
        }
    }

    fn apply_one(
        &mut self,
        tree: &mut tree::Tree,
        in_flight: &InFlight,
        is_last: bool,
        turn: &mut Turn<'_, H>,
    ) {
        let record = &in_flight.record;
        let session = record.header.session;
        let is_committed = self.is_established();
        self.overlay.applied(record.header.zxid);
        if let Some(origin) = in_flight.origin {
            turn.host.applying(tree, origin);
        }
        let outcome = tree.apply(record, &mut turn.state.watches(), &mut self.events);
        if self.is_tree_exact_at(record.header.zxid) {
            self.digests.compare(tree, record, turn);
        }
        match record.txn {
            Txn::CloseSession { .. } => {
                turn.state.sessions().remove(session);
                self.forget_holder(session);
            }
            Txn::CreateSession { timeout_ms } if outcome.error() == ErrorCode::Ok => {
                let mut sessions = turn.state.sessions();
                sessions.add_created(session, timeout_ms, turn.now.ms);
                if in_flight.origin.is_some() {
                    // A client of this server requested the session, so this server serves it.
                    sessions.set_owner(session, Owner::THIS_SERVER);
                }
            }
            _ => {}
        }
        turn.host.applied(
            tree,
            Applied {
                record,
                outcome: &outcome,
                events: &mut self.events,
                op: in_flight.op,
                origin: in_flight.origin,
                is_counted: in_flight.is_counted,
                large_bytes: in_flight.large_bytes,
                is_last,
                is_committed,
            },
        );
        self.events.clear();
    }

    /// Returns whether the transactions that the role applies are committed. A leader commits only
    /// after its epoch is established, which it reports to learners with UPTODATE.
    fn is_established(&self) -> bool {
        match &self.role {
            Role::Learning(learning) => {
                let learner = learning.learner.as_ref();
                learner.is_some_and(Learner::is_live)
            }
            _ => true,
        }
    }

    /// Returns whether the tree is certain to contain only transactions up to this one.
    fn is_tree_exact_at(&self, zxid: Zxid) -> bool {
        match &self.role {
            Role::Learning(learning) => learning.exact_after.is_some_and(|last| zxid > last),
            _ => true,
        }
    }

    /// Applies appended, uncommitted transactions at the end of a role. A restart would replay them
    /// from the log, so the tree must contain them as well. Clients are not informed, because a
    /// later leader may have the transactions cut from the log.
    pub(crate) fn apply_uncommitted(&mut self, turn: &mut Turn<'_, H>) {
        for record in std::mem::take(&mut self.undelivered) {
            match decode(&record) {
                Ok(txn) => self.in_flight.push_back(InFlight::of_others(txn)),
                Err(error) => {
                    tracing::error!(zxid = %record.zxid, err = %error, "cannot decode a logged transaction");
                }
            }
        }
        let Some(last) = self.in_flight.back() else {
            return;
        };
        tracing::info!(zxid = %last.record.header.zxid, len = self.in_flight.len(), "applied logged transactions that are not yet known to be committed");
        begin_unestablished(turn);
        self.committed = 0;
        let (mut requests, mut large_bytes) = (0, LargeBytes::NONE);
        {
            let mut tree = turn.state.tree_mut();
            for in_flight in std::mem::take(&mut self.in_flight) {
                let record = &in_flight.record;
                let zxid = record.header.zxid;
                self.overlay.applied(zxid);
                tree.apply(record, &mut turn.state.watches(), &mut self.events);
                self.events.clear();
                if let Some(member) = &mut self.member {
                    member.committed.push(Record::new(zxid, record.to_bytes()));
                }
                requests += usize::from(in_flight.is_counted);
                large_bytes += in_flight.large_bytes;
            }
        }
        turn.effect(Effect::Release {
            requests,
            large_bytes,
        });
    }

    /// Applies the transactions that the leader reported as committed to this learner.
    pub(crate) fn apply_delivered(&mut self, turn: &mut Turn<'_, H>) {
        for record in std::mem::take(&mut self.delivered) {
            match self.match_delivered(&record, turn) {
                Ok(matched) => {
                    self.in_flight.push_back(matched);
                    self.committed += 1;
                }
                Err(error) => {
                    tracing::error!(zxid = %record.zxid, err = %error, "cannot decode a transaction from the leader, disconnecting from it");
                    return self.leave_role(crate::roles::NextRole::LookLater, turn);
                }
            }
        }
        self.apply_committed(turn);
    }

    /// Answers a `sync` of one of this leader's own clients once every earlier proposal is applied.
    ///
    /// A client of a learner may receive the answer to its write before this server's own tree
    /// contains the write. Between two turns, however, the tree contains every commit that was sent
    /// to learners. A client's own writes precede its `sync`. Source: Leader.processSync.
    pub(crate) fn sync_own(&mut self, session: SessionId, ticket: Ticket, turn: &mut Turn<'_, H>) {
        let Role::Leading(leading) = &mut self.role else {
            return turn.effect(Effect::CloseClient(ticket));
        };
        let sync = OrderItem::OwnSync { ticket, session };
        if self.long_requests.admit(sync).is_none() {
            return;
        }
        let last_proposed = leading.leader.last_proposed();
        leading.own_syncs.push_back((last_proposed, ticket));
        self.apply_committed(turn);
    }

    /// Returns the number of committed transactions before the oldest `sync`; `None` without a
    /// `sync`, or if an earlier transaction is not committed yet.
    fn committed_before_own_sync(&self) -> Option<usize> {
        let Role::Leading(leading) = &self.role else {
            return None;
        };
        let (zxid, _) = leading.own_syncs.front()?;
        let before = self.in_flight_upto(*zxid);
        (before <= self.committed).then_some(before)
    }

    /// Returns the number of unapplied transactions up to this one.
    pub(crate) fn in_flight_upto(&self, zxid: Zxid) -> usize {
        self.in_flight
            .partition_point(|in_flight| in_flight.record.header.zxid <= zxid)
    }

    /// Answers the oldest `sync`. Every earlier transaction is applied.
    fn answer_own_sync(&mut self, turn: &mut Turn<'_, H>) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        if let Some((_, ticket)) = leading.own_syncs.pop_front() {
            self.answer_sync(ticket, turn);
        }
    }

    pub(crate) fn answer_sync(&mut self, ticket: Ticket, turn: &mut Turn<'_, H>) {
        let state = turn.state;
        let tree = state.tree();
        turn.host.answer_sync(&tree, ticket);
        drop(tree);
        turn.host.tree_released();
    }

    /// Drops a learner's appended records up to this transaction, because they are being applied.
    pub(crate) fn forget_undelivered(&mut self, upto: Zxid) {
        while let Some(record) = self.undelivered.front()
            && record.zxid <= upto
        {
            self.undelivered.pop_front();
        }
    }
}

/// Decodes a transaction of the log or of the leader. It may be longer than the limit for requests
/// if `jute.maxbuffer` was lowered.
pub(crate) fn decode(record: &Record) -> Result<TxnRecord, jute::DecodeError> {
    TxnRecord::decode(&mut Reader::new(record.txn.clone()))
}
