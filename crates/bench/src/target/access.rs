//! Settings for connections to servers, and for the login.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use client::arguments::TlsArgs;
use client::tls::Connector;
use client::{Handshake, Login, Secret};

use crate::error::{BenchError, Result};

/// TLS and login settings from the command line.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AccessArgs {
    #[command(flatten)]
    tls: TlsArgs,
    /// Makes a complete handshake for each connection instead of resuming TLS sessions
    #[arg(long, requires = "tls")]
    tls_full_handshakes: bool,
    /// Logs in on each connection with DIGEST-MD5 and this name
    #[arg(long, value_name = "NAME", requires = "login_password_file")]
    login: Option<String>,
    /// File with the password for this name
    #[arg(long, value_name = "FILE", requires = "login")]
    login_password_file: Option<PathBuf>,
}

/// TLS and login settings with the contents of the named files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    connector: Connector,
    login: Option<Login>,
}

impl AccessArgs {
    /// Reads the named files, and returns the settings with their contents.
    pub(crate) fn open(&self) -> Result<Access> {
        let login = match (&self.login, &self.login_password_file) {
            (Some(user), Some(file)) => Some(Login::digest_md5(user, password(file)?)),
            _ => None,
        };
        Ok(Access {
            connector: self.tls.connector(!self.tls_full_handshakes)?,
            login,
        })
    }

    /// Returns a description of the connections in words.
    pub(crate) fn description(&self) -> String {
        let stream = match (self.tls.is_set(), self.tls_full_handshakes) {
            (false, _) => "plain",
            (true, false) => "TLS",
            (true, true) => "TLS, full handshakes",
        };
        match self.login {
            None => stream.to_owned(),
            Some(_) => format!("{stream}, DIGEST-MD5"),
        }
    }
}

impl Access {
    /// Returns a handshake with these settings, and otherwise with defaults.
    pub(crate) fn handshake(&self) -> Handshake {
        Handshake::default()
            .with_connector(self.connector.clone())
            .with_login(self.login.clone())
    }
}

/// Maximum size of a password file, bytes. Only the first line is used.
const PASSWORD_BYTES_MAX: u64 = 4096;

fn password(path: &Path) -> Result<Secret> {
    let read = || {
        let mut text = String::new();
        // One byte above the limit is read to detect a file that is too long.
        let mut file = File::open(path)?.take(PASSWORD_BYTES_MAX + 1);
        if file.read_to_string(&mut text)? as u64 > PASSWORD_BYTES_MAX {
            let text = format!("the file has more than {PASSWORD_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        Ok(text)
    };
    let text = read().map_err(BenchError::io(format!("read {}", path.display())))?;
    Ok(Secret::new(text.lines().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_whole_first_line_of_a_short_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "s3cret\nsecond line\n").unwrap();
        assert_eq!(password(&file).unwrap().expose(), "s3cret");
        std::fs::write(&file, "s".repeat(4097)).unwrap();
        let error = password(&file).unwrap_err().to_string();
        assert!(
            error.ends_with("the file has more than 4096 bytes"),
            "{error}"
        );
    }
}
