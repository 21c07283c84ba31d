//! Outcome of a transaction, and the body of its reply.

use bytes::Bytes;
use jute::{Encode, Str};
use proto::multi::{MultiHeader, encode_error_result};
use proto::{ErrorCode, OpCode, Stat};

/// Result of one applied transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction failed, or belongs to a failed multi. The tree has not changed, except
    /// perhaps during a replay.
    Error(ErrorCode),
    /// The transaction succeeded, and its reply is empty.
    Done {
        /// Operation of the transaction.
        op: OpCode,
    },
    /// A session was closed and its ephemeral znodes were deleted.
    Closed {
        /// Paths in the transaction that no longer existed.
        missing: Vec<Str>,
        /// Paths of ephemeral znodes that were deleted although the transaction does not list them.
        unlisted: Vec<Str>,
    },
    /// A znode was created.
    Created {
        /// Operation that created it.
        op: OpCode,
        /// Path of the znode.
        path: Str,
        /// Stat of the znode.
        stat: Stat,
    },
    /// A znode was changed.
    Stat {
        /// Operation that changed it.
        op: OpCode,
        /// Stat of the znode.
        stat: Stat,
    },
    /// The configuration was changed.
    Config {
        /// Data of the config znode.
        data: Option<Bytes>,
        /// Stat of the config znode.
        stat: Stat,
    },
    /// Results of a multi, successful or failed.
    Multi(Vec<Outcome>),
}

impl Outcome {
    /// Returns the outcome of an error transaction. Unknown codes become a system error.
    pub(super) fn from_error_txn(code: i32) -> Self {
        Self::Error(ErrorCode::from_i32(code).unwrap_or(ErrorCode::SystemError))
    }

    /// Returns the error code for the reply's header. A multi has the code Ok, even if it failed,
    /// unless an operation in it found that the session had moved, which closes the connection.
    pub fn error(&self) -> ErrorCode {
        match self {
            Self::Error(code) => *code,
            Self::Multi(results) if results.contains(&Self::Error(ErrorCode::SessionMoved)) => {
                ErrorCode::SessionMoved
            }
            _ => ErrorCode::Ok,
        }
    }

    /// Appends the body of the reply to `request_op`. Appends nothing for an error.
    pub fn encode_body(&self, request_op: OpCode, out: &mut Vec<u8>) {
        match self {
            Self::Error(_) | Self::Done { .. } | Self::Closed { .. } => {}
            Self::Created { path, stat, .. } => {
                path.encode(out);
                if request_op != OpCode::Create {
                    stat.encode(out);
                }
            }
            Self::Stat { stat, .. } => stat.encode(out),
            Self::Config { data, stat } => {
                data.encode(out);
                stat.encode(out);
            }
            Self::Multi(results) => {
                for result in results {
                    result.encode_result(out);
                }
                MultiHeader::END.encode(out);
            }
        }
    }

    /// Appends the result of an operation in a multi, where each create with a stat is a create2.
    fn encode_result(&self, out: &mut Vec<u8>) {
        let op = match self {
            Self::Error(code) => return encode_error_result(*code, out),
            Self::Created {
                op: OpCode::Create, ..
            } => OpCode::Create,
            Self::Created { .. } => OpCode::Create2,
            Self::Done { op } | Self::Stat { op, .. } => *op,
            Self::Closed { .. } => OpCode::CloseSession,
            Self::Config { .. } => OpCode::Reconfig,
            Self::Multi(_) => OpCode::Multi,
        };
        MultiHeader::result(op).encode(out);
        self.encode_body(op, out);
    }
}
