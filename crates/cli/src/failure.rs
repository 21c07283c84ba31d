//! Failures of commands, with zkCli.sh's messages.
//!
//! Source: ZooKeeperMain.processCmd, CliWrapperException, KeeperException.

use client::Error;
use proto::ErrorCode;

use crate::exit;

/// Failure of a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    /// Message for standard error, without the final line break.
    pub(crate) text: String,
    /// Exit code of the shell. With code 0, the message is printed to standard output instead.
    pub(crate) code: u8,
    /// Whether a script ends after this failure. Java ends it with a stack trace.
    pub(crate) ends_script: bool,
    /// Whether the session has ended.
    pub(crate) ends_session: bool,
    /// Exit code of a command of the program, such as `zoarium get`.
    pub(crate) exit: u8,
    /// Message for a command of the program, if it differs from the shell's message.
    pub(crate) plain: Option<String>,
}

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 1,
            ends_script: false,
            ends_session: false,
            exit: exit::FAILED,
            plain: None,
        }
    }

    /// Returns the message for a command of the program.
    pub(crate) fn plain(&self) -> &str {
        self.plain.as_deref().unwrap_or(&self.text)
    }

    /// Returns whether the znode does not exist.
    pub(crate) fn is_no_node(&self) -> bool {
        self.exit == exit::NOT_FOUND
    }

    /// Sets the exit code for commands of the program.
    pub(crate) fn with_exit(self, exit: u8) -> Self {
        Self { exit, ..self }
    }

    /// Adds the number of the failed input line.
    pub(crate) fn in_line(self, number: usize) -> Self {
        Self {
            text: format!("line {number}: {}", self.text),
            plain: self.plain.map(|plain| format!("line {number}: {plain}")),
            ..self
        }
    }

    /// Appends a line to the message.
    pub(crate) fn with_note(self, note: &str) -> Self {
        Self {
            text: format!("{}\n{note}", self.text),
            plain: self.plain.map(|plain| format!("{plain}\n{note}")),
            ..self
        }
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    pub(crate) fn unrecognized(option: &str) -> Self {
        Self::commons_cli(
            "UnrecognizedOption",
            &format!("Unrecognized option: {option}"),
        )
    }

    pub(crate) fn missing_argument(option: &str) -> Self {
        let text = format!("Missing argument for option: {option}");
        Self::commons_cli("MissingArgument", &text)
    }

    /// Returns a failure with the message of an Apache Commons CLI exception.
    pub(crate) fn commons_cli(exception: &str, text: &str) -> Self {
        Self {
            plain: Some(text.to_owned()),
            ..Self::new(format!(
                "org.apache.commons.cli.{exception}Exception: {text}"
            ))
            .with_exit(exit::USAGE)
        }
    }

    pub(crate) fn no_number(option: &str, text: &str) -> Self {
        Self {
            ends_script: true,
            exit: exit::USAGE,
            ..Self::new(format!("-{option} needs a number, not \"{text}\""))
        }
    }

    pub(crate) fn not_connected() -> Self {
        Self::new("Not connected").with_code(0)
    }

    /// Returns a failure for a client error about `path`, which may be empty.
    pub(crate) fn of(error: &Error, path: &str) -> Self {
        let ends_session = error.ends_session();
        let code = match error {
            Error::Op { code, .. } | Error::Multi { code, .. } => *code,
            Error::SessionExpired { .. } => ErrorCode::SessionExpired.code(),
            Error::TooLarge { .. }
            | Error::Reply { .. }
            | Error::Path { .. }
            | Error::SequentialContainer { .. } => {
                return Self {
                    exit: exit::of_client(error),
                    plain: Some(error.to_string()),
                    ..Self::new(format!("zoarium: {error}"))
                };
            }
            _ => {
                let lost = keeper_error("ConnectionLoss", path);
                return Self {
                    ends_session,
                    exit: exit::of_client(error),
                    plain: Some(error.to_string()),
                    ..Self::new(format!("{lost}\nzoarium: {error}"))
                };
            }
        };
        Self {
            ends_session,
            ..Self::of_code(code, path)
        }
    }

    /// Returns a failure for an error code about `path`.
    pub(crate) fn of_code(code: i32, path: &str) -> Self {
        Self {
            exit: exit::of_code(code),
            plain: Some(plain(code, path)),
            ..Self::new(java_text(code, path))
        }
    }
}

