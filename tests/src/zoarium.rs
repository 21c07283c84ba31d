//! The `zoarium` executable under test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::command::run;
use crate::layout::{profile_dir, workspace_root};

/// Longest time for building it from nothing on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The `zoarium` executable, brought up to date once in each test process.
///
/// Cargo names executables only to tests of their own package, so this asks it to build the one
/// package with the profile and into the target directory of the running test.
/// `ZOARIUM_BIN` names another executable to test instead.
pub fn zoarium_binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY
        .get_or_init(|| match std::env::var_os("ZOARIUM_BIN") {
            Some(path) => PathBuf::from(path),
            None => build(),
        })
        .clone()
}

fn build() -> PathBuf {
    let profile_dir = profile_dir();
    let directory = profile_dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    // The dev profile is the one whose directory has another name.
    let profile = if directory == "debug" {
        "dev"
    } else {
        &directory
    };
    let target = profile_dir
        .parent()
        .expect("a profile lies in the target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(workspace_root())
        .args([
            "build",
            "--quiet",
            "--package",
            "zoarium",
            "--bin",
            "zoarium",
        ])
        .args(["--profile", profile, "--target-dir"])
        .arg(target);
    if let Err(failure) = run(&mut command, BUILD_LIMIT) {
        panic!("the server under test does not build: {failure}");
    }
    profile_dir.join("zoarium")
}
