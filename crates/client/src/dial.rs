//! Another way to a server than TCP.

use std::fmt;
use std::io;
use std::pin::Pin;

use transport::Duplex;

/// Opens the stream to a server: a socket of another kind, a tunnel, a simulated network.
///
/// The stream is used as it is: TLS is put on TCP only, so that whoever wants it elsewhere has the
/// dialer do it.
pub trait Dial: fmt::Debug + Send + Sync {
    /// Begins to connect to `server`, which is what [`crate::Options::servers`] says.
    fn dial(&self, server: &str) -> Dialing;
}

/// A stream on its way.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;
