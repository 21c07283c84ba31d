//! Reader of a history, which finds znodes at past moments.

use std::path::PathBuf;
use std::sync::Arc;

use proto::Zxid;
use proto::position::Position;

use super::view::{CostLimit, EraView, HistoryView, Shared};
use super::viewer::{PastAcl, Viewer, ViewerPermissions};
use crate::error::{HistoryError, Result};
use crate::files::segment::Segment;
use crate::index::postings::{kinds, kinds_of, path_key};
use crate::record::{Change, Content, Znode};
use crate::recording::filter::{self, PathFilter};

/// Reader that answers queries. It is cheap to clone. Each query sees the history at the moment
/// when the query begins.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
    effort: CostLimit,
}

/// A moment in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The moment after this transaction.
    Zxid(Zxid),
    /// The moment after the last recorded change (in zxid order) with this or an earlier time, ms
    /// since 1970. Clocks may be set back, and leaders' clocks differ.
    Time(i64),
}

/// A range of transactions that were not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// Last transaction recorded before the hole.
    pub after: Zxid,
    /// Zxid after which transactions are recorded again.
    pub recorded_after: Zxid,
    /// Zxid from which the tree is known again.
    pub known_from: Zxid,
}

/// The recorded range of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Zxid after which changes are kept.
    pub recorded_after: Zxid,
    /// Zxid from which the tree is known.
    pub known_from: Zxid,
    /// Last recorded transaction.
    pub head: Zxid,
    /// Holes within the range.
    pub holes: Vec<Hole>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let effort = CostLimit::default();
        Self { shared, effort }
    }

    /// Returns the reader with a limit on the cost of its answers.
    #[must_use]
    pub fn within(mut self, effort: CostLimit) -> Self {
        self.effort = effort;
        self
    }

    pub(crate) fn history_view(&self) -> HistoryView {
        HistoryView::new(&self.shared, &self.effort)
    }

    /// Returns the directory of the history.
    pub fn dir(&self) -> &PathBuf {
        &self.shared.dir
    }

    /// Returns the filter for the recorded paths.
    pub fn filter(&self) -> &PathFilter {
        &self.shared.filter
    }

    /// Returns the recorded range.
    pub fn extent(&self) -> Extent {
        self.history_view().extent()
    }

    /// Returns the zxid of a moment.
    ///
    /// # Errors
    /// If the tree at that moment is unknown.
    pub fn zxid_at(&self, moment: Moment) -> Result<Zxid> {
        self.history_view().zxid_at(moment)
    }

    /// Returns a znode at a moment; `None` if it did not exist.
    ///
    /// # Errors
    /// If the moment is unknown, if the path is invalid or not recorded, or if the viewer may not
    /// read the znode.
    pub fn znode_at(
        &self,
        path: &str,
        moment: Moment,
        viewer: &Viewer<'_>,
    ) -> Result<Option<Znode>> {
        let (history_view, permissions) = (self.history_view(), ViewerPermissions::new(viewer));
        history_view.check_path(path)?;
        let zxid = history_view.zxid_at(moment)?;
        let Some(znode) = history_view.znode(path, Position::after(zxid))? else {
            return Ok(None);
        };
        if !history_view.may_see(path, &PastAcl::of_znode(Some(&znode))?, &permissions)? {
            return Err(HistoryError::NoPermission {
                path: path.to_owned(),
            });
        }
        Ok(Some(permissions.shown(path, znode)))
    }
}

impl HistoryView {
    pub(crate) fn extent(&self) -> Extent {
        let first = self.eras.first().map(|era| era.row).unwrap_or_default();
        let holes = self.eras.iter().skip(1).map(|era| Hole {
            after: Zxid(era.row.gap_after),
            recorded_after: Zxid(era.row.recorded_after),
            known_from: Zxid(era.row.known_from),
        });
        Extent {
            recorded_after: Zxid(first.recorded_after),
            known_from: Zxid(first.known_from),
            head: self.head,
            holes: holes.collect(),
        }
    }

    pub(crate) fn check_path(&self, path: &str) -> Result<()> {
        filter::check(path)?;
        if !self.shared.filter.is_recorded(path) {
            return Err(HistoryError::NotRecorded {
                path: path.to_owned(),
            });
        }
        Ok(())
    }

    /// Returns the index of the era in which the tree at a zxid is known.
    pub(crate) fn era_of(&self, zxid: Zxid) -> Result<usize> {
        if zxid > self.head {
            return Err(HistoryError::Future {
                wanted: zxid,
                head: self.head,
            });
        }
        let known = self
            .eras
            .iter()
            .rposition(|era| era.row.known_from <= zxid.0);
        let after = known.map_or(0, |known| known + 1);
        match (known, self.eras.get(after)) {
            (None, Some(first)) => Err(HistoryError::NotKept {
                wanted: zxid,
                oldest: Zxid(first.row.known_from),
            }),
            (Some(_), Some(next)) if zxid.0 > next.row.gap_after => Err(HistoryError::Hole {
                from: Zxid(next.row.gap_after),
                to: Zxid(next.row.known_from),
            }),
            (known, _) => Ok(known.unwrap_or_default()),
        }
    }

