//! Shared code of the tests: a naive database, and results in the format of the recorded vectors.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod db;
pub mod outcome;

use std::path::{Path, PathBuf};

use jute::{Encode, put_buffer};
use proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, SessionId, Zxid};
use zoarium_storage::{DataDirs, OpenOptions, RealDisk};

/// Opens a server's directories, both in one.
pub fn open(dir: &Path) -> DataDirs {
    DataDirs::open(&RealDisk, dir, dir, OpenOptions::default()).unwrap()
}

/// Returns a create with `data_bytes` bytes of data.
pub fn create(zxid: i64, data_bytes: usize) -> TxnRecord {
    let byte = u8::try_from(zxid & 0xff).unwrap();
    TxnRecord {
        header: TxnHeader {
            session: SessionId(7),
            cxid: i32::try_from(zxid & 0xffff).unwrap(),
            zxid: Zxid(zxid),
            time_ms: 1_700_000_000_000 + zxid,
            op: 1,
        },
        txn: Txn::Create(CreateTxn {
            path: format!("/n{zxid:x}").into(),
            data: Some(vec![byte; data_bytes].into()),
            acl: vec![Acl::open()],
            ephemeral: false,
            parent_cversion: i32::try_from(zxid & 0xffff).unwrap(),
        }),
        digest: None,
    }
}

pub fn payload(zxid: i64, data_bytes: usize) -> Vec<u8> {
    create(zxid, data_bytes).to_bytes().to_vec()
}

/// Returns the content of an empty database's snapshot between header and first seal.
pub fn fresh_body() -> Vec<u8> {
    let mut out = Vec::new();
    0i32.encode(&mut out);
    1i32.encode(&mut out);
    1i64.encode(&mut out);
    vec![Acl::new(1, "world", "anyone")].encode(&mut out);
    for (path, acl, aversion) in [
        ("", -1i64, 0i32),
        ("/zookeeper", -1, 0),
        ("/zookeeper/config", 1, -1),
        ("/zookeeper/quota", -1, 0),
    ] {
        jute::put_str(Some(path), &mut out);
        put_buffer(Some(b""), &mut out);
        acl.encode(&mut out);
        let stat = proto::StatPersisted {
            aversion,
            ..Default::default()
        };
        stat.encode(&mut out);
    }
    jute::put_str(Some("/"), &mut out);
    out
}

pub fn log_path(dirs: &DataDirs, zxid: i64) -> PathBuf {
    dirs.log.join(format!("log.{zxid:x}"))
}
