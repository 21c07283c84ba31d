//! Locations of the workspace, its target directory, and the shared material next to it.

use std::path::{Path, PathBuf};

/// Returns the root of the workspace.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("the tests crate lies in the workspace")
        .to_path_buf()
}

/// Returns `tests/foreign/<name>`, the sources of the programs that test the server.
pub fn source_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("foreign")
        .join(name)
}

/// Returns the directory of this test's profile, such as `target/debug`.
///
/// It is derived from the path of the running executable, so that it follows `CARGO_TARGET_DIR`,
/// `--target-dir`, `--target` and `--profile`. An example of a document is in another directory. In
/// that case it is the profile with which this crate was built.
pub(crate) fn profile_dir() -> PathBuf {
    let executable = std::env::current_exe().expect("the running test has a path");
    profile_of(&executable)
}

/// Returns the directory of the profile with which an executable was built. `deps` contains tests,
/// `examples` examples.
fn profile_of(executable: &Path) -> PathBuf {
    let dir = executable
        .parent()
        .expect("an executable lies in a directory");
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("rustdoctest") {
        // `<profile>/build/<crate>/out`
        let out = Path::new(env!("OUT_DIR"));
        let profile = out.ancestors().nth(3);
        return profile.expect("a profile has a directory").to_path_buf();
    }
    if dir.ends_with("deps") || dir.ends_with("examples") {
        let profile = dir.parent();
        profile.expect("a profile has a directory").to_path_buf()
    } else {
        dir.to_path_buf()
    }
}

/// Returns `target/foreign`, which contains downloads of package managers and their builds.
pub fn foreign_dir() -> PathBuf {
    let profile = profile_dir();
    profile
        .parent()
        .expect("a profile lies in the target directory")
        .join("foreign")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_of_each_kind_of_executable() {
        for executable in ["deps/it-0f", "examples/stalls", "zoarium"] {
            let executable = Path::new("/target/dist").join(executable);
            assert_eq!(profile_of(&executable), Path::new("/target/dist"));
        }
    }
}
