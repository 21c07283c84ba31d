//! Ports of clients, and schemes of their identities.

/// Ports for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    Plain,
    /// `clientPort` and `secureClientPort`.
    Both,
    /// `clientPort` for TLS and plain connections.
    Unified,
    /// `secureClientPort` only.
    Secure,
}

/// Scheme of the identity that all clients of the ensemble have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// No common identity. The znodes are open.
    Anyone,
    Digest,
    Sasl,
    X509,
}
