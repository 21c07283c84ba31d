//! Changes of znodes that members have shown to operators. All members must show the same changes.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use proto::position::Position;
use serde_json::{Value, json};

use crate::operators::settings::OWNED;

pub(crate) const SAME: &str = "all members have the same history";

/// Fields of a change that are equal for all callers and on all members.
const FIELDS: [&str; 9] = [
    "zxid",
    "time_ms",
    "operation",
    "path",
    "kind",
    "version",
    "aversion",
    "data",
    "acl",
];

/// Znode with the member list, which only super users see.
const CONFIG: &str = "/zookeeper/config";

/// Changes by position, and feeds that delivered them.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    all: Mutex<BTreeMap<Position, Value>>,
    feeds: Mutex<Vec<Feed>>,
    /// Znodes at moments: path, zxid and the answer.
    moments: Mutex<BTreeMap<(String, String), Value>>,
}

/// Part of a feed without a gap.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    /// Path of the subtree.
    pub(crate) path: &'static str,
    /// Whether the reader may see all znodes.
    pub(crate) sees_all: bool,
    /// Position after which the part begins.
    pub(crate) from: Position,
    /// Position up to which the feed is complete.
    pub(crate) to: Position,
    /// Delivered changes.
    pub(crate) delivered: Vec<Position>,
}

impl Changes {
    /// Adds a change. Returns its position, or an error if a member showed another change with this
    /// position.
    pub(crate) fn add(&self, change: &Value) -> Result<Position, String> {
        let position = change.get("position").and_then(Value::as_str);
        let position = Position::parse(position.unwrap_or_default());
        let position = position.map_err(|error| format!("{error}: {change}"))?;
        let fields = FIELDS.map(|name| (name.to_owned(), change[name].clone()));
        let mut shown: Value = fields.into_iter().collect();
        if shown["path"] == CONFIG {
            shown["data"] = Value::Null;
        }
        let mut all = self.all.lock();
        let known = all.entry(position).or_insert_with(|| shown.clone());
        if *known == shown {
            Ok(position)
        } else {
            Err(format!("{shown} instead of {known}"))
        }
    }

    /// Adds a znode at a moment. Returns an error if a member showed another znode.
    pub(crate) fn add_moment(&self, path: &str, at: &str, znode: &Value) -> Result<(), String> {
        let mut moments = self.moments.lock();
        let key = (path.to_owned(), at.to_owned());
        let known = moments.entry(key).or_insert_with(|| znode.clone());
        if known == znode {
            Ok(())
        } else {
            Err(format!("{path} at {at}: {znode} instead of {known}"))
        }
    }

    pub(crate) fn add_feed(&self, feed: Feed) {
        self.feeds.lock().push(feed);
    }

    /// Returns all changes, in order.
    pub(crate) fn all(&self) -> Vec<(Position, Value)> {
        let all = self.all.lock();
        let pairs = all.iter().map(|(at, change)| (*at, change.clone()));
        pairs.collect()
    }

    pub(crate) fn delivered(&self) -> usize {
        self.feeds
            .lock()
            .iter()
            .map(|feed| feed.delivered.len())
            .sum()
    }

    /// Compares each feed with all changes. Returns the first difference.
    pub(crate) fn check_feeds(&self) -> Result<(), String> {
        let all = self.all.lock();
        for feed in self.feeds.lock().iter() {
            let within = all.iter().filter(|(at, change)| {
                **at > feed.from
                    && **at <= feed.to
                    && is_below(change, feed.path)
                    && (feed.sees_all || is_open(change))
            });
            let wanted: Vec<Position> = within.map(|(at, _)| *at).collect();
            let delivered = feed.delivered.iter().filter(|at| **at <= feed.to);
            let delivered: Vec<Position> = delivered.copied().collect();
            // After a hole, the last ACL of a deleted znode is unknown, so that only super users see
            // its earlier changes.
            let missing = wanted.iter().find(|at| !delivered.contains(at));
            let missing = missing.filter(|_| feed.sees_all);
            let is_in_order = delivered.is_sorted_by(|one, next| one < next);
            let is_subset = delivered.iter().all(|at| wanted.contains(at));
            if missing.is_some() || !is_subset || !is_in_order {
                let surplus = delivered.iter().find(|at| !wanted.contains(at));
                let (path, from, to) = (feed.path, feed.from, feed.to);
                return Err(format!(
                    "the feed of {path} after {from} up to {to} lacks {missing:?} and has the \
                     surplus {surplus:?}: {}",
                    json!(missing.or(surplus).and_then(|at| all.get(at)))
                ));
            }
        }
        Ok(())
    }
}

fn is_below(change: &Value, path: &str) -> bool {
    let found = change["path"].as_str().unwrap_or_default();
    let rest = found.strip_prefix(path.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether everybody may read the znode.
fn is_open(change: &Value) -> bool {
    !change["path"]
        .as_str()
        .unwrap_or_default()
        .starts_with(OWNED)
}
