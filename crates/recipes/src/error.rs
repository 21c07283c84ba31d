//! Errors of the recipes.

/// Result of every call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a recipe.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Permanent error of the client: it was closed, its session has ended without renewal, or a
    /// server refused a request from the recipe.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The recipe was closed while a call waited for it.
    #[error("the recipe at {path} was closed")]
    Closed {
        /// Directory or znode of the recipe.
        path: String,
    },
    /// The lock to be changed is no longer held.
    #[error("the lock at {path} is lost: its session expired, or its znode was deleted")]
    NotHeld {
        /// Directory of the lock, or znode that locks an item of a queue.
        path: String,
    },
    /// The connection was lost before the answer, and the result of the write cannot be determined.
    #[error("it is unknown whether this client or another one wrote the value at {path}")]
    Unknown {
        /// Path of the value.
        path: String,
    },
    /// The session ended before the answer. It cannot be determined whether the item is in the
    /// queue.
    #[error(
        "it is unknown whether an item was put in the queue at {path}, because the session ended before the reply"
    )]
    UnknownPut {
        /// Path of the queue.
        path: String,
    },
    /// The data is not a number of the recipe's width, or the number exceeds this width.
    #[error("{what} is not a valid number for the recipe at {path}")]
    Number {
        /// Path of the number.
        path: String,
        /// Bytes in hexadecimal, or the number.
        what: String,
    },
    /// An argument is invalid for the recipe.
    #[error("invalid argument for {recipe}: {reason}")]
    Argument {
        /// Recipe, with its directory.
        recipe: String,
        /// Reason why the argument is invalid.
        reason: String,
    },
    /// The path is invalid for a recipe.
    #[error("{path:?} is not a valid path for a recipe: {reason}")]
    Path {
        /// Path as the application passed it.
        path: String,
        /// Reason why the path is invalid.
        reason: &'static str,
    },
}

impl Error {
    pub(crate) fn argument(path: &str, reason: impl Into<String>) -> Self {
        Self::Argument {
            recipe: format!("the recipe at {path}"),
            reason: reason.into(),
        }
    }
}
