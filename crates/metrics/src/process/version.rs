//! Versions that this server reports.

/// Release of ZooKeeper that this server reports.
pub const RELEASE: &str = "3.9.5";

/// Version in the format `X.Y.Z-<40 hex digits of the commit>, built on YYYY-MM-DD HH:MM UTC`.
/// Tools split it at `-` and `,`. The commit consists of zeros in a build outside a repository.
pub const FULL: &str = concat!(
    "3.9.5-",
    env!("ZOARIUM_COMMIT"),
    ", built on ",
    env!("ZOARIUM_BUILT")
);

/// Cargo profile of this build: `dist` for packages and measurements, `release` for a quick start,
/// `dev` for tests.
pub const PROFILE: &str = env!("ZOARIUM_PROFILE");

/// Version of Zoarium, with commit, time and profile of the build, and the compatible release of
/// ZooKeeper.
pub const PRODUCT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("ZOARIUM_COMMIT"),
    ", built on ",
    env!("ZOARIUM_BUILT"),
    ", profile ",
    env!("ZOARIUM_PROFILE"),
    ", speaks ZooKeeper 3.9.5)"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_texts_name_one_release_and_one_commit() {
        let (release, rest) = FULL.split_once('-').expect("release and commit");
        let (commit, _) = rest.split_once(',').expect("a commit");
        assert!(PRODUCT.contains(&format!("(commit {commit}, built on ")));
        let end = format!(", profile {PROFILE}, speaks ZooKeeper {release})");
        assert!(PRODUCT.ends_with(&end), "{PRODUCT}");
    }

    #[test]
    fn the_version_can_be_split_by_tools() {
        let (version, built) = FULL.split_once(", built on ").expect("two halves");
        let (release, commit) = version.split_once('-').expect("release and commit");
        assert_eq!(release, RELEASE);
        assert_eq!(commit.len(), 40);
        assert!(
            commit
                .bytes()
                .all(|byte| b"0123456789abcdef".contains(&byte)),
            "{commit}"
        );
        let shape: String = built
            .chars()
            .map(|c| if c.is_ascii_digit() { 'N' } else { c })
            .collect();
        assert_eq!(shape, "NNNN-NN-NN NN:NN UTC");
    }
}
