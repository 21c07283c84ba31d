//! Passes the commit, the time and the Cargo profile of the build to the version string.

use std::path::Path;
use std::process::Command;

/// Placeholder for an unknown commit, for example in a build from an unpacked archive.
const UNKNOWN_COMMIT: &str = "0000000000000000000000000000000000000000";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo:rustc-env=ZOARIUM_PROFILE={}", profile());
    // Only a release must contain the exact commit. A developer's build is not repeated for every
    // commit.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        for file in ["../../.git/HEAD", "../../.git/logs/HEAD"] {
            if Path::new(file).exists() {
                println!("cargo:rerun-if-changed={file}");
            }
        }
    }

    let commit = git(&["rev-parse", "HEAD"])
        .filter(|text| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .unwrap_or_else(|| UNKNOWN_COMMIT.to_owned());
    println!("cargo:rustc-env=ZOARIUM_COMMIT={commit}");

    // The commit's own time makes two builds of one commit identical.
    let seconds = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .or_else(|| git(&["log", "-1", "--format=%ct"]))
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| jiff::Timestamp::now().as_second());
    println!("cargo:rustc-env=ZOARIUM_BUILT={}", utc_minute(seconds));
}

/// Returns Cargo's profile. The variable `PROFILE` contains only `debug` or `release`. The output
/// directory is `<target>/<profile>/build/<package>/out`, where `debug` means the profile `dev`.
fn profile() -> String {
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    let directory = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    match directory.and_then(|name| name.to_str()) {
        Some("debug") => "dev".to_owned(),
        Some(profile) => profile.to_owned(),
        None => "unknown".to_owned(),
    }
}

/// Returns the output of git, or `None` without git or outside a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Formats a time as `YYYY-MM-DD HH:MM UTC`.
fn utc_minute(seconds: i64) -> String {
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    moment.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
