//! What a learner is brought up to date with: its leader's log, or its tree.

use std::io;
use std::path::Path;
use std::sync::Arc;

use jute::Limits;
use proto::Zxid;
use recovery::Restore;
use storage::{Disk, LogCursor, LogPages, Unusable, read_body};
use tree::{Tree, TreeSettings};
use zab::Record;

/// A page of the log, see [`LogPages::page`].
///
/// # Errors
/// If there is no such record, they are too many, or the log is damaged.
pub fn log_records<'d, D: Disk>(
    pages: &LogPages<'d, D>,
    cursor: &mut Option<LogCursor<'d, D>>,
    from: Zxid,
    upto: Zxid,
) -> Result<Vec<Record>, Unusable> {
    let page = pages.page(cursor, from, upto)?;
    let records = page.into_iter();
    Ok(records.map(|(zxid, txn)| Record::new(zxid, txn)).collect())
}

/// Reads the tree that a leader sends behind a SNAP packet with `zxid`: a tree that nobody else sees
/// yet, and where in the bytes it ends.
///
/// # Errors
/// What is wrong, if that is no tree, or its source breaks.
pub(crate) fn read_tree(
    body: impl io::Read,
    zxid: Zxid,
    limits: Limits,
    settings: Arc<TreeSettings>,
) -> Result<(Tree, u64), String> {
    let mut restore = Restore::new(settings);
    let name = Path::new("the leader's snapshot");
    let info = read_body(body, name, limits, &mut restore).map_err(|error| error.to_string())?;
    let tree = restore
        .finish(zxid)
        .map_err(|error| format!("the leader's snapshot: {error}"))?;
    Ok((tree, info.content_end))
}
