//! Hashes of a path and of all its ancestors in one pass.
//!
//! Recursive watches and quotas look up each ancestor of a path. The cost of hashing every prefix
//! separately would be quadratic in the length, which a client chooses.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;

/// Returns the hash of a path, which may be any string.
pub(crate) fn hash(hasher: &DefaultHashBuilder, path: &str) -> u64 {
    let mut state = hasher.build_hasher();
    for component in path.split('/') {
        state.write(component.as_bytes());
    }
    state.finish()
}

/// Returns the path's proper ancestors from the top, each with its hash. The root is `/`.
pub(crate) fn ancestors<'a>(
    hasher: &DefaultHashBuilder,
    path: &'a str,
) -> impl Iterator<Item = (u64, &'a str)> {
    let root = (path.len() > 1 && path.starts_with('/')).then(|| (hash(hasher, "/"), "/"));
    let mut state = hasher.build_hasher();
    let mut start = 0;
    let below = path.match_indices('/').filter_map(move |(end, _)| {
        state.write(&path.as_bytes()[start..end]);
        start = end + 1;
        (end > 0).then(|| (state.finish(), &path[..end]))
    });
    root.into_iter().chain(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_hash_like_the_paths_they_are() {
        let hasher = DefaultHashBuilder::default();
        let found: Vec<_> = ancestors(&hasher, "/a/bb/c").collect();
        let expected = ["/", "/a", "/a/bb"].map(|path| (hash(&hasher, path), path));
        assert_eq!(found, expected);
        assert_eq!(ancestors(&hasher, "/a").count(), 1);
        assert_eq!(ancestors(&hasher, "/").count(), 0);
    }
}
