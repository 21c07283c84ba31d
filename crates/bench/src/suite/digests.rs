//! Comparison that a member performs for each committed transaction, between the transaction's
//! digest and the digest of the member's own tree. The time of this comparison is measured in this
//! process, without a server.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use proto::txn::{Txn, TxnDigest, TxnHeader, TxnRecord};
use proto::{SessionId, Zxid};
use tree::{Tree, TreeSettings};

/// Name of the row, for `--only`.
pub(super) const NAME: &str = "digest comparison";

/// Number of comparisons in one measurement.
const COMPARISONS: u32 = 10_000_000;

/// Returns the time of one comparison, in ns.
pub(super) fn measure() -> f64 {
    let limits = jute::Limits {
        field_bytes_max: 1 << 20,
    };
    let tree = Tree::new(Arc::new(TreeSettings::new(limits)));
    let record = TxnRecord {
        header: TxnHeader {
            session: SessionId(1),
            cxid: 1,
            zxid: Zxid(1),
            time_ms: 0,
            op: proto::OpCode::Error.number(),
        },
        txn: Txn::Error { code: 0 },
        digest: Some(TxnDigest::new(tree.digest())),
    };
    let begun = Instant::now();
    let mut differs = false;
    for _ in 0..COMPARISONS {
        differs |= black_box(&tree)
            .digest_mismatch(black_box(&record))
            .is_some();
    }
    black_box(differs);
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(COMPARISONS)
}
