//! The packages of the crates: each can be packaged, and a program outside of the workspace builds
//! with them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use tests::{run, workspace_root};

/// The packages that a program adds for a server in its tests and for a client.
const ROOTS: &[&str] = &["zoarium", "zoarium-client", "zoarium-recipes"];
const LIMIT: Duration = Duration::from_secs(60);
/// The test builds everything again.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

fn metadata() -> Metadata {
    let mut metadata = MetadataCommand::new();
    metadata.manifest_path(workspace_root().join("Cargo.toml"));
    let described = metadata.no_deps().exec();
    described.expect("cargo describes its own workspace")
}

fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|to| !to.is_empty())
}

/// Returns the workspace crates that the roots depend on.
fn wanted(metadata: &Metadata) -> BTreeSet<String> {
    let mut wanted = BTreeSet::new();
    let mut next: Vec<_> = ROOTS.iter().map(|root| (*root).to_owned()).collect();
    while let Some(name) = next.pop() {
        let package = metadata.packages.iter().find(|one| *one.name == *name);
        // An external crate.
        let Some(package) = package else { continue };
        if wanted.insert(name) {
            let used = package.dependencies.iter();
            let used = used.filter(|one| one.kind != DependencyKind::Development);
            next.extend(used.map(|one| one.name.clone()));
        }
    }
    wanted
}

/// Creates the packages without building them, and returns their directory.
fn make_packages(metadata: &Metadata, target: &Path) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(workspace_root());
    command.args(["package", "--workspace", "--no-verify"]);
    command.args(["--allow-dirty", "--offline", "--target-dir"]);
    command.arg(target);
    for package in metadata.packages.iter().filter(|one| !is_published(one)) {
        command.args(["--exclude", &package.name]);
    }
    run(&mut command, LIMIT).expect("packages");
    target.join("package")
}

#[test]
fn each_crate_that_a_program_needs_is_packaged() {
    let metadata = metadata();
    let wanted = wanted(&metadata);
    for package in &metadata.packages {
        let name = package.name.as_str();
        assert_eq!(is_published(package), wanted.contains(name), "{name}");
        if !is_published(package) {
            continue;
        }
        assert!(package.description.is_some(), "{name} says what it is");
        assert_eq!(package.license.as_deref(), Some("Apache-2.0"), "{name}");
        let readme = package.readme().unwrap_or_else(|| panic!("{name}: readme"));
        assert!(readme.as_std_path().exists(), "{name}: {readme}");
    }
    let target = tempfile::tempdir().expect("a directory");
    let directory = make_packages(&metadata, target.path());
    for name in wanted {
        let package = metadata.packages.iter().find(|one| *one.name == *name);
        let version = &package.expect("it was found before").version;
        let file = directory.join(format!("{name}-{version}.crate"));
        assert!(file.exists(), "{}", file.display());
    }
}

const PROGRAM: &str = r#"
use client::{Client, Options};
use recipes::{Mutex, Queue};
use zoarium::testing::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn recipes_against_a_server_in_this_process() {
    let server = TestServer::start().await.unwrap();
    let client = Client::connect(Options::new(server.connect_string())).await.unwrap();
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let queue = Queue::new(&client, "/queue").unwrap();
    queue.put("1").await.unwrap();
    assert!(queue.take().await.unwrap().confirm().await.unwrap());
    guard.release().await.unwrap();
    client.close().await.unwrap();
    server.stop().await.unwrap();
}
"#;

/// Returns the manifest that `cargo add` would write, with the unpacked packages instead of the
/// registry.
fn manifest(unpacked: &Path, versions: &[(String, String)]) -> String {
    let mut text = String::from(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dev-dependencies]\n\
         tokio = { version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }\n",
    );
    for (name, version) in versions {
        if ROOTS.contains(&name.as_str()) {
            text += &format!("{name} = \"{version}\"\n");
        }
    }
    text += "\n[patch.crates-io]\n";
    for (name, version) in versions {
        let path = unpacked.join(format!("{name}-{version}"));
        text += &format!("{name} = {{ path = {:?} }}\n", path.display().to_string());
    }
    text
}

#[test]
fn a_program_outside_of_the_workspace_builds_with_the_packages() {
    // This test builds the server again. docs/EMBEDDING.md contains the command.
    if std::env::var_os("ZOARIUM_BY_HAND").is_none() {
        return;
    }
    let metadata = metadata();
    let outside = tempfile::tempdir().expect("a directory");
    let outside = outside.path();
    let directory = make_packages(&metadata, &outside.join("target"));
    let unpacked = outside.join("unpacked");
    fs::create_dir_all(&unpacked).expect("a directory");
    let mut versions = Vec::new();
    for package in metadata.packages.iter().filter(|one| is_published(one)) {
        let (name, version) = (package.name.to_string(), package.version.to_string());
        let mut tar = Command::new("tar");
        tar.arg("-xzf")
            .arg(directory.join(format!("{name}-{version}.crate")))
            .arg("-C")
            .arg(&unpacked);
        run(&mut tar, LIMIT).expect("a package");
        versions.push((name, version));
    }
    let program = outside.join("program");
    fs::create_dir_all(program.join("src")).expect("a directory");
    fs::write(program.join("src/lib.rs"), "").expect("a library");
    fs::create_dir_all(program.join("tests")).expect("a directory");
    fs::write(program.join("tests/outside.rs"), PROGRAM).expect("a test");
    fs::write(program.join("Cargo.toml"), manifest(&unpacked, &versions)).expect("a manifest");
    // The external crates are those of the workspace, which are already on the machine.
    let lock = workspace_root().join("Cargo.lock");
    fs::copy(lock, program.join("Cargo.lock")).expect("versions");
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(&program);
    command.args(["test", "--offline", "--test", "outside"]);
    command.env("CARGO_TARGET_DIR", metadata.target_directory.as_std_path());
    let printed = run(&mut command, BUILD_LIMIT).expect("a program that builds, and its test");
    assert!(printed.contains("1 passed"), "{printed}");
}
