//! What became of a transaction, and the body of the reply that says so.

use bytes::Bytes;
use jute::{Encode, Str};
use proto::multi::{MultiHeader, encode_error_result};
use proto::{ErrorCode, OpCode, Stat};

/// Result of one applied transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing changed.
    Error(ErrorCode),
    /// Done; nothing to say.
    Done {
        /// What was done.
        op: OpCode,
    },
    /// A session ended, and its ephemerals went.
    Closed {
        /// Paths of the transaction that were gone already.
        missing: Vec<Str>,
        /// Ephemerals that the transaction does not list.
        unlisted: Vec<Str>,
    },
    /// A znode was created.
    Created {
        /// By which operation.
        op: OpCode,
        /// Its path.
        path: Str,
        /// Its stat.
        stat: Stat,
    },
    /// A znode was changed.
    Stat {
        /// By which operation.
        op: OpCode,
        /// Its stat.
        stat: Stat,
    },
    /// The configuration was changed.
    Config {
        /// The config znode's data.
        data: Option<Bytes>,
        /// Its stat.
        stat: Stat,
    },
    /// Results of a multi, also of a failed one.
    Multi(Vec<Outcome>),
}

impl Outcome {
    /// The outcome of an error transaction; codes that are not known are a system error.
    pub(super) fn from_error_txn(code: i32) -> Self {
        Self::Error(ErrorCode::from_i32(code).unwrap_or(ErrorCode::SystemError))
    }

    /// What the reply's header says. Ok for a multi, even a failed one, unless an operation in it
    /// found the session moved, which closes the connection.
    pub fn error(&self) -> ErrorCode {
        match self {
            Self::Error(code) => *code,
            Self::Multi(results) if results.contains(&Self::Error(ErrorCode::SessionMoved)) => {
                ErrorCode::SessionMoved
            }
            _ => ErrorCode::Ok,
        }
    }

    /// Appends the body of the reply to `request_op`: nothing for an error.
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

    /// Appends the result in a multi: every create with a stat is a create2.
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