fn java_text(code: i32, path: &str) -> String {
    let Some(code) = ErrorCode::from_i32(code) else {
        return keeper_error(&format!("Unknown error {code}"), path);
    };
    match code {
        ErrorCode::NoNode => format!("Node does not exist: {path}"),
        ErrorCode::NoChildrenForEphemerals => {
            format!("Ephemerals cannot have children: {path}")
        }
        ErrorCode::NodeExists => format!("Node already exists: {path}"),
        ErrorCode::NotEmpty => format!("Node not empty: {path}"),
        ErrorCode::NoAuth => format!("Insufficient permission : {path}"),
        ErrorCode::BadArguments => format!("Arguments are not valid : {path}"),
        ErrorCode::BadVersion => format!("version No is not valid : {path}"),
        ErrorCode::InvalidAcl => format!("Acl is not valid : {path}"),
        ErrorCode::QuotaExceeded => format!("Quota has exceeded : {path}"),
        ErrorCode::ReconfigInProgress => "Another reconfiguration is in progress -- \
                concurrent reconfigs not supported (yet)"
            .to_owned(),
        ErrorCode::NewConfigNoQuorum => "No quorum of new config is connected and \
                up-to-date with the leader of last commmitted config - try invoking \
                reconfiguration after new servers are connected and synced"
            .to_owned(),
        other => keeper_error(message(other), path),
    }
}

/// Returns a message in plain English for an error code.
fn plain(code: i32, path: &str) -> String {
    let at_path = |reason: &str| match path {
        "" => reason.to_owned(),
        path => format!("{path}: {reason}"),
    };
    let Some(code) = ErrorCode::from_i32(code) else {
        return at_path(&format!(
            "the server returned the unknown error code {code}"
        ));
    };
    let reason = match code {
        ErrorCode::NoNode => "the znode does not exist",
        ErrorCode::NodeExists => "the znode exists already",
        ErrorCode::NotEmpty => "the znode has children",
        ErrorCode::NoChildrenForEphemerals => "an ephemeral znode cannot have children",
        ErrorCode::NoAuth => "permission denied",
        // Only the member list has a version but no path.
        ErrorCode::BadVersion if path.is_empty() => "the member list has another version",
        ErrorCode::BadVersion => "the znode has another version",
        ErrorCode::InvalidAcl => "the server does not accept the ACL",
        ErrorCode::BadArguments => "the arguments of the request are invalid",
        ErrorCode::QuotaExceeded => "a quota would be exceeded",
        ErrorCode::SessionExpired => "the session has expired",
        ErrorCode::ReconfigDisabled => {
            "reconfiguration is disabled; set reconfigEnabled=true on all servers"
        }
        ErrorCode::ReconfigInProgress => "another reconfiguration is in progress",
        ErrorCode::NewConfigNoQuorum => {
            "no quorum of the new members is connected and up to date with the leader"
        }
        ErrorCode::Unimplemented => "the server does not support the request",
        other => return at_path(&format!("the server returned the error {}", other.name())),
    };
    at_path(reason)
}

/// Returns the message of `KeeperException.getMessage`.
pub(crate) fn keeper_error(message: &str, path: &str) -> String {
    match path {
        "" => format!("KeeperErrorCode = {message}"),
        path => format!("KeeperErrorCode = {message} for {path}"),
    }
}

/// Returns the message of `KeeperException.getCodeMessage`.
fn message(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidAcl => "InvalidACL",
        ErrorCode::SessionExpired => "Session expired",
        ErrorCode::SessionMoved => "Session moved",
        ErrorCode::NotReadOnly => "Not a read-only call",
        ErrorCode::EphemeralOnLocalSession => "Ephemeral node on local session",
        ErrorCode::NoWatcher => "No such watcher",
        ErrorCode::RequestTimeout => "Request timeout",
        ErrorCode::ReconfigDisabled => "Reconfig is disabled",
        ErrorCode::SessionClosedRequireSaslAuth => {
            "Session closed because client failed to authenticate"
        }
        ErrorCode::QuotaExceeded => "Quota has exceeded",
        ErrorCode::ThrottledOp => "Op throttled due to high load",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_java_says() {
        let text = |code: ErrorCode| Failure::of_code(code.code(), "/p").text;
        assert_eq!(text(ErrorCode::NoNode), "Node does not exist: /p");
        assert_eq!(text(ErrorCode::NoAuth), "Insufficient permission : /p");
        let lost = "KeeperErrorCode = Unimplemented for /p";
        assert_eq!(text(ErrorCode::Unimplemented), lost);
        let no_watcher = "KeeperErrorCode = No such watcher for /p";
        assert_eq!(text(ErrorCode::NoWatcher), no_watcher);
        assert_eq!(
            Failure::of_code(ErrorCode::ReconfigDisabled.code(), "").text,
            "KeeperErrorCode = Reconfig is disabled"
        );
        let failure = Failure::of_code(ErrorCode::NoNode.code(), "/p");
        assert_eq!(failure.plain(), "/p: the znode does not exist");
        assert_eq!(failure.exit, exit::NOT_FOUND);
        let noted = failure.with_note("2 created");
        assert!(noted.plain().ends_with("exist\n2 created"));
        assert_eq!(
            Failure::of_code(-9999, "").text,
            "KeeperErrorCode = Unknown error -9999"
        );
    }
}
