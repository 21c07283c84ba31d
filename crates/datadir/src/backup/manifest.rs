//! `backup.json`: list of the files in a backup. Other files are not part of the backup, so an
//! interrupted backup leaves the previous one intact.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use blocking::files;
use history::parse_zxid;
use proto::Zxid;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Error, file_error};

/// Name of the manifest file.
pub(super) const MANIFEST: &str = "backup.json";
/// Name under which the file is first written. It is then renamed.
const UNFINISHED: &str = "unfinished.json";
/// Identification of the file's format.
const FORMAT: &str = "zoarium backup 1";

/// List of the files in a backup: a snapshot, and the logs after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Snapshot with which the backup begins.
    pub snapshot: BackupFile,
    /// Logs in order, without a gap.
    pub logs: Vec<BackupFile>,
    /// Hash of the record of the last transaction. The log of the next backup must contain the same
    /// record. `None` if only the snapshot contains this transaction.
    pub last_record: Option<String>,
    /// Digest of the tree after the last transaction.
    pub digest: u64,
    /// Number of znodes in the tree after the last transaction.
    pub znodes: u64,
    /// Time of the backup, in ms of the wall clock.
    pub taken_ms: i64,
}

/// File of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFile {
    /// Name of the file in the backup.
    pub file: String,
    /// Name of the file in a data directory.
    pub name: String,
    /// First transaction of a log, or the transaction in the name of a snapshot.
    pub first: Zxid,
    /// Last transaction of which the file contains any part.
    pub last: Zxid,
    /// Length of the file in the backup, bytes.
    pub bytes: u64,
    /// SHA-256 hash of the file in the backup, in hex.
    pub sha256: String,
}

impl Manifest {
    /// Loads the manifest of a directory. Returns `None` if the directory does not contain a
    /// manifest.
    ///
    /// # Errors
    /// If the manifest cannot be read or is corrupt.
    pub(super) fn load(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error("read", &path)(error)),
        };
        let parsed = serde_json::from_slice(&text).ok().and_then(Self::parse);
        parsed.map(Some).ok_or_else(|| {
            let path = path.display();
            Error::Refused(format!(
                "{path} is damaged or belongs to another program: use another backup, or back up to another directory"
            ))
        })
    }

    /// Replaces the manifest of a directory whose files are already durable.
    ///
    /// # Errors
    /// If the manifest cannot be written. The previous one then remains.
    pub(super) fn publish(&self, dir: &Path) -> Result<(), Error> {
        let unfinished = dir.join(UNFINISHED);
        let mut fields = self.fields();
        fields["sha256"] = json!(hash_of(&fields));
        let write = || {
            let mut file = files::create(&unfinished)?;
            file.write_all(format!("{fields:#}\n").as_bytes())?;
            file.sync_all()?;
            files::replace(&unfinished, &dir.join(MANIFEST))?;
            fs::File::open(dir)?.sync_all()
        };
        write().map_err(file_error("write", &dir.join(MANIFEST)))
    }

    /// Returns the snapshot, and then the logs.
    pub fn files(&self) -> impl Iterator<Item = &BackupFile> {
        std::iter::once(&self.snapshot).chain(&self.logs)
    }

    /// Returns the last transaction of the backup.
    pub fn last(&self) -> Zxid {
        self.files().last().unwrap_or(&self.snapshot).last
    }

    /// Returns the number of the next file.
    pub(super) fn next_number(&self) -> u64 {
        let numbers = self.files().filter_map(|kept| number_of(&kept.file));
        numbers.max().map_or(1, |number| number + 1)
    }

    fn fields(&self) -> Value {
        json!({
            "format": FORMAT,
            "snapshot": self.snapshot.fields(),
            "logs": self.logs.iter().map(BackupFile::fields).collect::<Vec<_>>(),
            "last_zxid": hex(self.last()),
            "last_record": self.last_record,
            "digest": format!("{:#x}", self.digest),
            "znodes": self.znodes,
            "taken_ms": self.taken_ms,
        })
    }

    /// Parses a manifest. Returns `None` if it is invalid. The hash covers the other fields as
    /// compact JSON.
    fn parse(mut value: Value) -> Option<Self> {
        let fields = value.as_object_mut()?;
        let hash = fields.remove("sha256")?;
        let has_format = fields.get("format")?.as_str()? == FORMAT;
        if !has_format || hash.as_str()? != hash_of(&value) {
            return None;
        }
        let digest = value["digest"].as_str()?.strip_prefix("0x")?;
        let logs = value["logs"].as_array()?.iter().map(BackupFile::parse);
        Some(Self {
            snapshot: BackupFile::parse(&value["snapshot"])?,
            logs: logs.collect::<Option<_>>()?,
            last_record: value["last_record"].as_str().map(str::to_owned),
            digest: u64::from_str_radix(digest, 16).ok()?,
            znodes: value["znodes"].as_u64()?,
            taken_ms: value["taken_ms"].as_i64()?,
        })
    }
}

