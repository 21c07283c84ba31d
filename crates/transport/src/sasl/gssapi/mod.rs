//! GSSAPI: logins by Kerberos tickets.
//!
//! ```text
//! client                    server
//!   AP-REQ      ------->
//!               <-------    AP-REP, if the client wants the server to prove itself
//!   (empty)     ------->
//!               <-------    wrapped: the offered security layers (only "none"), and a size
//!   wrapped: the chosen layer and the authorization identity   ------->
//! ```
//!
//! Without an AP-REP, the server sends the layers in its place. Wrapped messages are signed with
//! the key of the ticket, so changes on the network are detected. Steps read files, and a client's
//! steps may query the KDC. They must therefore run on a thread that may block.
//!
//! The library is the system's (`libgssapi_krb5`). Only builds with the feature `gssapi` link it.
//! [`environment`] sets the locations of the keys for it. Without the feature, logins fail.
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
mod off_thread;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

pub use accept::{Accepted, AcceptingExchange};
pub use initiate::{InitiatingExchange, Response};
pub use library::{Acceptor, Initiator, default_realm};
pub use off_thread::off_thread;

/// Maximum length of an accepted token, bytes. A ticket with all groups of a user takes about ten
/// thousand bytes.
pub const TOKEN_BYTES_MAX: usize = 1 << 16;

/// Whether this build supports Kerberos logins.
pub const IS_BUILT_IN: bool = cfg!(feature = "gssapi");

/// Reason why a login fails. Contains neither tokens nor keys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GssapiRefusal {
    /// This build does not support Kerberos.
    NotBuiltIn,
    /// A token exceeds this mechanism's maximum length.
    TooLong {
        /// Length of the token, bytes.
        len: usize,
        /// Maximum length, bytes.
        len_max: usize,
    },
    /// A token that must contain data is empty.
    Empty,
    /// A token that must be empty contains data.
    NotEmpty,
    /// The library returned an error.
    Library {
        /// Failed operation.
        doing: &'static str,
        /// Message from the library.
        reason: String,
    },
    /// The wrapped message is too short, or the authorization identity is not valid text.
    Malformed,
    /// The client chooses a security layer that is not offered.
    OtherLayer(u8),
    /// The server requires a security layer.
    NoLayer(u8),
    /// The login exceeds the maximum number of tokens.
    TooMany,
    /// The exchange is already over.
    Over,
}

impl fmt::Display for GssapiRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuiltIn => f.write_str("this build does not support Kerberos"),
            Self::TooLong { len, len_max } => {
                write!(f, "the token has {len} bytes, the limit is {len_max}")
            }
            Self::Empty => f.write_str("the token is empty"),
            Self::NotEmpty => f.write_str("the client sent an unexpected token"),
            Self::Library { doing, reason } => write!(f, "cannot {doing}: {reason}"),
            Self::Malformed => f.write_str("the token that selects a security layer is malformed"),
            Self::OtherLayer(bits) => {
                write!(
                    f,
                    "the client selected the security layer bits {bits:#04x}, but this server supports only 0x01 (no security layer)"
                )
            }
            Self::NoLayer(bits) => {
                write!(
                    f,
                    "the server requires a security layer (bits {bits:#04x}), and this client does not support security layers"
                )
            }
            Self::TooMany => f.write_str("too many tokens for one login"),
            Self::Over => f.write_str("the login has already ended"),
        }
    }
}

impl std::error::Error for GssapiRefusal {}

/// Returns the environment variables for the library, which reads them each time it is used. They
/// must be set when the process starts.
pub fn environment(
    accepts_with: Option<&Path>,
    initiates_with: Option<&Path>,
    krb5_conf: Option<&Path>,
) -> Vec<(&'static str, OsString)> {
    let mut variables = Vec::new();
    variables.extend(accepts_with.map(|file| ("KRB5_KTNAME", file.into())));
    if let Some(file) = initiates_with {
        variables.push(("KRB5_CLIENT_KTNAME", file.into()));
        // Tickets are private to this process. It does not use the tickets of the user that started
        // it.
        variables.push(("KRB5CCNAME", "MEMORY:".into()));
    }
    variables.extend(krb5_conf.map(|file| ("KRB5_CONFIG", file.into())));
    variables
}
