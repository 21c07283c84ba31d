//! Where a setting was written, and what is to be said about it.

use std::fmt;
use std::path::{Path, PathBuf};

/// The place where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// The file, as it was named to us.
        path: PathBuf,
        /// The line, from 1; absent where the whole file is meant.
        line: Option<u32>,
    },
    /// Among `-D` flags: on the command line, or in a variable such as `JVMFLAGS`.
    Flags(String),
}

impl Origin {
    /// A line of a file.
    pub fn line_of(path: &Path, line: u32) -> Self {
        Self::File {
            path: path.to_owned(),
            line: Some(line),
        }
    }

    /// A file as a whole.
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

/// How loud a [`Notice`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeLevel {
    /// For the record: what was decided.
    Info,
    /// The server starts, but probably not as it was meant.
    Warn,
    /// The server starts, and the configuration is wrong.
    Error,
}

/// Something to log about a configuration that was accepted.
///
/// The crate has no logger: whoever loads a configuration logs its notices once logging is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How loud.
    pub level: NoticeLevel,
    /// Where the setting was written; absent for what concerns no single setting.
    pub origin: Option<Origin>,
    /// The setting, as written.
    pub key: Option<String>,
    /// What kind of thing is said: one of [`finding`](crate::finding).
    pub id: &'static str,
    /// The sentence.
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
