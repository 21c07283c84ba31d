//! The same session on two servers.

use std::fmt::Debug;

use proto::request::{PathRequest, ReadRequest, Request, WriteRequest};
use proto::{ErrorCode, OpCode, SessionId};
use tests::{Answer, Lost, RawSession, Server};

use super::answers::shown;
use super::requests::Step;

/// Session timeout longer than any test, ms.
const TIMEOUT_MS: i32 = 600_000;

/// Both servers, Apache ZooKeeper first, and the sessions that each has had, oldest first.
pub(crate) struct Servers {
    servers: [Server; 2],
    sessions: [Vec<SessionId>; 2],
}

impl Servers {
    pub(crate) fn new(servers: [Server; 2]) -> Servers {
        let sessions = [Vec::new(), Vec::new()];
        Servers { servers, sessions }
    }

    pub(crate) fn open(&mut self) -> Pair {
        let open = |server: &Server| RawSession::open(&server.address(), None, TIMEOUT_MS);
        let opened = self.servers.each_ref().map(open);
        let sessions = opened.map(|session| session.expect("a session"));
        for (known, session) in self.sessions.iter_mut().zip(&sessions) {
            known.push(session.session().id);
        }
        Pair { sessions }
    }

    fn reattach(&self, pair: &Pair) -> [Result<RawSession, String>; 2] {
        [0, 1].map(|at| {
            let (server, session) = (&self.servers[at], pair.sessions[at].session());
            let again = RawSession::open(&server.address(), Some(session), TIMEOUT_MS);
            again.map_err(|error| format!("{error:?}"))
        })
    }
}

/// One session on each of the two servers.
pub(crate) struct Pair {
    sessions: [RawSession; 2],
}

/// Panics unless both servers have the same result.
fn assert_same<T: PartialEq + Debug>([apache, ours]: [T; 2], what: &impl Fn() -> String) {
    assert!(
        apache == ours,
        "{}\nApache: {apache:?}\nours:   {ours:?}",
        what()
    );
}

impl Pair {
    /// Executes the step on both servers. Returns whether there is still a session.
    pub(crate) fn take(
        &mut self,
        step: &Step,
        servers: &Servers,
        what: &impl Fn() -> String,
    ) -> bool {
        match step {
            Step::Send(op, record) => {
                let send = |session: &mut RawSession| {
                    session.put_bytes(*op, record);
                    session.take_with_events()
                };
                self.ask(*op, send, false, servers, what)
            }
            Step::Authenticate(scheme, auth) => {
                let answers = self.sessions.each_mut().map(|session| {
                    let answer = session.authenticate(scheme, auth);
                    answer.ok().map(|answer| (answer.zxid, answer.err))
                });
                assert_same(answers, what);
                answers[0].is_some_and(|(_, err)| err != ErrorCode::AuthFailed.code())
            }
            Step::Reattach => match servers.reattach(self) {
                [Ok(one), Ok(other)] => {
                    self.sessions = [one, other];
                    true
                }
                refused => {
                    let refusals = refused.map(|refused| refused.err());
                    panic!("{}: {refusals:?}", what());
                }
            },
            Step::Close => {
                let close = |session: &mut RawSession| {
                    session.put(&Request::Write(WriteRequest::CloseSession));
                    session.take_with_events()
                };
                self.ask(OpCode::CloseSession, close, true, servers, what);
                false
            }
        }
    }

    /// Compares the effects of other sessions, and the number of znodes.
    pub(crate) fn compare_state(
        &mut self,
        after: &Step,
        servers: &Servers,
        what: &impl Fn() -> String,
    ) {
        let count = |session: &mut RawSession| {
            let path = Some("/".into());
            let request = ReadRequest::GetAllChildrenNumber(PathRequest { path });
            session.put(&Request::Read(request));
            session.take_with_events()
        };
        let is_unordered = matches!(after, Step::Close);
        let goes_on = self.ask(
            OpCode::GetAllChildrenNumber,
            count,
            is_unordered,
            servers,
            what,
        );
        assert!(goes_on, "{}: a connection is gone", what());
    }

    /// Executes an exchange, and returns whether the connections still exist. A session's
    /// ephemerals end in hash order.
    fn ask(
        &mut self,
        op: OpCode,
        mut exchange: impl FnMut(&mut RawSession) -> Result<(Vec<bytes::Bytes>, Answer), Lost>,
        is_unordered: bool,
        servers: &Servers,
        what: &impl Fn() -> String,
    ) -> bool {
        let answers = [0, 1].map(|at| {
            let (mut events, answer) = exchange(&mut self.sessions[at]).ok()?;
            if is_unordered {
                events.sort();
            }
            Some((events, shown(op, &answer, &servers.sessions[at])))
        });
        let goes_on = answers[0].is_some();
        assert_same(answers, what);
        goes_on
    }
}
