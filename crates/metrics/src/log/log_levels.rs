//! Log levels by module, which can change at runtime.
//!
//! There is one global instance, because a process has one log.

use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;

/// Function that applies levels to the log, or returns the reason why they are invalid.
pub type Apply = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// Maximum length of a list of levels, bytes.
pub const LEVELS_BYTES_MAX: usize = 4 << 10;

/// Current levels, and the function that changes them.
pub struct LogLevels {
    apply: OnceLock<Box<Apply>>,
    current: Mutex<String>,
}

/// Levels of this process.
pub static LOG_LEVELS: LogLevels = LogLevels::new();

/// Reason why levels were not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelsError {
    /// Another program embeds this server and owns the log.
    #[error("cannot change the log levels: the program that embeds this server configures the log")]
    Fixed,
    /// The levels exceed the maximum length.
    #[error("the log levels have {0} bytes; the limit is {LEVELS_BYTES_MAX}")]
    TooLong(usize),
    /// The levels are invalid.
    #[error("`{levels}` is not a list of log levels such as `info,zoarium_zab=debug`: {reason}")]
    Invalid {
        /// Requested levels.
        levels: String,
        /// Fault in the levels.
        reason: String,
    },
}

impl LogLevels {
    const fn new() -> Self {
        Self {
            apply: OnceLock::new(),
            current: Mutex::new(String::new()),
        }
    }

    /// Sets the initial levels and the function that changes them. Only the first call has an
    /// effect.
    pub fn begin(&self, levels: &str, apply: Box<Apply>) {
        let mut current = self.current.lock();
        if self.apply.set(apply).is_ok() {
            levels.clone_into(&mut current);
        }
    }

    /// Returns the current levels. They are empty before [`begin`](Self::begin).
    pub fn current(&self) -> String {
        self.current.lock().clone()
    }

    /// Changes the levels. The caller logs the change.
    ///
    /// # Errors
    /// If the new levels are invalid or too long, or if [`begin`](Self::begin) was not called. The
    /// current levels then stay unchanged.
    pub fn change(&self, levels: &str) -> Result<(), LevelsError> {
        let apply = self.apply.get().ok_or(LevelsError::Fixed)?;
        let levels = levels.trim();
        if levels.len() > LEVELS_BYTES_MAX {
            return Err(LevelsError::TooLong(levels.len()));
        }
        let invalid = |reason: String| LevelsError::Invalid {
            levels: levels.to_owned(),
            reason,
        };
        if levels.is_empty() {
            return Err(invalid("the list is empty".to_owned()));
        }
        // The lock serializes changes, so the recorded levels are the effective ones.
        let mut current = self.current.lock();
        apply(levels).map_err(invalid)?;
        levels.clone_into(&mut current);
        Ok(())
    }
}

impl fmt::Debug for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLevels")
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_levels_are_applied() {
        let levels = LogLevels::new();
        assert_eq!(levels.change("info"), Err(LevelsError::Fixed));
        levels.begin(
            "info",
            Box::new(|text| match text {
                "bad" => Err("unknown".to_owned()),
                _ => Ok(()),
            }),
        );
        levels.change(" warn,zoarium_zab=debug\n").expect("levels");
        assert_eq!(levels.current(), "warn,zoarium_zab=debug");
        for wrong in ["bad", "", " ", &"x".repeat(LEVELS_BYTES_MAX + 1)] {
            levels.change(wrong).expect_err(wrong);
            assert_eq!(levels.current(), "warn,zoarium_zab=debug");
        }
    }
}
