//! The whole tree as a client sees it, for comparisons of servers.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use bytes::Bytes;
use proto::response::{GetAclResponse, GetDataResponse, NamesResponse};
use proto::{Acl, Stat};

use crate::raw_session::{Lost, RawSession};
use crate::requests::{get_acl, get_children, get_data};

/// Number of requests in flight.
const WINDOW: usize = 500;
/// Number of reported differences.
const DIFFERENCES_SHOWN: usize = 10;

/// One znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Znode {
    /// Data. Null differs from empty data.
    pub data: Option<Bytes>,
    /// Complete Stat.
    pub stat: Stat,
    /// ACL entries, in order.
    pub acl: Vec<Acl>,
}

/// All znodes by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dump {
    /// Znodes in the order of their paths.
    pub znodes: BTreeMap<String, Znode>,
}

/// A pending request.
enum Asked {
    Data(String),
    Acl(String),
    Children(String),
}

impl Dump {
    /// Reads the whole tree through `session`, which must have a super user's permissions.
    ///
    /// # Errors
    /// If the connection ends. Panics if a znode is unreadable, or is created or deleted during the
    /// read.
    pub fn read(session: &mut RawSession) -> Result<Dump, Lost> {
        Dump::read_but(session, "")
    }

    /// Reads the tree without the descendants of `left_out`. The znode itself is included.
    ///
    /// # Errors
    /// Under the conditions of [`read`](Self::read).
    pub fn read_but(session: &mut RawSession, left_out: &str) -> Result<Dump, Lost> {
        let mut dump = Dump::default();
        dump.read_all(session, left_out)?;
        Ok(dump)
    }

    /// Removes the znodes that [`read_but`](Self::read_but) omits.
    #[must_use]
    pub fn but(mut self, left_out: &str) -> Dump {
        let below = format!("{left_out}/");
        self.znodes.retain(|path, _| !path.starts_with(&below));
        self
    }

    fn read_all(&mut self, session: &mut RawSession, left_out: &str) -> Result<(), Lost> {
        let mut paths = VecDeque::from(["/".to_owned()]);
        let mut asked = VecDeque::new();
        let ask = |session: &mut RawSession, asked: &mut VecDeque<Asked>, what: Asked| {
            session.put(&match &what {
                Asked::Data(path) => get_data(path),
                Asked::Acl(path) => get_acl(path),
                Asked::Children(path) => get_children(path),
            });
            asked.push_back(what);
        };
        loop {
            while asked.len() < WINDOW
                && let Some(path) = paths.pop_front()
            {
                ask(session, &mut asked, Asked::Data(path.clone()));
                ask(session, &mut asked, Asked::Acl(path));
            }
            let Some(next) = asked.pop_front() else {
                return Ok(());
            };
            let answer = session.take()?;
            match next {
                Asked::Data(path) => {
                    assert_eq!(answer.err, 0, "getData {path}");
                    let GetDataResponse { data, stat } = answer.record();
                    if stat.num_children > 0 && path != left_out {
                        ask(session, &mut asked, Asked::Children(path.clone()));
                    }
                    let acl = Vec::new();
                    self.znodes.insert(path, Znode { data, stat, acl });
                }
                Asked::Acl(path) => {
                    assert_eq!(answer.err, 0, "getACL {path}");
                    let GetAclResponse { acl, .. } = answer.record();
                    if let Some(znode) = self.znodes.get_mut(&path) {
                        znode.acl = acl;
                    }
                }
                Asked::Children(path) => {
                    assert_eq!(answer.err, 0, "getChildren {path}");
                    let NamesResponse { names } = answer.record();
                    let parent = path.trim_end_matches('/');
                    paths.extend(names.iter().map(|name| format!("{parent}/{name}")));
                }
            }
        }
    }

    /// Panics unless the two are equal. The message contains the first differences.
    pub fn assert_same(&self, other: &Dump, what: &str) {
        if self == other {
            return;
        }
        let mut text = String::new();
        let paths = self.znodes.keys().chain(other.znodes.keys());
        let mut differing: Vec<&String> = paths
            .filter(|path| self.znodes.get(*path) != other.znodes.get(*path))
            .collect();
        differing.sort();
        differing.dedup();
        for path in differing.iter().take(DIFFERENCES_SHOWN) {
            let (left, right) = (self.znodes.get(*path), other.znodes.get(*path));
            writeln!(text, "{path}\n  {left:?}\n  {right:?}").expect("a string takes everything");
        }
        panic!("{what}: {} znodes differ:\n{text}", differing.len());
    }
}
