//! Location of the recordings of Apache ZooKeeper: conversations, data directories, wire cases.

use std::env;
use std::io::Write;
use std::path::PathBuf;

/// Variable that names the folder with `vectors` and `conformance`. `.cargo/config.toml` sets it
/// for every run of cargo, unless the environment already contains it.
pub const VARIABLE: &str = "ZOARIUM_RECORDINGS";

/// Variable that makes a test fail instead of being skipped, if its value is `1`. `.ci/run` sets
/// it.
const FORBID_SKIP: &str = "ZOARIUM_FORBID_SKIP";

/// Returns a folder or file of the recordings, such as `vectors/ensemble`. If it is missing,
/// reports on standard error that the test is skipped, and returns `None`.
///
/// # Panics
/// If the folder or file is missing and skipping is forbidden.
pub fn find(name: &str) -> Option<PathBuf> {
    let missing = match env::var_os(VARIABLE) {
        Some(folder) => {
            let path = PathBuf::from(folder).join(name);
            if path.exists() {
                return Some(path);
            }
            format!("{} does not exist", path.display())
        }
        None => format!("{VARIABLE} does not name the folder that holds {name}"),
    };
    let forbidden = env::var_os(FORBID_SKIP).is_some_and(|value| value == "1");
    assert!(
        !forbidden,
        "tests of recordings must not be skipped: {missing}"
    );
    // The test runner would suppress the output of eprintln in a passing test.
    let line = format!("SKIPPED a test of recordings: {missing}\n");
    std::io::stderr().write_all(line.as_bytes()).ok();
    None
}
