//! All transactions, with and without a digest.

use jute::{Encode, Reader};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zoarium_proto::txn::{
    CheckVersionTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, SetAclTxn, SetDataTxn, Txn,
    TxnDigest, TxnHeader, TxnRecord,
};

use crate::check;
use crate::parts::*;

fn create() -> impl Strategy<Value = CreateTxn> {
    (
        text(),
        nullable_bytes(),
        acls(),
        any::<bool>(),
        any::<i32>(),
    )
        .prop_map(|(path, data, acl, ephemeral, parent_cversion)| CreateTxn {
            path,
            data,
            acl,
            ephemeral,
            parent_cversion,
        })
}

fn set_data() -> impl Strategy<Value = SetDataTxn> {
    (text(), nullable_bytes(), any::<i32>()).prop_map(|(path, data, version)| SetDataTxn {
        path,
        data,
        version,
    })
}

/// Generates transactions that are valid inside a multi.
fn in_multi() -> impl Strategy<Value = Txn> {
    prop_oneof![
        any::<i32>().prop_map(|code| Txn::Error { code }),
        create().prop_map(Txn::Create),
        create().prop_map(Txn::Create2),
        create().prop_map(|txn| Txn::CreateContainer(CreateContainerTxn {
            path: txn.path,
            data: txn.data,
            acl: txn.acl,
            parent_cversion: txn.parent_cversion,
        })),
        (create(), any::<i64>()).prop_map(|(txn, ttl)| Txn::CreateTtl(CreateTtlTxn {
            path: txn.path,
            data: txn.data,
            acl: txn.acl,
            parent_cversion: txn.parent_cversion,
            ttl,
        })),
        text().prop_map(|path| Txn::Delete { path }),
        set_data().prop_map(Txn::SetData),
        (text(), any::<i32>())
            .prop_map(|(path, version)| Txn::Check(CheckVersionTxn { path, version })),
    ]
}

fn txn() -> impl Strategy<Value = Txn> {
    prop_oneof![
        4 => in_multi(),
        1 => any::<i32>().prop_map(|timeout_ms| Txn::CreateSession { timeout_ms }),
        1 => vec("/[a-z]{1,8}", 0..5).prop_map(|paths| {
            let paths = paths.into_iter().map(Into::into).collect();
            Txn::CloseSession { paths: Some(paths) }
        }),
        1 => Just(Txn::CloseSession { paths: None }),
        1 => text().prop_map(|path| Txn::DeleteContainer { path }),
        1 => set_data().prop_map(Txn::Reconfig),
        1 => (text(), acls(), any::<i32>())
            .prop_map(|(path, acl, version)| Txn::SetAcl(SetAclTxn { path, acl, version })),
        2 => vec(in_multi(), 0..5).prop_map(Txn::Multi),
    ]
}

fn record() -> impl Strategy<Value = TxnRecord> {
    let header = (session(), any::<i32>(), zxid(), any::<i64>());
    (header, txn(), option::of(any::<u64>())).prop_map(
        |((session, cxid, zxid, time_ms), txn, digest)| TxnRecord {
            header: TxnHeader {
                session,
                cxid,
                zxid,
                time_ms,
                op: txn.op().number(),
            },
            txn,
            digest: digest.map(TxnDigest::new),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_transaction_reads_back(record in record()) {
        check(&record)?;
        check(&record.header)?;
    }

    /// A record of 3.3.2 and earlier ends before the parent's cversion.
    #[test]
    fn the_oldest_creates_read_back(mut record in record(), create in create()) {
        let create = CreateTxn { parent_cversion: -1, ..create };
        record.header.op = zoarium_proto::OpCode::Create.number();
        record.txn = Txn::CreateV0(create);
        record.digest = None;
        check(&record)?;
    }

    #[test]
    fn a_digest_cut_off_leaves_the_transaction(mut record in record(), digest: u64) {
        record.digest = Some(TxnDigest::new(digest));
        let bytes = record.to_bytes();
        let cut = bytes.len() - TxnDigest::BYTES;
        let read = jute::Decode::decode(&mut Reader::new(bytes.slice(..cut)));
        prop_assert_eq!(read, Ok(TxnRecord { digest: None, ..record }));
    }
}
