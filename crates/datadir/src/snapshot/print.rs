//! Snapshots as text, in the format of Java's SnapshotFormatter.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::snapshot::read::SnapshotInfo;
use storage::{
    ContentError, Disk, SnapshotDigest, SnapshotFile, State, StorageError, io_error, read_snapshot,
    verify_snapshot,
};

use crate::date;

/// Prints the file as Java's SnapshotFormatter does, with the data in base64 if `with_data` is set.
/// Reads the file twice, because the number of znodes is printed first.
///
/// # Errors
/// If the file is corrupted, or `out` cannot be written to.
pub fn print<D: Disk>(
    disk: &D,
    path: &Path,
    limits: Limits,
    with_data: bool,
    out: &mut dyn Write,
) -> Result<SnapshotInfo, StorageError> {
    let file = SnapshotFile::find(disk, path)?;
    let info = verify_snapshot(disk, &file, limits)?;
    let failed = |error: io::Error| io_error("print", path)(error);
    // Java counts the root twice, because it has two names.
    writeln!(out, "ZNode Details (count={}):", info.znodes + 1).map_err(failed)?;
    let mut printer = Printer {
        out,
        with_data,
        sessions: BTreeMap::new(),
        last_zxid: Zxid(0),
        failure: None,
    };
    let read = read_snapshot(disk, &file, limits, &mut printer);
    if let Some(error) = printer.failure.take() {
        return Err(failed(error));
    }
    let info = read?;
    let last = printer.last_zxid.max(file.zxid);
    printer.finish(&info, last).map_err(failed)?;
    Ok(info)
}

struct Printer<'o> {
    out: &'o mut dyn Write,
    with_data: bool,
    /// Timeout (ms) and number of ephemerals of each session.
    sessions: BTreeMap<SessionId, (i32, u64)>,
    last_zxid: Zxid,
    failure: Option<io::Error>,
}

impl Printer<'_> {
    fn node(&mut self, path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> io::Result<()> {
        let path = if path.is_empty() { "/" } else { path };
        let out = &mut self.out;
        writeln!(out, "----\n{path}")?;
        writeln!(out, "  cZxid = {:#016x}", stat.czxid)?;
        writeln!(out, "  ctime = {}", date::long(stat.ctime))?;
        writeln!(out, "  mZxid = {:#016x}", stat.mzxid)?;
        writeln!(out, "  mtime = {}", date::long(stat.mtime))?;
        writeln!(out, "  pZxid = {:#016x}", stat.pzxid)?;
        writeln!(out, "  cversion = {}", stat.cversion)?;
        writeln!(out, "  dataVersion = {}", stat.version)?;
        writeln!(out, "  aclVersion = {}", stat.aversion)?;
        writeln!(out, "  ephemeralOwner = {:#016x}", stat.ephemeral_owner)?;
        let data = data.unwrap_or_default();
        if self.with_data {
            writeln!(out, "  data = {}", BASE64.encode(data))
        } else {
            writeln!(out, "  dataLength = {}", data.len())
        }
    }

    fn finish(&mut self, info: &SnapshotInfo, last: Zxid) -> io::Result<()> {
        let out = &mut self.out;
        writeln!(out, "----\nSession Details (sid, timeout, ephemeralCount):")?;
        for (id, (timeout_ms, ephemerals)) in &self.sessions {
            writeln!(out, "{id}, {timeout_ms}, {ephemerals}")?;
        }
        if let Some(digest) = info.digest.filter(|digest| digest.zxid > Zxid(0)) {
            let (zxid, value) = (digest.zxid.0, digest.digest);
            writeln!(out, "Target zxid digest is: {zxid:x}, {value:x}")?;
        }
        writeln!(out, "----\nLast zxid: {last}")
    }
}

impl State for Printer<'_> {
    fn begin(&mut self) {}

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.insert(id, (timeout_ms, 0));
    }

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        _: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        self.last_zxid = self.last_zxid.max(Zxid(stat.mzxid)).max(Zxid(stat.pzxid));
        if let Some((_, ephemerals)) = self.sessions.get_mut(&SessionId(stat.ephemeral_owner)) {
            *ephemerals += 1;
        }
        self.node(path, data, &stat).map_err(|error| {
            let reason = error.to_string();
            self.failure = Some(error);
            ContentError::new(reason)
        })
    }

    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}
