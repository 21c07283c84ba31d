//! Findings about a configuration, with stable names for scripts.
//!
//! `zoarium config check` and `zoarium preflight` report findings with these names.
//! docs/TROUBLESHOOTING.md lists them. The meaning of a published name never changes.

use std::fmt;

use super::origin::{Notice, NoticeLevel, Origin};
use crate::error::ConfigError;

/// Declares names with descriptions, and the list of all names.
macro_rules! findings {
    ($($(#[doc = $doc:literal])+ $name:ident = $id:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: &str = $id;)+

        /// All names with their descriptions.
        pub const ALL: &[(&str, &str)] = &[$(($id, concat!($($doc),+))),+];
    };
}

findings! {
    /// The file is missing, unreadable, or not a configuration.
    FILE = "config-file";
    /// The value of a setting is refused, or a setting is missing.
    VALUE = "config-value";
    /// A setting requires a feature that Zoarium lacks. The server does not start with it.
    NOT_THERE = "config-not-there";
    /// The name of a setting is unknown, or applies only in another place.
    UNKNOWN = "config-unknown";
    /// A setting has no effect on this server.
    NO_EFFECT = "config-no-effect";
    /// Flags of a JVM, such as heap sizes, have no effect.
    JVM_FLAGS = "config-jvm-flags";
    /// A value is invalid, and the server uses another value.
    FALLBACK = "config-fallback";
    /// The same setting in another place overrides this setting.
    OVERRIDDEN = "config-overridden";
    /// A setting applies to Zoarium, but Apache ZooKeeper ignores it in this place.
    MISPLACED = "config-misplaced";
    /// A directory is relative to the working directory of the server.
    RELATIVE_PATH = "config-relative-path";
    /// The file of `dynamicConfigFile` is missing, unreadable, or contains invalid lines.
    DYNAMIC_FILE = "config-dynamic-file";
    /// The JAAS file is not configured or unreadable, or permits no login.
    JAAS = "config-jaas";
    /// The member list is refused, or contradicts other settings.
    MEMBERS = "member-list";
    /// The number of voters is one or even.
    VOTERS = "member-voters";
    /// The name of a host is unknown.
    UNRESOLVED = "member-unresolved";
    /// The file `myid` is missing.
    MY_ID_MISSING = "myid-missing";
    /// The file `myid` is unreadable, or does not contain a number.
    MY_ID = "myid-invalid";
    /// The member list does not contain the id in `myid`.
    MY_ID_NOT_LISTED = "myid-not-listed";
    /// A data directory is missing, or is not a directory.
    DATA_DIRECTORY = "data-directory";
}

/// Name of informational notices that a server logs at its start. They are not findings.
pub(crate) const NOTED: &str = "config-noted";

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The server does not start, or data would be lost.
    Blocker,
    /// The server starts, but probably not as intended.
    Warning,
    /// Useful information.
    Note,
}

impl Severity {
    /// Returns the name of the severity.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocker => "blocker",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Finding about a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable name of the kind.
    pub id: &'static str,
    /// Severity of the finding.
    pub severity: Severity,
    /// Place of the fault: a file, a line or flags. Absent if it is unknown.
    pub origin: Option<Origin>,
    /// Setting, as written.
    pub key: Option<String>,
    /// Description of the problem.
    pub problem: String,
    /// Recommended action.
    pub way_out: Option<String>,
}

impl Finding {
    /// Creates a finding without a place.
    pub fn new(id: &'static str, severity: Severity, problem: impl Into<String>) -> Self {
        Self {
            id,
            severity,
            origin: None,
            key: None,
            problem: problem.into(),
            way_out: None,
        }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, origin: Option<Origin>) -> Self {
        self.origin = origin;
        self
    }

    /// Sets the setting.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the recommended action.
    #[must_use]
    pub fn way_out(mut self, way_out: impl Into<String>) -> Self {
        self.way_out = Some(way_out.into());
        self
    }

    /// Returns the line of [`Self::origin`] or 0, for the order of findings.
    pub fn line(&self) -> u32 {
        match self.origin {
            Some(Origin::File { line, .. }) => line.unwrap_or(0),
            _ => 0,
        }
    }
}

impl From<ConfigError> for Finding {
    fn from(error: ConfigError) -> Self {
        Self {
            id: error.id(),
            severity: Severity::Blocker,
            origin: error.origin,
            key: error.key,
            problem: error.reason,
            way_out: error.hint,
        }
    }
}

impl From<Notice> for Finding {
    fn from(notice: Notice) -> Self {
        let severity = match (notice.level, notice.id) {
            // JVM flags only affect a JVM.
            (NoticeLevel::Info, _) | (_, JVM_FLAGS) => Severity::Note,
            (NoticeLevel::Warn | NoticeLevel::Error, _) => Severity::Warning,
        };
        Self {
            id: notice.id,
            severity,
            origin: notice.origin,
            key: notice.key,
            problem: notice.text,
            way_out: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_stands_for_one_kind_of_finding() {
        let names: BTreeSet<_> = ALL.iter().map(|(id, _)| id).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|(_, what)| what.ends_with('.')));
    }
}
