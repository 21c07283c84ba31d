//! A model of one session's part of the tree.
//!
//! A session's requests are executed in the order in which they were sent, and a crash preserves a
//! prefix of the records that are being logged. Therefore, after a crash, the session's part is the
//! result of all answered requests and of a prefix of the pending ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proto::{SessionId, Zxid};
use tests::Dump;

/// Parent in which all sessions create sequential znodes concurrently.
pub(crate) const SHARED: &str = "/shared";

/// One change of a request.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A znode with a known path.
    Create {
        path: String,
        data: String,
        ephemeral: bool,
    },
    /// A sequential znode among those of other sessions. Its data identifies it, because its path
    /// is unknown before the answer.
    CreateShared {
        data: String,
    },
    Set {
        path: String,
        data: String,
    },
    Delete {
        path: String,
    },
    /// closeSession.
    Close,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) data: String,
    pub(crate) version: i32,
    pub(crate) ephemeral: bool,
    /// Number of children ever created, from which sequential znodes get their numbers.
    pub(crate) creations: i32,
    /// `None` until an answer contains it.
    created: Option<Zxid>,
    modified: Option<Zxid>,
}

/// One session's part of the tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// Znodes of the session.
    pub(crate) nodes: BTreeMap<String, Node>,
    /// Its znodes below [`SHARED`] by their data, with their paths if known.
    pub(crate) shared: BTreeMap<String, Option<String>>,
    /// Whether the session was closed.
    pub(crate) closed: bool,
}

pub(crate) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Part {
    /// Applies one request. `zxid` is set if it is known from the answer.
    pub(crate) fn apply(&mut self, changes: &[Change], zxid: Option<Zxid>) {
        for change in changes {
            match change {
                Change::Create {
                    path,
                    data,
                    ephemeral,
                } => self.create(path, data, *ephemeral, zxid),
                Change::CreateShared { data } => {
                    self.shared.insert(data.clone(), None);
                }
                Change::Set { path, data } => {
                    let node = self.nodes.get_mut(path).expect("a znode to set");
                    node.data.clone_from(data);
                    node.version += 1;
                    node.modified = zxid;
                }
                Change::Delete { path } => {
                    if path.starts_with(SHARED) {
                        self.shared.retain(|_, known| known.as_ref() != Some(path));
                    } else {
                        self.nodes.remove(path).expect("a znode to delete");
                    }
                }
                Change::Close => {
                    self.nodes.retain(|_, node| !node.ephemeral);
                    self.closed = true;
                }
            }
        }
    }

    fn create(&mut self, path: &str, data: &str, ephemeral: bool, zxid: Option<Zxid>) {
        if let Some(parent) = self.nodes.get_mut(parent_of(path)) {
            parent.creations += 1;
        }
        let node = Node {
            data: data.to_owned(),
            version: 0,
            ephemeral,
            creations: 0,
            created: zxid,
            modified: zxid,
        };
        let there = self.nodes.insert(path.to_owned(), node);
        assert_eq!(there, None, "{path} is created once");
    }

    /// Returns the first difference, if any, in the session, in `dump` below `top`, and in the
    /// shared znodes whose data begins with `mark`.
    pub(crate) fn difference(&self, dump: &Dump, whose: &Whose<'_>) -> Option<String> {
        match (self.closed, whose.session_over) {
            (true, false) => return Some("the session goes on".to_owned()),
            (false, true) => return Some("the session has expired".to_owned()),
            _ => {}
        }
        let below = |path: &str| path == whose.top || parent_of(path).starts_with(whose.top);
        let found = dump.znodes.keys().filter(|path| below(path));
        if let Some(extra) = found
            .into_iter()
            .find(|path| !self.nodes.contains_key(*path))
        {
            return Some(format!("{extra} is there"));
        }
        for (path, node) in &self.nodes {
            let Some(seen) = dump.znodes.get(path) else {
                return Some(format!("{path} is missing"));
            };
            let stat = &seen.stat;
            let owner = if node.ephemeral { whose.session.0 } else { 0 };
            let differs = seen.data.as_deref() != Some(node.data.as_bytes())
                || stat.version != node.version
                || stat.ephemeral_owner != owner
                || stat.cversion != 2 * node.creations - stat.num_children
                || node.created.is_some_and(|zxid| zxid.0 != stat.czxid)
                || node.modified.is_some_and(|zxid| zxid.0 != stat.mzxid);
            if differs {
                return Some(format!("{path} is {seen:?}, not {node:?}"));
            }
        }
        self.shared_difference(dump, whose)
    }

    fn shared_difference(&self, dump: &Dump, whose: &Whose<'_>) -> Option<String> {
        let mut seen = whose.shared(dump);
        for (data, path) in &self.shared {
            match seen.remove(data) {
                None => return Some(format!("the shared znode of {data} is missing")),
                Some(found) if path.as_ref().is_some_and(|path| *path != found) => {
                    return Some(format!("{data} is at {found}, not at {path:?}"));
                }
                Some(_) => {}
            }
        }
        let extra = seen.into_iter().next();
        extra.map(|(data, path)| format!("{path} of {data} is there"))
    }

    /// Copies values that only the dump contains.
    pub(crate) fn learn(&mut self, dump: &Dump, whose: &Whose<'_>) {
        for (path, node) in &mut self.nodes {
            let stat = &dump.znodes[path].stat;
            node.created = Some(Zxid(stat.czxid));
            node.modified = Some(Zxid(stat.mzxid));
        }
        self.shared = whose
            .shared(dump)
            .into_iter()
            .map(|(data, path)| (data, Some(path)))
            .collect();
    }
}

/// Identification of one session's part of the tree.
#[derive(Debug)]
pub(crate) struct Whose<'a> {
    /// Root of its own znodes.
    pub(crate) top: &'a str,
    /// Prefix of the data of its shared znodes.
    pub(crate) mark: &'a str,
    /// Owner of its ephemerals.
    pub(crate) session: SessionId,
    /// Whether that session is over. The tree does not show this if it had no ephemerals.
    pub(crate) session_over: bool,
}

impl Whose<'_> {
    /// Returns its shared znodes: data and path.
    fn shared(&self, dump: &Dump) -> BTreeMap<String, String> {
        let children = dump
            .znodes
            .iter()
            .filter(|(path, _)| parent_of(path) == SHARED);
        let mut found = BTreeMap::new();
        for (path, node) in children {
            let data = String::from_utf8_lossy(node.data.as_deref().unwrap_or_default());
            if data.starts_with(self.mark) {
                let twice = found.insert(data.to_string(), path.clone());
                assert_eq!(twice, None, "{data} was created twice");
            }
        }
        found
    }
}

/// Returns the number of pending requests that were executed, and the resulting part of the tree.
///
/// Panics if no number fits. The message contains the difference for each number.
pub(crate) fn settle(
    answered: &Part,
    unanswered: &[Vec<Change>],
    dump: &Dump,
    whose: &Whose<'_>,
) -> (usize, Part) {
    let mut part = answered.clone();
    let mut reasons = String::new();
    for kept in 0..=unanswered.len() {
        if kept > 0 {
            part.apply(&unanswered[kept - 1], None);
        }
        match part.difference(dump, whose) {
            None => {
                part.learn(dump, whose);
                return (kept, part);
            }
            Some(reason) => {
                writeln!(reasons, "with {kept} kept: {reason}").expect("a string takes everything");
            }
        }
    }
    panic!(
        "{whose:?}: no prefix of the unanswered requests explains what is there:\n{reasons}\
         unanswered: {unanswered:#?}"
    );
}
