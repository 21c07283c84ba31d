//! Stores of an endpoint, reloaded when their files change.

#![allow(
    clippy::disallowed_methods,
    reason = "runs at the start of the server and in `blocking::run`"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use config::Tls;
use parking_lot::RwLock;
use tokio::time::sleep;

use crate::tls::context::Context;
use crate::tls::error::TlsError;
use crate::tls::rules::Endpoint;

/// Source of key, trust and rules for handshakes.
#[derive(Debug)]
pub struct TlsSource {
    tls: Tls,
    endpoint: Endpoint,
    /// Value of `fips-mode`. If set, hosts are not checked between members.
    fips_mode: bool,
    current: RwLock<Arc<Context>>,
    loaded: RwLock<Stamps>,
}

/// Interval between checks of the files.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Modification time, length and inode of a file. A difference indicates a change.
type Stamp = Option<(SystemTime, u64, u64)>;
type Stamps = Vec<(PathBuf, Stamp)>;

impl TlsSource {
    /// Loads the stores.
    ///
    /// # Errors
    /// If the stores cannot be used.
    pub fn load(tls: &Tls, endpoint: Endpoint, fips_mode: bool) -> Result<Arc<Self>, TlsError> {
        // The stamps are read before the content, so that a change in between causes another load.
        let stamps = stamps(tls);
        let context = Context::load(tls, endpoint)?;
        Ok(Arc::new(Self {
            tls: tls.clone(),
            endpoint,
            fips_mode,
            current: RwLock::new(Arc::new(context)),
            loaded: RwLock::new(stamps),
        }))
    }

    /// Returns the earliest end of validity in this process's certificate chain, in seconds since
    /// 1970.
    pub fn certificate_ends_s(&self) -> Option<i64> {
        self.current().ends_s
    }

    /// Returns the context for new handshakes.
    pub(in crate::tls) fn current(&self) -> Arc<Context> {
        self.current.read().clone()
    }

    /// Returns the time limit for the first byte on a port for both TLS and plain connections.
    pub(in crate::tls) fn detection_timeout(&self) -> Duration {
        Duration::from_millis(self.tls.handshake_detection_timeout_ms.into())
    }

    /// Returns whether a server's certificate must contain the server's host. Source:
    /// X509Util.createTrustManager, which does not check hosts in FIPS mode.
    pub(in crate::tls) fn checks_server_hosts(&self) -> bool {
        !self.fips_mode && self.tls.hostname_verification
    }

    /// Returns whether a client's certificate must contain the client's host. The admin port never
    /// requires this. In FIPS mode, the ensemble's ports do not, but the client ports do if
    /// configured, because Java's TLS library then checks the host. Source:
    /// ClientX509Util.createNettySslContextForServer.
    pub(in crate::tls) fn checks_client_hosts(&self) -> bool {
        let is_left_alone = match self.endpoint {
            Endpoint::Client => false,
            Endpoint::Quorum => self.fips_mode,
            Endpoint::Admin => true,
        };
        !is_left_alone && self.tls.hostname_verification && self.tls.client_hostname_verification
    }

    /// Returns whether a client's address may be resolved to a name, with which the certificate is
    /// then checked.
    pub(in crate::tls) fn allows_reverse_lookup(&self) -> bool {
        !self.fips_mode && self.tls.allow_reverse_dns_lookup
    }

    /// Reloads the stores when one of their files has changed, until the task is aborted. If a
    /// store cannot be used, an error is logged once, and all previous stores stay in use. Existing
    /// connections stay open.
    pub async fn watch(self: Arc<Self>) {
        loop {
            sleep(CHECK_EVERY).await;
            let source = self.clone();
            // The files may be on a disk that hangs.
            if let Err(error) = blocking::run(move || source.reload_if_changed()).await {
                tracing::error!(err = %error, "cannot check the key and trust stores for changes");
            }
        }
    }

    fn reload_if_changed(&self) {
        let now = stamps(&self.tls);
        if *self.loaded.read() == now {
            return;
        }
        let prefix = self.endpoint.prefix();
        match Context::load(&self.tls, self.endpoint) {
            Ok(context) => {
                *self.current.write() = Arc::new(context);
                tracing::info!(
                    "{prefix}keyStore, {prefix}trustStore or {prefix}crl has changed; new connections use the new files"
                );
            }
            Err(error) => {
                tracing::error!(err = %error, "{prefix}keyStore, {prefix}trustStore or {prefix}crl has changed but cannot be loaded; continuing with the previous stores");
            }
        }
        *self.loaded.write() = now;
    }
}

fn stamps(tls: &Tls) -> Stamps {
    let stores = [&tls.key_store, &tls.trust_store];
    let files = stores
        .into_iter()
        .flat_map(|store| [&store.location, &store.password_path]);
    let files = files.flatten().chain(&tls.crl_location);
    files.map(|path| (path.clone(), stamp(path))).collect()
}

fn stamp(path: &Path) -> Stamp {
    blocking::mark("check a key or trust store");
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len(), file_number(&found)))
}

#[cfg(unix)]
fn file_number(found: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn file_number(_: &std::fs::Metadata) -> u64 {
    0
}
