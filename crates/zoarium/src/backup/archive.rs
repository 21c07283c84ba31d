//! A backup as one file: a tar archive of what is in its directory otherwise, `backup.json` first.
//!
//! The file is made anew beside the old one and takes its place by a rename. What is worked on lies in a directory
//! beside it, which the next one removes if this one is killed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use blocking::files;
use storage::DiskLock;
use tar::{Archive, Builder, EntryType, Header};

use super::manifest::{MANIFEST, Manifest, number_of};
use super::{file_error, remove_tree};
use crate::staging::lock;
use crate::tool::ToolError;

/// How the name of one ends, where there is none yet.
const ENDING: &str = "tar";
/// Bytes of `backup.json`: some 200 for each file.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Whether a backup of this name is one file.
pub(crate) fn is_archive(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_file(),
        Err(_) => path.extension().is_some_and(|ending| ending == ENDING),
    }
}

/// The directory beside an archive in which it is worked on; it goes when this is dropped.
pub(super) struct Workplace {
    outer: PathBuf,
    /// Where the backup is as a directory.
    pub(super) dir: PathBuf,
    _lock: Box<dyn DiskLock>,
}

impl Workplace {
    /// # Errors
    /// If somebody else is at the archive, or nothing can be written there.
    pub(super) fn beside(archive: &Path) -> Result<Self, ToolError> {
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

impl Drop for Workplace {
    fn drop(&mut self) {
        // The next one removes it.
        let _ = remove_tree(&self.outer);
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(ending);
    name.into()
}

/// Makes the backup of a directory this archive.
///
/// # Errors
/// If it cannot be written; then the one before stays.
pub(super) fn pack(dir: &Path, manifest: &Manifest, archive: &Path) -> Result<(), ToolError> {
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

/// Puts what is in an archive into a directory that is empty.
///
/// # Errors
/// If it is none of ours, damaged, or the directory cannot be written. Hashes are compared by whoever reads the files.
pub(crate) fn unpack(archive: &Path, dir: &Path) -> Result<(), ToolError> {
    let file = File::open(archive).map_err(file_error("open", archive))?;
    let damaged = |reason: &dyn std::fmt::Display| {
        let archive = archive.display();
        ToolError::Refused(format!(
            "{archive} is damaged, or no backup: {reason}; use another backup"
        ))
    };
    let mut entries = Archive::new(io::BufReader::new(file));
    let entries = entries.entries().map_err(|error| damaged(&error))?;
    for entry in entries {
        let mut entry = entry.map_err(|error| damaged(&error))?;
        let name = entry.path().map_err(|error| damaged(&error))?.into_owned();
        // Nothing that points anywhere else, and nothing that a backup does not consist of.
        let name = name
            .to_str()
            .filter(|name| *name == MANIFEST || number_of(name).is_some());
        let name = name.filter(|name| !name.contains('/'));
        let is_file = entry.header().entry_type() == EntryType::Regular;
        let Some(name) = name.filter(|_| is_file).map(str::to_owned) else {
            return Err(damaged(&"it holds what no backup does"));
        };
        if name == MANIFEST && entry.size() > MANIFEST_BYTES_MAX {
            return Err(damaged(&"its backup.json is too long"));
        }
        let to = dir.join(&name);
        let created = files::options().write(true).create_new(true).open(&to);
        let mut out = created.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => damaged(&format!("{name} is in it twice")),
            _ => file_error("create", &to)(error),
        })?;
        let (bytes, size) = (pour(&mut entry, &mut out), entry.size());
        match bytes {
            Ok(bytes) if bytes == size => {}
            Ok(_) => return Err(damaged(&format!("{name} breaks off"))),
            Err(Broken::Read(error)) => return Err(damaged(&error)),
            Err(Broken::Write(error)) => return Err(file_error("write", &to)(error)),
        }
    }
    match dir.join(MANIFEST).exists() {
        true => Ok(()),
        false => Err(damaged(&format!("there is no {MANIFEST} in it"))),
    }
}

enum Broken {
    Read(io::Error),
    Write(io::Error),
}

fn pour(from: &mut impl io::Read, to: &mut impl io::Write) -> Result<u64, Broken> {
    let mut piece = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        let read = from.read(&mut piece).map_err(Broken::Read)?;
        if read == 0 {
            return Ok(bytes);
        }
        to.write_all(&piece[..read]).map_err(Broken::Write)?;
        bytes += read as u64;
    }
}
