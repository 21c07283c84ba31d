//! Error codes of replies.

use std::fmt;

macro_rules! error_codes {
    ($( $(#[doc = $doc:literal])+ $name:ident = $code:literal, )+) => {
        /// What a reply's `err` says. Source: KeeperException.Code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        pub enum ErrorCode { $( $(#[doc = $doc])+ $name = $code, )+ }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The code with this number, if there is one.
            pub fn from_i32(code: i32) -> Option<Self> {
                match code { $( $code => Some(Self::$name), )+ _ => None }
            }

            /// Its name, as in the enum.
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => stringify!($name), )+ }
            }

            /// What it says, in a sentence.
            pub fn description(self) -> &'static str {
                match self { $( Self::$name => concat!($($doc),+).trim_ascii_start(), )+ }
            }
        }
    };
}

error_codes! {
    /// Success.
    Ok = 0,
    /// Never sent.
    SystemError = -1,
    /// In a failed multi: this operation was behind the one that failed.
    RuntimeInconsistency = -2,
    /// Never sent.
    DataInconsistency = -3,
    /// Made up by clients.
    ConnectionLoss = -4,
    /// The request's record cannot be decoded, or has a null where none may be.
    MarshallingError = -5,
    /// Unknown operation, or one that is switched off.
    Unimplemented = -6,
    /// Made up by clients.
    OperationTimeout = -7,
    /// A path, flag, TTL or member list that cannot be.
    BadArguments = -8,
    /// No such session (a race, on a standalone server only).
    UnknownSession = -12,
    /// Reconfig: no quorum of the new configuration is connected and up to date.
    NewConfigNoQuorum = -13,
    /// Reconfig: another one is under way.
    ReconfigInProgress = -14,
    /// The znode, or the parent of the one to make, does not exist.
    NoNode = -101,
    /// The ACL does not grant it.
    NoAuth = -102,
    /// The expected version is not the current one.
    BadVersion = -103,
    /// An ephemeral znode cannot have children.
    NoChildrenForEphemerals = -108,
    /// The znode exists already.
    NodeExists = -110,
    /// The znode has children.
    NotEmpty = -111,
    /// The session is over.
    SessionExpired = -112,
    /// Made up by clients.
    InvalidCallback = -113,
    /// The ACL is empty or has an entry that cannot be.
    InvalidAcl = -114,
    /// Authentication failed; the connection closes.
    AuthFailed = -115,
    /// The session moved to another server; never sent, the connection closes.
    SessionMoved = -118,
    /// A write sent to a read-only server.
    NotReadOnly = -119,
    /// An ephemeral znode on a local session.
    EphemeralOnLocalSession = -120,
    /// No such watch.
    NoWatcher = -121,
    /// Made up by clients.
    RequestTimeout = -122,
    /// Reconfig is switched off.
    ReconfigDisabled = -123,
    /// Authentication is required; the connection closes.
    SessionClosedRequireSaslAuth = -124,
    /// A hard quota would be exceeded.
    QuotaExceeded = -125,
    /// The request waited too long in the throttle.
    ThrottledOp = -127,
}

impl ErrorCode {
    /// The number on the wire.
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
    fn every_code_leads_back_and_none_is_positive() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_i32(code.code()), Some(*code));
            let same = |other: &&ErrorCode| other.name() == code.name();
            assert_eq!(ErrorCode::ALL.iter().filter(same).count(), 1);
        }
        assert!(ErrorCode::ALL.iter().all(|code| code.code() <= 0));
        // A mark between two ranges of codes, and a number that was skipped.
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
