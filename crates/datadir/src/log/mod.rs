//! Transaction logs: printing, checking and repairing their files.

pub mod repair;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use jute::Limits;
use proto::Zxid;
use storage::log::PREFIX_BYTES;
use storage::log::chain::{decode_payload, zxid_of};
use storage::log::judge::{Verdict, judge, judge_mismatch};
use storage::log::scan::{LogScanner, Scanned, StopReason};
use storage::{Damage, Disk, DiskFile, FileName, StorageError, list_logs};

use self::text::record_text;
use crate::{Error, files_dir};

/// Returns the file itself, or the logs of a directory in the order of their zxids.
///
/// # Errors
/// If the directory cannot be listed or does not contain logs.
pub fn files_of<D: Disk>(disk: &D, path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let dir = files_dir(path);
    let logs = list_logs(disk, &dir)?;
    if logs.is_empty() {
        let dir = dir.display();
        return Err(Error::Usage(format!("{dir} does not contain logs")));
    }
    Ok(logs.into_iter().map(|log| log.path).collect())
}

/// Returns whether transactions are missing between two zxids. A new epoch may begin with any zxid.
pub fn is_gap(last: Zxid, next: Zxid) -> bool {
    next.epoch() == last.epoch() && next > last.next()
}

/// Result of [`verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReport {
    /// Number of intact records.
    pub records: u64,
    /// Zxid of the first intact record.
    pub first: Option<Zxid>,
    /// Zxid of the last intact record.
    pub last: Option<Zxid>,
    /// Offset after the last record with correct framing.
    pub end: u64,
    /// Length of the file, including preallocated space.
    pub file_bytes: u64,
    /// Corruption found, with offsets, in the order of the file.
    pub faults: Vec<(u64, Damage)>,
    /// Pairs of consecutive zxids (before, after) within an epoch between which transactions are
    /// missing.
    pub gaps: Vec<(Zxid, Zxid)>,
    /// Offset of a torn record at the end of the file, as after a crash. It does not count as a
    /// fault.
    pub torn_at: Option<u64>,
}

impl LogReport {
    /// Returns whether a server would start with this file as its last log.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty() && self.gaps.is_empty()
    }
}

/// Reads the whole file and reports its faults. Continues after a record with a wrong checksum as
/// long as the framing is correct.
///
/// # Errors
/// If the file cannot be read or is not a log.
pub fn verify<D: Disk>(disk: &D, path: &Path, limits: Limits) -> Result<LogReport, StorageError> {
    let mut scanner = LogScanner::open(disk, path, limits)?;
    let mut report = LogReport {
        records: 0,
        first: None,
        last: None,
        end: scanner.position(),
        file_bytes: scanner.file_bytes(),
        faults: Vec::new(),
        gaps: Vec::new(),
        torn_at: None,
    };
    loop {
        let last_good = report.last.unwrap_or_else(|| zxid_before(path));
        let verdict = match scanner.next_record()? {
            Scanned::Record(record) => {
                report.end = record.end();
                if record.is_intact() {
                    match decode_payload(record.payload) {
                        Ok(txn) => report.count(txn.header.zxid),
                        Err(error) => report.faults.push((
                            record.offset,
                            Damage::Undecodable {
                                reason: error.to_string(),
                            },
                        )),
                    }
                    continue;
                }
                let verdict = judge_mismatch(&scanner, &record, last_good)?;
                if let Verdict::Damaged(damage) = verdict {
                    report.faults.push((record.offset, damage));
                    continue;
                }
                verdict
            }
            Scanned::Stop(stop) => judge(&scanner, stop, last_good)?,
        };
        match verdict {
            Verdict::End => {}
            Verdict::Torn(tail) => report.torn_at = Some(tail.offset),
            Verdict::Damaged(damage) => report.faults.push((scanner.position(), damage)),
        }
        return Ok(report);
    }
}

impl LogReport {
    fn count(&mut self, zxid: Zxid) {
        if let Some(last) = self.last.filter(|last| is_gap(*last, zxid)) {
            self.gaps.push((last, zxid));
        }
        self.records += 1;
        self.first.get_or_insert(zxid);
        self.last = Some(zxid);
    }
}

/// Returns the zxid before the first record, according to the file's name.
fn zxid_before(path: &Path) -> Zxid {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let first = FileName::parse(name).zxid.unwrap_or(Zxid(0));
    Zxid(first.0.saturating_sub(1))
}

/// Reason why [`print()`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printed {
    /// The end of the file or preallocated space.
    End,
    /// An incomplete record. Java's exit code is 1.
    Partial,
    /// An impossible length. Java's exit code is 1.
    Unreasonable,
}

/// Prints the file as Java's TxnLogToolkit does.
///
/// A record with a wrong checksum is printed twice, the first time with a mark. A record that
/// cannot be decoded is printed as a line with the error, whereas Java ends with an exception.
///
/// # Errors
/// If the file cannot be read or is not a log, or `out` cannot be written to.
pub fn print<D: Disk>(
    disk: &D,
    path: &Path,
    limits: Limits,
    out: &mut dyn Write,
) -> Result<Printed, StorageError> {
    let mut scanner = LogScanner::open(disk, path, limits)?;
    print_records(&mut scanner, out).map_err(|error| match error {
        PrintError::Storage(error) => error,
        PrintError::Output(source) => StorageError::Io {
            action: "print",
            path: path.to_path_buf(),
            source,
        },
    })
}

enum PrintError {
    Storage(StorageError),
    Output(io::Error),
}

impl From<StorageError> for PrintError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<io::Error> for PrintError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn print_records<F: DiskFile>(
    scanner: &mut LogScanner<F>,
    out: &mut dyn Write,
) -> Result<Printed, PrintError> {
    writeln!(
        out,
        "ZooKeeper Transactional Log File with dbid {} txnlog format version {}",
        scanner.dbid(),
        scanner.version()
    )?;
    let mut txns = 0;
    loop {
        match scanner.next_record()? {
            Scanned::Record(record) => {
                let line = line_of(&record.payload, record.offset);
                if !record.is_intact() {
                    writeln!(out, "CRC ERROR - {line}")?;
                }
                writeln!(out, "{line}")?;
                txns += 1;
            }
            Scanned::Stop(StopReason::End | StopReason::Padding | StopReason::Cut { .. }) => {
                writeln!(out, "EOF reached after {txns} txns.")?;
                return Ok(Printed::End);
            }
            Scanned::Stop(StopReason::EndByte { len, is_intact, .. }) => {
                // Java prints the record before it checks the end byte.
                let at = scanner.position() + PREFIX_BYTES as u64;
                let payload = scanner.read(at, usize::try_from(len).unwrap_or(0))?;
                let line = line_of(&payload, scanner.position());
                if !is_intact {
                    writeln!(out, "CRC ERROR - {line}")?;
                }
                writeln!(out, "{line}")?;
                writeln!(out, "Last transaction was partial.")?;
                return Ok(Printed::Partial);
            }
            Scanned::Stop(StopReason::Length { len }) => {
                writeln!(out, "Unreasonable length = {len}")?;
                return Ok(Printed::Unreasonable);
            }
        }
    }
}

fn line_of(payload: &Bytes, offset: u64) -> String {
    record_text(payload).unwrap_or_else(|error| {
        let zxid = zxid_of(payload).unwrap_or_default();
        format!("offset {offset} zxid {zxid}: {error}")
    })
}