    pub(crate) fn zxid_at(&self, moment: Moment) -> Result<Zxid> {
        let zxid = match moment {
            Moment::Zxid(zxid) => zxid,
            Moment::Time(ms) => self.zxid_at_time(ms)?,
        };
        self.era_of(zxid)?;
        Ok(zxid)
    }

    fn zxid_at_time(&self, ms: i64) -> Result<Zxid> {
        let newest = self.eras.last().map(|era| era.row).unwrap_or_default();
        // If the newest era contains no change, only its initial znodes indicate its time.
        let known_ms = match self.head_ms {
            0 => newest.known_from_ms,
            head_ms => head_ms,
        };
        if ms >= known_ms && (known_ms > 0 || self.eras.len() == 1) {
            return Ok(self.head);
        }
        if let Some(zxid) = self.last_until(self.open_block, ms)? {
            return Ok(zxid);
        }
        let block = {
            let view = self.shared.view.read();
            let closed = self.open_block.saturating_sub(view.first_block);
            let rows = view
                .blocks
                .iter()
                .take(usize::try_from(closed).unwrap_or(usize::MAX));
            let found = rows.rev().position(|row| row.min_time_ms <= ms);
            found.map(|back| self.open_block - 1 - back as u64)
        };
        let found = block.map(|block| self.last_until(block, ms)).transpose()?;
        if let Some(zxid) = found.flatten() {
            return Ok(zxid);
        }
        let first = self.eras.first().map(|era| era.row).unwrap_or_default();
        if first.known_from_ms > 0 && first.known_from_ms <= ms {
            return Ok(Zxid(first.known_from));
        }
        Err(HistoryError::TooEarly {
            oldest_ms: first.known_from_ms,
        })
    }

    /// Returns the zxid of a block's last change at the time `ms` or earlier. If a hole follows
    /// this change, returns the first known moment after the hole, or an error if the time of that
    /// moment is unknown or later than `ms`.
    fn last_until(&self, block: u64, ms: i64) -> Result<Option<Zxid>> {
        let (changes, _) = self.block(block)?;
        let seen = changes.partition_point(|change| change.zxid <= self.head.0);
        let last = changes[..seen]
            .iter()
            .rposition(|change| change.time_ms <= ms);
        let Some(last) = last else { return Ok(None) };
        let zxid = Zxid(changes[last].zxid);
        let behind = self.eras.iter().map(|era| era.row);
        let mut behind = behind.filter(|era| era.first_block == block + 1);
        let Some(hole) = behind.next().filter(|_| last + 1 == seen) else {
            return Ok(Some(zxid));
        };
        let era = behind.next_back().unwrap_or(hole);
        if era.known_from_ms > 0 && era.known_from_ms <= ms {
            return Ok(Some(Zxid(era.known_from)));
        }
        Err(HistoryError::Hole {
            from: Zxid(hole.gap_after),
            to: Zxid(era.known_from),
        })
    }

    /// Returns the last block that may contain a change at `zxid` or earlier.
    pub(crate) fn last_block_at(&self, zxid: i64) -> u64 {
        let view = self.shared.view.read();
        let begun = view.blocks.partition_point(|row| row.first_zxid <= zxid) as u64;
        if begun == view.blocks.len() as u64 {
            return self.open_block;
        }
        (view.first_block + begun)
            .saturating_sub(1)
            .min(self.open_block)
    }

    /// Returns the first block that may contain a change at `zxid` or later.
    pub(crate) fn first_block_from(&self, zxid: i64) -> u64 {
        let view = self.shared.view.read();
        let before = view.blocks.partition_point(|row| row.last_zxid < zxid) as u64;
        view.first_block + before
    }

    /// Returns a znode after the change at `position`, with its contents.
    pub(crate) fn znode(&self, path: &str, position: Position) -> Result<Option<Znode>> {
        let era = self.era_of(position.zxid)?;
        let postings = self.postings(&path_key(path))?;
        self.znode_of(path, position, &self.eras[era], &postings)
    }

    /// Returns a znode like [`HistoryView::znode`], given the postings of the path. Reads the
    /// changes from newest to oldest until the state of the znode is known.
    pub(crate) fn znode_of(
        &self,
        path: &str,
        position: Position,
        era: &EraView,
        postings: &[crate::index::postings::Posting],
    ) -> Result<Option<Znode>> {
        let last = self.last_block_at(position.zxid.0);
        let of_era = postings
            .iter()
            .rev()
            .filter(|posting| posting.block <= last && posting.block >= era.row.first_block);
        let mut found = ZnodeState::default();
        for posting in of_era {
            if posting.kinds & found.wanted() == 0 {
                continue;
            }
            let (changes, segment) = self.block(posting.block)?;
            let of_path = changes.iter().rev().filter(|change| {
                change.path == path && change.position() <= position && change.zxid <= self.head.0
            });
            for change in of_path {
                if change.is_delete() {
                    return Ok(None);
                }
                let is_whole =
                    found.take(change, |content| self.content(content, segment.as_ref()))?;
                if is_whole {
                    return Ok(Some(found.znode));
                }
            }
        }
        self.apply_to_base(path, era, found)
    }

