//! Creation of data files and directories. Only this module sets their modes.
//!
//! The mode belongs to the process, like the umask, because libraries create files on behalf of a
//! server without a parameter for the mode. Existing files and directories keep their modes, even
//! when a new file replaces an old one ([`replace`]).

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mark;

/// Mode of new files, unless [`set_mode`] has set another one: read and write for the owner, read
/// for the group.
pub const DEFAULT_MODE: u32 = 0o640;

/// Mode of files with secrets.
const SECRET_MODE: u32 = 0o600;

static MODE: AtomicU32 = AtomicU32::new(DEFAULT_MODE);

/// Sets the mode of the files that this process creates from now on. The umask is applied to it.
pub fn set_mode(mode: u32) {
    MODE.store(mode & 0o666, Ordering::Relaxed);
}

/// Returns the mode of new files, before the umask is applied.
pub fn mode() -> u32 {
    MODE.load(Ordering::Relaxed)
}

/// Returns the mode of new directories, before the umask is applied. A user who may read the files
/// may also search the directory.
pub fn dir_mode() -> u32 {
    let mode = mode();
    mode | (mode & 0o444) >> 2
}

/// Returns options that create a file with the mode of new files. The caller must add `create` or
/// `create_new`.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(mode());
    options
}

/// Returns options that create a file for secrets, which only its owner can read.
pub fn secret_options() -> OpenOptions {
    let mut options = File::options();
    options.mode(SECRET_MODE);
    options
}

/// Creates a file for writing. Truncates an existing file.
///
/// # Errors
/// If the file cannot be created or opened.
pub fn create(path: &Path) -> io::Result<File> {
    mark("create a file");
    options().write(true).create(true).truncate(true).open(path)
}

/// Creates a directory.
///
/// # Errors
/// If [`fs::create_dir`] fails.
pub fn create_dir(path: &Path) -> io::Result<()> {
    mark("create a directory");
    DirBuilder::new().mode(dir_mode()).create(path)
}

/// Creates a directory and its missing parents.
///
/// # Errors
/// If [`fs::create_dir_all`] fails.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    mark("create a directory");
    let mut builder = DirBuilder::new();
    builder.mode(dir_mode()).recursive(true).create(path)
}

/// Copies the contents of `from` to `to`, which is created or truncated, and syncs `to`.
///
/// # Errors
/// If one of the files cannot be opened, read, written or synced.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = create(to)?;
    io::copy(&mut source, &mut target)?;
    target.sync_all()
}

/// Renames a file. If it replaces another file, it receives the mode of the replaced file.
///
/// # Errors
/// If the mode cannot be set, or if [`fs::rename`] fails.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    mark("rename a file");
    if let Ok(replaced) = fs::metadata(to)
        && let Ok(new) = fs::metadata(from)
        && replaced.is_file()
        && replaced.permissions().mode() != new.permissions().mode()
    {
        fs::set_permissions(from, replaced.permissions())?;
    }
    fs::rename(from, to)
}

/// Returns whether the mode of a directory grants only permissions that [`dir_mode`] grants.
/// Returns false if the mode cannot be read.
pub fn is_restricted(dir: &Path) -> bool {
    let mode = |metadata: fs::Metadata| metadata.permissions().mode() & 0o777;
    fs::metadata(dir).is_ok_and(|metadata| mode(metadata) & !dir_mode() == 0)
}

/// Removes the permissions that a new file or directory would not have. Used for files that other
/// libraries create.
///
/// # Errors
/// If the mode cannot be read or set.
pub fn restrict(path: &Path) -> io::Result<()> {
    mark("set the mode of a file");
    let found = fs::symlink_metadata(path)?;
    let allowed = if found.is_dir() { dir_mode() } else { mode() };
    let has = found.permissions().mode() & 0o777;
    match has & !allowed {
        0 => Ok(()),
        _ => fs::set_permissions(path, Permissions::from_mode(has & allowed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// There is only one test, because the mode belongs to the process.
    #[test]
    fn new_files_have_the_mode_and_existing_ones_keep_theirs() {
        let dir = std::env::temp_dir().join(format!("zoarium-files-{}", std::process::id()));
        let (inner, old) = (dir.join("a/b"), dir.join("old"));
        create_dir_all(&inner).unwrap();
        assert_eq!((mode_of(&dir), mode_of(&inner)), (0o750, 0o750));
        let new = dir.join("new");
        drop(create(&new).unwrap());
        assert_eq!(mode_of(&new), 0o640);
        for mode in [0o644, 0o600] {
            fs::write(&old, "old").unwrap();
            fs::set_permissions(&old, Permissions::from_mode(mode)).unwrap();
            drop(create(&old).unwrap());
            assert_eq!(mode_of(&old), mode);
            copy(&old, &new).unwrap();
            replace(&new, &old).unwrap();
            assert_eq!(mode_of(&old), mode);
        }
        set_mode(0o600);
        create_dir(&inner.join("c")).unwrap();
        let file = inner.join("c/file");
        drop(options().write(true).create_new(true).open(&file).unwrap());
        assert_eq!((mode_of(&inner.join("c")), mode_of(&file)), (0o700, 0o600));
        assert!(!is_restricted(&inner));
        restrict(&inner).unwrap();
        assert_eq!(mode_of(&inner), 0o700);
        assert!(is_restricted(&inner));
        set_mode(DEFAULT_MODE);
        fs::remove_dir_all(&dir).unwrap();
    }
}
