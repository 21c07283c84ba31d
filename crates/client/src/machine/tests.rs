//! Tests of a session on simulated time, without a socket, runtime or clock.

mod refusals;

use jute::Encode;
use proto::connect::{ReplyHeader, RequestHeader};

use super::*;
use crate::frame::FrameReader;
use crate::machine::watches::{Registration, Sink, Waiter, WatchEffect};
use crate::state_channel::StateReceiver;

const TIMEOUT: Duration = Duration::from_secs(9);

/// Machine under test, with the other ends of its channels.
struct Site {
    machine: Machine,
    calls: mpsc::Sender<Command>,
    state: StateReceiver,
    cleanups: Arc<CleanupQueue>,
    out: Vec<u8>,
}

fn accepted(session: i64) -> Accepted {
    Accepted {
        session: Session {
            id: SessionId(session),
            password: Bytes::from_static(&[7; 16]),
        },
        session_timeout: TIMEOUT,
        read_only: false,
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn refused() -> Error {
    Error::Connect {
        server: "a:1".into(),
        source: Arc::new(std::io::ErrorKind::ConnectionRefused.into()),
    }
}

impl Site {
    /// Creates a machine that is connected at 0 s.
    fn new(options: Options) -> Self {
        let hosts = Hosts::new(&options.servers, false, 1);
        let (calls, inbox) = mpsc::channel(10);
        let (state, seen) = StateSender::new(State::Reconnecting);
        let cleanups = Arc::<CleanupQueue>::default();
        let ends = MachineChannels {
            new_servers: NewServers::default(),
            inbox,
            cleanups: Arc::clone(&cleanups),
            events: broadcast::channel(10).0,
            state,
            session: Arc::new(Mutex::new(accepted(1).session)),
        };
        let mut site = Self {
            machine: Machine::new(options, hosts, ends, at(0)),
            calls,
            state: seen,
            cleanups,
            out: Vec::new(),
        };
        let granted = Ok(accepted(1));
        site.machine.handle_dialed(granted, &mut site.out, at(0));
        site
    }

    /// Returns the requests that were sent since the last call.
    fn sent(&mut self) -> Vec<RequestHeader> {
        let mut frames = FrameReader::new(1 << 20);
        frames.extend(&std::mem::take(&mut self.out));
        let mut sent = Vec::new();
        while let Some(frame) = frames.next_frame().unwrap() {
            let mut input = jute::Reader::new(Bytes::copy_from_slice(frame));
            sent.push(jute::Decode::decode(&mut input).unwrap());
        }
        sent
    }

    fn reply(&mut self, xid: Xid, now: Duration) {
        self.reply_with(xid, &[], now);
    }

    fn reply_with(&mut self, xid: Xid, body: &[u8], now: Duration) {
        self.reply_as(xid, 0, body, now).unwrap();
    }

    fn reply_as(
        &mut self,
        xid: Xid,
        err: i32,
        body: &[u8],
        now: Duration,
    ) -> Result<(), LossReason> {
        let mut frame = Vec::new();
        let zxid = Zxid(1);
        ReplyHeader { xid, zxid, err }.encode(&mut frame);
        frame.extend_from_slice(body);
        self.machine.handle_frame(&frame, &mut self.out, now)
    }

    /// Answers each request with an empty list of children.
    fn reply_with_no_children(&mut self, requests: &[RequestHeader], now: Duration) {
        for request in requests {
            self.reply_with(request.xid, &0_i32.to_bytes(), now);
        }
    }

    /// Advances the time from deadline to deadline, refusing every dial, until `end` or until the
    /// connection is dead.
    fn pass_until(&mut self, end: Duration) -> Option<(Duration, LossReason)> {
        self.pass_with(&refused(), end)
    }

    fn pass_with(&mut self, refusal: &Error, end: Duration) -> Option<(Duration, LossReason)> {
        let mut now = Duration::ZERO;
        for _ in 0..1000 {
            if self.machine.poll_order(now).is_some() {
                let refused = Err(refusal.clone());
                self.machine.handle_dialed(refused, &mut self.out, now);
            }
            let deadline = self.machine.deadline()?;
            if deadline > end {
                return None;
            }
            now = now.max(deadline);
            if let Err(reason) = self.machine.handle_deadline(&mut self.out, now) {
                return Some((now, reason));
            }
        }
        panic!("attempts without pauses at {now:?}")
    }

    fn state(&self) -> State {
        self.state.now().clone()
    }
}

fn options() -> Options {
    Options::new("a:1,b:1").in_order()
}

#[test]
fn a_session_is_lost_one_timeout_after_the_last_answered_request() {
    let mut site = Site::new(options());
    assert_eq!(site.machine.deadline(), Some(at(3)));
    site.machine.handle_deadline(&mut site.out, at(3)).unwrap();
    let pings = site.sent();
    assert_eq!(pings[0].xid, Xid::PING);
    // The answer takes a second, but the session timeout is counted from the time of the request.
    site.reply(Xid::PING, at(4));
    let (dead, reason) = site.pass_until(at(100)).unwrap();
    assert_eq!(dead, at(10), "two thirds after the last byte");
    assert!(matches!(reason, LossReason::Silent { silent } if silent == Duration::from_secs(6)));
    site.machine.handle_lost(&reason, dead);
    assert_eq!(site.state(), State::Reconnecting);
    assert!(site.pass_until(at(12) - Duration::from_millis(1)).is_none());
    assert_eq!(site.state(), State::Reconnecting);
    assert!(site.pass_until(at(12)).is_none());
    assert_eq!(site.state(), State::Lost, "at 3 s + the timeout");

    // A server still knows the session, so the session continues.
    while site.machine.poll_order(at(20)).is_none() {
        assert!(site.pass_until(at(20)).is_none());
    }
    let granted = Ok(accepted(1));
    site.machine.handle_dialed(granted, &mut site.out, at(21));
    assert_eq!(site.state().connected_session(), Some(SessionId(1)));
}

#[test]
fn waiting_calls_are_refused_when_the_session_is_lost() {
    let mut site = Site::new(options());
    let reason = LossReason::ClosedByServer;
    site.machine.handle_lost(&reason, at(1));
    let (command, mut answer) = Command::new(OpCode::Exists, None, Bytes::new());
    assert!(site.calls.try_send(command).is_ok());
    assert!(site.pass_until(at(8)).is_none());
    assert!(answer.try_recv().is_err(), "it may still be sent");
    assert!(site.pass_until(at(9)).is_none());
    let refused = answer.try_recv().unwrap().unwrap_err();
    let Error::Unreachable { last, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(
        last.to_string(),
        "cannot connect to a:1: connection refused"
    );
}

#[test]
fn a_server_that_never_answers_is_the_last_error() {
    let mut site = Site::new(options());
    let reason = LossReason::ClosedByServer;
    site.machine.handle_lost(&reason, at(1));
    assert!(site.machine.poll_order(at(2)).is_some());
    let (command, mut answer) = Command::new(OpCode::Exists, None, Bytes::new());
    assert!(site.calls.try_send(command).is_ok());
    site.machine.handle_deadline(&mut site.out, at(9)).unwrap();
    let refused = answer.try_recv().unwrap().unwrap_err();
    let Error::Unreachable { last, .. } = refused else {
        panic!("{refused}");
    };
    let expected = "cannot connect to b:1: no answer within 7000 ms";
    assert_eq!(last.to_string(), expected);
}

#[test]
fn a_background_deletion_is_repeated_until_answered() {
    let mut site = Site::new(options());
    site.cleanups.push(Cleanup::Delete("/a".into()));
    site.cleanups.push(Cleanup::FindAndDelete {
        parent: "/".into(),
        prefix: "x".into(),
        looks: 2,
    });
    site.machine.handle_cleanups(&mut site.out, at(1));
    let ops = |sent: Vec<RequestHeader>| sent.iter().map(|one| one.op).collect::<Vec<_>>();
    let all = [OpCode::Delete, OpCode::Sync, OpCode::GetChildren].map(OpCode::number);
    assert_eq!(ops(site.sent()), all);
    // The connection is lost before any answer, so the next connection repeats the requests.
    let reason = LossReason::ClosedByServer;
    site.machine.handle_lost(&reason, at(1));
    assert!(site.machine.poll_order(at(1)).is_some());
    let granted = Ok(accepted(1));
    site.machine.handle_dialed(granted, &mut site.out, at(2));
    let again = site.sent();
    assert_eq!(again.iter().map(|one| one.op).collect::<Vec<_>>(), all);
    site.reply_with_no_children(&again, at(2));
    assert!(site.sent().is_empty());
    // The second search, which is the last, is sent one ping interval after the answer.
    site.machine.handle_deadline(&mut site.out, at(5)).unwrap();
    let ping_and_look = [OpCode::Ping, OpCode::Sync, OpCode::GetChildren].map(OpCode::number);
    assert_eq!(ops(site.sent()), ping_and_look);
}

#[test]
fn a_busy_client_without_handles_searches_again() {
    let mut site = Site::new(options());
    site.cleanups.push(Cleanup::FindAndDelete {
        parent: "/".into(),
        prefix: "x".into(),
        looks: 2,
    });
    site.machine.handle_cleanups(&mut site.out, at(1));
    let first_search = site.sent();
    site.reply_with_no_children(&first_search, at(1));
    // This request postpones the ping.
    let (command, _answer) = Command::new(OpCode::Exists, None, Bytes::new());
    site.machine.submit(command, &mut site.out, at(3));
    let request = site.sent();
    site.reply(request[0].xid, at(3));
    assert!(site.machine.has_cleanups(), "a search remains");
    assert_eq!(site.machine.deadline(), Some(at(4)));
    site.machine.handle_deadline(&mut site.out, at(4)).unwrap();
    let search = site.sent();
    let ops: Vec<i32> = search.iter().map(|one| one.op).collect();
    assert_eq!(ops, [OpCode::Sync, OpCode::GetChildren].map(OpCode::number));
    site.reply_with_no_children(&search, at(4));
    assert!(!site.machine.has_cleanups());
}

#[test]
fn a_call_for_one_session_is_not_sent_in_the_next() {
    let mut site = Site::new(options());
    for (session, is_refused) in [(1, false), (2, true)] {
        let (command, mut answer) = Command::new(OpCode::Delete, None, Bytes::new());
        let command = Command {
            session: Some(SessionId(session)),
            ..command
        };
        site.out.clear();
        site.machine.submit(command, &mut site.out, at(1));
        assert_eq!(site.out.is_empty(), is_refused);
        let refused = answer.try_recv();
        if is_refused {
            assert!(matches!(refused, Ok(Err(Error::SessionExpired { .. }))));
        } else {
            assert!(refused.is_err(), "it was sent");
        }
    }
}

/// A server closes the connection after closeSession without reading further requests. The answer
/// to closeSession might then be lost.
#[test]
fn nothing_is_sent_after_close_session() {
    let mut site = Site::new(options());
    let command = |op| Command::new(op, None, Bytes::new());
    let (close, mut closed) = command(OpCode::CloseSession);
    let (delete, mut refused) = command(OpCode::Delete);
    // The waiter for this watch is dropped, but the server will set the watch.
    let (read, answer) = command(OpCode::GetData);
    let (sink, gone) = tokio::sync::oneshot::channel();
    let watch = Registration {
        effect: WatchEffect::Data,
        path: "/watched".into(),
        waiter: Some(Waiter {
            id: 1,
            sink: Sink::Once(sink),
        }),
    };
    let read = Command {
        watch: Some(watch),
        ..read
    };
    site.machine.submit(read, &mut site.out, at(1));
    let xid = site.sent()[0].xid;
    drop((answer, gone));
    site.machine.submit(close, &mut site.out, at(1));
    site.machine.submit(delete, &mut site.out, at(1));
    site.cleanups.push(Cleanup::Delete("/a".into()));
    site.machine.handle_cleanups(&mut site.out, at(1));
    site.reply(xid, at(1));
    let sent = site.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    let error = refused.try_recv().unwrap().unwrap_err();
    assert!(matches!(error, Error::Closed { op: OpCode::Delete }));

    // The connection is lost. The session and the znode to be deleted may still exist.
    site.machine.handle_lost(&LossReason::ClosedByServer, at(2));
    assert!(closed.try_recv().unwrap().is_err());
    assert!(site.machine.poll_order(at(2)).is_some());
    let granted = Ok(accepted(1));
    site.machine.handle_dialed(granted, &mut site.out, at(2));
    let again: Vec<i32> = site.sent().iter().map(|one| one.op).collect();
    assert_eq!(again, [OpCode::Delete.number()]);
}

#[test]
fn an_expired_session_is_renewed_only_on_request() {
    let over = || Error::SessionExpired {
        session: SessionId(1),
        server: "a:1".into(),
    };
    for is_renewed in [false, true] {
        let options = Options {
            is_renewed,
            ..options()
        };
        let mut site = Site::new(options);
        site.machine.handle_lost(&LossReason::ClosedByServer, at(1));
        assert!(site.machine.poll_order(at(1)).is_some());
        site.machine
            .handle_dialed(Err(over()), &mut site.out, at(1));
        assert_eq!(site.state(), State::Expired);
        assert_eq!(site.machine.is_ended(), !is_renewed);
        let order = site.machine.poll_order(at(1));
        assert_eq!(order.is_some(), is_renewed);
        if let Some(HostOrder::Dial { handshake, .. }) = order {
            assert_eq!(handshake.session, None);
            let granted = Ok(accepted(2));
            site.machine.handle_dialed(granted, &mut site.out, at(2));
            assert_eq!(site.state().connected_session(), Some(SessionId(2)));
            assert_eq!(site.machine.session_id(), SessionId(2));
        }
    }
}

#[test]
fn waiting_calls_are_refused_while_no_server_grants_a_new_session() {
    let expired = |session| Error::SessionExpired {
        session: SessionId(session),
        server: "a:1".into(),
    };
    // The second kind of server answers, but refuses new sessions.
    for refusal in [refused(), expired(0)] {
        let mut site = Site::new(options().with_renewal());
        site.machine.handle_lost(&LossReason::ClosedByServer, at(1));
        assert!(site.machine.poll_order(at(1)).is_some());
        let over = Err(expired(1));
        site.machine.handle_dialed(over, &mut site.out, at(2));
        let (command, mut answer) = Command::new(OpCode::Exists, None, Bytes::new());
        assert!(site.calls.try_send(command).is_ok());
        assert!(site.pass_with(&refusal, at(10)).is_none());
        assert!(answer.try_recv().is_err(), "it may still be sent");
        assert!(site.pass_with(&refusal, at(11)).is_none());
        let error = answer.try_recv().unwrap().unwrap_err();
        let Error::Unreachable { last, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(last.to_string(), refusal.to_string());
        assert_eq!(
            site.state(),
            State::Expired,
            "the session is certainly over"
        );

        // A later call is refused with the next attempt.
        let (close, mut closed) = Command::new(OpCode::CloseSession, None, Bytes::new());
        assert!(site.calls.try_send(close).is_ok());
        assert!(site.pass_with(&refusal, at(20)).is_none());
        let error = closed.try_recv().unwrap().unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(site.machine.is_ended());
    }
}
