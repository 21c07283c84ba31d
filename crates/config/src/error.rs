//! Error for a refused configuration.

use std::fmt;
use std::path::Path;

use crate::config::audit::AuditSettings;
use crate::report::finding;
use crate::report::origin::{Notice, NoticeLevel, Origin, write_place};

/// Error for a refused configuration, with place, setting, reason and exit code.
///
/// Prints as `file:line: key: reason`, followed by the hint if there is one. The reason is Apache
/// ZooKeeper's own sentence if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Place where the setting was written.
    pub origin: Option<Origin>,
    /// Setting, as written.
    pub key: Option<String>,
    /// Reason for the refusal.
    pub reason: String,
    /// Hint for a correction.
    pub hint: Option<String>,
    /// Exit code of the process, one of [`exit_code`].
    pub exit_code: u8,
    /// Boxed to keep results small.
    more: Box<ErrorDetails>,
}

/// Kind of the refusal, the notices, and the settings of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ErrorDetails {
    id: &'static str,
    notices: Vec<Notice>,
    audit: Option<AuditSettings>,
}

/// Exit codes of a refused configuration, with the numbers of Java's `ExitCode`.
pub mod exit_code {
    /// Unexpected error, including a server id that is not in the member list.
    pub const UNEXPECTED_ERROR: u8 = 1;
    /// Invalid invocation or configuration.
    pub const INVALID_INVOCATION: u8 = 2;
    /// Unusable data directory.
    pub const UNABLE_TO_ACCESS_DATADIR: u8 = 3;
}

impl ConfigError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            origin: None,
            key: None,
            reason: reason.into(),
            hint: None,
            exit_code: exit_code::INVALID_INVOCATION,
            more: Box::new(ErrorDetails {
                id: finding::VALUE,
                notices: Vec::new(),
                audit: None,
            }),
        }
    }

    /// Converts the error to a notice that precedes another error.
    pub(crate) fn into_notice(self) -> Notice {
        let text = match self.hint {
            Some(hint) => format!("{} ({hint})", self.reason),
            None => self.reason,
        };
        Notice {
            level: NoticeLevel::Error,
            origin: self.origin,
            key: self.key,
            id: self.more.id,
            text,
        }
    }

    pub(crate) fn with_id(mut self, id: &'static str) -> Self {
        self.more.id = id;
        self
    }

    /// Returns the kind of the fault, one of [`finding`].
    pub fn id(&self) -> &'static str {
        self.more.id
    }

    pub(crate) fn after(mut self, notices: Vec<Notice>, audit: Option<AuditSettings>) -> Self {
        (self.more.notices, self.more.audit) = (notices, audit);
        self
    }

    pub(crate) fn at(mut self, origin: Option<&Origin>) -> Self {
        self.origin = origin.cloned();
        self
    }

    pub(crate) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint after the existing one, if any.
    pub(crate) fn or_hint(mut self, more: &str) -> Self {
        self.hint = Some(match self.hint {
            Some(hint) => format!("{hint}; {more}"),
            None => more.to_owned(),
        });
        self
    }

    pub(crate) fn exit_code(mut self, code: u8) -> Self {
        self.exit_code = code;
        self
    }

    /// Returns the notices before the refusal. Log them first, because a misspelt name among them
    /// may be the cause.
    pub fn notices(&self) -> &[Notice] {
        &self.more.notices
    }

    /// Returns the settings of the audit log, which records a failed start. Absent if the audit log
    /// is disabled or its own settings are refused.
    pub fn audit(&self) -> Option<&AuditSettings> {
        self.more.audit.as_ref()
    }

    /// Returns the place of the setting as `file:line: key`, as far as known.
    pub(crate) fn place(&self) -> String {
        let known = [
            self.origin.as_ref().map(Origin::to_string),
            self.key.clone(),
        ];
        known.into_iter().flatten().collect::<Vec<_>>().join(": ")
    }

    /// Returns the file that contains the setting, if any.
    pub fn file(&self) -> Option<&Path> {
        match &self.origin {
            Some(Origin::File { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Returns the line in [`Self::file`], from 1.
    pub fn line(&self) -> Option<u32> {
        match &self.origin {
            Some(Origin::File { line, .. }) => *line,
            _ => None,
        }
    }

    /// Returns the short sentence that Java prints on stderr and logs before the reason.
    pub fn sentence(&self) -> &'static str {
        match self.exit_code {
            exit_code::INVALID_INVOCATION => "Invalid config, exiting abnormally",
            exit_code::UNABLE_TO_ACCESS_DATADIR => "Unable to access datadir, exiting abnormally",
            _ => "Unexpected exception, exiting abnormally",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, self.origin.as_ref(), self.key.as_deref())?;
        f.write_str(&self.reason)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}
