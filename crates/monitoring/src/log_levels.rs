//! Which lines the log has, by module, as it can be changed while the process runs.
//!
//! There is one, as there is one log of a process.

use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;

/// Makes the log follow levels, or says what is wrong with them.
pub type Apply = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// Bytes of levels that are taken.
pub const LEVELS_BYTES_MAX: usize = 4 << 10;

/// The levels that are in force, and how they are changed.
pub struct LogLevels {
    apply: OnceLock<Box<Apply>>,
    current: Mutex<String>,
}

/// Those of this process.
pub static LOG_LEVELS: LogLevels = LogLevels::new();

/// Why levels stay as they were.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelsError {
    /// Who runs this server keeps the log.
    #[error("the levels of this process's log cannot be changed")]
    Fixed,
    /// They are too long.
    #[error("levels of {0} bytes are too long: {LEVELS_BYTES_MAX} are taken")]
    TooLong(usize),
    /// They make no sense.
    #[error("`{levels}` are no levels, as `info,server::client=debug` are: {reason}")]
    Invalid {
        /// What was asked for.
        levels: String,
        /// What is wrong with it.
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

    /// The log has begun with these levels, and `apply` changes them. Only the first call counts.
    pub fn begin(&self, levels: &str, apply: Box<Apply>) {
        let mut current = self.current.lock();
        if self.apply.set(apply).is_ok() {
            levels.clone_into(&mut current);
        }
    }

    /// The levels in force; empty if nobody has begun.
    pub fn current(&self) -> String {
        self.current.lock().clone()
    }

    /// Puts others into force, and says it in the log.
    ///
    /// # Errors
    /// If they make no sense, or nobody has begun: all stays as it was.
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
            return Err(invalid("nothing is named".to_owned()));
        }
        // One change at a time: what is shown is what is in force.
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
    fn levels_change_only_to_what_makes_sense() {
        let levels = LogLevels::new();
        assert_eq!(levels.change("info"), Err(LevelsError::Fixed));
        levels.begin(
            "info",
            Box::new(|text| match text {
                "bad" => Err("unknown".to_owned()),
                _ => Ok(()),
            }),
        );
        levels.change(" warn,zab=debug\n").expect("levels");
        assert_eq!(levels.current(), "warn,zab=debug");
        for wrong in ["bad", "", " ", &"x".repeat(LEVELS_BYTES_MAX + 1)] {
            levels.change(wrong).expect_err(wrong);
            assert_eq!(levels.current(), "warn,zab=debug");
        }
    }
}
