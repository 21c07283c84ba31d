//! Comparison of the tree's digest with the digest in each committed transaction. If the digests
//! differ, the tree differs from the tree of the leader that created the transaction.
//!
//! ```text
//!   learner                          leader
//!   a digest differs --------------> applies all commits, queries all learners
//!   its digest there <-------------- at its last transaction
//!                    --------------> a quorum with the leader agrees, one without it, or none
//!   wrong, or no quorum <----------- is wrong itself: ends, or leaves its role
//! ```
//!
//! Only committed data is compared. A learner's tree from a snapshot may contain transactions after
//! the snapshot's zxid, until everything before the leader's UPTODATE is applied.
//!
//! A server with a wrong tree logs the difference, stops, or repairs itself
//! (`zoarium.onDigestMismatch`). A repair ends the role. The host stores the wrong tree in a
//! separate place, and the server returns without a vote and accepts only a snapshot from the next
//! leader. Only a quorum can declare a server's tree wrong, so enough other voters remain to form a
//! quorum. If no quorum agrees, a repair might spread the wrong data, so the server stops instead.
//!
//! Source: DataTree.processTxn, DataTree.compareDigest. Apache ZooKeeper only logs.

use config::OnDigestMismatch;
use proto::Zxid;
use proto::learner::LearnerPacket;
use proto::txn::TxnRecord;
use tree::{DigestMismatch, Tree};
use zab::Record;

use crate::interface::effect::{DiskOrder, Effect};
use crate::interface::host::{Host, State, Turn};
use crate::interface::note::Note;
use crate::order::apply::decode;
use crate::replica::Replica;
use crate::roles::member_state::WrongTree;
use crate::roles::{NextRole, Role};

/// Minimum time between two log lines about mismatches, ms.
const LOG_PAUSE_MS: i64 = 60_000;

/// Maximum length of a path in a log line, bytes.
const PATH_BYTES_MAX: usize = 256;

/// State of the digest comparison.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    /// Whether the last compared digests differed.
    differ: bool,
    /// Time from which the next mismatch may be logged, ms.
    logs_from_ms: Option<i64>,
    /// Time from which the next mismatch may be reported to the leader, ms.
    reports_from_ms: Option<i64>,
    /// Mismatch to report: the transaction and the digest of the tree.
    to_report: Option<(Zxid, u64)>,
}

impl Digests {
    /// Compares the digest of the tree with the digest in the committed transaction that was
    /// applied last.
    pub(crate) fn compare<H: Host>(
        &mut self,
        tree: &Tree,
        record: &TxnRecord,
        turn: &mut Turn<'_, H>,
    ) {
        match tree.digest_mismatch(record) {
            Some(mismatch) => {
                let zxid = record.header.zxid;
                turn.note(Note::DigestMismatch { zxid });
                let is_first = !std::mem::replace(&mut self.differ, true);
                if is_first && self.may_log(turn.now.ms) {
                    log(zxid, Some(record), mismatch);
                }
                self.to_report = Some((zxid, mismatch.computed));
            }
            None => self.differ = false,
        }
    }

    fn may_log(&mut self, now_ms: i64) -> bool {
        is_due(&mut self.logs_from_ms, now_ms, LOG_PAUSE_MS)
    }
}

/// Returns whether the pause is over. If so, begins another pause of `pause_ms`.
fn is_due(from_ms: &mut Option<i64>, now_ms: i64, pause_ms: i64) -> bool {
    let is_due = from_ms.is_none_or(|from_ms| from_ms <= now_ms);
    if is_due {
        *from_ms = Some(now_ms.saturating_add(pause_ms));
    }
    is_due
}

fn log(zxid: Zxid, record: Option<&TxnRecord>, mismatch: DigestMismatch) {
    let path = record.and_then(|record| record.txn.first_path());
    let path = path.map_or("", |path| &**path);
    let mut ends = (0..=path.len().min(PATH_BYTES_MAX)).rev();
    let end = ends.find(|end| path.is_char_boundary(*end));
    let path = path.get(..end.unwrap_or_default()).unwrap_or_default();
    let DigestMismatch { recorded, computed } = mismatch;
    tracing::error!(%zxid, ?path, recorded, computed, "members hold different data: after this transaction, the digest of this server's tree differs from the digest of the other members; see docs/ENSEMBLES.md, \"Members that hold different data\"");
}

impl<H: Host> Replica<H> {
    /// Reports the last mismatch, if any. Called after all committed transactions have been
    /// applied.
    pub(crate) fn report_mismatch(&mut self, turn: &mut Turn<'_, H>) {
        let Some((zxid, digest)) = self.digests.to_report.take() else {
            return;
        };
        let (now_ms, pause_ms) = (turn.now.ms, self.settings.tick_ms);
        match &mut self.role {
            Role::Leading(_) if self.member.is_none() => {
                // The tree differs from the tree for which this server prepared the transaction.
                if self.settings.on_digest_mismatch != OnDigestMismatch::Log {
                    self.stop_for_data(
                        "the tree differs from the transactions that this server has prepared",
                        turn,
                    );
                }
            }
            Role::Leading(leading) => leading.compares_digests = true,
            Role::Learning(_) => {
                if is_due(&mut self.digests.reports_from_ms, now_ms, pause_ms) {
                    self.with_learner(turn, |learner, _, out| {
                        learner.report_difference(zxid, digest, out);
                    });
                }
            }
            Role::Looking | Role::Draining(_) => {}
        }
    }

