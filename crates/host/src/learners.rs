//! Data for the synchronisation of a learner: the log or the tree of its leader.

use std::io;
use std::path::Path;
use std::sync::Arc;

use jute::Limits;
use proto::Zxid;
use recovery::Restore;
use replica::LearnerEvent;
use storage::{Disk, LogCursor, LogPages, read_body};
use tree::{Tree, TreeSettings};
use zab::Record;
use zab::leader::LinkId;

/// Reads a page of the log for a learner (see [`LogPages::page`]). Returns the input for the
/// replica.
pub fn read_log<'d, D: Disk>(
    pages: &LogPages<'d, D>,
    cursor: &mut Option<LogCursor<'d, D>>,
    link: LinkId,
    from: Zxid,
    upto: Zxid,
) -> LearnerEvent {
    match pages.page(cursor, from, upto) {
        Ok(page) => {
            let records = page.into_iter();
            let records = records.map(|(zxid, txn)| Record::new(zxid, txn));
            let records = records.collect();
            LearnerEvent::LogRecords { link, records }
        }
        Err(error) => {
            tracing::info!(link = link.0, %from, err = %error, "cannot sync a learner from the log, sending a snapshot");
            LearnerEvent::LogUnusable { link }
        }
    }
}

/// Reads the tree that follows a SNAP packet with `zxid`. Returns the tree, which is not shared
/// yet, and its length in bytes.
///
/// # Errors
/// If the bytes are not a tree, or if their source fails.
pub(crate) fn read_tree(
    body: impl io::Read,
    zxid: Zxid,
    limits: Limits,
    settings: Arc<TreeSettings>,
) -> Result<(Tree, u64), String> {
    let mut restore = Restore::new(settings);
    let name = Path::new("from the leader");
    let info = read_body(body, name, limits, &mut restore).map_err(|error| error.to_string())?;
    let tree = restore
        .finish(zxid)
        .map_err(|error| format!("the leader's snapshot: {error}"))?;
    Ok((tree, info.content_end))
}
