//! Reasons why a login by Kerberos fails.

use std::fmt;

/// Maximum length of an accepted token, bytes. A ticket with all groups of a user takes about ten
/// thousand bytes.
pub const TOKEN_BYTES_MAX: usize = 1 << 16;

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
    /// A wrapped message has a wrong length, or the authorization identity is not UTF-8.
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
