//! Interface for connections to servers over other streams than TCP.

use std::fmt;
use std::io;
use std::pin::Pin;

use transport::Duplex;

/// Dialer, which opens the stream to a server: another kind of socket, a tunnel, or a simulated
/// network.
///
/// The client uses the stream unchanged. It adds TLS to TCP connections only, so a dialer must add
/// TLS itself if it needs TLS.
pub trait Dial: fmt::Debug + Send + Sync {
    /// Starts a connection to `server`, an entry of [`crate::Options::servers`].
    fn dial(&self, server: &str) -> Dialing;
}

/// Future that returns the stream of a new connection.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;
