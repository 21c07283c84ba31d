//! Identities that clients prove: SASL logins, and certificates.

pub(crate) mod kerberos;
pub(crate) mod sasl;
pub(crate) mod x509;

use transport::sasl::ServerExchange;
use transport::sasl::gssapi::{AcceptingExchange, GssapiRefusal};

/// A connection's login.
pub(crate) enum Login {
    /// A password login.
    DigestMd5(ServerExchange),
    /// A ticket login.
    Kerberos {
        /// `None` before the first token and after the last.
        exchange: Option<AcceptingExchange>,
        /// Result of a processed token that the queue has not taken yet.
        stepped: Option<Result<Stepped, GssapiRefusal>>,
    },
}

/// Result of a processed token.
pub(crate) enum Stepped {
    /// Challenge that the client must answer.
    Challenge(Vec<u8>),
    /// The authenticated user.
    User(String),
}