    /// Requests digests from the learners if a comparison is due.
    pub(crate) fn compare_digests_if_due(&mut self, turn: &mut Turn<'_, H>) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        if !std::mem::take(&mut leading.compares_digests) {
            return;
        }
        let last = leading.leader.last_committed();
        let own = digest_at(last, turn);
        if let Some(own) = own {
            self.with_leader(turn, |leader, now_ms, out| {
                leader.compare_digests(own, now_ms, out);
            });
        }
    }

    /// Answers the leader's query for the digest of the tree.
    pub(crate) fn report_digest(&mut self, zxid: Zxid, turn: &mut Turn<'_, H>) {
        let digest = digest_at(zxid, turn);
        if let (Role::Learning(learning), Some(digest)) = (&mut self.role, digest) {
            learning.digest_reported = Some((zxid, digest));
            turn.effect(Effect::SendToLeader(LearnerPacket::Digest { zxid, digest }));
            self.query_observers_digests(zxid, turn);
        }
    }

    /// Handles the leader's decision about the reported digest. `agreed` is the digest of a quorum
    /// that includes the leader; `None` if there is no such quorum.
    pub(crate) fn handle_digest_judged(
        &mut self,
        zxid: Zxid,
        agreed: Option<u64>,
        turn: &mut Turn<'_, H>,
    ) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let leader = learning.leader;
        let reported = learning.digest_reported.take();
        let Some((_, own)) = reported.filter(|(at, _)| *at == zxid) else {
            return;
        };
        if agreed == Some(own) {
            return self.judge_observers_digests(zxid, own, turn);
        }
        match (self.settings.on_digest_mismatch, agreed) {
            (OnDigestMismatch::Log, _) => {
                if self.digests.may_log(turn.now.ms) {
                    tracing::error!(%zxid, own, ?agreed, "this server's data differs from its leader's data; `agreed` is the digest on which a quorum and the leader agree");
                }
            }
            (OnDigestMismatch::Repair, Some(agreed)) => {
                tracing::error!(%zxid, own, agreed, "this server's data differs from the data of the leader and a quorum: saving this server's tree and loading the leader's snapshot");
                self.leave_for_repair(NextRole::Follow(leader), turn);
            }
            (OnDigestMismatch::Repair, None) => self.stop_for_data(
                "this server and its leader hold different data, and a quorum agrees with neither of them",
                turn,
            ),
            (OnDigestMismatch::Stop, _) => {
                self.stop_for_data("this server's data differs from its leader's data", turn);
            }
        }
    }

    /// Handles a digest that differs from this leader's digest and on which a quorum without the
    /// leader agrees. The leader's tree is therefore wrong.
    pub(crate) fn handle_own_digest_differs(
        &mut self,
        zxid: Zxid,
        record: Option<&Record>,
        own: u64,
        theirs: u64,
        turn: &mut Turn<'_, H>,
    ) {
        turn.note(Note::DigestMismatch { zxid });
        if self.digests.may_log(turn.now.ms) {
            let record = record.and_then(|record| decode(record).ok());
            let mismatch = DigestMismatch {
                recorded: theirs,
                computed: own,
            };
            log(zxid, record.as_ref(), mismatch);
        }
        match self.settings.on_digest_mismatch {
            OnDigestMismatch::Log => {}
            OnDigestMismatch::Stop => {
                self.stop_for_data("this leader's data differs from the data of a quorum", turn);
            }
            OnDigestMismatch::Repair => {
                tracing::error!(%zxid, own, theirs, "this leader's data differs from the data of a quorum: stepping down, saving this server's tree and loading the next leader's snapshot");
                self.find_wrong_tree();
                self.with_leader(turn, |leader, _, out| leader.handle_data_differs(out));
            }
        }
    }

    fn leave_for_repair(&mut self, next: NextRole, turn: &mut Turn<'_, H>) {
        self.find_wrong_tree();
        self.leave_role(next, turn);
    }

    /// Marks the tree as wrong. This server then does not vote until a leader's snapshot has
    /// replaced the tree.
    fn find_wrong_tree(&mut self) {
        if let Some(member) = &mut self.member {
            member.wrong_tree = WrongTree::Found;
            member.is_trusted = false;
        }
    }

    /// Requests once that the host store a wrong tree separately. Returns whether the end of the
    /// role must wait for the host.
    pub(crate) fn keeps_wrong_tree(&mut self, turn: &mut Turn<'_, H>) -> bool {
        let is_ending = self.is_ending;
        let Some(member) = self.member.as_mut().filter(|_| !is_ending) else {
            return false;
        };
        if member.wrong_tree == WrongTree::Found {
            member.wrong_tree = WrongTree::BeingKept;
            turn.disk(DiskOrder::KeepTree);
        }
        member.wrong_tree == WrongTree::BeingKept
    }

    /// Handles the end of the host's attempt to store the wrong tree separately.
    pub(crate) fn handle_tree_kept(&mut self, is_kept: bool, turn: &mut Turn<'_, H>) {
        if let Some(member) = &mut self.member {
            member.wrong_tree = WrongTree::Kept;
        }
        if is_kept {
            self.drain(turn);
        } else {
            self.stop_for_data("cannot save the diverging tree", turn);
        }
    }

    /// Logs the reason and stops the server.
    fn stop_for_data(&mut self, reason: &'static str, turn: &mut Turn<'_, H>) {
        tracing::error!(reason, "stopping because of zoarium.onDigestMismatch");
        self.stop_serving(turn);
        self.is_failed = true;
        turn.effect(Effect::Stop);
    }
}

/// Returns the digest of the tree if a digest exists and `zxid` is the tree's last transaction.
fn digest_at<H: Host>(zxid: Zxid, turn: &Turn<'_, H>) -> Option<u64> {
    let tree = turn.state.tree();
    let has_digest = tree.last_zxid() == zxid && tree.settings().digest_enabled;
    has_digest.then(|| tree.digest())
}
