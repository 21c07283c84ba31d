//! Error codes of replies.

use std::fmt;

macro_rules! error_codes {
    ($( $(#[doc = $doc:literal])+ $name:ident = $code:literal, )+) => {
        /// Error code of a reply. Source: KeeperException.Code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        pub enum ErrorCode { $( $(#[doc = $doc])+ $name = $code, )+ }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the code with this number, if any.
            pub fn from_i32(code: i32) -> Option<Self> {
                match code { $( $code => Some(Self::$name), )+ _ => None }
            }

            /// Returns the name, as in the enum.
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => stringify!($name), )+ }
            }

            /// Returns the meaning as a sentence.
            pub fn description(self) -> &'static str {
                match self { $( Self::$name => concat!($($doc),+).trim_ascii_start(), )+ }
            }
        }
    };
}

error_codes! {
    /// Success.
    Ok = 0,
    /// Servers never send it.
    SystemError = -1,
    /// In a failed multi: an earlier operation failed.
    RuntimeInconsistency = -2,
    /// Servers never send it.
    DataInconsistency = -3,
    /// Only clients report it.
    ConnectionLoss = -4,
    /// The request cannot be decoded, or contains a forbidden null.
    MarshallingError = -5,
    /// The operation is unknown or disabled.
    Unimplemented = -6,
    /// Only clients report it.
    OperationTimeout = -7,
    /// A path, flag, TTL or member list is invalid.
    BadArguments = -8,
    /// The session does not exist (rare, on a standalone server only).
    UnknownSession = -12,
    /// Reconfig: no quorum of the new configuration is connected and up to date.
    NewConfigNoQuorum = -13,
    /// Reconfig: another reconfig is in progress.
    ReconfigInProgress = -14,
    /// The znode, or the parent of the new znode, does not exist.
    NoNode = -101,
    /// The ACL does not permit the operation.
    NoAuth = -102,
    /// The expected version is not the current version.
    BadVersion = -103,
    /// An ephemeral znode cannot have children.
    NoChildrenForEphemerals = -108,
    /// The znode exists already.
    NodeExists = -110,
    /// The znode has children.
    NotEmpty = -111,
    /// The session has expired or was closed.
    SessionExpired = -112,
    /// Only clients report it.
    InvalidCallback = -113,
    /// The ACL is empty or contains an invalid entry.
    InvalidAcl = -114,
    /// Authentication failed; the connection closes.
    AuthFailed = -115,
    /// The session moved to another server; never sent, because the connection closes.
    SessionMoved = -118,
    /// A read-only server received a write.
    NotReadOnly = -119,
    /// A local session cannot create an ephemeral znode.
    EphemeralOnLocalSession = -120,
    /// The watch does not exist.
    NoWatcher = -121,
    /// Only clients report it.
    RequestTimeout = -122,
    /// Reconfig is disabled.
    ReconfigDisabled = -123,
    /// Authentication is required; the connection closes.
    SessionClosedRequireSaslAuth = -124,
    /// A hard quota would be exceeded.
    QuotaExceeded = -125,
    /// A limit refused the request, and the server did not execute it.
    ThrottledOp = -127,
}

impl ErrorCode {
    /// Returns the number on the wire.
    pub fn code(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_round_trips_and_none_is_positive() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_i32(code.code()), Some(*code));
            let same = |other: &&ErrorCode| other.name() == code.name();
            assert_eq!(ErrorCode::ALL.iter().filter(same).count(), 1);
        }
        assert!(ErrorCode::ALL.iter().all(|code| code.code() <= 0));
        // -100 marks the boundary between two ranges of codes, and -126 is skipped.
        assert_eq!(
            (ErrorCode::from_i32(-100), ErrorCode::from_i32(-126)),
            (None, None)
        );
    }

    #[test]
    fn a_code_prints_its_name_and_number() {
        assert_eq!(ErrorCode::NoNode.to_string(), "NoNode (-101)");
    }
}
