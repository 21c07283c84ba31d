//! Snapshots as JSON.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use serde_json::{Value, json};
use storage::snapshot::read::SnapshotInfo;
use storage::{
    ContentError, Disk, SnapshotDigest, SnapshotFile, State, read_snapshot, verify_snapshot,
};

use crate::Error;

/// Prints the complete contents of a snapshot as JSON.
///
/// # Errors
/// If the file is corrupted, or `out` cannot be written to.
pub fn print_json<D: Disk>(
    disk: &D,
    path: &Path,
    limits: Limits,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let file = SnapshotFile::find(disk, path)?;
    // A corrupt file is detected before half of it is printed.
    verify_snapshot(disk, &file, limits)?;
    let mut printer = JsonPrinter::new(out);
    let info = read_snapshot(disk, &file, limits, &mut printer);
    if let Some(error) = printer.failure.take() {
        return Err(Error::Print(error));
    }
    printer.finish(&info?).map_err(Error::Print)
}

/// Prints a snapshot as one JSON object while reading it, because it may be larger than memory.
///
/// Numbers that need 64 bits are hex strings, because many JSON parsers support only 53 bits.
struct JsonPrinter<'o> {
    out: &'o mut dyn Write,
    section: Section,
    /// ACLs, keyed by the number that znodes contain.
    acls: HashMap<i64, Value>,
    name_zxid: Zxid,
    failure: Option<io::Error>,
}

/// Progress of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Sessions { is_empty: bool },
    Znodes { is_empty: bool },
}

impl<'o> JsonPrinter<'o> {
    fn new(out: &'o mut dyn Write) -> Self {
        Self {
            out,
            section: Section::Sessions { is_empty: true },
            acls: HashMap::new(),
            name_zxid: Zxid::ZERO,
            failure: None,
        }
    }

    fn write_session(&mut self, id: SessionId, timeout_ms: i32) -> io::Result<()> {
        let lead = match self.section {
            Section::Sessions { is_empty: true } => "{\"sessions\": [\n",
            _ => ",\n",
        };
        self.section = Section::Sessions { is_empty: false };
        let session = json!({ "id": hex(id.0), "timeout_ms": timeout_ms });
        write!(self.out, "{lead}{session}")
    }

    /// Ends the list of sessions and begins the list of znodes. Does nothing if the list of znodes
    /// has already begun.
    fn enter_znodes(&mut self) -> io::Result<()> {
        let lead = match self.section {
            Section::Znodes { .. } => return Ok(()),
            Section::Sessions { is_empty: true } => "{\"sessions\": [],\n\"znodes\": [\n",
            Section::Sessions { is_empty: false } => "\n],\n\"znodes\": [\n",
        };
        self.section = Section::Znodes { is_empty: true };
        self.out.write_all(lead.as_bytes())
    }

    fn write_znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> io::Result<()> {
        self.enter_znodes()?;
        if self.section == (Section::Znodes { is_empty: false }) {
            self.out.write_all(b",\n")?;
        }
        self.section = Section::Znodes { is_empty: false };
        let znode = json!({
            "path": if path.is_empty() { "/" } else { path },
            "data": data.map(|data| BASE64.encode(data)),
            "acl": self.acl_json(acl),
            "czxid": hex(stat.czxid),
            "mzxid": hex(stat.mzxid),
            "pzxid": hex(stat.pzxid),
            "ctime": stat.ctime,
            "mtime": stat.mtime,
            "version": stat.version,
            "children_created": stat.cversion,
            "aversion": stat.aversion,
            "ephemeral_owner": hex(stat.ephemeral_owner),
        });
        write!(self.out, "{znode}")
    }

    /// Returns the ACL with this id, or null. A fuzzy snapshot may lack an entry that the log adds
    /// later.
    fn acl_json(&self, id: i64) -> Value {
        match id {
            OPEN_ACL => acl_list(&[Acl::open()]),
            id => self.acls.get(&id).cloned().unwrap_or(Value::Null),
        }
    }

    fn finish(mut self, info: &SnapshotInfo) -> io::Result<()> {
        self.enter_znodes()?;
        let digest = info.digest.map(|digest| {
            json!({
                "zxid": hex(digest.zxid.0),
                "version": digest.version,
                "digest": hex(digest.digest),
            })
        });
        let (digest, name_zxid) = (json!(digest), json!(hex(self.name_zxid.0)));
        let last_zxid = json!(info.last_zxid.map(|zxid| hex(zxid.0)));
        writeln!(
            self.out,
            "\n],\n\"zxid\": {name_zxid}, \"last_zxid\": {last_zxid}, \"digest\": {digest}}}"
        )
    }
}

/// Id of the ACL that grants world:anyone all permissions. This ACL is not in the table. Source:
/// ReferenceCountedACLCache.OPEN_UNSAFE_ACL_ID.
const OPEN_ACL: i64 = -1;

impl State for JsonPrinter<'_> {
    fn begin(&mut self) {}

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        if self.failure.is_none() {
            self.failure = self.write_session(id, timeout_ms).err();
        }
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.insert(id, acl_list(&acl));
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        let written = match self.failure.take() {
            Some(error) => Err(error),
            None => self.write_znode(path, data, acl, &stat),
        };
        written.map_err(|error| {
            // This error ends the read. `failure` contains the original error for the caller.
            let reason = error.to_string();
            self.failure = Some(error);
            ContentError::new(reason)
        })
    }

    fn snapshot_loaded(
        &mut self,
        zxid: Zxid,
        _: Option<SnapshotDigest>,
    ) -> Result<(), ContentError> {
        self.name_zxid = zxid;
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}

fn acl_list(acl: &[Acl]) -> Value {
    let entry =
        |acl: &Acl| json!({ "perms": acl.perms, "scheme": &*acl.id.scheme, "id": &*acl.id.id });
    acl.iter().map(entry).collect()
}

fn hex(number: i64) -> String {
    format!("{number:#x}")
}
