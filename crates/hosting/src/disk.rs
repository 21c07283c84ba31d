//! Orders for the disk: what waits, what is done to the files, and what the replica is told then.
//!
//! The files themselves are [`recovery::History`]'s. Which thread does the work, and when, is the
//! host's.

use std::collections::VecDeque;
use std::io;

use proto::Zxid;
use recovery::{History, RecoveredTree, Reloaded};
use replica::{DiskOrder, Input, MemberFile, State};
use storage::{Committed, Disk, StorageError};
use zab::Record;

use crate::Wanted;
use crate::kept_tree::keep_tree;

/// Records that go to the log together.
pub trait Group: Default {
    /// The records, oldest first: their zxids, and the transactions encoded.
    fn records(&self) -> impl Iterator<Item = (Zxid, &[u8])>;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.records().next().is_none()
    }
}

impl Group for Vec<Record> {
    fn records(&self) -> impl Iterator<Item = (Zxid, &[u8])> {
        self.iter().map(|record| (record.zxid, &*record.txn))
    }
}

/// What the disk is to do next.
#[derive(Debug)]
pub enum ToDisk<G> {
    /// Append these, and sync.
    Group(G),
    /// Something else.
    Order(DiskOrder),
}

impl<G> ToDisk<G> {
    /// The records, if it is some.
    pub fn group(&self) -> Option<&G> {
        match self {
            Self::Group(group) => Some(group),
            Self::Order(_) => None,
        }
    }
}

/// What the disk was asked for and has not been given, in the order in which it was asked.
#[derive(Debug, Default)]
pub struct DiskQueue<G> {
    waiting: VecDeque<ToDisk<G>>,
    /// Records that were appended since. They come behind all that waits.
    pub group: G,
}

impl<G: Group> DiskQueue<G> {
    /// Gives an order, behind all that was appended. What is appended from here on gathers in the
    /// group that `next` gives, which is empty.
    pub fn order(&mut self, order: DiskOrder, next: impl FnOnce() -> G) {
        if !self.group.is_empty() {
            let group = std::mem::replace(&mut self.group, next());
            self.waiting.push_back(ToDisk::Group(group));
        }
        self.waiting.push_back(ToDisk::Order(order));
    }

    /// Records that wait, oldest first.
    pub fn groups(&self) -> impl Iterator<Item = &G> {
        let waiting = self.waiting.iter().filter_map(ToDisk::group);
        waiting.chain([&self.group])
    }

    /// Takes what comes next, but for the records that were appended last.
    pub fn take_waiting(&mut self) -> Option<ToDisk<G>> {
        self.waiting.pop_front()
    }

    /// Takes what comes next.
    pub fn take(&mut self) -> Option<ToDisk<G>> {
        self.take_waiting().or_else(|| {
            let group = std::mem::take(&mut self.group);
            (!group.is_empty()).then_some(ToDisk::Group(group))
        })
    }

    /// Puts back what was taken.
    pub fn put_back(&mut self, next: ToDisk<G>) {
        self.waiting.push_front(next);
    }

