//! The refusal of a configuration.

use std::fmt;
use std::path::Path;

use crate::config::operations::AuditSettings;
use crate::finding;
use crate::origin::{Notice, NoticeLevel, Origin, write_place};

/// A configuration that is refused: where, which setting, why, and with which exit code.
///
/// Prints as `file:line: key: reason`, followed by the way out if there is one to tell. The reason
/// is Apache ZooKeeper's own sentence wherever it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The place where the setting was written.
    pub origin: Option<Origin>,
    /// The setting, as written.
    pub key: Option<String>,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The code with which the process is to end: one of [`exit_code`].
    pub exit_code: u8,
    /// Apart, so that results stay small.
    more: Box<More>,
}

/// What kind of refusal it is, and what was known before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct More {
    id: &'static str,
    notices: Vec<Notice>,
    audit: Option<AuditSettings>,
}

/// The exit codes of a refused configuration, as Java's `ExitCode` numbers them.
pub mod exit_code {
    /// An unexpected error; among them an own id that is not among the members.
    pub const UNEXPECTED_ERROR: u8 = 1;
    /// A bad invocation or configuration.
    pub const INVALID_INVOCATION: u8 = 2;
    /// A data directory that cannot be used.
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
            more: Box::new(More {
                id: finding::VALUE,
                notices: Vec::new(),
                audit: None,
            }),
        }
    }

    /// The same, to be said before another error.
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

    /// What kind of fault it is: one of [`finding`].
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

    /// With this way out, behind the one that it has, if any.
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

    /// What was to be said until the refusal; a misspelt name among it may be what caused it. Log
    /// this first.
    pub fn notices(&self) -> &[Notice] {
        &self.more.notices
    }

    /// The audit log, in which a start that fails has its line, if it is switched on and what is
    /// wrong is not about it.
    pub fn audit(&self) -> Option<&AuditSettings> {
        self.more.audit.as_ref()
    }

    /// Where the setting stands: `file:line: key`, as far as known.
    pub(crate) fn place(&self) -> String {
        let known = [
            self.origin.as_ref().map(Origin::to_string),
            self.key.clone(),
        ];
        known.into_iter().flatten().collect::<Vec<_>>().join(": ")
    }

    /// The file that holds the setting, if a file does.
    pub fn file(&self) -> Option<&Path> {
        match &self.origin {
            Some(Origin::File { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// The line in [`Self::file`], from 1.
    pub fn line(&self) -> Option<u32> {
        match &self.origin {
            Some(Origin::File { line, .. }) => *line,
            _ => None,
        }
    }

    /// The short sentence that Java prints on stderr and logs before the reason.
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
