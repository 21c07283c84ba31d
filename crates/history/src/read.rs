//! Reading: moments, and znodes as they were.

use std::path::PathBuf;
use std::sync::Arc;

use proto::Zxid;

use crate::error::{HistoryError, Result};
use crate::files::segment::Segment;
use crate::filter::{self, PathFilter};
use crate::postings::{kinds, kinds_of, path_key};
use crate::record::{AclList, Change, Content, Znode};
use crate::view::{Effort, EraView, Look, Shared};
use crate::viewer::{PastAcl, Sight, Viewer};

/// Answers queries. Cheap to clone; each query sees the history as it is when it begins.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
    effort: Effort,
}

/// A moment in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// After this transaction.
    Zxid(Zxid),
    /// After the last recorded change (in the order of zxids) that is not later than this, ms since
    /// 1970. Clocks go back, and leaders' clocks differ.
    Time(i64),
}

/// A time of which nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// The last transaction recorded before it.
    pub after: Zxid,
    /// Transactions behind this one are recorded again.
    pub recorded_after: Zxid,
    /// From here on the tree is known again.
    pub known_from: Zxid,
}

/// How far a history reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Changes behind this transaction are kept.
    pub recorded_after: Zxid,
    /// From here on the tree is known.
    pub known_from: Zxid,
    /// The last transaction.
    pub head: Zxid,
    /// What is missing between.
    pub holes: Vec<Hole>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let effort = Effort::default();
        Self { shared, effort }
    }

    /// The same for answers that may cost no more than this.
    #[must_use]
    pub fn within(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    pub(crate) fn look(&self) -> Look {
        Look::new(&self.shared, &self.effort)
    }

    /// Where the history lies.
    pub fn dir(&self) -> &PathBuf {
        &self.shared.dir
    }

    /// Which paths it records.
    pub fn filter(&self) -> &PathFilter {
        &self.shared.filter
    }

    /// How far it reaches.
    pub fn extent(&self) -> Extent {
        self.look().extent()
    }

    /// The transaction that a moment stands for.
    ///
    /// # Errors
    /// If the tree at that moment is not known.
    pub fn zxid_at(&self, moment: Moment) -> Result<Zxid> {
        self.look().zxid_at(moment)
    }

    /// A znode as it was; `None` if there was none.
    ///
    /// # Errors
    /// If the moment or the path is not known, or may not be seen.
    pub fn znode_at(
        &self,
        path: &str,
        moment: Moment,
        viewer: &Viewer<'_>,
    ) -> Result<Option<Znode>> {
        let (look, sight) = (self.look(), Sight::new(viewer));
        look.check_path(path)?;
        let zxid = look.zxid_at(moment)?;
        let Some(znode) = look.znode(path, (zxid.0, u32::MAX))? else {
            return Ok(None);
        };
        if !look.may_see(path, &PastAcl::of_znode(Some(&znode))?, &sight)? {
            return Err(HistoryError::NoPermission {
                path: path.to_owned(),
            });
        }
        Ok(Some(sight.shown(path, znode)))
    }
}

impl Look {
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
        if !self.shared.filter.takes(path) {
            return Err(HistoryError::NotRecorded {
                path: path.to_owned(),
            });
        }
        Ok(())
    }

    /// The era in which the tree of a transaction is known.
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
        // Without a change in the newest era, only its own znodes tell how late it is.
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

    /// The last change of a block that is not later than this. If a hole follows it, nobody knows what
    /// else was changed until then.
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

    /// The last block that may hold a change of `zxid` or one before it.
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

    /// The first block that may hold a change of `zxid` or one behind it.
    pub(crate) fn first_block_from(&self, zxid: i64) -> u64 {
        let view = self.shared.view.read();
        let before = view.blocks.partition_point(|row| row.last_zxid < zxid) as u64;
        view.first_block + before
    }

    /// A znode after the change at `position`, with its contents.
    pub(crate) fn znode(&self, path: &str, position: (i64, u32)) -> Result<Option<Znode>> {
        let era = self.era_of(Zxid(position.0))?;
        let postings = self.postings(&path_key(path))?;
        self.znode_of(path, position, &self.eras[era], &postings)
    }

    /// The same, with the blocks of the path at hand. Goes back from the newest change until it is
    /// known what the znode was.
    pub(crate) fn znode_of(
        &self,
        path: &str,
        position: (i64, u32),
        era: &EraView,
        postings: &[crate::postings::Posting],
    ) -> Result<Option<Znode>> {
        let last = self.last_block_at(position.0);
        let of_era = postings
            .iter()
            .rev()
            .filter(|posting| posting.block <= last && posting.block >= era.row.first_block);
        let mut found = Found::default();
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
        self.over_base(path, era, found)
    }

    fn over_base(&self, path: &str, era: &EraView, found: Found) -> Result<Option<Znode>> {
        let base = self.base_znode(path, era)?;
        Ok(base.map(|base| found.over(base)))
    }

    /// A znode as the era began with it.
    pub(crate) fn base_znode(&self, path: &str, era: &EraView) -> Result<Option<Znode>> {
        let key = path_key(path);
        let cursor = era.base.seek(&key)?;
        let Some((_, value)) = cursor.entry().filter(|(at, _)| **at == *key) else {
            return Ok(None);
        };
        let base = crate::record::decode(value.to_vec().into(), era.base.path())?;
        Ok(Some(base))
    }

    /// The last change that deleted a path, unless a hole follows it: who knows what was there then.
    pub(crate) fn last_deletion(&self, path: &str) -> Result<Option<Change>> {
        let recorded_after = self.eras.last().map_or(0, |era| era.row.recorded_after);
        let found = self.last_recorded(path, kinds::DELETES)?;
        let found = found.map(|(change, _)| change);
        Ok(found.filter(|change| change.zxid > recorded_after))
    }

    /// The last change of a path that does one of these, and the file that its contents lie in.
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

/// What a znode was, as far as changes that were gone through tell.
#[derive(Default)]
struct Found {
    znode: Znode,
    has_data: bool,
    has_acl: bool,
}

impl Found {
    fn wanted(&self) -> u8 {
        let data = if self.has_data { 0 } else { kinds::SETS_DATA };
        let acl = if self.has_acl { 0 } else { kinds::SETS_ACL };
        kinds::CREATES | kinds::DELETES | data | acl
    }

    /// Takes a change that is older than those before; whether nothing more is wanted.
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

    /// What was found, over an older state.
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

/// Brings a znode forward by one change, whose contents lie in it.
///
/// A change of a znode that is not there is one that a snapshot saw deleted already: it stays away.
pub(crate) fn apply(znode: &mut Option<Znode>, change: &Change) {
    if change.is_delete() {
        *znode = None;
        return;
    }
    let is_create = change.sets_data() && change.sets_acl();
    let mut found = Found::default();
    let taken = found.take(change, |content| Ok(content.clone()));
    debug_assert!(taken.is_ok());
    *znode = match znode.take() {
        _ if is_create => Some(found.znode),
        Some(before) => Some(found.over(before)),
        None => None,
    };
}

/// An ACL out of a content; empty if it is not known.
pub(crate) fn acl_list(content: Option<&Content>) -> Result<AclList> {
    match content.and_then(Content::bytes) {
        Some(bytes) => crate::record::decode(bytes.clone(), std::path::Path::new("an ACL")),
        None => Ok(AclList::default()),
    }
}
