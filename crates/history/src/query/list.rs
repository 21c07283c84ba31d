//! The query for changes to a path or a subtree.

use std::collections::BTreeSet;
use std::sync::Arc;

use proto::position::Position;

use crate::error::{HistoryError, Result};
use crate::files::segment::Segment;
use crate::index::postings::{host, identity_key, path_key, session_key};
use crate::limits::{FORMAT, PAGE_BYTES_MAX, PAGE_RESULTS_MAX, SUBTREE_KEYS_MAX};
use crate::query::scan::{is_below, ranges_below};
use crate::reading::read::{Extent, Moment, Reader};
use crate::reading::view::HistoryView;
use crate::reading::viewer::{PastAcl, Viewer, ViewerPermissions, position_before};
use crate::record::{Change, ExportedChange, Operation, Znode};
use crate::recording::filter;

/// A query for changes. All conditions must hold.
#[derive(Debug, Clone)]
pub struct HistoryQuery {
    /// Path of the znode.
    pub path: String,
    /// Whether changes to the znode's descendants are included.
    pub recursive: bool,
    /// Earliest transaction or time.
    pub since: Option<Moment>,
    /// Latest transaction or time.
    pub until: Option<Moment>,
    /// Identity (`scheme:id`) or host that made the change. A change by an unknown client does not
    /// match.
    pub by: Option<String>,
    /// Session that made the change.
    pub session: Option<i64>,
    /// Operations of the changes. If empty, all operations match.
    pub operations: Vec<Operation>,
    /// Whether the newest change comes first.
    pub newest_first: bool,
    /// Whether the znode before and after each change is included.
    pub with_states: bool,
    /// Position at which the previous page ended.
    pub after: Option<Position>,
    /// Maximum number of changes in a page, up to [`PAGE_RESULTS_MAX`].
    pub limit: usize,
}

impl HistoryQuery {
    /// Creates a query for all changes to a znode, oldest first.
    pub fn of(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            recursive: false,
            since: None,
            until: None,
            by: None,
            session: None,
            operations: Vec::new(),
            newest_first: false,
            with_states: false,
            after: None,
            limit: PAGE_RESULTS_MAX,
        }
    }

    /// Refuses a query by origin if the viewer may not see origins, because the answer would reveal
    /// them.
    pub(crate) fn check_origin(&self, viewer: &Viewer<'_>) -> Result<()> {
        let needs_origins = self.by.is_some() || self.session.is_some();
        if needs_origins && !viewer.may_see_origins() {
            return Err(HistoryError::OriginHidden);
        }
        Ok(())
    }

    pub(crate) fn matches(&self, change: &Change) -> bool {
        let is_of_path = if self.recursive {
            is_below(&self.path, &change.path)
        } else {
            change.path == self.path
        };
        let is_in_time = |moment: Option<Moment>, holds: fn(i64, i64) -> bool| match moment {
            None => true,
            Some(Moment::Zxid(zxid)) => holds(change.zxid, zxid.0),
            Some(Moment::Time(ms)) => holds(change.time_ms, ms),
        };
        let is_by = |who: &String| {
            change.identities.contains(who) || host(&change.client) == Some(who.as_str())
        };
        is_of_path
            && is_in_time(self.since, |change, since| change >= since)
            && is_in_time(self.until, |change, until| change <= until)
            && self.session.is_none_or(|session| change.session == session)
            && self.by.as_ref().is_none_or(is_by)
            && (self.operations.is_empty() || self.operations.contains(&change.operation()))
            && self.is_after(change.position())
    }

    /// Returns whether a position follows the end of the previous page. Blocks before that end may
    /// be read again, because a transaction may have changes in several blocks.
    fn is_after(&self, position: Position) -> bool {
        self.after.is_none_or(|after| {
            if self.newest_first {
                position < after
            } else {
                position > after
            }
        })
    }
}

/// A page of an answer.
#[derive(Debug, Clone)]
pub struct Page<T, C> {
    /// Results on the page.
    pub results: Vec<T>,
    /// Position after which the next page begins; `None` if this is the last page.
    pub next: Option<C>,
    /// Number of results that are omitted because the viewer may not see them.
    pub hidden: u64,
    /// Recorded range of the history, with its holes.
    pub extent: Extent,
}

