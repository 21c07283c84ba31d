//! Preflight on invalid configurations and data directories.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use super::site::{Said, Site};

/// The user `nobody`, as which no test runs.
const NOBODY: u32 = 65_534;

/// Returns whether this test may become another user.
fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    let is_root = id.is_ok_and(|id| id.stdout == b"0\n");
    if !is_root {
        eprintln!("SKIPPED a test of another user: only root can become one");
    }
    is_root
}

/// Runs [`Site::preflight`] as the user `nobody`. Root remains the owner of files that it created.
fn as_nobody(site: &Site) -> Said {
    for dir in ["", "conf"] {
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(site.path(dir), open).unwrap();
    }
    let config = site.config();
    let words = ["preflight", config.to_str().unwrap(), "--output", "json"];
    // The executable may be in a directory that `nobody` cannot enter. Another process writes the
    // copy. If this process had the copy open for writing, a concurrent process of another test
    // would inherit the descriptor, and a file that is open for writing cannot be executed.
    let zoarium = site.path("zoarium");
    let mut copy = Command::new("cp");
    let copied = copy.arg(env!("CARGO_BIN_EXE_zoarium")).arg(&zoarium);
    assert!(copied.status().is_ok_and(|status| status.success()));
    let mut command = Command::new(&zoarium);
    command
        .args(words)
        .env_clear()
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY);
    Said::of(&command.output().unwrap(), site.home())
}

#[test]
fn a_directory_or_pipe_is_not_a_configuration() {
    let site = Site::new();
    assert_eq!(site.preflight(&[]).told("blocker"), ["config-file"]);
    fs::create_dir(site.config()).unwrap();
    assert_eq!(site.preflight(&[]).told("blocker"), ["config-file"]);
    fs::remove_dir(site.config()).unwrap();
    symlink("zoo.cfg", site.config()).unwrap();
    let said = site.preflight(&[]);
    assert_eq!(said.told("blocker"), ["config-file"]);
    assert!(
        said.json.to_string().contains("symbolic links"),
        "{:#}",
        said.json
    );
    fs::remove_file(site.config()).unwrap();
    // A pipe without a writer must not block preflight.
    let pipe = Command::new("mkfifo").arg(site.config()).status();
    assert!(pipe.is_ok_and(|status| status.success()));
    assert_eq!(site.preflight(&[]).told("blocker"), ["config-file"]);
}

#[test]
fn a_hundred_megabytes_are_no_configuration() {
    let site = Site::new();
    File::create(site.config())
        .unwrap()
        .set_len(100 << 20)
        .unwrap();
    let begun = Instant::now();
    let said = site.preflight(&[]);
    assert_eq!(said.told("blocker"), ["config-file"]);
    let report = said.json.to_string();
    assert!(report.contains("the file has more than"), "{report}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    // A huge java.env next to a good zoo.cfg must not block preflight either.
    fs::create_dir(site.path("data")).unwrap();
    site.alone("");
    File::create(site.path("conf/java.env"))
        .unwrap()
        .set_len(100 << 20)
        .unwrap();
    let said = site.preflight(&[]);
    assert_eq!(
        said.told("warning"),
        ["env-file conf/java.env", "data-new data"]
    );
}

#[test]
fn any_bytes_are_logged_without_control_characters() {
    let site = Site::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    fs::write(site.config(), bytes).unwrap();
    let said = site.preflight(&[]);
    assert_eq!(said.verdict, "no-go");
    let config = site.config();
    for words in [
        ["preflight", config.to_str().unwrap()],
        ["preflight", env!("CARGO_BIN_EXE_zoarium")],
    ] {
        let output = site.run(&words);
        assert_eq!(output.status.code(), Some(3));
        let is_shown = |byte: &u8| *byte >= b' ' || *byte == b'\n';
        assert!(output.stdout.iter().all(is_shown));
    }
}

#[test]
fn a_directory_cycle_is_reported() {
    let site = Site::new();
    symlink("data", site.path("data")).unwrap();
    site.alone("");
    let said = site.preflight(&[]);
    assert_eq!(
        said.told("blocker"),
        ["myid-invalid data/myid", "data-directory data"],
        "{:#}",
        said.json
    );
    fs::remove_file(site.path("data")).unwrap();
    fs::create_dir(site.path("data")).unwrap();
    symlink(".", site.path("data/version-2")).unwrap();
    let said = site.preflight(&[]);
    assert_eq!(
        said.told("warning"),
        ["data-foreign data/version-2", "data-new data"]
    );
    fs::remove_file(site.path("data/version-2")).unwrap();
    fs::create_dir(site.path("data/version-2")).unwrap();
    symlink("log.1", site.path("data/version-2/log.1")).unwrap();
    let said = site.preflight(&[]);
    assert_ne!(said.verdict, "go", "{:#}", said.json);
}

#[test]
fn a_file_instead_of_a_directory_is_reported() {
    let site = Site::new();
    site.write("data", "x");
    site.alone("");
    let said = site.preflight(&[]);
    assert_eq!(said.told("blocker"), ["data-directory conf/zoo.cfg:1"]);
}

#[test]
fn missing_permissions_are_reported() {
    let Some(data) = testkit::recordings::find("vectors/storage/rolled/data") else {
        return;
    };
    if !is_root() {
        return;
    }
    let site = Site::new();
    site.copy(&data, "data");
    site.alone("");
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("data", 0o755);
    mode("data/version-2", 0o755);
    // Other users may read but not write, as Java creates the files.
    let said = as_nobody(&site);
    assert_eq!(
        said.told("blocker"),
        ["data-permissions data", "data-permissions data/version-2"]
    );
    assert!(
        said.told("note")
            .iter()
            .any(|note| note.starts_with("data-owner")),
        "{:#}",
        said.json
    );
    mode("data/version-2", 0o700);
    let said = as_nobody(&site);
    assert_eq!(
        said.told("blocker"),
        ["data-permissions data/version-2"],
        "{:#}",
        said.json
    );
    mode("data", 0o700);
    let said = as_nobody(&site);
    assert_eq!(
        said.told("blocker"),
        ["myid-invalid data/myid", "data-permissions data"],
        "{:#}",
        said.json
    );
    fs::set_permissions(site.config(), fs::Permissions::from_mode(0o600)).unwrap();
    let said = as_nobody(&site);
    assert_eq!(said.told("blocker"), ["config-file"], "{:#}", said.json);
}

#[test]
fn world_writable_files_are_reported() {
    let Some(data) = testkit::recordings::find("vectors/storage/rolled/data") else {
        return;
    };
    let site = Site::new();
    site.copy(&data, "data");
    site.alone("");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(site.path("data/version-2"), open).unwrap();
    assert_eq!(
        site.preflight(&[]).told("warning"),
        ["data-open data/version-2"]
    );
}
