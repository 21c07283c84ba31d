//! The one place that says which version this server is.

/// The release of ZooKeeper this server is to be taken for.
pub const RELEASE: &str = "3.9.5";

/// `X.Y.Z-<40 hex digits of the commit>, built on YYYY-MM-DD HH:MM UTC`: tools split it at `-`
/// and `,`. The commit is all zeros in a build outside a repository.
pub const FULL: &str = concat!(
    "3.9.5-",
    env!("ZOARIUM_COMMIT"),
    ", built on ",
    env!("ZOARIUM_BUILT")
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_has_the_shape_that_tools_split() {
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
