//! The plain list: the changes of a client, by the zxids of the replies, and the tree after each.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use fastrand::Rng;
use proto::request::{Request, WriteRequest, flags};
use proto::{Acl, OpCode};
use serde_json::{Value, json};
use tests::RawSession;
use tests::requests::{create, create_with, delete, multi, set_acl, set_data};

/// All znodes of the test are below this one.
pub(crate) const TOP: &str = "/t";

/// Names of znodes, on each of three levels.
const NAMES: [&str; 4] = ["a", "a-b", "b", "\u{e9}"];

/// A znode, with the field names of the answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlainZnode {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) version: i64,
    pub(crate) aversion: i64,
    /// Data in base64.
    pub(crate) data: String,
    pub(crate) acl: Value,
    pub(crate) is_ephemeral: bool,
}

/// A change, with the field names of the answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlainChange {
    pub(crate) zxid: i64,
    pub(crate) index: u64,
    pub(crate) session: String,
    pub(crate) operation: &'static str,
    pub(crate) path: String,
    pub(crate) after: Option<PlainZnode>,
}

pub(crate) type Tree = BTreeMap<String, PlainZnode>;

/// Every change, and the tree after each transaction.
#[derive(Default)]
pub(crate) struct Plain {
    pub(crate) changes: Vec<PlainChange>,
    pub(crate) trees: Vec<(i64, Tree)>,
}

/// One change of a request.
struct Step {
    operation: &'static str,
    path: String,
    data: Option<Vec<u8>>,
    acl: Option<Vec<Acl>>,
    is_ephemeral: bool,
}

impl Step {
    fn new(operation: &'static str, path: &str) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            data: None,
            acl: None,
            is_ephemeral: false,
        }
    }

    fn request(&self) -> WriteRequest {
        let data = self.data.clone();
        match (self.operation, &self.acl) {
            ("create", Some(acl)) => {
                let flags = i32::from(self.is_ephemeral) * flags::EPHEMERAL;
                create_with(
                    OpCode::Create,
                    &self.path,
                    data.map(Into::into),
                    flags,
                    acl,
                    -1,
                )
            }
            ("set", _) => set_data(&self.path, data.unwrap_or_default(), -1),
            ("setAcl", Some(acl)) => set_acl(&self.path, acl, -1),
            _ => delete(&self.path, -1),
        }
    }
}

impl Plain {
    /// Starts with an empty top.
    pub(crate) fn begin(session: &mut RawSession) -> Self {
        let mut plain = Self::default();
        let made = session.call(&Request::Write(create(TOP, "", flags::PERSISTENT)));
        let mut step = Step::new("create", TOP);
        (step.data, step.acl) = (Some(Vec::new()), Some(vec![Acl::open()]));
        let zxid = made.expect("an answer").zxid.0;
        plain.trees.push((zxid - 1, Tree::new()));
        plain.note(zxid, session_of(session), &[step]);
        plain
    }

    pub(crate) fn head(&self) -> i64 {
        self.trees.last().expect("a tree").0
    }

    /// Returns the tree after a transaction.
    pub(crate) fn tree(&self, zxid: i64) -> &Tree {
        let at = self.trees.partition_point(|(at, _)| *at <= zxid);
        &self.trees[at - 1].1
    }

    /// Makes a random change that succeeds.
    pub(crate) fn write(&mut self, session: &mut RawSession, random: &mut Rng) {
        let mut tree = self.tree(self.head()).clone();
        let count = if random.u8(..6) == 0 {
            random.usize(2..5)
        } else {
            1
        };
        let mut steps = Vec::new();
        for _ in 0..count {
            let step = next(&tree, random);
            // A multi cannot contain setACL.
            if step.operation == "setAcl" && count > 1 {
                continue;
            }
            fold(&mut tree, 0, &step);
            steps.push(step);
        }
        let mut requests: Vec<WriteRequest> = steps.iter().map(Step::request).collect();
        let request = match requests.len() {
            0 => return,
            1 => requests.remove(0),
            _ => multi(requests),
        };
        let answer = session.call(&Request::Write(request)).expect("an answer");
        assert_eq!(answer.err, 0);
        self.note(answer.zxid.0, session_of(session), &steps);
    }

