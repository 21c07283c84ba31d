//! The ranges of transactions that a history must contain, and in which trees must be known.

use history::{Extent, Hole};
use proto::Zxid;

use super::model::Model;
use crate::history::check::files::Files;
use crate::history::check::store::Recorded;

/// A part of the history without a gap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) recorded_after: i64,
    /// Zxid from which the tree is known.
    pub(super) known_from: i64,
    /// Last transaction.
    pub(super) end: i64,
}

/// All parts of a history, oldest first.
#[derive(Debug)]
pub(super) struct Ranges {
    pub(super) all: Vec<Range>,
    /// Whether old changes have been dropped.
    pub(super) is_cut: bool,
}

impl Ranges {
    /// Returns the ranges of a history. Its own report of its extent must match the recorded eras,
    /// except that old changes may have been dropped.
    pub(super) fn of(
        recorded: &Recorded,
        extent: &Extent,
        model: &Model,
        files: &Files,
    ) -> Result<Self, String> {
        let eras = recorded.eras.iter().map(|era| {
            let covers = era.at.covers.unwrap_or_default();
            let known_from = era.at.zxid.max(covers).max(era.base.last_seen);
            Range {
                recorded_after: era.at.zxid.0,
                known_from: known_from.0,
                end: era.last().0,
            }
        });
        let mut ranges: Vec<Range> = eras.collect();
        let dropped = ranges.len().checked_sub(extent.holes.len() + 1);
        let dropped = dropped.ok_or_else(|| format!("too many holes: {extent:?}"))?;
        ranges.drain(..dropped);
        let bad = |what: &str| Err(format!("{what}: {extent:?} instead of {ranges:?}"));
        let oldest = ranges[0];
        let kept_after = extent.recorded_after.0;
        let begin = recorded.eras.first().map_or(0, |era| era.at.zxid.0);
        let is_cut = dropped > 0 || kept_after != oldest.recorded_after;
        if is_cut && !files.may_drop()
            || kept_after < oldest.recorded_after
            || kept_after > oldest.end
            || extent.head.0 != recorded.last().0
        {
            return bad("the wrong extent");
        }
        let settings = &files.settings;
        let oldest_ms = files.newest_ms() - settings.age_ms_max;
        let mut gone = model.changes.iter();
        let is_early = gone.any(|change| {
            let is_dropped = begin < change.zxid && change.zxid <= kept_after;
            is_dropped && recorded.has(Zxid(change.zxid)) && change.time_ms >= oldest_ms
        });
        if settings.bytes_max == 0 && is_cut && is_early {
            return bad("changes were dropped too early");
        }
        let known_from = if kept_after == oldest.recorded_after {
            oldest.known_from
        } else {
            oldest.known_from.max(kept_after)
        };
        if extent.known_from.0 != known_from {
            return bad("the oldest known tree is wrong");
        }
        let pairs = ranges.windows(2).map(|pair| Hole {
            after: Zxid(pair[0].end),
            recorded_after: Zxid(pair[1].recorded_after),
            known_from: Zxid(pair[1].known_from),
        });
        if !pairs.eq(extent.holes.iter().copied()) {
            return bad("the wrong holes");
        }
        ranges[0].recorded_after = kept_after;
        ranges[0].known_from = known_from;
        Ok(Self {
            all: ranges,
            is_cut,
        })
    }

    /// Returns the number of holes in which no transaction is missing. Each of them is between two
    /// epochs, because the last transaction of the earlier epoch was unknown to the member.
    pub(super) fn empty_holes(&self, model: &Model) -> usize {
        let holes = self.all.windows(2);
        let is_empty = |hole: &&[Range]| {
            let (after, upto) = (hole[0].end, hole[1].recorded_after);
            let mut times = model.times.iter();
            !times.any(|(zxid, _)| after < *zxid && *zxid <= upto)
        };
        holes.filter(is_empty).count()
    }

    /// Returns whether the history must contain the changes of a transaction.
    pub(super) fn has(&self, zxid: i64) -> bool {
        let mut ranges = self.all.iter();
        ranges.any(|range| range.recorded_after < zxid && zxid <= range.end)
    }

    /// Returns whether the tree after a transaction must be known.
    pub(super) fn knows(&self, zxid: i64) -> bool {
        let mut ranges = self.all.iter();
        ranges.any(|range| range.known_from <= zxid && zxid <= range.end)
    }

    /// Returns the last transaction.
    pub(super) fn head(&self) -> i64 {
        self.all.last().map_or(0, |range| range.end)
    }

    /// Returns the zxid after which the history is continuous.
    pub(super) fn whole_after(&self) -> i64 {
        self.all.last().map_or(0, |range| range.recorded_after)
    }

    /// Returns the first transaction of the history.
    pub(super) fn begin(&self) -> i64 {
        self.all.first().map_or(0, |range| range.recorded_after)
    }
}
