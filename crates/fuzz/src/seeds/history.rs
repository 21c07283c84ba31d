//! Transactions that result from executing the requests.

use proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, OpCode, SessionId, Zxid};
use tree::{Overlay, PrepareContext, SessionKind, Tree, Watches};

use super::requests;
use crate::restore::settings;

/// Session of all requests.
pub(crate) const SESSION: SessionId = SessionId(0x0100_0015_ccec_0000);

/// Time one millisecond before the first request, in ms since 1970. Each request arrives a
/// millisecond after the previous one.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// Returns the transactions of [`requests::writes`] with zxids 1, 2, 3..., and the tree after them.
pub(crate) fn history() -> (Vec<TxnRecord>, Tree) {
    let mut tree = Tree::new(settings());
    let mut overlay = Overlay::new(&tree);
    let mut records = Vec::new();
    for (number, request) in (1..).zip(requests::writes()) {
        let context = PrepareContext {
            session: SESSION,
            cxid: number,
            zxid: Zxid(number.into()),
            time_ms: START_MS + i64::from(number),
            identities: &[],
            session_check: Ok(SessionKind::Global),
        };
        let record = overlay.prepare(&tree, &request, &context);
        tree.apply(&record, &mut Watches::new(), &mut Vec::new());
        overlay.applied(record.header.zxid);
        records.push(record);
    }
    (records, tree)
}

/// Returns records that only other releases write.
pub(crate) fn of_old_releases() -> Vec<TxnRecord> {
    let record = |op: OpCode, txn| TxnRecord {
        header: TxnHeader {
            session: SESSION,
            cxid: 1,
            zxid: Zxid(100),
            time_ms: START_MS,
            op: op.number(),
        },
        txn,
        digest: None,
    };
    let create = CreateTxn {
        path: "/old".into(),
        data: None,
        acl: vec![Acl::open()],
        ephemeral: true,
        parent_cversion: -1,
    };
    vec![
        record(OpCode::Create, Txn::CreateV0(create)),
        record(OpCode::CloseSession, Txn::CloseSession { paths: None }),
        record(OpCode::Error, Txn::Error { code: -101 }),
    ]
}