    /// Whether nothing waits but the records that were appended last.
    pub fn is_at_group(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// What is beside the history.
pub trait Beside {
    /// Writes the files beside zoo.cfg.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write_members(&mut self, file: &MemberFile) -> io::Result<()>;

    /// The history was loaded again.
    fn loaded(&mut self, _found: &RecoveredTree) {}
}

/// Of a host that has nothing else there.
impl<F: FnMut(&MemberFile) -> io::Result<()>> Beside for F {
    fn write_members(&mut self, file: &MemberFile) -> io::Result<()> {
        self(file)
    }
}

/// What follows from an order that was carried out.
#[derive(Debug, Default)]
pub struct Done {
    /// What the replica is told.
    pub told: Option<Input>,
    /// A snapshot is to be written.
    pub snapshot: Option<Wanted>,
}

impl From<Input> for Done {
    fn from(input: Input) -> Self {
        Self {
            told: Some(input),
            snapshot: None,
        }
    }
}

/// Nobody knows what is on disk: the process has to end.
#[derive(Debug, thiserror::Error)]
pub enum DiskFailure {
    /// The log, or a file that belongs to it.
    #[error(transparent)]
    History(#[from] StorageError),
    /// A member list that must be on disk is not.
    #[error("a member list cannot be written: {0}")]
    Members(io::Error),
}

/// Appends a group to the log, see [`History::append`]: whether a snapshot is due with it. None of it is
/// durable before [`sync`].
///
/// # Errors
/// If the disk fails.
pub fn write_group<D: Disk>(
    history: &mut History<D>,
    group: &impl Group,
    mut seed: impl FnMut() -> u64,
) -> Result<bool, StorageError> {
    let mut is_due = false;
    for (zxid, txn) in group.records() {
        is_due |= history.append(zxid, txn, &mut seed)?;
    }
    Ok(is_due)
}

/// Makes durable what was appended: only then is the replica told of it.
///
/// # Errors
/// If the disk fails. Nothing of what failed is acknowledged: whether its bytes are on disk is unknown.
pub fn sync<D: Disk>(history: &mut History<D>) -> Result<(Committed, Input), StorageError> {
    let committed = history.commit()?;
    Ok((committed, Input::Synced(history.appended())))
}

/// Carries out an order. No snapshot may get its name meanwhile, if it is [`DiskOrder::Reload`] or
/// [`DiskOrder::TakeOver`].
///
/// # Errors
/// If the disk fails.
pub fn carry_out<D: Disk>(
    history: &mut History<D>,
    order: DiskOrder,
    state: &impl State,
    beside: &mut impl Beside,
) -> Result<Done, DiskFailure> {
    Ok(match order {
        DiskOrder::SaveAcceptedEpoch(epoch) => {
            history.save_accepted_epoch(epoch)?;
            Done::from(Input::AcceptedEpochSaved(epoch))
        }
        DiskOrder::SaveCurrentEpoch(epoch) => {
            history.save_current_epoch(epoch)?;
            Done::from(Input::CurrentEpochSaved(epoch))
        }
        DiskOrder::SaveMembers { file, is_required } => match beside.write_members(&file) {
            Ok(()) => Done::default(),
            Err(error) => {
                tracing::error!(err = %error, "a member list cannot be written");
                if is_required {
                    return Err(DiskFailure::Members(error));
                }
                Done::default()
            }
        },
        DiskOrder::Reload { keep } => Done::from(match history.reload(keep)? {
            Reloaded::NotCut(error) => {
                tracing::error!(zxid = ?keep, err = %error, "the log cannot be cut as the leader wants it");
                let end = state.tree().last_zxid();
                Input::Reloaded { tree: None, end }
            }
            Reloaded::Loaded { found, end } => {
                beside.loaded(&found);
                let tree = Some(Box::new(found.tree));
                Input::Reloaded { tree, end }
            }
        }),
        DiskOrder::KeepTree => {
            let kept = keep_tree(history, state);
            match &kept {
                Ok(path) => tracing::warn!(file = %path.display(), "the wrong tree is kept here"),
                Err(error) => tracing::error!(err = %error, "the wrong tree cannot be kept"),
            }
            let is_kept = kept.is_ok();
            Done::from(Input::TreeKept { is_kept })
        }
        DiskOrder::TakeOver { last, of } => {
            history.cut_for_snapshot(last)?;
            Done {
                told: None,
                snapshot: Some(Wanted::Synchronised(of)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proto::Epoch;

    use super::*;

    fn record(zxid: i64) -> Record {
        Record::new(Zxid(zxid), Vec::new())
    }

    fn zxids(group: &Vec<Record>) -> Vec<i64> {
        group.records().map(|(zxid, _)| zxid.0).collect()
    }

    #[test]
    fn records_stay_in_front_of_what_is_ordered_behind_them() {
        let mut queue = DiskQueue::<Vec<Record>>::default();
        queue.order(DiskOrder::SaveAcceptedEpoch(Epoch(1)), Vec::new);
        queue.group.extend([record(1), record(2)]);
        queue.order(DiskOrder::Reload { keep: None }, Vec::new);
        queue.group.push(record(3));
        let groups: Vec<_> = queue.groups().map(zxids).collect();
        assert_eq!(groups, [vec![1, 2], vec![3]]);
        assert!(!queue.is_at_group());
        let first = queue.take_waiting();
        let Some(ToDisk::Order(DiskOrder::SaveAcceptedEpoch(Epoch(1)))) = first else {
            panic!("{first:?}");
        };
        let group = queue.take();
        let taken = group.as_ref().and_then(ToDisk::group).map(zxids);
        assert_eq!(taken, Some(vec![1, 2]));
        queue.put_back(group.unwrap());
        assert!(matches!(queue.take_waiting(), Some(ToDisk::Group(_))));
        assert!(matches!(queue.take_waiting(), Some(ToDisk::Order(_))));
        // Whoever takes only what waits leaves the records that may still get company.
        assert!(queue.is_at_group() && queue.take_waiting().is_none());
        let last = queue.take();
        let last = last.as_ref().and_then(ToDisk::group).map(zxids);
        assert_eq!(last, Some(vec![3]));
        assert!(queue.take().is_none());
    }
}
