//! Published packages: what a registry needs, and how many crates a dependent receives.

use std::collections::BTreeSet;

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
