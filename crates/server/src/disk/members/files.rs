//! Member lists on disk, next to zoo.cfg.
//!
//! | file | holds |
//! |---|---|
//! | `zoo.cfg.bak` | zoo.cfg as it was while it held the member list |
//! | `zoo.cfg.dynamic.<version>` | a committed list, sorted, without its version; never removed |
//! | `zoo.cfg.dynamic.next` | the list last seen, with its version |
//!
//! Each file is written as `<name>.tmp`, synced and renamed, so a crash leaves the old or the new
//! file. A list is committed on disk when zoo.cfg names it. After that step, only `.next` is
//! removed. Owner and mode of zoo.cfg are kept, because it may contain passwords. Its comments are
//! kept, too; Java drops them.
//!
//! Source: QuorumPeerConfig.writeDynamicConfig, editStaticConfig, backupOldConfig;
//! AtomicFileWritingIdiom.

#![allow(
    clippy::disallowed_methods,
    reason = "runs on the log thread, and at the start of the server"
)]

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use blocking::files;
use config::RawConfig;
use config::properties::MAX_BYTES;
use replica::MemberFile;
use replica::members::MemberFiles;

/// Files of one server's member lists.
#[derive(Debug)]
pub(crate) struct MembershipFiles {
    /// Path of zoo.cfg; `None` for a server that was configured without a file. Such a server
    /// writes no member lists.
    static_file: Option<PathBuf>,
    /// Whether the member list has been moved out of zoo.cfg.
    is_list_outside: bool,
}

impl MembershipFiles {
    pub(crate) fn new(static_file: Option<PathBuf>, is_list_outside: bool) -> Self {
        Self {
            static_file,
            is_list_outside,
        }
    }

    /// Copies zoo.cfg to `zoo.cfg.bak`, unless the member list has been moved out of zoo.cfg.
    pub(crate) fn back_up(&self) -> io::Result<()> {
        match &self.static_file {
            Some(path) if !self.is_list_outside => {
                let (bytes, metadata) = read(path)?;
                replace(&with_suffix(path, ".bak"), &bytes, Some(&metadata))
            }
            _ => Ok(()),
        }
    }

    /// Writes a member list that the replica has changed, and makes it durable.
    pub(crate) fn write(&mut self, file: &MemberFile) -> io::Result<()> {
        match &self.static_file {
            Some(path) => file.write(&mut ConfigDirectory {
                path,
                is_list_outside: &mut self.is_list_outside,
            }),
            None => Ok(()),
        }
    }
}

/// Access to the files next to zoo.cfg.
struct ConfigDirectory<'a> {
    path: &'a Path,
    is_list_outside: &'a mut bool,
}

impl MemberFiles for ConfigDirectory<'_> {
    type Error = io::Error;

    fn replace(&mut self, suffix: &str, text: &str) -> io::Result<()> {
        replace(&with_suffix(self.path, suffix), text.as_bytes(), None)
    }

    fn remove(&mut self, suffix: &str) -> io::Result<()> {
        blocking::mark("remove a member list");
        let path = with_suffix(self.path, suffix);
        match fs::remove_file(&path) {
            Ok(()) => sync_directory_of(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(named("remove", &path, &error)),
        }
    }

    fn name_dynamic(&mut self, suffix: &str, has_client: bool) -> io::Result<()> {
        let (path, dynamic) = (self.path, with_suffix(self.path, suffix));
        let absolute =
            fs::canonicalize(&dynamic).map_err(|error| named("find", &dynamic, &error))?;
        let Some(absolute) = absolute.to_str() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the path {} is not UTF-8", absolute.display()),
            ));
        };
        // The file is read again, because it may have been edited since the server started.
        let (bytes, metadata) = read(path)?;
        let raw = RawConfig::parse(path, &bytes).map_err(io::Error::other)?;
        let edited = raw.with_dynamic_file(absolute, has_client);
        replace(path, &edited, Some(&metadata))?;
        *self.is_list_outside = true;
        Ok(())
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn read(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    blocking::mark("read a member list");
    let read = || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut bytes = Vec::new();
        // One byte above the limit is read to detect a file that is too long.
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok((bytes, metadata))
    };
    read().map_err(|error| named("read", path, &error))
}

/// Replaces the file atomically and syncs it. The new file has the owner and mode in `like`, if
/// given. After an error, the file has its old or its new contents.
fn replace(path: &Path, bytes: &[u8], like: Option<&Metadata>) -> io::Result<()> {
    blocking::mark("write a member list");
    let temporary = with_suffix(path, ".tmp");
    let write = || {
        // A file of an earlier process may have another owner or be a link.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = match like {
            // The content may be secret, so it must not be readable before the new file has the
            // mode of the old one.
            Some(_) => files::secret_options(),
            None => files::options(),
        };
        let mut file = options.write(true).create_new(true).open(&temporary)?;
        file.write_all(bytes)?;
        if let Some(like) = like {
            // Only root may change the owner. Otherwise this process's user owns the new file.
            let _ = chown(&temporary, Some(like.uid()), Some(like.gid()));
            file.set_permissions(fs::Permissions::from_mode(like.mode()))?;
        }
        file.sync_all()?;
        files::replace(&temporary, path)?;
        sync_directory_of(path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        named("write", path, &error)
    })
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

/// Returns an error that names the operation and the file.
fn named(verb: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot {verb} {}: {error}", path.display()),
    )
}
