//! The disk queue: its order, the work on the files, and the reports to the replica.
//!
//! [`recovery::DurableLog`] manages the files themselves. The host decides which thread does the
//! work, and when.

mod group;
mod kept_tree;

use std::collections::VecDeque;
use std::io;

use recovery::{DurableLog, RecoveredTree, Reloaded};
use replica::{DiskOrder, Input, LoadedTree, MemberFile, State};
use storage::{Committed, Disk, StorageError};

pub use group::LogGroup;
use kept_tree::keep_tree;

use crate::snapshot::work::SnapshotReason;

/// The next work for the disk.
#[derive(Debug)]
pub enum DiskCommand {
    /// Append these records and sync the log.
    Group(LogGroup),
    /// Execute another order.
    Order(DiskOrder),
}

impl DiskCommand {
    /// Returns the records of a group; `None` for other work.
    pub fn group(&self) -> Option<&LogGroup> {
        match self {
            Self::Group(group) => Some(group),
            Self::Order(_) => None,
        }
    }
}

/// Work for the disk that has not been removed yet, in the order of requests.
#[derive(Debug, Default)]
pub struct DiskQueue {
    waiting: VecDeque<DiskCommand>,
    /// Records appended after all waiting work.
    pub group: LogGroup,
}

impl DiskQueue {
    /// Appends an order after all appended records. `next` returns an empty group for later
    /// records.
    pub fn order(&mut self, order: DiskOrder, next: impl FnOnce() -> LogGroup) {
        if !self.group.is_empty() {
            let group = std::mem::replace(&mut self.group, next());
            self.waiting.push_back(DiskCommand::Group(group));
        }
        self.waiting.push_back(DiskCommand::Order(order));
    }

    /// Returns the waiting work, oldest first, without the newest group.
    pub fn waiting(&self) -> impl Iterator<Item = &DiskCommand> {
        self.waiting.iter()
    }

    /// Returns the groups of waiting records, oldest first, including the newest group.
    pub fn groups(&self) -> impl Iterator<Item = &LogGroup> {
        let waiting = self.waiting.iter().filter_map(DiskCommand::group);
        waiting.chain([&self.group])
    }

    /// Removes and returns the next work, unless it is the newest group.
    pub fn take_waiting(&mut self) -> Option<DiskCommand> {
        self.waiting.pop_front()
    }

    /// Removes and returns the next work.
    pub fn take(&mut self) -> Option<DiskCommand> {
        self.take_waiting().or_else(|| {
            let group = std::mem::take(&mut self.group);
            (!group.is_empty()).then_some(DiskCommand::Group(group))
        })
    }

    /// Puts back work that was removed.
    pub fn put_back(&mut self, next: DiskCommand) {
        self.waiting.push_front(next);
    }

