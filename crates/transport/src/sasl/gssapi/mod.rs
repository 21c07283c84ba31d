//! GSSAPI: logins by Kerberos tickets.
//!
//! ```text
//! client                    server
//!   AP-REQ      ------->
//!               <-------    AP-REP, if the client wants the server to prove itself
//!   (empty)     ------->
//!               <-------    wrapped: the security layers that there are (none but none), and a size
//!   wrapped: the chosen one, and as whom the client acts   ------->
//! ```
//!
//! Without an AP-REP the layers come in its place. What is wrapped is signed by the key of the ticket, so that nobody on
//! the way has changed it. Steps read files, and those of a client may ask the KDC: they block, and belong on a thread
//! that may.
//!
//! The library is the system's (`libgssapi_krb5`), which only builds with the feature `gssapi` link. It is told by
//! [`environment`] where the keys are. Without the feature nothing here can be begun.
//!
//! Source: RFC 4752; GssKrb5Server and GssKrb5Client of the JDK.

mod accept;
mod context;
mod initiate;
mod layers;
#[cfg(feature = "gssapi")]
mod library;
#[cfg(not(feature = "gssapi"))]
#[path = "absent.rs"]
mod library;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

pub use accept::{Accepted, AcceptingExchange};
pub use initiate::{InitiatingExchange, Response};
pub use library::{Acceptor, Initiator, default_realm};

/// Bytes of the longest token that is taken: a ticket with all groups of a user has some ten thousand.
pub const TOKEN_BYTES_MAX: usize = 1 << 16;

/// Whether this build can log in by Kerberos.
pub const IS_BUILT_IN: bool = cfg!(feature = "gssapi");

/// Why a login comes to nothing. Shows nothing of tokens and keys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GssapiRefusal {
    /// This build has no Kerberos.
    NotBuiltIn,
    /// A token is longer than any of this mechanism.
    TooLong {
        /// Its bytes.
        len: usize,
        /// The most there may be.
        len_max: usize,
    },
    /// A token is empty that must hold something.
    Empty,
    /// A token holds something where the other side has nothing to say.
    NotEmpty,
    /// What the library says, in its words.
    Library {
        /// What it was to do.
        doing: &'static str,
        /// Why it does not.
        reason: String,
    },
    /// What was wrapped is too short, or as whom the client acts is no text.
    Malformed,
    /// The client chooses a security layer that is not offered.
    OtherLayer(u8),
    /// The server offers nothing without a security layer.
    NoLayer(u8),
    /// More tokens than a login takes.
    TooMany,
    /// The exchange is over already.
    Over,
}

impl fmt::Display for GssapiRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuiltIn => f.write_str("this build has no Kerberos"),
            Self::TooLong { len, len_max } => {
                write!(f, "a token of {len} bytes, more than {len_max}")
            }
            Self::Empty => f.write_str("the token is empty"),
            Self::NotEmpty => f.write_str("a token where the client has nothing to say"),
            Self::Library { doing, reason } => write!(f, "cannot {doing}: {reason}"),
            Self::Malformed => f.write_str("the token does not choose a security layer"),
            Self::OtherLayer(bits) => {
                write!(
                    f,
                    "the client chooses security layers {bits:#04x}, and none was offered"
                )
            }
            Self::NoLayer(bits) => {
                write!(f, "the server wants one of the security layers {bits:#04x}")
            }
            Self::TooMany => f.write_str("more tokens than a login takes"),
            Self::Over => f.write_str("the exchange is over already"),
        }
    }
}

impl std::error::Error for GssapiRefusal {}

/// Environment variables by which the library is told where things are. It reads them whenever it is used, so they must
/// be there when the process starts.
pub fn environment(
    accepts_with: Option<&Path>,
    initiates_with: Option<&Path>,
    krb5_conf: Option<&Path>,
) -> Vec<(&'static str, OsString)> {
    let mut variables = Vec::new();
    variables.extend(accepts_with.map(|file| ("KRB5_KTNAME", file.into())));
    if let Some(file) = initiates_with {
        variables.push(("KRB5_CLIENT_KTNAME", file.into()));
        // Tickets are this process's own: those of whoever has started it are not used.
        variables.push(("KRB5CCNAME", "MEMORY:".into()));
    }
    variables.extend(krb5_conf.map(|file| ("KRB5_CONFIG", file.into())));
    variables
}
