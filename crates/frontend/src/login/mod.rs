//! Identities that clients prove, by SASL logins and certificates.

pub(crate) mod failures;
pub(crate) mod kerberos;
pub(crate) mod sasl;
pub(crate) mod x509;

use transport::sasl::ServerExchange;
use transport::sasl::gssapi::{AcceptingExchange, GssapiRefusal};

/// Login of a connection.
pub(crate) enum Login {
    /// Password login.
    DigestMd5(ServerExchange),
    /// Ticket login.
    Kerberos {
        /// State of the exchange. `None` before the first token and after the last.
        exchange: Option<AcceptingExchange>,
        /// Result of a processed token that has not been answered yet.
        stepped: Option<Result<TokenResult, GssapiRefusal>>,
    },
}

/// Result of a processed token.
pub(crate) enum TokenResult {
    /// Challenge that the client must answer.
    Challenge(Vec<u8>),
    /// Authenticated user.
    User(String),
}