    /// Returns whether nothing waits except the newest group, which may be empty.
    pub fn is_at_group(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Results of an executed order.
#[derive(Debug, Default)]
pub struct OrderResults {
    /// Input for the replica.
    pub input: Option<Input>,
    /// Snapshot to be written.
    pub snapshot: Option<SnapshotReason>,
}

impl From<Input> for OrderResults {
    fn from(input: Input) -> Self {
        Self {
            input: Some(input),
            snapshot: None,
        }
    }
}

/// The contents of the disk are unknown, so the process must end.
#[derive(Debug, thiserror::Error)]
pub enum DiskFailure {
    /// The log, or a file that belongs to it, has failed.
    #[error(transparent)]
    History(#[from] StorageError),
    /// A required member list could not be written.
    #[error("cannot write the member list: {0}")]
    Members(io::Error),
}

/// Appends a group to the log (see [`DurableLog::append`]). Returns whether a snapshot is due. The
/// group is not durable before [`sync`].
///
/// # Errors
/// If the disk fails.
pub fn write_group<D: Disk>(
    history: &mut DurableLog<D>,
    group: &LogGroup,
    mut seed: impl FnMut() -> u64,
) -> Result<bool, StorageError> {
    let mut is_due = false;
    for (zxid, txn) in group.records() {
        is_due |= history.append(zxid, txn, &mut seed)?;
    }
    Ok(is_due)
}

/// Makes all appended records durable. Returns the report for the replica.
///
/// # Errors
/// If the disk fails. The records are then not acknowledged, because it is unknown whether they are
/// on disk.
pub fn sync<D: Disk>(history: &mut DurableLog<D>) -> Result<(Committed, Input), StorageError> {
    let committed = history.commit()?;
    Ok((committed, Input::Synced(history.appended())))
}

/// Executes an order. `write_members` writes the files next to zoo.cfg, and `loaded` is called when
/// the log and the snapshots were loaded again. During [`DiskOrder::Reload`] and
/// [`DiskOrder::TakeOver`], the caller must prevent snapshots from receiving their final names.
///
/// # Errors
/// If the disk fails.
pub fn carry_out<D: Disk>(
    history: &mut DurableLog<D>,
    order: DiskOrder,
    state: &impl State,
    write_members: impl FnOnce(&MemberFile) -> io::Result<()>,
    loaded: impl FnOnce(&RecoveredTree),
) -> Result<OrderResults, DiskFailure> {
    Ok(match order {
        DiskOrder::SaveAcceptedEpoch(epoch) => {
            history.save_accepted_epoch(epoch)?;
            OrderResults::from(Input::AcceptedEpochSaved(epoch))
        }
        DiskOrder::SaveCurrentEpoch(epoch) => {
            history.save_current_epoch(epoch)?;
            OrderResults::from(Input::CurrentEpochSaved(epoch))
        }
        DiskOrder::SaveMembers { file, is_required } => match write_members(&file) {
            Ok(()) => OrderResults::default(),
            Err(error) => {
                tracing::error!(err = %error, "cannot write the member list");
                if is_required {
                    return Err(DiskFailure::Members(error));
                }
                OrderResults::default()
            }
        },
        DiskOrder::Reload { keep } => OrderResults::from(match history.reload(keep)? {
            Reloaded::NotCut(error) => {
                tracing::error!(zxid = ?keep, err = %error, "cannot truncate the log to the zxid that the leader requires");
                let end = state.tree().last_zxid();
                Input::Reloaded { tree: None, end }
            }
            Reloaded::Loaded { found, end } => {
                loaded(&found);
                let loaded = LoadedTree {
                    log_whole_from: found.recovered.log_whole_from(),
                    has_snapshot: found.recovered.snapshot.is_some(),
                    tree: found.tree,
                };
                let tree = Some(Box::new(loaded));
                Input::Reloaded { tree, end }
            }
        }),
        DiskOrder::KeepTree => {
            let kept = keep_tree(history, state);
            match &kept {
                Ok(path) => {
                    tracing::warn!(file = %path.display(), "the diverging tree was saved to this file");
                }
                Err(error) => tracing::error!(err = %error, "cannot save the diverging tree"),
            }
            let is_kept = kept.is_ok();
            OrderResults::from(Input::TreeKept { is_kept })
        }
        DiskOrder::TakeOver { last, of } => {
            history.cut_for_snapshot(last)?;
            OrderResults {
                input: None,
                snapshot: Some(SnapshotReason::Synchronised(of)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proto::{Epoch, Zxid};

    use super::*;

    fn push(queue: &mut DiskQueue, zxid: i64) {
        queue.group.push_bytes(Zxid(zxid), b"txn", || 0);
    }

    fn zxids(group: &LogGroup) -> Vec<i64> {
        group.records().map(|(zxid, _)| zxid.0).collect()
    }

    #[test]
    fn a_group_copies_short_transactions_and_shares_long_ones() {
        let mut group = LogGroup::default();
        let long = bytes::Bytes::from(vec![7; 16 << 10]);
        group.push(Zxid(1), &long.slice(1..), || 5);
        group.push(Zxid(2), &long, || panic!("only the first is timed"));
        assert_eq!((group.len(), group.bytes()), (2, (32 << 10) - 1));
        assert_eq!((group.last(), group.queued_ms()), (Some(Zxid(2)), 5));
        let is_shared = |payload: &[u8]| long.as_ptr_range().contains(&payload.as_ptr());
        let shared: Vec<_> = group.records().map(|(_, txn)| is_shared(txn)).collect();
        assert_eq!(shared, [false, true]);
        group.clear();
        assert!(group.is_empty() && group.records().next().is_none());
    }

    #[test]
    fn records_are_written_before_later_orders() {
        let mut queue = DiskQueue::default();
        queue.order(DiskOrder::SaveAcceptedEpoch(Epoch(1)), LogGroup::default);
        push(&mut queue, 1);
        push(&mut queue, 2);
        queue.order(DiskOrder::Reload { keep: None }, LogGroup::default);
        push(&mut queue, 3);
        let groups: Vec<_> = queue.groups().map(zxids).collect();
        assert_eq!(groups, [vec![1, 2], vec![3]]);
        assert!(!queue.is_at_group());
        let first = queue.take_waiting();
        let Some(DiskCommand::Order(DiskOrder::SaveAcceptedEpoch(Epoch(1)))) = first else {
            panic!("{first:?}");
        };
        let group = queue.take();
        let taken = group.as_ref().and_then(DiskCommand::group).map(zxids);
        assert_eq!(taken, Some(vec![1, 2]));
        queue.put_back(group.unwrap());
        assert!(matches!(queue.take_waiting(), Some(DiskCommand::Group(_))));
        assert!(matches!(queue.take_waiting(), Some(DiskCommand::Order(_))));
        // Only waiting work is removed, so the group to which records may be added remains.
        assert!(queue.is_at_group() && queue.take_waiting().is_none());
        let last = queue.take();
        let last = last.as_ref().and_then(DiskCommand::group).map(zxids);
        assert_eq!(last, Some(vec![3]));
        assert!(queue.take().is_none());
    }
}
