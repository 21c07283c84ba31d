//! Administrators' credential, in a file in `dataDir` that only the server's user can read.
//!
//! The file contains `admin-token:` and random text, as user and password of the scheme `digest`. A
//! client with this credential is a super user of this server, at the admin port and at the client
//! ports. `zoarium admin-token` writes the file, and a running server reloads it.

#![allow(
    clippy::disallowed_methods,
    reason = "runs in the tool, at the start of the server, and on `Workers`"
)]

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use blocking::files;
use config::Config;
use parking_lot::Mutex;
use proto::Secret;

use crate::http::Workers;

/// User name of the credential.
pub const USER: &str = "admin-token";

/// Name of the file in `dataDir`.
const FILE: &str = "admin-token";

/// Number of random bytes in a credential.
const BYTES: usize = 24;

/// Maximum length of the file, in bytes. One byte more is read, so that a longer file is refused.
const FILE_BYTES_MAX: u64 = 256;

/// Returns the path of a server's credential.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Reads the credential in a file. Returns `None` if the file does not exist.
///
/// # Errors
/// If the file cannot be read, is accessible to users other than its owner, or does not contain a
/// credential.
pub fn read(file: &Path) -> io::Result<Option<Secret>> {
    blocking::mark("read the credential of administrators");
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    check_owner_only(&opened.metadata()?)?;
    let mut text = String::new();
    let len = opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    let is_whole = len as u64 <= FILE_BYTES_MAX;
    let text = text.trim_end();
    let password = text
        .strip_prefix(USER)
        .and_then(|rest| rest.strip_prefix(':'));
    match password {
        Some(password) if is_whole && password.len() >= BYTES => Ok(Some(Secret::new(text))),
        _ => Err(io::Error::other(
            "the file does not contain a credential: remove it and run `zoarium admin-token`",
        )),
    }
}

fn check_owner_only(metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.mode() & 0o777;
    if metadata.is_file() && mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "it must be a regular file that only its owner may access, but its mode is {mode:04o}; remove it and run `zoarium admin-token`"
        )))
    }
}

/// Returns the credential of a server. Writes a new credential if the file does not exist, or if
/// `anew` is set.
///
/// # Errors
/// If the directory does not exist, or the file cannot be read or written.
pub fn ensure(data_dir: &Path, anew: bool) -> io::Result<Secret> {
    let file = path(data_dir);
    if !anew && let Some(secret) = read(&file)? {
        return Ok(secret);
    }
    let password = random_hex::<BYTES>()?;
    let secret = Secret::new(format!("{USER}:{password}"));
    let owner = std::fs::metadata(data_dir)?;
    // A temporary file ensures that the file is never incomplete and never has another mode.
    let unfinished = data_dir.join(format!("unfinished.{FILE}"));
    let _ = std::fs::remove_file(&unfinished);
    let mut options = files::secret_options();
    let mut written = options.write(true).create_new(true).open(&unfinished)?;
    writeln!(written, "{}", secret.expose())?;
    if written.metadata()?.uid() != owner.uid() {
        // Root has written the file, but the user that runs the server must own it.
        fchown(&written, Some(owner.uid()), Some(owner.gid()))?;
    }
    written.sync_all()?;
    std::fs::rename(&unfinished, &file)?;
    Ok(secret)
}

/// Returns `COUNT` random bytes as hexadecimal digits.
pub(crate) fn random_hex<const COUNT: usize>() -> io::Result<String> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Interval between checks of the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Credential of a running server.
#[derive(Debug, Clone)]
pub struct AdminToken {
    config: Arc<Config>,
    /// Fault of the file at the last check.
    wrong: Arc<Mutex<Option<String>>>,
}

impl AdminToken {
    /// Creates an empty credential, to be loaded later.
    pub fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            wrong: Arc::default(),
        }
    }

    /// Loads the credential from the file.
    pub(crate) fn refresh(&self) {
        let file = path(&self.config.data_dir);
        let (secret, wrong) = match read(&file) {
            Ok(secret) => (secret, None),
            Err(error) => (None, Some(error.to_string())),
        };
        self.config.auth.admin_token.set(secret);
        let mut before = self.wrong.lock();
        if let Some(error) = wrong
            .as_ref()
            .filter(|wrong| before.as_ref() != Some(*wrong))
        {
            tracing::warn!(file = %file.display(), err = error, "ignoring the credential of administrators");
        }
        *before = wrong;
    }

    /// Loads the credential periodically.
    pub async fn follow(self, workers: Workers) {
        let mut every = tokio::time::interval(LOOK_EVERY);
        loop {
            every.tick().await;
            let token = self.clone();
            if workers.run(move |_| token.refresh()).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_credential_is_random_and_its_owner_s_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path());
        assert_eq!(read(&file).unwrap(), None);
        let first = ensure(dir.path(), false).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read(&file).unwrap(), Some(first.clone()));
        assert_eq!(ensure(dir.path(), false).unwrap(), first);
        let second = ensure(dir.path(), true).unwrap();
        assert_ne!(second, first);
        assert!(second.expose().len() > USER.len() + BYTES);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("0640"));
        assert!(ensure(dir.path(), false).is_err());
        ensure(dir.path(), true).unwrap();
        for wrong in [String::new(), "x".repeat(256)] {
            std::fs::write(&file, format!("{USER}:{wrong}")).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains("does not contain a credential"), "{error}");
        }
    }
}