/// A page that is being built.
struct PageBuilder<'a> {
    history_view: &'a HistoryView,
    query: &'a HistoryQuery,
    permissions: ViewerPermissions<'a>,
    results: Vec<ExportedChange>,
    bytes: usize,
    hidden: u64,
    last: Option<Position>,
}

impl Reader {
    /// Returns a page of the changes that match a query. Each change includes its contents.
    ///
    /// # Errors
    /// If the path is invalid or not recorded, or if the query is for a single znode and the viewer
    /// may not see any matching change. [`HistoryError::OriginHidden`] if the query selects by
    /// origin and the viewer may not see origins.
    pub fn history(
        &self,
        query: &HistoryQuery,
        viewer: &Viewer<'_>,
    ) -> Result<Page<ExportedChange, Position>> {
        let history_view = self.history_view();
        filter::check(&query.path)?;
        query.check_origin(viewer)?;
        if !query.recursive {
            history_view.check_path(&query.path)?;
        }
        let blocks = history_view.candidates(query)?;
        let mut page = PageBuilder {
            history_view: &history_view,
            query,
            permissions: ViewerPermissions::new(viewer),
            results: Vec::new(),
            bytes: 0,
            hidden: 0,
            last: query.after,
        };
        let mut is_all = true;
        for block in blocks {
            // A page passes at least one change, even if its limits are used up. Otherwise, the
            // next page would begin at the same position.
            let has_begun = page.last != query.after;
            let is_over = page.is_full() || has_begun && history_view.is_spent()?;
            is_all = !is_over && page.take_block(block)?;
            if !is_all {
                break;
            }
        }
        let is_first = query.after.is_none();
        if page.hidden > 0 && page.results.is_empty() && !query.recursive && is_first && is_all {
            return Err(HistoryError::NoPermission {
                path: query.path.clone(),
            });
        }
        Ok(Page {
            next: page.last.filter(|_| !is_all),
            results: page.results,
            hidden: page.hidden,
            extent: history_view.extent(),
        })
    }
}

impl PageBuilder<'_> {
    /// Returns whether the page is full. Hidden results count as well, because finding them takes
    /// as long.
    fn is_full(&self) -> bool {
        self.results.len() >= self.query.limit.clamp(1, PAGE_RESULTS_MAX)
            || self.results.len() as u64 + self.hidden >= PAGE_RESULTS_MAX as u64
            || self.bytes >= PAGE_BYTES_MAX
    }

    /// Adds the matching changes in a block. Returns whether all of them fit.
    fn take_block(&mut self, block: u64) -> Result<bool> {
        let (changes, segment) = self.history_view.block(block)?;
        let history_view = self.history_view;
        let recorded_after = history_view.extent().recorded_after.0;
        let kept = changes
            .iter()
            .filter(|change| change.zxid <= history_view.head.0 && change.zxid > recorded_after);
        let mut matching: Vec<&Change> = kept.filter(|change| self.query.matches(change)).collect();
        if self.query.newest_first {
            matching.reverse();
        }
        let mut is_begun = false;
        for change in matching {
            if self.is_full() || is_begun && history_view.is_spent()? {
                return Ok(false);
            }
            is_begun = true;
            self.last = Some(change.position());
            let change = history_view.with_contents(change, segment.as_ref())?;
            match history_view.exported(change, self.query.with_states, &self.permissions)? {
                Some(result) => {
                    self.bytes += prost::Message::encoded_len(&result);
                    self.results.push(result);
                }
                None => self.hidden += 1,
            }
        }
        // The whole block was visited, so the next page need not read it again.
        let edge = if self.query.newest_first {
            changes.first().map(|change| change.position())
        } else {
            changes.last().map(|change| change.position())
        };
        self.last = edge.filter(|edge| self.query.is_after(*edge)).or(self.last);
        Ok(true)
    }
}

