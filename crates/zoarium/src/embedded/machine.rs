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
        // One byte above the limit is read to detect a file that is too long.
        File::open(path)?
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() > limit {
            let text = format!("the file has more than {limit} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_above_the_limit_is_refused_and_never_cut() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secrets");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(ThisMachine.read(&file, 5).unwrap(), b"12345");
        let error = ThisMachine.read(&file, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "the file has more than 4 bytes");
    }
}
