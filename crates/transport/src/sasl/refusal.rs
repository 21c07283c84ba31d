//! Why a token is refused.

use std::fmt;

/// Why a token is refused. Shows nothing of the token: it may be worth something to somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It is longer than any token of this mechanism.
    TooLong {
        /// Its bytes.
        len: usize,
        /// The most there may be.
        len_max: usize,
    },
    /// Bytes that are no list of directives.
    Malformed,
    /// A directive that must be there is not.
    Missing(&'static str),
    /// A directive that must be there once is there twice.
    Twice(&'static str),
    /// A directive has a value that cannot be met.
    Unacceptable(&'static str),
    /// The nonce is another exchange's: an old token, or one of another connection.
    OtherNonce,
    /// The name or the password is wrong. Which, is nobody's business.
    WrongPassword,
    /// Who has logged in may not act as somebody else.
    OtherUser,
    /// The exchange is over, one way or the other.
    Over,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len, len_max } => {
                write!(f, "a token of {len} bytes, more than {len_max}")
            }
            Self::Malformed => f.write_str("the token is no list of directives"),
            Self::Missing(directive) => write!(f, "the token has no {directive}"),
            Self::Twice(directive) => write!(f, "the token has more than one {directive}"),
            Self::Unacceptable(directive) => {
                write!(f, "the token has a {directive} that is not ours")
            }
            Self::OtherNonce => f.write_str("the nonce is not the one of this exchange"),
            Self::WrongPassword => f.write_str("wrong name or password"),
            Self::OtherUser => f.write_str("the user may not act as another one"),
            Self::Over => f.write_str("the exchange is over already"),
        }
    }
}

impl std::error::Error for Refusal {}
