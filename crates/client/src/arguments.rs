//! Command-line arguments for connections to servers.

use std::path::PathBuf;

use clap::Args;

use crate::tls::{ClientStores, Connector, Store, TlsError};

/// Use of TLS, and its files.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsArgs {
    /// Uses TLS for all connections
    #[arg(long)]
    tls: bool,
    /// Trusted certificates (.pem, .p12 or .jks), instead of the certificates of the platform
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_trust: Option<PathBuf>,
    /// Own key and certificate (.pem, .p12 or .jks), for servers that require them
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_key: Option<PathBuf>,
    /// File with the password of the key store and the trust store
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_password_file: Option<PathBuf>,
    /// Accepts a certificate for any host
    #[arg(long, requires = "tls")]
    tls_any_host: bool,
}

impl TlsArgs {
    /// Returns whether `--tls` is set.
    pub fn is_set(&self) -> bool {
        self.tls
    }

    /// Returns the connector that these arguments describe. Without `resumes_sessions`, each
    /// connection makes a complete TLS handshake.
    ///
    /// # Errors
    /// If a file is unusable.
    pub fn connector(&self, resumes_sessions: bool) -> Result<Connector, TlsError> {
        if !self.tls {
            return Ok(Connector::plain());
        }
        let store = |location: &PathBuf| Store {
            location: Some(location.clone()),
            password_path: self.tls_password_file.clone(),
            ..Store::default()
        };
        Connector::of_client(&ClientStores {
            key: self.tls_key.as_ref().map(store),
            trust: self.tls_trust.as_ref().map(store),
            checks_hosts: !self.tls_any_host,
            resumes_sessions,
        })
    }
}
