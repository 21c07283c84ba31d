//! Where things lie: the workspace, its target directory, the shared material beside it.

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("the tests crate lies in the workspace")
        .to_path_buf()
}

/// `tests/foreign/<name>`: the sources of what runs against the server.
pub fn source_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("foreign")
        .join(name)
}

/// The directory of the profile this test was built with, such as `target/debug`.
///
/// Taken from the running executable (`<profile>/deps/<test>`), so that it follows
/// `CARGO_TARGET_DIR`, `--target-dir`, `--target` and `--profile`. An example of a document lies
/// elsewhere: there it is the profile that this crate was built with.
pub(crate) fn profile_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("the running test has a path");
    let deps = exe.parent().expect("an executable lies in a directory");
    let name = deps.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("rustdoctest") {
        // `<profile>/build/<crate>/out`
        let out = Path::new(env!("OUT_DIR"));
        let profile = out.ancestors().nth(3);
        return profile.expect("a profile has a directory").to_path_buf();
    }
    if deps.ends_with("deps") {
        deps.parent()
            .expect("deps lies in the profile's directory")
            .to_path_buf()
    } else {
        deps.to_path_buf()
    }
}

/// `target/foreign`: what the package managers brought and what was built from it.
pub fn foreign_dir() -> PathBuf {
    let profile = profile_dir();
    profile
        .parent()
        .expect("a profile lies in the target directory")
        .join("foreign")
}
