//! Exit codes of the commands. docs/COMMANDS.md contains the table.

use client::Error;
use proto::ErrorCode;

/// The command succeeded.
pub const DONE: u8 = 0;
/// The command failed for a reason without a separate code, or `diff` found differences.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// A znode or another named object does not exist.
pub const NOT_FOUND: u8 = 4;
/// The server refused the request for lack of permissions, or refused the identity.
pub const DENIED: u8 = 5;
/// The state differs from the expected state: the znode exists, has children or has another
/// version.
pub const CONFLICT: u8 = 6;
/// No server could be reached, or the connection was lost. For `status`: the ensemble is down.
pub const UNREACHABLE: u8 = 7;
/// `status` found that the ensemble serves clients, but that not all its members do.
pub const DEGRADED: u8 = 8;

/// Returns the exit code for a client error.
pub fn of_client(error: &Error) -> u8 {
    match error {
        Error::Op { code, .. } | Error::Multi { code, .. } => of_code(*code),
        Error::Login { .. } => DENIED,
        Error::TooLarge { .. } | Error::Reply { .. } => FAILED,
        Error::Chroot { .. }
        | Error::NoServers
        | Error::Path { .. }
        | Error::SequentialContainer { .. } => USAGE,
        _ => UNREACHABLE,
    }
}

pub(crate) fn of_code(code: i32) -> u8 {
    match ErrorCode::from_i32(code) {
        Some(ErrorCode::NoNode) => NOT_FOUND,
        Some(
            ErrorCode::NoAuth | ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth,
        ) => DENIED,
        Some(ErrorCode::NodeExists | ErrorCode::NotEmpty | ErrorCode::BadVersion) => CONFLICT,
        Some(ErrorCode::ConnectionLoss | ErrorCode::SessionExpired) => UNREACHABLE,
        _ => FAILED,
    }
}
