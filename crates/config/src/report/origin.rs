//! Origins of settings, and notices about them.

use std::fmt;
use std::path::{Path, PathBuf};

/// Place where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// Path of the file, as given.
        path: PathBuf,
        /// Line, from 1. Absent for the file as a whole.
        line: Option<u32>,
    },
    /// In `-D` flags, either on the command line or in a variable such as `JVMFLAGS`.
    Flags(String),
}

impl Origin {
    /// Creates the origin of a line of a file.
    pub fn line_of(path: &Path, line: u32) -> Self {
        Self::File {
            path: path.to_owned(),
            line: Some(line),
        }
    }

    /// Creates the origin of a file as a whole.
    pub fn file(path: &Path) -> Self {
        Self::File {
            path: path.to_owned(),
            line: None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File {
                path,
                line: Some(line),
            } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Flags(source) => f.write_str(source),
        }
    }
}

/// Level of a [`Notice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeLevel {
    /// Information that does not indicate a fault.
    Info,
    /// The server starts, but probably not as intended.
    Warn,
    /// The server starts, but the configuration is wrong.
    Error,
}

/// Information to log about an accepted configuration.
///
/// The crate does not log. The caller logs the notices after logging is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Level of the notice.
    pub level: NoticeLevel,
    /// Place where the setting was written. Absent if the notice does not concern one setting.
    pub origin: Option<Origin>,
    /// Setting, as written.
    pub key: Option<String>,
    /// Kind of the notice, one of [`finding`](crate::finding).
    pub id: &'static str,
    /// Text of the notice.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, self.origin.as_ref(), self.key.as_deref())?;
        f.write_str(&self.text)
    }
}

pub(crate) fn write_place(
    f: &mut fmt::Formatter<'_>,
    origin: Option<&Origin>,
    key: Option<&str>,
) -> fmt::Result {
    if let Some(origin) = origin {
        write!(f, "{origin}: ")?;
    }
    if let Some(key) = key {
        write!(f, "{key}: ")?;
    }
    Ok(())
}
