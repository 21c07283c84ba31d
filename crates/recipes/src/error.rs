//! What can go wrong with a recipe.

/// Result of every call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a recipe failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client failed in a way that waiting does not mend: it was closed, its session is over and
    /// it has no renewal, or a server refuses what the recipe asks for.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The recipe was closed while something waited for it.
    #[error("the recipe at {path} was closed")]
    Closed {
        /// Its directory or znode.
        path: String,
    },
    /// A lock that was to be changed is not held any more.
    #[error(
        "the lock at {path} is not held any more: its session is over, or its znode was deleted"
    )]
    NotHeld {
        /// Its directory.
        path: String,
    },
    /// The connection was lost before the answer, and it cannot be told whether it was done.
    #[error("it is unknown whether the value at {path} was written by this or by somebody else")]
    Unknown {
        /// Of the value.
        path: String,
    },
    /// The session ended before the answer, and it cannot be told whether the item is in the queue.
    #[error(
        "it is unknown whether an item was put in the queue at {path}: the session ended first"
    )]
    UnknownPut {
        /// Of the queue.
        path: String,
    },
    /// What is no number of the recipe's width, or does not fit in it.
    #[error("the number at {path} cannot be {what}")]
    Number {
        /// Of the number.
        path: String,
        /// Its bytes in hexadecimal, or the number.
        what: String,
    },
    /// A path that no recipe can work at.
    #[error("{path:?} cannot be the path of a recipe: {reason}")]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}
