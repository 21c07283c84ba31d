//! How many znodes and bytes are where in a snapshot.

use std::path::Path;

use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::tools::snapshot;
use storage::{ContentError, RealDisk, SnapshotDigest, State};

use crate::tool::ToolError;

/// A znode, and what is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sized {
    /// The root's is `/`.
    pub(super) path: Box<str>,
    /// Names in the path; 0 is the root.
    pub(super) depth: usize,
    /// Bytes of its own data.
    pub(super) own_bytes: u64,
    /// Bytes of the data of it and all below it.
    pub(super) bytes: u64,
    /// Znodes below it, at any depth.
    pub(super) below: u64,
}

impl Sized {
    /// The last name of its path.
    pub(super) fn name(&self) -> &str {
        match self.path.rsplit_once('/') {
            Some((_, name)) if !name.is_empty() => name,
            _ => "/",
        }
    }
}

/// The znodes of a snapshot, each parent right before what is below it, siblings in the order of their names.
///
/// # Errors
/// If the file is damaged, or not there.
pub(super) fn read(path: &Path, limits: Limits) -> Result<Vec<Sized>, ToolError> {
    // A damaged file is found out before half of it is taken for all.
    snapshot::verify(&RealDisk, path, limits)?;
    let mut znodes = Znodes(Vec::new());
    snapshot::walk(&RealDisk, path, limits, &mut znodes)?;
    Ok(summed(znodes.0))
}

/// Sorts znodes, and adds up what is below each.
fn summed(mut znodes: Vec<Sized>) -> Vec<Sized> {
    znodes.sort_unstable_by(|one, other| names(&one.path).cmp(names(&other.path)));
    // The sums of the znodes on the way down to the current one, from the root: their places.
    let mut above: Vec<usize> = Vec::new();
    for at in 0..znodes.len() {
        let depth = znodes[at].depth;
        while above
            .last()
            .is_some_and(|last| znodes[*last].depth >= depth)
        {
            leave(&mut znodes, &mut above);
        }
        above.push(at);
    }
    while !above.is_empty() {
        leave(&mut znodes, &mut above);
    }
    znodes
}

/// The last znode on the way is whole: it counts for the one above it.
fn leave(znodes: &mut [Sized], above: &mut Vec<usize>) {
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

/// Whether a path comes before another one in the order of [`read`].
pub(super) fn order(one: &str, other: &str) -> std::cmp::Ordering {
    names(one).cmp(names(other))
}

struct Znodes(Vec<Sized>);

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
        self.0.push(Sized {
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
pub(super) fn tree(znodes: &[(&str, u64)]) -> Vec<Sized> {
    let sized = znodes.iter().map(|(path, bytes)| Sized {
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
        // `-` comes before `/` in the table of characters, and must not come between parent and child.
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
}
