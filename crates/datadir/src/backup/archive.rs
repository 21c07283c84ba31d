//! Backup as one file: a tar archive of the files that a backup directory contains, `backup.json`
//! first.
//!
//! The new file is written next to the old one and replaces it by a rename. Work files are in a
//! directory next to the archive. If the process was killed, the next backup removes this
//! directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use blocking::files;
use storage::DiskLock;
use tar::{Archive, Builder, EntryType, Header};

use super::manifest::{MANIFEST, Manifest, number_of};
use crate::staging::{lock, remove_tree};
use crate::{Error, file_error};

/// File name extension by which an archive that does not exist yet is recognised.
const ENDING: &str = "tar";
/// Maximum size of `backup.json` in bytes. Each file accounts for about 200 bytes.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Returns whether a backup at this path is one file: an existing file, or a new file with the
/// extension `.tar`.
pub(crate) fn is_archive(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_file(),
        Err(_) => path.extension().is_some_and(|ending| ending == ENDING),
    }
}

/// Work directory next to an archive. It is removed when this value is dropped.
pub(super) struct WorkDirectory {
    outer: PathBuf,
    /// Backup as a directory.
    pub(super) dir: PathBuf,
    _lock: Box<dyn DiskLock>,
}

impl WorkDirectory {
    /// Creates the work directory next to an archive, and locks the directory.
    ///
    /// # Errors
    /// If another process uses the archive, or if the directory cannot be created.
    pub(super) fn beside(archive: &Path) -> Result<Self, Error> {
        let outer = with_ending(archive, ".unfinished");
        files::create_dir_all(&outer).map_err(file_error("create", &outer))?;
        let lock = lock(&outer)?;
        let dir = outer.join("backup");
        remove_tree(&dir)?;
        files::create_dir(&dir).map_err(file_error("create", &dir))?;
        Ok(Self {
            outer,
            dir,
            _lock: lock,
        })
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // If the removal fails, the next backup removes the directory.
        let _ = remove_tree(&self.outer);
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(ending);
    name.into()
}

/// Packs the backup in `dir` into a new archive, which then replaces the previous one.
///
/// # Errors
/// If a file cannot be read, or if the archive cannot be written. The previous archive remains
/// until the new one has been synced.
pub(super) fn pack(dir: &Path, manifest: &Manifest, archive: &Path) -> Result<(), Error> {
    let unfinished = with_ending(archive, ".new");
    let write = || {
        let mut out = Builder::new(io::BufWriter::new(files::create(&unfinished)?));
        let files = manifest.files().map(|kept| kept.file.as_str());
        for name in [MANIFEST].into_iter().chain(files) {
            let file = File::open(dir.join(name))?;
            let mut header = Header::new_gnu();
            header.set_size(file.metadata()?.len());
            header.set_mode(0o600);
            header.set_mtime(u64::try_from(manifest.taken_ms / 1000).unwrap_or(0));
            out.append_data(&mut header, name, file)?;
        }
        let file = out.into_inner()?.into_inner().map_err(io::Error::from)?;
        file.sync_all()?;
        files::replace(&unfinished, archive)?;
        let parent = archive
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&unfinished);
        file_error("write", archive)(error)
    })
}

/// Extracts an archive into an empty directory. Does not check the hashes; the readers of the
/// extracted files do.
///
/// # Errors
/// If the file is not a Zoarium archive or is corrupt, or the directory cannot be written.
pub(crate) fn unpack(archive: &Path, dir: &Path) -> Result<(), Error> {
    let file = File::open(archive).map_err(file_error("open", archive))?;
    let damaged = |reason: &dyn std::fmt::Display| {
        let archive = archive.display();
        Error::Refused(format!(
            "{archive} is damaged or is not a backup: {reason}; use another backup"
        ))
    };
    let mut entries = Archive::new(io::BufReader::new(file));
    let entries = entries.entries().map_err(|error| damaged(&error))?;
    for entry in entries {
        let mut entry = entry.map_err(|error| damaged(&error))?;
        let name = entry.path().map_err(|error| damaged(&error))?.into_owned();
        // The archive must contain neither paths to other directories nor files that are not part
        // of a backup.
        let name = name
            .to_str()
            .filter(|name| *name == MANIFEST || number_of(name).is_some());
        let name = name.filter(|name| !name.contains('/'));
        let is_file = entry.header().entry_type() == EntryType::Regular;
        let Some(name) = name.filter(|_| is_file).map(str::to_owned) else {
            return Err(damaged(
                &"it contains an entry that is not part of a backup",
            ));
        };
        if name == MANIFEST && entry.size() > MANIFEST_BYTES_MAX {
            return Err(damaged(&"its backup.json is too long"));
        }
        let to = dir.join(&name);
        let created = files::options().write(true).create_new(true).open(&to);
        let mut out = created.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => damaged(&format!("it contains {name} twice")),
            _ => file_error("create", &to)(error),
        })?;
        let (bytes, size) = (copy_bytes(&mut entry, &mut out), entry.size());
        match bytes {
            Ok(bytes) if bytes == size => {}
            Ok(_) => return Err(damaged(&format!("{name} ends early"))),
            Err(TransferError::Read(error)) => return Err(damaged(&error)),
            Err(TransferError::Write(error)) => return Err(file_error("write", &to)(error)),
        }
    }
    if dir.join(MANIFEST).exists() {
        Ok(())
    } else {
        Err(damaged(&format!("it does not contain {MANIFEST}")))
    }
}

enum TransferError {
    Read(io::Error),
    Write(io::Error),
}

fn copy_bytes(from: &mut impl io::Read, to: &mut impl io::Write) -> Result<u64, TransferError> {
    let mut piece = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        let read = from.read(&mut piece).map_err(TransferError::Read)?;
        if read == 0 {
            return Ok(bytes);
        }
        to.write_all(&piece[..read]).map_err(TransferError::Write)?;
        bytes += read as u64;
    }
}
