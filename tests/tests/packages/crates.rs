//! The packages of the crates: each can be packaged. `.ci/packages` also builds programs with them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use tests::{run, workspace_root};

/// The packages that a program adds for a server in its tests and for a client.
const ROOTS: &[&str] = &["zoarium", "zoarium-client", "zoarium-recipes"];
const LIMIT: Duration = Duration::from_secs(60);

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
