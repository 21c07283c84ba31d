//! What a configuration needs from the machine.

use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Files and names: what this crate asks for instead of reaching out itself.
pub trait Surroundings {
    /// Reads a whole file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none. A file of more than `limit` bytes is to be
    /// refused, or returned with more than `limit` bytes, before all of it is in memory.
    fn read(&mut self, path: &Path, limit: usize) -> io::Result<Vec<u8>>;

    /// The address of a host name. Addresses themselves are not asked for.
    ///
    /// # Errors
    /// The name is not known.
    fn resolve(&mut self, host: &str) -> io::Result<IpAddr>;

    /// Whether this build logs in by Kerberos: it has the feature `gssapi`.
    fn has_gssapi(&self) -> bool {
        false
    }
}

/// Surroundings without files and names, for a configuration that is known to need none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nowhere;

impl Surroundings for Nowhere {
    fn read(&mut self, _path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn resolve(&mut self, _host: &str) -> io::Result<IpAddr> {
        Err(io::Error::new(io::ErrorKind::NotFound, "no name service"))
    }
}