    fn apply_to_base(&self, path: &str, era: &EraView, found: ZnodeState) -> Result<Option<Znode>> {
        let base = self.base_znode(path, era)?;
        Ok(base.map(|base| found.over(base)))
    }

    /// Returns a znode at the beginning of the era.
    pub(crate) fn base_znode(&self, path: &str, era: &EraView) -> Result<Option<Znode>> {
        let key = path_key(path);
        let cursor = era.base.seek(&key)?;
        let Some((_, value)) = cursor.entry().filter(|(at, _)| **at == *key) else {
            return Ok(None);
        };
        let base = crate::record::decode(value.to_vec().into(), era.base.path())?;
        Ok(Some(base))
    }

    /// Returns the last change that deleted a path; `None` if a hole follows the change, because
    /// the path may have changed in the hole.
    pub(crate) fn last_deletion(&self, path: &str) -> Result<Option<Change>> {
        let recorded_after = self.eras.last().map_or(0, |era| era.row.recorded_after);
        let found = self.last_recorded(path, kinds::DELETES)?;
        let found = found.map(|(change, _)| change);
        Ok(found.filter(|change| change.zxid > recorded_after))
    }

    /// Returns the last recorded change of one of these kinds to a path, and the file with the
    /// contents of the change.
    pub(crate) fn last_recorded(
        &self,
        path: &str,
        wanted: u8,
    ) -> Result<Option<(Change, Option<Arc<Segment>>)>> {
        let postings = self.postings(&path_key(path))?;
        let last = self.last_block_at(self.head.0);
        let may_hold = postings
            .iter()
            .rev()
            .filter(|at| at.kinds & wanted != 0 && at.block <= last);
        let recorded_after = self.extent().recorded_after.0;
        for posting in may_hold {
            let (changes, segment) = self.block(posting.block)?;
            let found = changes.iter().rev().find(|change| {
                change.path == path
                    && change.zxid <= self.head.0
                    && change.zxid > recorded_after
                    && kinds_of(change) & wanted != 0
            });
            if let Some(change) = found {
                return Ok(Some((change.clone(), segment)));
            }
        }
        Ok(None)
    }
}

/// State of a znode, as far as the visited changes determine it.
#[derive(Default)]
struct ZnodeState {
    znode: Znode,
    has_data: bool,
    has_acl: bool,
}

impl ZnodeState {
    fn wanted(&self) -> u8 {
        let data = if self.has_data { 0 } else { kinds::SETS_DATA };
        let acl = if self.has_acl { 0 } else { kinds::SETS_ACL };
        kinds::CREATES | kinds::DELETES | data | acl
    }

    /// Adds a change that is older than the previous ones. Returns whether the state is complete.
    fn take(
        &mut self,
        change: &Change,
        content: impl Fn(&Content) -> Result<Content>,
    ) -> Result<bool> {
        if change.sets_data() && !self.has_data {
            self.has_data = true;
            self.znode.data = change.data.as_ref().map(&content).transpose()?;
            self.znode.version = change.version;
            self.znode.mzxid = change.zxid;
            self.znode.mtime_ms = change.time_ms;
        }
        if change.sets_acl() && !self.has_acl {
            self.has_acl = true;
            self.znode.acl = change.acl.as_ref().map(&content).transpose()?;
            self.znode.aversion = change.aversion;
        }
        let is_create = change.sets_data() && change.sets_acl();
        if is_create {
            note_creation(&mut self.znode, change);
        }
        Ok(is_create)
    }

    /// Returns the older state `base`, updated with the known parts of this state.
    fn over(self, base: Znode) -> Znode {
        let mut znode = base;
        if self.has_data {
            znode.data = self.znode.data;
            znode.version = self.znode.version;
            znode.mzxid = self.znode.mzxid;
            znode.mtime_ms = self.znode.mtime_ms;
        }
        if self.has_acl {
            znode.acl = self.znode.acl;
            znode.aversion = self.znode.aversion;
        }
        znode
    }
}

fn note_creation(znode: &mut Znode, change: &Change) {
    znode.czxid = change.zxid;
    znode.ctime_ms = change.time_ms;
    znode.kind = change.kind;
    znode.ttl_ms = change.ttl_ms;
    znode.owner = match change.kind() {
        crate::record::Kind::Ephemeral => change.session,
        _ => 0,
    };
}

/// Applies one change, which contains its contents, to a znode.
///
/// If the znode is missing and the change does not create it, the change is older than the era's
/// snapshot, which was written after the znode was deleted. The znode stays missing.
pub(crate) fn apply(znode: &mut Option<Znode>, change: &Change) {
    if change.is_delete() {
        *znode = None;
        return;
    }
    let is_create = change.sets_data() && change.sets_acl();
    let mut found = ZnodeState::default();
    let taken = found.take(change, |content| Ok(content.clone()));
    debug_assert!(taken.is_ok());
    *znode = match znode.take() {
        _ if is_create => Some(found.znode),
        Some(before) => Some(found.over(before)),
        None => None,
    };
}
