//! One session's pipelined load: random requests, each with its expected answer.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use client::{Session, decode_results, first_failure};
use fastrand::Rng;
use jute::Reader;
use proto::request::{Request, WriteRequest, flags};
use proto::response::{CreateResponse, GetDataResponse, StatResponse};
use proto::{ErrorCode, Zxid};
use tests::requests::{check, create, delete, get_data, multi, set_data};
use tests::{Answer, RawSession};

use crate::model::{Change, Node, Part, SHARED, Whose};

/// Number of znodes above which deletions are preferred.
const ZNODES_MAX: usize = 40;

/// A pending request.
#[derive(Debug)]
struct Sent {
    changes: Vec<Change>,
    expected: Expected,
    /// Highest number below [`SHARED`] that was reported before this request was sent.
    numbers_before: Option<u64>,
}

/// Expected answer, if there is one.
#[derive(Debug)]
enum Expected {
    Error(ErrorCode),
    Created(String),
    CreatedShared(String),
    Version(i32),
    Deleted,
    Multi(Option<(usize, ErrorCode)>),
    Data(String, i32),
    Closed,
}

/// One client with its session and its part of the tree.
pub(crate) struct Worker {
    pub(crate) top: String,
    pub(crate) mark: String,
    pub(crate) session: Option<Session>,
    /// Result of all answered requests.
    pub(crate) answered: Part,
    /// Changes of pending requests, in order.
    pub(crate) unanswered: Vec<Vec<Change>>,
    /// Numbers below [`SHARED`] with their data, from the answers.
    pub(crate) numbers: Vec<(u64, String)>,
    pub(crate) writes_answered: u64,
    rng: Rng,
    next_id: u64,
}

impl Worker {
    pub(crate) fn new(number: usize, rng: Rng) -> Self {
        Self {
            top: format!("/c{number}"),
            mark: format!("c{number}."),
            session: None,
            answered: Part::default(),
            unanswered: Vec::new(),
            numbers: Vec::new(),
            writes_answered: 0,
            rng,
            next_id: 0,
        }
    }

