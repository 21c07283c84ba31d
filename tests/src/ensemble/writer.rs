//! One writer of unique values, and its knowledge about each of them.
//!
//! Acknowledged writes must exist permanently. A write that was pending when a connection ended has
//! an unknown outcome. No write is ever sent twice, so that a second effect of a write is visible.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Error, Session};
use proto::request::{Request, flags};
use proto::response::{GetDataResponse, StatResponse};
use proto::{ErrorCode, Zxid};

use super::SESSION_TIMEOUT_MS;
use super::load::Shared;
use crate::raw_session::{Answer, Lost, RawSession, handshake};
use crate::requests::{create, delete, get_data, set_data};

/// Parent of all writers' znodes.
pub(crate) const TOP: &str = "/load";
/// Parent of the ephemerals of the writing sessions.
pub(crate) const ALIVE: &str = "/load/alive";
/// Time limit for one attempt to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two attempts, which leaves the processor to others.
const PAUSE: Duration = Duration::from_millis(50);
/// Time limit for closing the session of a stopped writer.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// Knowledge of a writer about one of its znodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Its creation was acknowledged.
    Present,
    /// Its deletion was acknowledged.
    Absent,
    /// A connection ended before the answer.
    Unknown,
}

/// Results of one writer.
#[derive(Debug, Clone, Default)]
pub struct WriterReport {
    /// Name of its directory, which is also the prefix of all its data.
    pub name: String,
    /// Its znodes by number.
    pub nodes: BTreeMap<u64, Known>,
    /// Last number whose write to its register was acknowledged.
    pub register: u64,
    /// Higher numbers that may have been written to the register.
    pub register_unknown: BTreeSet<u64>,
    /// Number of acknowledged writes.
    pub acknowledged: u64,
    /// Number of writes with an unknown outcome.
    pub unknown: u64,
    /// Number of sessions that servers reported as expired.
    pub sessions_lost: u64,
    /// Number of connections that ended before they were closed.
    pub connections_lost: u64,
}

impl WriterReport {
    /// Returns the path of one of its znodes.
    pub fn path(&self, number: u64) -> String {
        format!("{TOP}/{}/{number:08}", self.name)
    }

    /// Returns the data of one of its znodes.
    pub fn data(&self, number: u64) -> String {
        format!("{}.{number}", self.name)
    }

    /// Returns the path of its register.
    pub fn register_path(&self) -> String {
        format!("{TOP}/{}/register", self.name)
    }
}

/// A pending request.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Create(u64),
    Delete(u64),
    Set(u64),
    Read,
}

/// A writer with its session.
pub(super) struct Writer {
    pub(super) report: WriterReport,
    pub(super) addresses: Vec<String>,
    pub(super) depth: usize,
    pub(super) pace: Duration,
    pub(super) patience: Duration,
    pub(super) shared: Arc<Shared>,
    pub(super) index: usize,
    session: Option<Session>,
    newest: Zxid,
    next_address: usize,
    next_number: u64,
    has_ephemeral: bool,
    sent: VecDeque<Sent>,
}

impl Writer {
    pub(super) fn new(
        index: usize,
        name: String,
        addresses: Vec<String>,
        shared: Arc<Shared>,
    ) -> Writer {
        Writer {
            report: WriterReport {
                name,
                ..WriterReport::default()
            },
            addresses,
            depth: 4,
            pace: Duration::from_millis(8),
            patience: Duration::from_secs(3),
            shared,
            index,
            session: None,
            newest: Zxid(0),
            next_address: 0,
            next_number: 1,
            has_ephemeral: false,
            sent: VecDeque::new(),
        }
    }

    /// Writes until it is stopped, on one connection after the other.
    pub(super) fn run(mut self) -> WriterReport {
        while !self.shared.is_stopped() {
            let Some(mut session) = self.connect() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            if self.write(&mut session).is_err() {
                self.lose();
            }
        }
        self.finish();
        self.report
    }

    /// Records pending requests as unknown, and selects the next server.
    fn lose(&mut self) {
        self.report.connections_lost += 1;
        self.next_address += 1;
        for sent in std::mem::take(&mut self.sent) {
            match sent {
                Sent::Read => continue,
                Sent::Create(number) | Sent::Delete(number) => {
                    self.report.nodes.insert(number, Known::Unknown);
                }
                Sent::Set(number) => {
                    self.report.register_unknown.insert(number);
                }
            }
            self.report.unknown += 1;
        }
    }

    fn connect(&mut self) -> Option<RawSession> {
        let address = &self.addresses[self.next_address % self.addresses.len()];
        let handshake = handshake(SESSION_TIMEOUT_MS)
            .with_session(self.session.clone())
            .with_last_zxid_seen(self.newest)
            .with_connect_timeout(CONNECT_LIMIT);
        match RawSession::with_handshake(address, &handshake) {
            Ok(mut session) => {
                session.set_patience(self.patience);
                self.session = Some(session.session().clone());
                Some(session)
            }
            Err(Error::SessionExpired { .. }) => {
                self.session_is_over(&address.clone());
                None
            }
            Err(_) => {
                self.next_address += 1;
                None
            }
        }
    }

    fn session_is_over(&mut self, who_says_so: &str) {
        let (name, session) = (&self.report.name, self.session.take());
        eprintln!("{name}: {session:?} is over, says {who_says_so}");
        self.report.sessions_lost += 1;
        self.has_ephemeral = false;
        // A new session has no relation to the zxids that this session has seen.
        self.newest = Zxid(0);
    }

    fn ephemeral_path(&self) -> String {
        let id = self.session.as_ref().map(|session| session.id.0);
        format!("{ALIVE}/{}-{:x}", self.report.name, id.unwrap_or_default())
    }

