//! The tested `zoarium` executable.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::command::run;
use crate::layout::{profile_dir, workspace_root};
use crate::mutants::SwitchedCopy;
use crate::skip::Missing;

/// Time limit for a complete build on a slow machine.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Returns the `zoarium` executable, which is built at most once in each test process.
///
/// Cargo gives the paths of executables only to tests of their own package. Therefore this function
/// runs Cargo with the profile and the target directory of the running test. `ZOARIUM_BIN` names
/// another executable to test instead.
pub fn zoarium_binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY
        .get_or_init(|| match std::env::var_os("ZOARIUM_BIN") {
            Some(path) => PathBuf::from(path),
            None => build(),
        })
        .clone()
}

/// Returns a `PATH` for a program that starts `zoarium` by its name.
pub fn path_with_zoarium() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let binary = zoarium_binary();
    let first = binary.parent().map(PathBuf::from);
    let all = first.into_iter().chain(std::env::split_paths(&path));
    // A directory with a colon in its name cannot be in `PATH`.
    std::env::join_paths(all).unwrap_or(path)
}

/// Returns the executable with Kerberos. It is built under another name next to the executable
/// without Kerberos. Both have the code in common that does not depend on Kerberos.
///
/// # Errors
/// [`Missing`] if the Kerberos library, its headers or `libclang`, which reads them, are not
/// installed.
pub(crate) fn zoarium_gssapi_binary() -> Result<PathBuf, Missing> {
    gssapi_programs().map(|(server, _)| server)
}

/// Returns a program that logs in with the Zoarium client and Kerberos:
/// `crates/client/examples/kerberos.rs`.
///
/// # Errors
/// Under the conditions of the executable with Kerberos.
pub fn kerberos_client() -> Result<PathBuf, Missing> {
    gssapi_programs().map(|(_, client)| client)
}

/// Returns the executable in which each mutant is a switch ([`crate::mutants`]).
///
/// # Errors
/// If it does not build.
pub fn zoarium_with_switches() -> Result<PathBuf, String> {
    SwitchedCopy::get()?.zoarium()
}

/// Builds the executable from the same libraries as `cargo test --workspace`. The features are
/// chosen as in that command, for all packages and the requirements of their tests: the example
/// has such requirements. Any other choice would build nearly everything once more. `.ci/run`
/// checks that the server builds with only its own features.
fn dev_build(target: &Path) -> Command {
    let mut command = cargo_build_as("dev", target);
    command.args(["--workspace", "--bin", "zoarium", "--example", "hand_over"]);
    command
}

fn gssapi_programs() -> Result<(PathBuf, PathBuf), Missing> {
    static PROGRAMS: OnceLock<Result<(PathBuf, PathBuf), Missing>> = OnceLock::new();
    let built = PROGRAMS.get_or_init(|| {
        let features = "zoarium/gssapi,zoarium-client/gssapi";
        let mut command = cargo_build();
        command
            .args([
                "--workspace",
                "--example",
                "zoarium-gssapi",
                "--example",
                "kerberos",
            ])
            .args(["--features", features]);
        if let Err(failure) = run(&mut command, BUILD_LIMIT) {
            let lacks = ["libclang", "gssapi.h", "no MIT or Heimdal gssapi library"];
            assert!(
                lacks.iter().any(|lack| failure.contains(lack)),
                "the server with Kerberos does not build: {failure}"
            );
            return Err(Missing("libkrb5-dev or libclang-dev".to_owned()));
        }
        let examples = profile_dir().join("examples");
        Ok((examples.join("zoarium-gssapi"), examples.join("kerberos")))
    });
    built.clone()
}

fn build() -> PathBuf {
    let profile_dir = profile_dir();
    let mut command = match profile_dir.parent() {
        Some(target) if profile_dir.ends_with("debug") => dev_build(target),
        _ => {
            let mut command = cargo_build();
            command.args(["--package", "zoarium", "--bin", "zoarium"]);
            command
        }
    };
    if let Err(failure) = run(&mut command, BUILD_LIMIT) {
        panic!("the server under test does not build: {failure}");
    }
    profile_dir.join("zoarium")
}

/// Returns `cargo build` with the profile and the target directory of the running test.
fn cargo_build() -> Command {
    let profile_dir = profile_dir();
    let directory = profile_dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    // Only the dev profile has a directory with a different name.
    let profile = if directory == "debug" {
        "dev"
    } else {
        &directory
    };
    let target = profile_dir
        .parent()
        .expect("a profile lies in the target directory");
    cargo_build_as(profile, target)
}

fn cargo_build_as(profile: &str, target: &Path) -> Command {
    let mut command = cargo(&workspace_root());
    command
        .args(["build", "--quiet", "--profile", profile, "--target-dir"])
        .arg(target);
    command
}

/// Returns cargo in a workspace.
pub(crate) fn cargo(workspace: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(workspace);
    // Cargo sets variables about the package of this test. The build script of `ring` reads some of
    // them. With these variables, `ring` and every dependent crate would be built again, and once
    // more without them.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}
