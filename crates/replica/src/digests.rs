//! Each committed transaction says which digest the tree has after it. A tree with another digest
//! holds other data than the tree of the leader that made the transaction.
//!
//! Only what is committed is compared. A learner's tree that came as a snapshot may be ahead of its
//! zxid, and is not ahead any more once its leader has sent UPTODATE.
//!
//! Source: DataTree.processTxn, DataTree.compareDigest.

use proto::Zxid;
use proto::txn::TxnRecord;
use tree::{DigestMismatch, Tree};

use crate::host::{Host, Turn};
use crate::note::Note;

/// Shortest time between two log lines about a mismatch, ms.
const LOG_PAUSE_MS: i64 = 60_000;

/// Length of a path in a log line, at most.
const PATH_BYTES_MAX: usize = 256;

/// The comparison of the tree with what transactions say.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    /// Whether the last digests that were compared differed.
    differ: bool,
    /// When the next mismatch may be logged, ms.
    logs_from_ms: Option<i64>,
}

impl Digests {
    /// Compares the digest of the tree with the digest of the committed transaction that was applied
    /// to it last.
    pub(crate) fn compare<H: Host>(
        &mut self,
        tree: &Tree,
        record: &TxnRecord,
        turn: &mut Turn<'_, H>,
    ) {
        match tree.digest_mismatch(record) {
            Some(mismatch) => self.count(mismatch, record, turn),
            None => self.differ = false,
        }
    }

    /// Counts a mismatch, and logs the first one of a run.
    fn count<H: Host>(
        &mut self,
        mismatch: DigestMismatch,
        record: &TxnRecord,
        turn: &mut Turn<'_, H>,
    ) {
        let zxid = record.header.zxid;
        turn.note(Note::DigestMismatch { zxid });
        let now_ms = turn.now.ms;
        let is_first = !std::mem::replace(&mut self.differ, true);
        if is_first && self.logs_from_ms.is_none_or(|from_ms| from_ms <= now_ms) {
            self.logs_from_ms = Some(now_ms.saturating_add(LOG_PAUSE_MS));
            log(zxid, record, mismatch);
        }
    }
}

fn log(zxid: Zxid, record: &TxnRecord, mismatch: DigestMismatch) {
    let path = record.txn.first_path().map_or("", |path| &**path);
    let path = &path[..path.floor_char_boundary(PATH_BYTES_MAX)];
    // As the command `hash` prints them.
    let (recorded, computed) = (mismatch.recorded, mismatch.computed);
    tracing::error!(%zxid, ?path, recorded, computed, "after this transaction the digest of this server's tree is not the digest that the transaction carries: this server and the leader that made the transaction hold different data (docs/OPERATIONS.md, \"Members that hold different data\")");
}