impl BackupFile {
    fn fields(&self) -> Value {
        json!({
            "file": self.file,
            "name": self.name,
            "first": hex(self.first),
            "last": hex(self.last),
            "bytes": self.bytes,
            "sha256": self.sha256,
        })
    }

    fn parse(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let zxid = |key: &str| parse_zxid(value[key].as_str()?).ok();
        let kept = Self {
            file: text("file")?,
            name: text("name")?,
            first: zxid("first")?,
            last: zxid("last")?,
            bytes: value["bytes"].as_u64()?,
            sha256: text("sha256")?,
        };
        // Only file names are allowed. A path could lead to another directory.
        let is_plain = |name: &str| !name.contains(['/', '\\']) && !name.starts_with('.');
        (number_of(&kept.file).is_some() && is_plain(&kept.file) && is_plain(&kept.name))
            .then_some(kept)
    }
}

/// Returns the number at the beginning of a backup file's name, or `None` for any other file.
pub(super) fn number_of(file: &str) -> Option<u64> {
    let (number, name) = file.split_once('-')?;
    let is_ours = name.starts_with("snapshot.") || name.starts_with("log.");
    number.parse().ok().filter(|_| is_ours)
}

/// Returns the SHA-256 hash in hex.
pub(super) fn sha256_hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn hash_of(fields: &Value) -> String {
    sha256_hex(Sha256::new_with_prefix(fields.to_string()))
}

fn hex(zxid: Zxid) -> String {
    format!("{:#x}", zxid.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let kept = |file: &str, first, last| BackupFile {
            file: file.to_owned(),
            name: "x".to_owned(),
            first: Zxid(first),
            last: Zxid(last),
            bytes: 5,
            sha256: "00".to_owned(),
        };
        Manifest {
            snapshot: kept("1-snapshot.3.gz", 3, 5),
            logs: vec![kept("2-log.4.gz", 4, 9)],
            last_record: None,
            digest: u64::MAX,
            znodes: 7,
            taken_ms: 1,
        }
    }

    #[test]
    fn a_manifest_round_trips() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::load(dir.path()).unwrap(), None);
        manifest().publish(dir.path()).unwrap();
        let loaded = Manifest::load(dir.path()).unwrap().unwrap();
        assert_eq!(loaded, manifest());
        assert_eq!((loaded.last(), loaded.next_number()), (Zxid(9), 3));
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        manifest().publish(dir.path()).unwrap();
        let path = dir.path().join(MANIFEST);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).unwrap();
            match Manifest::load(dir.path()) {
                // Blanks between the fields are ignored.
                Ok(found) => assert_eq!(found, Some(manifest()), "byte {at}"),
                Err(error) => assert!(error.to_string().contains("is damaged"), "{error}"),
            }
            fs::write(&path, &good[..at]).unwrap();
            let cut = Manifest::load(dir.path());
            assert!(cut.is_err() || at + 1 == good.len(), "cut at {at}");
        }
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        for file in ["../1-log.1", "1-log.1/../../x", "x-log.1", "1-other", ""] {
            let mut evil = manifest();
            evil.logs[0].file = file.to_owned();
            assert_eq!(Manifest::parse(evil.fields()), None, "{file}");
            let mut fields = evil.fields();
            fields["sha256"] = json!(hash_of(&fields));
            assert_eq!(Manifest::parse(fields), None, "{file}");
        }
    }
}
