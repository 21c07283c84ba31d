//! Where the recordings of Apache ZooKeeper are: conversations, data directories, wire cases.

use std::env;
use std::io::Write;
use std::path::PathBuf;

/// Names the folder that holds `vectors` and `conformance`. `.cargo/config.toml` sets it for every
/// run of cargo, unless the environment has it already.
pub const VARIABLE: &str = "ZOARIUM_RECORDINGS";

/// With `1` in it a test that lacks something fails instead of being skipped; `.ci/run` sets it.
const FORBID_SKIP: &str = "ZOARIUM_FORBID_SKIP";

/// A folder or file of the recordings, such as `vectors/ensemble`. `None`, after saying on standard
/// error that the test is skipped, where there is none.
///
/// # Panics
/// If there is none and skipping is forbidden.
pub fn find(name: &str) -> Option<PathBuf> {
    let missing = match env::var_os(VARIABLE) {
        Some(folder) => {
            let path = PathBuf::from(folder).join(name);
            if path.exists() {
                return Some(path);
            }
            format!("{} is not there", path.display())
        }
        None => format!("{VARIABLE} does not name the folder that holds {name}"),
    };
    let forbidden = env::var_os(FORBID_SKIP).is_some_and(|value| value == "1");
    assert!(!forbidden, "recordings may not be missing here: {missing}");
    // Not eprintln: the test runner swallows that of a passing test.
    let line = format!("SKIPPED a test of recordings: {missing}\n");
    std::io::stderr().write_all(line.as_bytes()).ok();
    None
}
