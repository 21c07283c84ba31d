//! Interface to the machine for reading a configuration.

use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Access to files and host names. This crate never accesses them directly.
pub trait Surroundings {
    /// Reads a whole file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the file is missing. [`io::ErrorKind::FileTooLarge`] if the
    /// file has more than `limit` bytes: a part of a file is never returned, because callers would
    /// use the part as the whole. Such a file must not be read into memory completely.
    fn read(&mut self, path: &Path, limit: usize) -> io::Result<Vec<u8>>;

    /// Returns the address of a host name. `host` is never an address.
    ///
    /// # Errors
    /// If the name is unknown.
    fn resolve(&mut self, host: &str) -> io::Result<IpAddr>;

    /// Returns whether this build supports Kerberos (feature `gssapi`).
    fn has_gssapi(&self) -> bool {
        false
    }
}

/// Surroundings without files and names, for a configuration that does not need them.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSurroundings;

impl Surroundings for NoSurroundings {
    fn read(&mut self, _path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn resolve(&mut self, _host: &str) -> io::Result<IpAddr> {
        Err(io::Error::new(io::ErrorKind::NotFound, "no name service"))
    }
}
