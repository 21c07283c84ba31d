//! Initial znodes of a history, collected from a snapshot.

use std::path::Path;

use bytes::Bytes;
use hashbrown::HashMap;
use prost::Message;
use proto::{Acl, StatPersisted, Zxid};

use super::expand::{acl_bytes, hash_of, inline, kind_of_owner};
use super::filter::PathFilter;
use crate::error::Result;
use crate::files::rows::keys;
use crate::files::sorted::{SortedFile, SortedWriter};
use crate::files::sorter::Sorter;
use crate::index::Index;
use crate::index::postings::path_key;
use crate::index::settings::{IndexSettings, base_path};
use crate::reading::view::EraView;
use crate::record::{Content, Era, Kind, Znode};

/// Id of the ACL that grants world:anyone all permissions. A snapshot's table does not contain it.
/// Source: ReferenceCountedACLCache.
const OPEN_ACL: i64 = -1;

/// Collector of a snapshot's znodes, in any order. It keeps only some of them in memory.
pub struct Baseline {
    sorter: Sorter,
    filter: PathFilter,
    content_bytes_max: usize,
    acls: HashMap<i64, Bytes>,
    ephemerals: Vec<(String, i64)>,
    /// Highest zxid in the stats of the znodes.
    last_seen: i64,
    newest_ms: i64,
}

impl Baseline {
    /// Creates an empty baseline for a history with these settings, and creates the directory.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn new(settings: &IndexSettings) -> Result<Self> {
        let dir: &Path = &settings.dir;
        blocking::files::create_dir_all(dir).map_err(crate::error::io_error("create", dir))?;
        Ok(Self {
            sorter: Sorter::new(dir, "sort.base"),
            filter: settings.filter.clone(),
            content_bytes_max: settings.content_bytes_max,
            acls: HashMap::from_iter([(OPEN_ACL, acl_bytes(&[Acl::open()]))]),
            ephemerals: Vec::new(),
            last_seen: 0,
            newest_ms: 0,
        })
    }

    /// Adds an entry from the snapshot's table of ACLs.
    pub fn acl(&mut self, id: i64, acl: &[Acl]) {
        self.acls.insert(id, acl_bytes(acl));
    }

    /// Adds a znode. The root's path may be empty. An ACL id that is missing in the table belongs
    /// to a list that a later transaction sets.
    ///
    /// # Errors
    /// If the znode cannot be written.
    pub fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<()> {
        let path = if path.is_empty() { "/" } else { path };
        let seen = stat.czxid.max(stat.mzxid).max(stat.pzxid);
        self.last_seen = self.last_seen.max(seen);
        self.newest_ms = self.newest_ms.max(stat.mtime);
        let (kind, owner, ttl_ms) = kind_of_owner(stat.ephemeral_owner);
        if kind == Kind::Ephemeral {
            self.ephemerals.push((path.to_owned(), owner.0));
        }
        if !self.filter.is_recorded(path) {
            return Ok(());
        }
        let znode = Znode {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            ctime_ms: stat.ctime,
            mtime_ms: stat.mtime,
            version: stat.version,
            aversion: stat.aversion,
            owner: owner.0,
            kind: kind.into(),
            ttl_ms,
            data: data.map(|data| self.content(data)),
            acl: self.acls.get(&acl).map(|acl| inline(acl.clone())),
        };
        self.sorter.push(path_key(path), znode.encode_to_vec())
    }

    fn content(&self, data: &[u8]) -> Content {
        if data.len() <= self.content_bytes_max {
            return inline(Bytes::copy_from_slice(data));
        }
        Content {
            size: data.len() as u64,
            hash: Bytes::copy_from_slice(&hash_of(data)),
            is_omitted: true,
            ..Content::default()
        }
    }
}

/// Position of the snapshot from which a [`Baseline`] was filled.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotAt {
    /// Zxid in the name of the snapshot. The transactions after this zxid are recorded.
    pub zxid: Zxid,
    /// Last transaction of which the snapshot may contain a part; `None` if the snapshot's trailer
    /// does not state it.
    pub covers: Option<Zxid>,
}

impl Index {
    /// Creates a history in an empty directory. Nothing before the snapshot is known, and the
    /// caller must append the log after it.
    ///
    /// # Errors
    /// If the history cannot be written.
    pub fn create(
        settings: IndexSettings,
        baseline: Baseline,
        snapshot: SnapshotAt,
    ) -> Result<Self> {
        let mut index = Self::create_empty(settings)?;
        index.begin_era(baseline, snapshot)?;
        Ok(index)
    }

    /// Continues after a gap. The transactions between [`Index::head`] and the snapshot are
    /// missing. The caller must append the log after the snapshot.
    ///
    /// # Errors
    /// If the history cannot be written.
    pub fn begin_era(&mut self, baseline: Baseline, snapshot: SnapshotAt) -> Result<()> {
        self.publish()?;
        // Transactions continue while a snapshot is written. The tree is unknown until the last
        // transaction of which the snapshot may contain a part. The log still contains all changes
        // since the snapshot began.
        let covered = snapshot.covers.map_or(0, |zxid| zxid.0);
        let known_from = snapshot.zxid.0.max(covered).max(baseline.last_seen);
        self.forget_ephemerals();
        for (path, session) in baseline.ephemerals {
            let row = session.to_be_bytes().to_vec();
            self.writes.push((keys::ephemeral(&path), Some(row)));
            self.ephemerals.insert(path, session);
        }
        let number = self.take_file_number();
        let base = write_base(baseline.sorter, base_path(&self.settings.dir, number))?;
        self.close_open_block()?;
        let row = Era {
            first_block: self.state.open_block,
            base: number,
            known_from,
            recorded_after: snapshot.zxid.0,
            known_from_ms: baseline.newest_ms,
            gap_after: self.state.head,
        };
        self.state.eras.push(row);
        self.state.head = snapshot.zxid.0;
        (self.state.head_session, self.state.head_cxid) = (0, 0);
        self.state.head_time_ms = 0;
        self.shared.view.write().eras.push(EraView { row, base });
        self.is_dirty = true;
        self.checkpoint()
    }
}

fn write_base(sorter: Sorter, path: std::path::PathBuf) -> Result<std::sync::Arc<SortedFile>> {
    let mut writer = SortedWriter::create(path)?;
    let mut znodes = sorter.finish()?;
    while let Some((key, value)) = znodes.entry() {
        writer.push(key, value)?;
        znodes.advance()?;
    }
    writer.finish()
}
