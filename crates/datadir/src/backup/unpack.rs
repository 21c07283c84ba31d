//! Extractor of a backup's files. Each file is hashed as it is read, and is used only after its
//! hash has been checked.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use blocking::files;
use flate2::read::GzDecoder;
use proto::Zxid;
use sha2::{Digest, Sha256};
use storage::DataDirs;

use super::manifest::{BackupFile, Manifest, sha256_hex};
use crate::{Error, file_error};

/// Writes the files up to a transaction into an unused data directory.
///
/// # Errors
/// If a file is missing or corrupt (the error contains its name and a solution), or if a file
/// cannot be written.
pub(crate) fn unpack(
    dir: &Path,
    manifest: &Manifest,
    upto: Zxid,
    target: &DataDirs,
) -> Result<(), Error> {
    let mut good_upto = None;
    for kept in manifest.files().filter(|kept| kept.first <= upto) {
        let is_log = kept.name.starts_with("log.");
        let to = if is_log {
            target.log.join(&kept.name)
        } else {
            target.snap.join(&kept.name)
        };
        let path = dir.join(&kept.file);
        if let Some(reason) = copy(&path, kept, is_log, &to)? {
            return Err(damaged(&path, &reason, good_upto));
        }
        if kept.last >= manifest.snapshot.last {
            good_upto = Some(kept.last);
        }
    }
    Ok(())
}

/// Copies a file, and decompresses a log. Returns the reason if the file cannot be read or does not
/// match the manifest.
fn copy(path: &Path, kept: &BackupFile, is_log: bool, to: &Path) -> Result<Option<String>, Error> {
    let source = match File::open(path) {
        Ok(source) => source,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let mut source = Hashing {
        file: source,
        hash: Sha256::new(),
        bytes: 0,
        bytes_max: kept.bytes,
    };
    let mut out = files::create(to).map_err(file_error("create", to))?;
    // A snapshot stays compressed, because a server can read this format.
    let read = if is_log {
        copy_bytes(&mut GzDecoder::new(&mut source), &mut out)
    } else {
        copy_bytes(&mut source, &mut out)
    };
    let outcome = match read {
        Err(TransferError::Write(error)) => return Err(file_error("write", to)(error)),
        Err(TransferError::Read(error)) => Some(error.to_string()),
        Ok(()) => match io::copy(&mut source, &mut io::sink()) {
            Err(error) => Some(error.to_string()),
            Ok(_) if source.bytes != kept.bytes => Some(format!(
                "it has {} bytes instead of {}",
                source.bytes, kept.bytes
            )),
            Ok(_) => {
                let is_equal = sha256_hex(source.hash) == kept.sha256;
                (!is_equal).then(|| "its SHA-256 is wrong".to_owned())
            }
        },
    };
    out.sync_all().map_err(file_error("write", to))?;
    Ok(outcome)
}

fn damaged(path: &Path, reason: &str, good_upto: Option<Zxid>) -> Error {
    let path = path.display();
    let way_out = match good_upto {
        Some(zxid) => format!("restore earlier transactions with --at {zxid}"),
        None => "this backup cannot be restored: use another backup".to_owned(),
    };
    Error::Refused(format!("{path} is damaged or missing: {reason}; {way_out}"))
}

enum TransferError {
    Read(io::Error),
    Write(io::Error),
}

fn copy_bytes(from: &mut impl Read, to: &mut impl Write) -> Result<(), TransferError> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = from.read(&mut piece).map_err(TransferError::Read)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read]).map_err(TransferError::Write)?;
    }
}

/// Reader that hashes a file, and fails if the file is longer than expected.
struct Hashing {
    file: File,
    hash: Sha256,
    bytes: u64,
    bytes_max: u64,
}

impl Read for Hashing {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buf)?;
        self.hash.update(&buf[..read]);
        self.bytes += read as u64;
        if self.bytes > self.bytes_max {
            let reason = format!("it is longer than {} bytes", self.bytes_max);
            return Err(io::Error::other(reason));
        }
        Ok(read)
    }
}

const PIECE_BYTES: usize = 64 << 10;
