//! Paths that have a quota.

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::nodes::path_hash;

/// The set of quota roots.
#[derive(Debug, Default)]
pub(crate) struct QuotaRoots {
    hasher: DefaultHashBuilder,
    roots: HashTable<Box<str>>,
}

impl QuotaRoots {
    pub(crate) fn insert(&mut self, root: &str) {
        let hash = path_hash::hash(&self.hasher, root);
        if self.roots.find(hash, |known| **known == *root).is_none() {
            let hasher = &self.hasher;
            self.roots
                .insert_unique(hash, root.into(), |root| path_hash::hash(hasher, root));
        }
    }

    pub(crate) fn remove(&mut self, root: &str) {
        let hash = path_hash::hash(&self.hasher, root);
        if let Ok(entry) = self.roots.find_entry(hash, |known| **known == *root) {
            entry.remove();
        }
    }

    /// Returns the deepest root that is `path` or one of its ancestors.
    pub(crate) fn deepest<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.roots.is_empty() {
            return None;
        }
        let itself = (path_hash::hash(&self.hasher, path), path);
        let deepest = path_hash::ancestors(&self.hasher, path)
            .chain([itself])
            .filter(|(hash, prefix)| self.roots.find(*hash, |root| **root == **prefix).is_some())
            .last();
        deepest.map(|(_, root)| root)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.roots.iter().map(|root| &**root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_root_counts() {
        let mut roots = QuotaRoots::default();
        assert_eq!(roots.deepest("/a/b"), None);
        for root in ["/a", "/a/b/c", "/zookeeper", "/a"] {
            roots.insert(root);
        }
        assert_eq!(roots.deepest("/a/b"), Some("/a"));
        assert_eq!(roots.deepest("/a/b/c"), Some("/a/b/c"));
        assert_eq!(roots.deepest("/a/b/c/d/e"), Some("/a/b/c"));
        assert_eq!(roots.deepest("/ab"), None);
        assert_eq!(roots.deepest("/zookeeper/x"), Some("/zookeeper"));
        roots.remove("/a");
        assert_eq!((roots.deepest("/a/b"), roots.iter().count()), (None, 2));
    }
}
