//! Skips of tests, always with a printed reason.

use std::fmt;
use std::io::Write;

/// Missing requirement of this machine, and how it was detected.
#[derive(Debug, Clone)]
pub struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the value, or prints the reason for skipping `what` and returns `None`.
///
/// With `ZOARIUM_FORBID_SKIP=1` in the environment (`.ci/run` sets it) a skip is a failure: this
/// panics with the reason instead.
pub fn or_skip<T>(what: &str, found: Result<T, Missing>) -> Option<T> {
    match found {
        Ok(value) => Some(value),
        Err(missing) => {
            let forbidden = std::env::var_os("ZOARIUM_FORBID_SKIP").is_some_and(|v| v == "1");
            assert!(!forbidden, "{what} may not be skipped here: {missing}");
            // The test runner hides output of eprintln in a passing test.
            let line = format!("SKIPPED {what}: {missing}\n");
            std::io::stderr().write_all(line.as_bytes()).ok();
            None
        }
    }
}
