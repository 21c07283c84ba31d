//! Reasons to refuse a token.

use std::fmt;

/// Reason to refuse a token. Contains no part of the token, which may be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The token exceeds this mechanism's maximum length.
    TooLong {
        /// Length of the token, bytes.
        len: usize,
        /// Maximum length, bytes.
        len_max: usize,
    },
    /// The token is not a list of directives.
    Malformed,
    /// A required directive is missing.
    Missing(&'static str),
    /// A directive that may occur only once occurs twice.
    Twice(&'static str),
    /// The value of a directive is not supported.
    Unacceptable(&'static str),
    /// The nonce belongs to another exchange, because the token is old or comes from another
    /// connection.
    OtherNonce,
    /// The name or the password is wrong. The reason must not reveal which. A client also reports
    /// this reason if the server does not prove that it knows the password.
    WrongPassword,
    /// The authenticated user may not act as another user.
    OtherUser,
    /// The exchange is over, successful or not.
    Over,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len, len_max } => {
                write!(f, "the token has {len} bytes, the limit is {len_max}")
            }
            Self::Malformed => f.write_str("the token is not a list of directives"),
            Self::Missing(directive) => write!(f, "the token does not contain {directive}"),
            Self::Twice(directive) => write!(f, "the token contains {directive} more than once"),
            Self::Unacceptable(directive) => {
                write!(f, "the token contains an unsupported value of {directive}")
            }
            Self::OtherNonce => f.write_str("the nonce belongs to another exchange"),
            Self::WrongPassword => f.write_str("wrong name or password"),
            Self::OtherUser => f.write_str("the user may not act as another user"),
            Self::Over => f.write_str("the login has already ended"),
        }
    }
}

impl std::error::Error for Refusal {}