    /// Creates ephemerals in a session, and ends the session.
    pub(crate) fn short_session(&mut self, mut session: RawSession) {
        let id = session_of(&session);
        let mut paths = Vec::new();
        for number in 0..3 {
            let mut step = Step::new("create", &format!("{TOP}/of-a-session-{number}"));
            (step.data, step.acl) = (Some(b"here".to_vec()), Some(vec![Acl::open()]));
            step.is_ephemeral = true;
            let answer = session.call(&Request::Write(step.request()));
            paths.push(step.path.clone());
            self.note(answer.expect("an answer").zxid.0, id.clone(), &[step]);
        }
        let end = session.close().expect("the end of a session").zxid.0;
        let steps = paths.iter().map(|path| Step::new("closeSession", path));
        self.note(end, id, &steps.collect::<Vec<_>>());
    }

    fn note(&mut self, zxid: i64, session: String, steps: &[Step]) {
        let mut tree = self
            .trees
            .last()
            .map(|(_, tree)| tree.clone())
            .unwrap_or_default();
        for (index, step) in (0..).zip(steps) {
            fold(&mut tree, zxid, step);
            self.changes.push(PlainChange {
                zxid,
                index,
                session: session.clone(),
                operation: step.operation,
                path: step.path.clone(),
                after: tree.get(&step.path).cloned(),
            });
        }
        assert!(zxid > self.head(), "an answer out of order");
        self.trees.push((zxid, tree));
    }
}

fn session_of(session: &RawSession) -> String {
    format!("{:#x}", session.session().id.0)
}

fn fold(tree: &mut Tree, zxid: i64, step: &Step) {
    let data = step.data.as_ref().map(|data| BASE64.encode(data));
    let acl = step.acl.as_ref().map(|acl| shown(acl));
    match (step.operation, data, acl) {
        ("create", Some(data), Some(acl)) => {
            let znode = PlainZnode {
                czxid: zxid,
                mzxid: zxid,
                version: 0,
                aversion: 0,
                data,
                acl,
                is_ephemeral: step.is_ephemeral,
            };
            tree.insert(step.path.clone(), znode);
        }
        ("set", Some(data), _) => {
            let znode = tree.get_mut(&step.path).expect("a znode");
            (znode.data, znode.mzxid) = (data, zxid);
            znode.version += 1;
        }
        ("setAcl", _, Some(acl)) => {
            let znode = tree.get_mut(&step.path).expect("a znode");
            znode.acl = acl;
            znode.aversion += 1;
        }
        _ => assert!(tree.remove(&step.path).is_some(), "no {}", step.path),
    }
}

fn shown(acl: &[Acl]) -> Value {
    let entries = acl.iter();
    entries
        .map(|e| json!({ "perms": e.perms, "scheme": &*e.id.scheme, "id": &*e.id.id }))
        .collect()
}

fn next(tree: &Tree, random: &mut Rng) -> Step {
    let paths: Vec<&String> = tree.keys().collect();
    let path = paths[random.usize(..paths.len())];
    let acls = [
        vec![Acl::open()],
        vec![
            Acl::new(31, "digest", "ann:RYbu6l5aZwqon8VWmkcGvezdzfc="),
            Acl::new(1, "ip", "::1"),
        ],
    ];
    let acl = acls[random.usize(..2)].clone();
    let size = if random.u8(..8) == 0 {
        random.usize(300..3000)
    } else {
        random.usize(..40)
    };
    let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(size)
        .collect();
    let child = format!("{path}/{}", NAMES[random.usize(..NAMES.len())]);
    let is_free = !tree.contains_key(&child) && path.split('/').count() < 5;
    let is_leaf = path != TOP
        && !paths
            .iter()
            .any(|other| other.starts_with(&format!("{path}/")));
    match random.u8(..10) {
        0..4 if is_free && !tree[path].is_ephemeral => {
            let mut step = Step::new("create", &child);
            (step.data, step.acl) = (Some(data), Some(acl));
            step
        }
        4..6 if is_leaf => Step::new("delete", path),
        6 => Step {
            acl: Some(acl),
            ..Step::new("setAcl", path)
        },
        _ => Step {
            data: Some(data),
            ..Step::new("set", path)
        },
    }
}