    pub(crate) fn whose(&self, session_over: bool) -> Whose<'_> {
        let session = self.session.as_ref().map(|session| session.id);
        Whose {
            top: &self.top,
            mark: &self.mark,
            session: session.unwrap_or_default(),
            session_over,
        }
    }

    /// Sends requests, up to a random number of pending ones, until the connection ends.
    pub(crate) fn run(&mut self, mut session: RawSession) {
        let depth = self.rng.usize(1..64);
        // In one of eight runs, the session ends after this many requests.
        let close_after = (self.rng.u8(..8) == 0).then(|| self.rng.usize(1..200));
        let mut ahead = self.answered.clone();
        let mut sent: VecDeque<Sent> = VecDeque::new();
        for count in 0.. {
            if !ahead.closed {
                let is_last = close_after.is_some_and(|last| count >= last);
                let (request, changes, expected) = if is_last {
                    self.close()
                } else {
                    self.next(&ahead)
                };
                ahead.apply(&changes, None);
                session.put(&request);
                sent.push_back(Sent {
                    changes,
                    expected,
                    numbers_before: self.numbers.last().map(|(number, _)| *number),
                });
                if sent.len() < depth && !is_last {
                    continue;
                }
            }
            if self.take(&mut session, &mut sent, &mut ahead).is_break() {
                break;
            }
        }
        self.unanswered = sent.into_iter().map(|sent| sent.changes).collect();
    }

    fn take(
        &mut self,
        session: &mut RawSession,
        sent: &mut VecDeque<Sent>,
        ahead: &mut Part,
    ) -> ControlFlow<()> {
        if sent.is_empty() {
            return ControlFlow::Break(());
        }
        let Ok(answer) = session.take() else {
            return ControlFlow::Break(());
        };
        let Some(request) = sent.pop_front() else {
            return ControlFlow::Break(());
        };
        self.answered.apply(&request.changes, Some(answer.zxid));
        self.writes_answered += u64::from(!request.changes.is_empty());
        if let Some((data, path)) = self.judge(&request, &answer) {
            self.answered
                .shared
                .insert(data.clone(), Some(path.clone()));
            if let Some(known) = ahead.shared.get_mut(&data) {
                *known = Some(path);
            }
        }
        ControlFlow::Continue(())
    }

    /// Panics unless the answer is right. Returns the path of a shared znode with its data.
    fn judge(&mut self, sent: &Sent, answer: &Answer) -> Option<(String, String)> {
        let at = format!("{}: {sent:?} was answered {answer:?}", self.top);
        if let Expected::Error(code) = &sent.expected {
            assert_eq!(answer.err, code.code(), "{at}");
            return None;
        }
        assert_eq!(answer.err, 0, "{at}");
        match &sent.expected {
            Expected::Error(_) | Expected::Deleted | Expected::Closed => {}
            Expected::Created(path) => {
                assert_eq!(answer.record::<CreateResponse>().path, **path, "{at}");
            }
            Expected::CreatedShared(data) => {
                let path = answer.record::<CreateResponse>().path.to_string();
                let number = number_of(&path);
                // A client that knows a number gets a higher one.
                assert!(
                    sent.numbers_before.is_none_or(|before| before < number),
                    "{at}"
                );
                self.numbers.push((number, data.clone()));
                return Some((data.clone(), path));
            }
            Expected::Version(version) => {
                assert_eq!(
                    answer.record::<StatResponse>().stat.version,
                    *version,
                    "{at}"
                );
            }
            Expected::Multi(failure) => {
                let results = decode_results(&mut Reader::new(answer.body.clone())).expect(&at);
                let failure = failure.map(|(index, code)| (index, code.code()));
                assert_eq!(first_failure(&results), failure, "{at}");
            }
            Expected::Data(data, version) => {
                let read: GetDataResponse = answer.record();
                assert_eq!(read.data.as_deref(), Some(data.as_bytes()), "{at}");
                assert_eq!(read.stat.version, *version, "{at}");
            }
        }
        None
    }

    fn close(&self) -> (Request, Vec<Change>, Expected) {
        let request = Request::Write(WriteRequest::CloseSession);
        (request, vec![Change::Close], Expected::Closed)
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns a random request that suits `part`.
    fn next(&mut self, part: &Part) -> (Request, Vec<Change>, Expected) {
        let full = part.nodes.len() > ZNODES_MAX;
        let kind = match self.rng.u8(..100) {
            ..30 if full => 60,
            other => other,
        };
        let (write, changes, expected) = match kind {
            ..15 => self.create(false),
            15..22 => self.create(true),
            22..34 => self.create_sequential(part),
            34..44 => self.create_shared(),
            44..60 => self.set(part),
            60..72 => self.delete(part),
            72..84 => self.multi(part),
            84..90 => self.wrong_version(part),
            _ => {
                let (path, node) = self.any(part);
                let expected = Expected::Data(node.data, node.version);
                return (get_data(&path), Vec::new(), expected);
            }
        };
        (Request::Write(write), changes, expected)
    }

    fn any(&mut self, part: &Part) -> (String, Node) {
        let nodes: Vec<_> = part.nodes.iter().collect();
        let (path, node) = nodes[self.rng.usize(..nodes.len())];
        (path.clone(), node.clone())
    }

    /// Returns the current version, or -1.
    fn version(&mut self, version: i32) -> i32 {
        if self.rng.bool() { version } else { -1 }
    }

    fn data(&mut self) -> String {
        let padding = self.rng.usize(..120);
        let id = self.id();
        format!("{}{id}{:.>padding$}", self.mark, "")
    }

    fn create(&mut self, ephemeral: bool) -> (WriteRequest, Vec<Change>, Expected) {
        let (kind, mode) = if ephemeral {
            ('e', flags::EPHEMERAL)
        } else {
            ('n', flags::PERSISTENT)
        };
        let id = self.id();
        let path = format!("{}/{kind}{id}", self.top);
        let data = self.data();
        let request = create(&path, data.clone(), mode);
        let expected = Expected::Created(path.clone());
        let change = Change::Create {
            path,
            data,
            ephemeral,
        };
        (request, vec![change], expected)
    }

    fn create_sequential(&mut self, part: &Part) -> (WriteRequest, Vec<Change>, Expected) {
        let parent = format!("{}/q", self.top);
        let number = part.nodes[&parent].creations;
        let ephemeral = self.rng.u8(..3) == 0;
        let mode = if ephemeral {
            flags::EPHEMERAL_SEQUENTIAL
        } else {
            flags::PERSISTENT_SEQUENTIAL
        };
        let data = self.data();
        let request = create(&format!("{parent}/i-"), data.clone(), mode);
        let path = format!("{parent}/i-{number:010}");
        let expected = Expected::Created(path.clone());
        let change = Change::Create {
            path,
            data,
            ephemeral,
        };
        (request, vec![change], expected)
    }

    fn create_shared(&mut self) -> (WriteRequest, Vec<Change>, Expected) {
        let data = self.data();
        let path = format!("{SHARED}/x-");
        let request = create(&path, data.clone(), flags::PERSISTENT_SEQUENTIAL);
        let expected = Expected::CreatedShared(data.clone());
        (request, vec![Change::CreateShared { data }], expected)
    }

    fn set(&mut self, part: &Part) -> (WriteRequest, Vec<Change>, Expected) {
        let (path, node) = self.any(part);
        let data = self.data();
        let request = set_data(&path, data.clone(), self.version(node.version));
        let expected = Expected::Version(node.version + 1);
        (request, vec![Change::Set { path, data }], expected)
    }

    /// Deletes a leaf of this session, or a shared znode with a known path.
    fn delete(&mut self, part: &Part) -> (WriteRequest, Vec<Change>, Expected) {
        let shared: Vec<&String> = part.shared.values().flatten().collect();
        let (path, version) = match self.rng.choice(shared) {
            Some(path) if self.rng.bool() => (path.clone(), 0),
            _ => match self.rng.choice(leaves(part)) {
                Some((path, node)) => (path.clone(), node.version),
                None => return self.set(part),
            },
        };
        let request = delete(&path, self.version(version));
        (request, vec![Change::Delete { path }], Expected::Deleted)
    }

    /// Returns several changes as a multi.
    fn multi(&mut self, part: &Part) -> (WriteRequest, Vec<Change>, Expected) {
        let mut scratch = part.clone();
        let (mut writes, mut all) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.usize(1..5) {
            let (write, changes, _) = match self.rng.u8(..5) {
                0 => self.create(false),
                1 => self.create(true),
                2 => self.create_sequential(&scratch),
                3 => self.set(&scratch),
                _ => self.delete(&scratch),
            };
            scratch.apply(&changes, None);
            writes.push(write);
            all.extend(changes);
        }
        let (path, node) = self.any(&scratch);
        if self.rng.u8(..4) == 0 {
            let failure = (writes.len(), ErrorCode::BadVersion);
            writes.push(check(&path, node.version + 1));
            return (multi(writes), Vec::new(), Expected::Multi(Some(failure)));
        }
        writes.push(check(&path, node.version));
        (multi(writes), all, Expected::Multi(None))
    }

    fn wrong_version(&mut self, part: &Part) -> (WriteRequest, Vec<Change>, Expected) {
        let (path, node) = self.any(part);
        let request = set_data(&path, "never", node.version + 1);
        (request, Vec::new(), Expected::Error(ErrorCode::BadVersion))
    }
}

/// Returns the znodes that can be deleted.
fn leaves(part: &Part) -> Vec<(&String, &Node)> {
    let nodes = part.nodes.iter();
    nodes
        .filter(|(path, _)| path.matches('/').count() > 1 && !path.ends_with("/q"))
        .collect()
}

/// Returns the number at the end of a sequential path.
pub(crate) fn number_of(path: &str) -> u64 {
    let digits = path.rsplit_once('-').map(|(_, digits)| digits);
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("{path} ends in no number"))
}

/// Creates the znodes that a worker's requests need.
pub(crate) fn prepare(worker: &mut Worker, session: &mut RawSession) {
    for path in [worker.top.clone(), format!("{}/q", worker.top)] {
        let request = Request::Write(create(&path, "", flags::PERSISTENT));
        let answer = session.call(&request).expect("an answer");
        assert_eq!(answer.err, 0, "create {path}");
        let change = Change::Create {
            path,
            data: String::new(),
            ephemeral: false,
        };
        worker.answered.apply(&[change], Some(Zxid(answer.zxid.0)));
    }
}
