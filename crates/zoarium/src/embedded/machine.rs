//! Files and host names that a configuration uses, and the log lines for its notices.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

use config::{Notice, NoticeLevel, Surroundings};

/// Access to files and host names of this machine.
pub(crate) struct ThisMachine;

impl Surroundings for ThisMachine {
    fn read(&mut self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // One byte above the limit is read so that the caller can detect a file that is too long.
        File::open(path)?
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn resolve(&mut self, host: &str) -> io::Result<IpAddr> {
        let mut addresses = (host, 0).to_socket_addrs()?;
        let address = addresses.next();
        address
            .map(|address| address.ip())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn has_gssapi(&self) -> bool {
        server::HAS_GSSAPI
    }
}

/// Logs notices at their levels.
pub(crate) fn log_notices(notices: &[Notice]) {
    for notice in notices {
        match notice.level {
            NoticeLevel::Info => tracing::info!("{notice}"),
            NoticeLevel::Warn => tracing::warn!("{notice}"),
            NoticeLevel::Error => tracing::error!("{notice}"),
        }
    }
}
