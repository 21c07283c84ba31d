//! Distribution of znodes and bytes in a snapshot.

use std::path::Path;

use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::{
    ContentError, Disk, SnapshotDigest, SnapshotFile, State, StorageError, read_snapshot,
    verify_snapshot,
};

/// Znode with the totals of its subtree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtree {
    /// Path of the znode. The root has the path `/`.
    pub path: Box<str>,
    /// Number of names in the path. The root has depth 0.
    pub depth: usize,
    /// Number of bytes in the znode's data.
    pub own_bytes: u64,
    /// Number of bytes in the data of the znode and all its descendants.
    pub bytes: u64,
    /// Number of descendants.
    pub below: u64,
}

impl Subtree {
    /// Returns the last name of the path.
    pub fn name(&self) -> &str {
        match self.path.rsplit_once('/') {
            Some((_, name)) if !name.is_empty() => name,
            _ => "/",
        }
    }
}

/// Returns the znodes of a snapshot. Each parent is directly followed by its descendants, and
/// siblings are in the order of their names.
///
/// # Errors
/// If the file is corrupt or missing.
pub fn subtrees<D: Disk>(
    disk: &D,
    path: &Path,
    limits: Limits,
) -> Result<Vec<Subtree>, StorageError> {
    let file = SnapshotFile::find(disk, path)?;
    // A corrupt file is detected before half of it is mistaken for all of it.
    verify_snapshot(disk, &file, limits)?;
    let mut znodes = Znodes(Vec::new());
    read_snapshot(disk, &file, limits, &mut znodes)?;
    Ok(summed(znodes.0))
}

/// Sorts znodes, and computes the totals of each subtree.
fn summed(mut znodes: Vec<Subtree>) -> Vec<Subtree> {
    znodes.sort_unstable_by(|one, other| names(&one.path).cmp(names(&other.path)));
    // Indices of the ancestors of the current znode, from the root.
    let mut above: Vec<usize> = Vec::new();
    for at in 0..znodes.len() {
        let depth = znodes[at].depth;
        while above
            .last()
            .is_some_and(|last| znodes[*last].depth >= depth)
        {
            finish_znode(&mut znodes, &mut above);
        }
        above.push(at);
    }
    while !above.is_empty() {
        finish_znode(&mut znodes, &mut above);
    }
    znodes
}

/// Completes the innermost znode, and adds its totals to its parent.
fn finish_znode(znodes: &mut [Subtree], above: &mut Vec<usize>) {
    let Some(last) = above.pop() else { return };
    let (bytes, below) = (znodes[last].bytes, znodes[last].below + 1);
    if let Some(parent) = above.last() {
        znodes[*parent].bytes += bytes;
        znodes[*parent].below += below;
    }
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Compares two paths in the order of [`subtrees`].
pub(super) fn order(one: &str, other: &str) -> std::cmp::Ordering {
    names(one).cmp(names(other))
}

/// Returns a znode and its descendants, which are consecutive. The result is empty if the snapshot
/// does not contain the znode.
pub fn descendants<'a>(znodes: &'a [Subtree], start: &str) -> &'a [Subtree] {
    let start = match start.trim_end_matches('/') {
        "" => "/",
        start => start,
    };
    let Some(at) = znodes.iter().position(|one| &*one.path == start) else {
        return &[];
    };
    let rest = &znodes[at..];
    let count = usize::try_from(rest[0].below).unwrap_or(usize::MAX);
    &rest[..rest.len().min(count.saturating_add(1))]
}

struct Znodes(Vec<Subtree>);

impl State for Znodes {
    fn begin(&mut self) {
        self.0.clear();
    }

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        _: i64,
        _: StatPersisted,
    ) -> Result<(), ContentError> {
        let bytes = data.map_or(0, <[u8]>::len) as u64;
        self.0.push(Subtree {
            path: if path.is_empty() { "/" } else { path }.into(),
            depth: names(path).count(),
            own_bytes: bytes,
            bytes,
            below: 0,
        });
        Ok(())
    }

    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}

#[cfg(test)]
pub(super) fn tree(znodes: &[(&str, u64)]) -> Vec<Subtree> {
    let sized = znodes.iter().map(|(path, bytes)| Subtree {
        path: (*path).into(),
        depth: names(path).count(),
        own_bytes: *bytes,
        bytes: *bytes,
        below: 0,
    });
    summed(sized.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_znode_counts_for_all_above_it() {
        // In ASCII, `-` comes before `/`, but `/a-b` must not come between `/a` and its children.
        let znodes = tree(&[
            ("/", 0),
            ("/a-b", 5),
            ("/a/x/deep", 7),
            ("/a", 1),
            ("/a/x", 2),
        ]);
        let found: Vec<_> = znodes
            .iter()
            .map(|one| (&*one.path, one.bytes, one.below))
            .collect();
        let wanted = [
            ("/", 15, 4),
            ("/a", 10, 2),
            ("/a/x", 9, 1),
            ("/a/x/deep", 7, 0),
            ("/a-b", 5, 0),
        ];
        assert_eq!(found, wanted);
        assert_eq!((znodes[0].name(), znodes[3].name()), ("/", "deep"));
    }

    #[test]
    fn descendants_directly_follow_their_znode() {
        let znodes = tree(&[("/", 0), ("/a", 1), ("/a/b", 2), ("/a/b/c", 3), ("/d", 4)]);
        let paths = |start| -> Vec<_> {
            let found = descendants(&znodes, start).iter();
            found.map(|one| one.path.to_string()).collect()
        };
        assert_eq!(paths("/a"), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(paths("/d/"), ["/d"]);
        assert_eq!((paths("/").len(), paths("/nope").len()), (5, 0));
    }
}