impl HistoryView {
    /// Returns the blocks that may contain matching changes, in the order of the answer.
    fn candidates(&self, query: &HistoryQuery) -> Result<Vec<u64>> {
        let mut blocks: Option<BTreeSet<u64>> = None;
        let mut narrow = |found: BTreeSet<u64>| {
            blocks = Some(match blocks.take() {
                Some(before) => before.intersection(&found).copied().collect(),
                None => found,
            });
        };
        let of_key = |key: &[u8]| -> Result<BTreeSet<u64>> {
            Ok(self
                .postings(key)?
                .iter()
                .map(|posting| posting.block)
                .collect())
        };
        if !query.recursive {
            narrow(of_key(&path_key(&query.path))?);
        } else if query.path != "/"
            && let Some(found) = self.blocks_below(&query.path)?
        {
            narrow(found);
        }
        if let Some(session) = query.session {
            narrow(of_key(&session_key(session))?);
        }
        if let Some(by) = &query.by {
            narrow(of_key(&identity_key(by))?);
        }
        let may_hold = |block: u64| self.may_hold(query, block);
        let mut found: Vec<u64> = match blocks {
            Some(blocks) => blocks
                .into_iter()
                .filter(|block| may_hold(*block))
                .collect(),
            None => (self.first_block..=self.open_block)
                .filter(|block| may_hold(*block))
                .collect(),
        };
        if query.newest_first {
            found.reverse();
        }
        Ok(found)
    }

    /// Returns the blocks with changes in a subtree. Returns `None` for a large subtree, because
    /// iterating over its keys for each page would take longer than reading the blocks.
    fn blocks_below(&self, path: &str) -> Result<Option<BTreeSet<u64>>> {
        let mut blocks = BTreeSet::new();
        let mut left = SUBTREE_KEYS_MAX;
        for (from, to) in ranges_below(path, None) {
            let mut keys = self.keys(&from, &to)?;
            while let Some((_, postings)) = keys.next()? {
                if left == 0 {
                    return Ok(None);
                }
                left -= 1;
                blocks.extend(postings.iter().map(|posting| posting.block));
            }
        }
        Ok(Some(blocks))
    }

    /// Returns whether a block may contain matching changes, judging by its row.
    fn may_hold(&self, query: &HistoryQuery, block: u64) -> bool {
        let Some(row) = self.row(block) else {
            return true;
        };
        let since = match query.since {
            None => true,
            Some(Moment::Zxid(zxid)) => row.last_zxid >= zxid.0,
            Some(Moment::Time(ms)) => row.max_time_ms >= ms,
        };
        let until = match query.until {
            None => true,
            Some(Moment::Zxid(zxid)) => row.first_zxid <= zxid.0,
            Some(Moment::Time(ms)) => row.min_time_ms <= ms,
        };
        let after = query.after.is_none_or(|after| {
            if query.newest_first {
                row.first_zxid <= after.zxid.0
            } else {
                row.last_zxid >= after.zxid.0
            }
        });
        since && until && after
    }

    /// Copies a change and adds its contents.
    pub(crate) fn with_contents(
        &self,
        change: &Change,
        segment: Option<&Arc<Segment>>,
    ) -> Result<Change> {
        let mut change = change.clone();
        for content in [&mut change.data, &mut change.acl].into_iter().flatten() {
            *content = self.content(content, segment)?;
        }
        Ok(change)
    }

    /// Exports a change. Returns `None` if the viewer may not see it.
    pub(crate) fn exported(
        &self,
        change: Change,
        with_states: bool,
        permissions: &ViewerPermissions<'_>,
    ) -> Result<Option<ExportedChange>> {
        let sees_all = permissions.sees_secrets;
        if !sees_all && !self.may_see(&change.path, &self.acl_then(&change)?, permissions)? {
            return Ok(None);
        }
        let mut found = ExportedChange {
            format: FORMAT,
            ..ExportedChange::default()
        };
        if with_states {
            match self.znode(&change.path, position_before(&change)) {
                Ok(before) if sees_all || self.may_show(before.as_ref(), permissions)? => {
                    found.before = before;
                }
                Ok(_) => found.is_before_unknown = true,
                Err(error) if error.is_unknown_moment() => found.is_before_unknown = true,
                Err(other) => return Err(other),
            }
            found.after = match self.znode(&change.path, change.position()) {
                Err(error) if error.is_unknown_moment() => None,
                other => other?,
            };
            let shown = |znode| permissions.shown(&change.path, znode);
            found.before = found.before.map(shown);
            found.after = found.after.map(shown);
        }
        found.change = Some(change);
        Ok(Some(permissions.mask(found)))
    }

    /// Returns whether the state of a znode before a change may be shown, given that the change may
    /// be seen.
    fn may_show(&self, state: Option<&Znode>, permissions: &ViewerPermissions<'_>) -> Result<bool> {
        match state {
            Some(_) => Ok(permissions.permits(&PastAcl::of_znode(state)?)),
            None => Ok(true),
        }
    }
}