    fn note_zxid(&mut self, answer: &Answer) {
        // Answers to pings and failed requests may have zxid -1.
        if answer.zxid.0 > self.newest.0 {
            self.newest = answer.zxid;
        }
    }

    /// Ensures that the session has its ephemeral, which is checked at the end.
    fn leave_ephemeral(&mut self, session: &mut RawSession) -> Result<(), Lost> {
        if self.has_ephemeral {
            return Ok(());
        }
        let path = self.ephemeral_path();
        let request = Request::Write(create(&path, "", flags::EPHEMERAL));
        let answer = session.call(&request)?;
        self.note_zxid(&answer);
        match ErrorCode::from_i32(answer.err) {
            // An earlier attempt may have succeeded without a reply.
            _ if answer.err == 0 => {}
            Some(ErrorCode::NodeExists) => {}
            Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved) => {
                return Err(Lost(format!("error {}", answer.err)));
            }
            _ => panic!("{path} was answered {answer:?}"),
        }
        self.has_ephemeral = true;
        Ok(())
    }

    fn write(&mut self, session: &mut RawSession) -> Result<(), Lost> {
        self.leave_ephemeral(session)?;
        while !self.shared.is_stopped() {
            let begun = Instant::now();
            while self.sent.len() < self.depth {
                let sent = self.next();
                session.put(&self.request(sent));
                self.sent.push_back(sent);
            }
            // Takes at least one answer, and then the further answers that the pace requires.
            self.take(session)?;
            if let Some(rest) = self.pace.checked_sub(begun.elapsed()) {
                session.flush()?;
                std::thread::sleep(rest);
            }
        }
        while !self.sent.is_empty() {
            self.take(session)?;
        }
        Ok(())
    }

    /// Returns the next request in a cycle: five creations, one deletion, one change and one read
    /// of the register.
    fn next(&mut self) -> Sent {
        let number = self.next_number;
        self.next_number += 1;
        match number % 8 {
            6 => Sent::Set(number),
            7 => Sent::Read,
            0 => {
                let nodes = self.report.nodes.iter().rev();
                let mut present = nodes.filter(|(_, known)| **known == Known::Present);
                let newest = present.next().map(|(number, _)| *number);
                let is_sent = |number: &u64| {
                    let under_way = self.sent.iter();
                    under_way
                        .clone()
                        .any(|sent| matches!(sent, Sent::Delete(other) if other == number))
                };
                match newest.filter(|number| !is_sent(number)) {
                    Some(number) => Sent::Delete(number),
                    None => Sent::Create(number),
                }
            }
            _ => Sent::Create(number),
        }
    }

    fn request(&self, sent: Sent) -> Request {
        let report = &self.report;
        match sent {
            Sent::Create(number) => {
                let data = report.data(number);
                Request::Write(create(&report.path(number), data, flags::PERSISTENT))
            }
            Sent::Delete(number) => Request::Write(delete(&report.path(number), -1)),
            Sent::Set(number) => {
                let data = number.to_string();
                Request::Write(set_data(&report.register_path(), data, -1))
            }
            Sent::Read => get_data(&report.register_path()),
        }
    }

    fn take(&mut self, session: &mut RawSession) -> Result<(), Lost> {
        let answer = session.take()?;
        let front = self.sent.front().copied();
        let sent = front.expect("an answer to a request of ours");
        if let Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved) =
            ErrorCode::from_i32(answer.err)
        {
            // The next handshake shows which of the two it is.
            return Err(Lost(format!("error {}", answer.err)));
        }
        self.sent.pop_front();
        self.note_zxid(&answer);
        let name = &self.report.name;
        assert_eq!(answer.err, 0, "{name}: {sent:?} was answered {answer:?}");
        match sent {
            Sent::Create(number) => {
                self.report.nodes.insert(number, Known::Present);
            }
            Sent::Delete(number) => {
                self.report.nodes.insert(number, Known::Absent);
            }
            Sent::Set(number) => {
                let StatResponse { stat } = answer.record();
                assert_eq!(stat.mzxid, answer.zxid.0, "{name}: {sent:?}");
                self.report.register = number;
                self.report.register_unknown = self.report.register_unknown.split_off(&number);
            }
            Sent::Read => {
                let GetDataResponse { data, .. } = answer.record();
                self.report
                    .judge_register(data.as_deref().unwrap_or_default());
                return Ok(());
            }
        }
        self.report.acknowledged += 1;
        self.shared.acknowledge(self.index);
        Ok(())
    }

    /// Checks the ephemeral and ends the session.
    fn finish(&mut self) {
        let deadline = Instant::now() + CLOSE_LIMIT;
        while self.session.is_some() && Instant::now() < deadline {
            if let Some(session) = self.connect()
                && self.close(session).is_ok()
            {
                return;
            }
            self.next_address += 1;
            std::thread::sleep(PAUSE);
        }
    }

    fn close(&self, mut session: RawSession) -> Result<(), Lost> {
        if self.has_ephemeral {
            let path = self.ephemeral_path();
            let answer = session.call(&get_data(&path))?;
            assert_eq!(answer.err, 0, "{path} is gone before its session");
            let GetDataResponse { stat, .. } = answer.record();
            assert_eq!(stat.ephemeral_owner, session.session().id.0, "{path}");
        }
        session.close().map(drop)
    }
}

impl WriterReport {
    /// Panics unless the register may contain this data.
    pub(crate) fn judge_register(&self, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        let found: u64 = text.parse().unwrap_or_else(|_| {
            panic!("{} holds {text:?}", self.register_path());
        });
        assert!(
            found == self.register || self.register_unknown.contains(&found),
            "{} holds {found}, but {} was acknowledged and later ones that may be are {:?}",
            self.register_path(),
            self.register,
            self.register_unknown
        );
    }
}
