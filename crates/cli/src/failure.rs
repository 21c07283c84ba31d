//! Why a command failed, in the words of zkCli.sh.
//!
//! Source: ZooKeeperMain.processCmd, CliWrapperException, KeeperException.

use client::Error;
use proto::ErrorCode;

/// A command that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    /// What to print on standard error, without the last line's end.
    pub(crate) text: String,
    /// The exit code.
    pub(crate) code: u8,
    /// Whether nothing more is read when nobody types: Java ends there with a stack trace.
    pub(crate) ends_script: bool,
    /// Whether the session is over.
    pub(crate) ends_session: bool,
}

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 1,
            ends_script: false,
            ends_session: false,
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

    /// What Apache Commons CLI calls an exception of this name.
    pub(crate) fn commons_cli(exception: &str, text: &str) -> Self {
        Self::new(format!(
            "org.apache.commons.cli.{exception}Exception: {text}"
        ))
    }

    pub(crate) fn no_number(option: &str, text: &str) -> Self {
        Self {
            ends_script: true,
            ..Self::new(format!("-{option} needs a number, not \"{text}\""))
        }
    }

    pub(crate) fn not_connected() -> Self {
        Self::new("Not connected").with_code(0)
    }

    /// What the client says about a request for `path`, which is empty where there is none.
    pub(crate) fn of(error: &Error, path: &str) -> Self {
        let ends_session = error.ends_session();
        let code = match error {
            Error::Op { code, .. } | Error::Multi { code, .. } => *code,
            Error::SessionExpired { .. } => ErrorCode::SessionExpired.code(),
            Error::TooLarge { .. } | Error::Reply { .. } => {
                return Self::new(format!("zoarium: {error}"));
            }
            _ => {
                let lost = keeper_error("ConnectionLoss", path);
                return Self {
                    ends_session,
                    ..Self::new(format!("{lost}\nzoarium: {error}"))
                };
            }
        };
        Self {
            ends_session,
            ..Self::of_code(code, path)
        }
    }

    /// What an error code says about `path`.
    pub(crate) fn of_code(code: i32, path: &str) -> Self {
        let Some(code) = ErrorCode::from_i32(code) else {
            return Self::new(keeper_error(&format!("Unknown error {code}"), path));
        };
        Self::new(match code {
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
        })
    }
}

/// `KeeperException.getMessage`.
pub(crate) fn keeper_error(message: &str, path: &str) -> String {
    match path {
        "" => format!("KeeperErrorCode = {message}"),
        path => format!("KeeperErrorCode = {message} for {path}"),
    }
}

/// `KeeperException.getCodeMessage`.
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
        assert_eq!(
            Failure::of_code(-9999, "").text,
            "KeeperErrorCode = Unknown error -9999"
        );
    }
}
