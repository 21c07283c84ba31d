//! Rules for maintainers: the oldest Rust that builds Zoarium, and the form of commit messages.

use std::env;
use std::process::Command;

use super::text_of;
use tests::workspace_root;

/// Last commit before the rule for commit messages was enforced.
const RULE_BEGINS_AFTER: &str = "70b7bb4c5f4835ff4ad03ec225fbc57a49227131";

/// Longest subject of a commit, in characters.
const SUBJECT_MAX: usize = 72;

fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace_root());
    cargo
}

/// The value of `rust-version` in the workspace's manifest.
fn oldest_rust() -> String {
    let manifest = text_of("Cargo.toml").expect("manifest of the workspace");
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    line.expect("rust-version").trim_matches('"').to_owned()
}

/// Major, minor and patch number; missing numbers are 0.
fn version(text: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = text
        .split('.')
        .map(|number| number.parse().expect("a number of a version"))
        .collect();
    numbers.resize(3, 0);
    numbers
}

#[test]
fn no_crate_in_the_lock_file_requires_a_newer_rust() {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .expect("run cargo metadata");
    assert!(output.status.success(), "{output:?}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("list of packages");
    assert!(packages.len() > 100, "only {} packages", packages.len());
    let oldest = version(&oldest_rust());
    let newer: Vec<String> = packages
        .iter()
        .filter_map(|package| {
            let required = package["rust_version"].as_str()?;
            let name = package["name"].as_str()?;
            (version(required) > oldest).then(|| format!("{name} requires Rust {required}"))
        })
        .collect();
    assert!(newer.is_empty(), "{oldest:?}: {newer:#?}");
}

/// A build with an old toolchain has to be complete, which takes minutes.
#[test]
#[ignore = "builds with the oldest Rust"]
fn the_oldest_rust_builds_the_workspace() {
    let oldest = oldest_rust();
    // `CARGO` names the cargo of one toolchain. The proxy of rustup selects another one.
    let check = |arguments: &[&str]| {
        Command::new("cargo")
            .arg(format!("+{oldest}"))
            .args(arguments)
            .env_remove("CARGO")
            .env_remove("RUSTC")
            .env_remove("RUSTUP_TOOLCHAIN")
            .current_dir(workspace_root())
            .output()
    };
    let is_installed = check(&["--version"]).is_ok_and(|output| output.status.success());
    if !is_installed {
        println!("not built: Rust {oldest} is not installed; `rustup toolchain install {oldest}`");
        return;
    }
    let target = workspace_root().join("target/oldest-rust");
    let target = target.to_str().expect("a path that is text");
    let output = check(&["check", "--workspace", "--locked", "--target-dir", target]);
    let output = output.expect("run cargo check");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
}

/// Faults of one commit message.
fn faults_of(subject: &str, body: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if subject.chars().count() > SUBJECT_MAX {
        faults.push("the subject has more than 72 characters");
    }
    let area = subject.split_once(": ").map(|(area, _)| area);
    let is_area = |area: &str| {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || b"-.0123456789/".contains(&byte))
        };
        area.split(", ").all(is_name)
    };
    if !area.is_some_and(is_area) {
        faults.push("the subject does not begin with `crate: `");
    }
    if body.trim().is_empty() {
        faults.push("the body does not give a reason");
    }
    faults
}

#[test]
fn commit_messages_follow_the_rule() {
    let range = format!("{RULE_BEGINS_AFTER}..HEAD");
    let log = Command::new("git")
        .args(["log", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e", &range])
        .current_dir(workspace_root())
        .output();
    let Some(log) = log.ok().filter(|output| output.status.success()) else {
        println!("this checkout does not contain the history from {RULE_BEGINS_AFTER} on");
        return;
    };
    let log = String::from_utf8(log.stdout).expect("commit messages are text");
    let mut faults = Vec::new();
    for entry in log.split('\x1e').map(str::trim).filter(|it| !it.is_empty()) {
        let mut parts = entry.split('\x1f');
        let mut next = || parts.next().unwrap_or_default();
        let (commit, subject, body) = (next(), next(), next());
        for fault in faults_of(subject, body) {
            faults.push(format!("{commit} {subject:?}: {fault}"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_rule_for_commit_messages_finds_each_fault() {
    let good = "zab, tests: learners reject an old epoch";
    assert_eq!(faults_of(good, "A reason."), [""; 0]);
    assert_eq!(faults_of(good, " \n").len(), 1);
    assert_eq!(
        faults_of("Learners reject an old epoch", "A reason.").len(),
        1
    );
    assert_eq!(
        faults_of(&format!("zab: {}", "x".repeat(68)), "A reason.").len(),
        1
    );
}

/// Cargo resets `strip` to "debuginfo" for a package that has settings of its own in a profile.
#[test]
fn a_shipped_executable_has_no_symbols() {
    let manifest = text_of("Cargo.toml").expect("manifest of the workspace");
    let section = |name: &str| {
        let from = manifest.split_once(&format!("\n{name}\n"));
        let rest = from
            .unwrap_or_else(|| panic!("the manifest lacks {name}"))
            .1;
        rest.split("\n[").next().expect("a first part").to_owned()
    };
    let release = section("[profile.release]");
    assert!(release.lines().any(|line| line == "strip = true"));
    for profile in ["release", "dist"] {
        assert!(!section(&format!("[profile.{profile}]")).contains("strip = false"));
        let packages = section(&format!("[profile.{profile}.package]"));
        let own = packages.lines().find(|line| {
            let name = line
                .trim_start()
                .trim_start_matches('"')
                .split([' ', '.', '"'])
                .next();
            name == Some("zoarium")
        });
        assert!(
            own.is_none_or(|line| line.contains("strip = true")),
            "profile {profile}: {own:?}"
        );
    }
}

#[test]
fn a_release_is_refused_without_its_version_in_the_manifest() {
    let output = Command::new(workspace_root().join(".ci/release"))
        .arg("999.0.0")
        .output()
        .expect("run the release script");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("set version = \"999.0.0\""), "{printed}");
}
