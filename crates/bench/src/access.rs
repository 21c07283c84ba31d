//! The settings of connections to servers, and of the login.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use client::tls::{ClientStores, Connector, Store};
use client::{Handshake, Login, Secret};

use super::error::{BenchError, Result};

/// Use of TLS and its files, and the login.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AccessArgs {
    /// Uses TLS for all servers
    #[arg(long)]
    tls: bool,
    /// Trusted certificates (.pem, .p12 or .jks), instead of the platform's
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_trust: Option<PathBuf>,
    /// Own key and certificate (.pem, .p12 or .jks), for servers that require them
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_key: Option<PathBuf>,
    /// File with the password of both
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_password_file: Option<PathBuf>,
    /// Accepts a certificate for any host
    #[arg(long, requires = "tls")]
    tls_any_host: bool,
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

/// The settings with the contents of their files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    connector: Connector,
    login: Option<Login>,
}

impl AccessArgs {
    /// Reads the files.
    pub(crate) fn open(&self) -> Result<Access> {
        let login = match (&self.login, &self.login_password_file) {
            (Some(user), Some(file)) => Some(Login::digest_md5(user, password(file)?)),
            _ => None,
        };
        Ok(Access {
            connector: self.connector()?,
            login,
        })
    }

    /// Returns a description of the connections in words.
    pub(crate) fn description(&self) -> String {
        let stream = match (self.tls, self.tls_full_handshakes) {
            (false, _) => "plain",
            (true, false) => "TLS",
            (true, true) => "TLS, full handshakes",
        };
        match self.login {
            None => stream.to_owned(),
            Some(_) => format!("{stream}, DIGEST-MD5"),
        }
    }

    fn connector(&self) -> Result<Connector> {
        if !self.tls {
            return Ok(Connector::plain());
        }
        let store = |location: &PathBuf| Store {
            location: Some(location.clone()),
            password_path: self.tls_password_file.clone(),
            ..Store::default()
        };
        Ok(Connector::of_client(&ClientStores {
            key: self.tls_key.as_ref().map(store),
            trust: self.tls_trust.as_ref().map(store),
            checks_hosts: !self.tls_any_host,
            resumes_sessions: !self.tls_full_handshakes,
        })?)
    }
}

impl Access {
    /// Returns a handshake with these settings, and otherwise with defaults.
    pub(crate) fn handshake(&self) -> Handshake {
        Handshake {
            connector: self.connector.clone(),
            login: self.login.clone(),
            ..Handshake::default()
        }
    }
}

/// Maximum bytes of a password file, of which only the first line is used.
const PASSWORD_BYTES_MAX: u64 = 4096;

fn password(path: &Path) -> Result<Secret> {
    let what = format!("read {}", path.display());
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_string(&mut text));
    read.map_err(BenchError::io(what))?;
    Ok(Secret::new(text.lines().next().unwrap_or_default()))
}
