//! Published packages: what a registry needs, and how many crates a dependent receives.

use std::collections::BTreeSet;
use std::process::Command;

use tests::workspace_root;

use super::metadata;
use cargo_metadata::{DependencyKind, Package};

/// Maximum length of the list of keywords of a package on crates.io.
const KEYWORDS_MAX: usize = 5;

fn published() -> Vec<Package> {
    let packages = metadata().packages.into_iter();
    let published: Vec<_> = packages
        .filter(|package| package.publish.is_none())
        .collect();
    assert!(published.len() > 20, "only {} packages", published.len());
    published
}

#[test]
fn published_packages_have_a_page_and_metadata() {
    let mut faults = Vec::new();
    for package in published() {
        let name = package.name.as_str();
        let mut check = |is_good: bool, fault: &str| {
            if !is_good {
                faults.push(format!("{name}: {fault}"));
            }
        };
        let dir = package.manifest_path.parent().expect("a folder");
        let readme = package.readme.as_deref().map(|readme| dir.join(readme));
        check(
            readme == Some(dir.join("README.md")),
            "no README of its own",
        );
        let text = readme.and_then(|readme| std::fs::read_to_string(readme).ok());
        let text = text.unwrap_or_default();
        let links = text.match_indices("](").map(|(at, _)| &text[at + 2..]);
        let relative = links.filter(|link| !link.starts_with("https://"));
        check(
            relative.count() == 0,
            "its README links to files that the package lacks",
        );
        let documentation = format!("https://docs.rs/{name}");
        check(
            package.documentation == Some(documentation),
            "no link to docs.rs",
        );
        check(package.repository.is_some(), "no repository");
        check(!package.categories.is_empty(), "no categories");
        let keywords = package.keywords.len();
        check(
            (1..=KEYWORDS_MAX).contains(&keywords),
            "not 1 to 5 keywords",
        );
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Cargo removes development dependencies without a version from a package. Other dependencies must
/// be in the registry.
#[test]
fn published_packages_depend_on_published_packages() {
    let published = published();
    let names: BTreeSet<_> = published
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    for package in &published {
        let ours = package.dependencies.iter().filter(|one| one.path.is_some());
        for one in ours {
            let has_version = one.req != cargo_metadata::semver::VersionReq::STAR;
            let is_published = names.contains(one.name.as_str());
            let is_removed = one.kind == DependencyKind::Development && !has_version;
            assert!(
                is_removed || (is_published && has_version),
                "{} depends on {}, which is not published",
                package.name,
                one.name
            );
        }
    }
}

/// Packages, features without the defaults, and the number of crates that each may bring at most,
/// itself included.
const CRATES_MAX: &[(&str, &[&str], usize)] = &[
    ("zoarium-client", &[], 59),
    ("zoarium-recipes", &[], 69),
    // A server inside a program, or in its tests: without the tools.
    ("zoarium", &[], 119),
];

/// Crates that only the tools use. A program with a server does not compile them.
const OF_TOOLS: &[&str] = &["clap", "rustyline", "zoarium-bench", "zoarium-cli"];

#[test]
fn dependents_receive_a_bounded_number_of_crates() {
    let mut faults = Vec::new();
    for (package, features, max) in CRATES_MAX {
        let crates = crates_of(package, features);
        let own = format!("{package} v");
        assert!(crates.iter().any(|one| one.starts_with(&own)), "{crates:?}");
        if crates.len() > *max {
            let count = crates.len();
            faults.push(format!(
                "{package} {features:?}: {count}, {max} are allowed: {crates:?}"
            ));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_library_of_the_server_excludes_its_tools() {
    let names = |features: &[&str]| -> BTreeSet<String> {
        let crates = crates_of("zoarium", features).into_iter();
        crates
            .filter_map(|one| Some(one.split_once(' ')?.0.to_owned()))
            .collect()
    };
    let (library, tools) = (names(&[]), names(&["tools"]));
    for name in OF_TOOLS {
        assert!(!library.contains(*name), "{name} is in the library");
        assert!(tools.contains(*name), "{name} is not in the tools");
    }
}

/// Returns names and versions of the crates that a dependent compiles on this platform, without
/// build scripts and tests.
fn crates_of(package: &str, features: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(std::env::var_os("CARGO").expect("a test of cargo"));
    command.current_dir(workspace_root());
    command.args([
        "tree",
        "--locked",
        "--offline",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    command.args([
        "--format",
        "{p}",
        "--no-default-features",
        "--package",
        package,
    ]);
    command.args(["--features", &features.join(",")]);
    let output = command.output().expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    // The rest of a line is a folder, or a mark of a repetition.
    let words = text
        .lines()
        .map(|line| line.split(" (").next().unwrap_or(line));
    words
        .filter(|words| !words.is_empty())
        .map(str::to_owned)
        .collect()
}
