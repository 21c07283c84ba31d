//! Replies and events on one connection, with their checks.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::connect::{ConnectResponse, ReplyHeader};
use proto::data::Stat;
use proto::request::ReadRequest;
use proto::response::{GetAclResponse, GetChildren2Response, GetDataResponse, StatResponse};
use proto::watch::{EventType, WatcherEvent};
use proto::{ErrorCode, SessionId, Xid, Zxid};

use crate::client::requests::{Expected, Sent};
use crate::client::watching::Watching;
use crate::history::{History, Znode};
use crate::settings::Settings;
use crate::world::{Checked, Violation, violation};

/// Replies come in the order of the requests, one for each request.
pub(crate) const ORDER: &str = "each request has one reply, in order";
/// The zxids of replies increase, and a session sees its own writes.
pub(crate) const ZXIDS: &str = "a session sees its own writes, and never an older state";
/// A read returns the state that the zxid of its reply names.
pub(crate) const READS: &str = "a read returns the state of its zxid";

/// State of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) session: SessionId,
    pub(crate) password: Bytes,
    /// Whether the server has answered the handshake.
    pub(crate) is_greeted: bool,
    /// Requests without a reply, oldest first.
    expected: VecDeque<(Xid, Expected)>,
    /// Number of bytes that the client has sent completely, as a number of requests.
    pub(crate) sent: usize,
    pub(crate) replies: usize,
    last: Zxid,
    watching: Watching,
    /// Whether closeSession or an invalid frame was sent, so the server ends the connection.
    pub(crate) may_end: bool,
    pub(crate) is_closed: bool,
}

impl Conversation {
    /// Records that the client begins to send a request.
    pub(crate) fn asks(&mut self, sent: &Sent, settings: &Settings) {
        if let Expected::Read(read) = &sent.expected {
            self.watching.asks(read);
            self.may_end |= settings.bounds_watches && matches!(read, ReadRequest::SetWatches(_));
        }
        self.may_end |= matches!(sent.expected, Expected::CloseSession | Expected::End);
        self.expected.push_back((sent.xid, sent.expected.clone()));
    }

    /// Returns whether completely sent requests wait for their replies.
    pub(crate) fn waits(&self) -> bool {
        !self.is_greeted || self.sent > self.replies
    }

    /// Describes the oldest request without a reply.
    pub(crate) fn oldest(&self) -> String {
        format!(
            "session {}, {} of {} replies, next {:?}",
            self.session,
            self.replies,
            self.sent,
            self.expected.front()
        )
    }

    /// Handles a frame.
    pub(crate) fn hear(&mut self, frame: Bytes, history: &History) -> Checked {
        let mut reader = Reader::new(frame);
        if !self.is_greeted {
            return self.greeted(&mut reader);
        }
        let head: ReplyHeader = decode(&mut reader)?;
        match head.xid {
            Xid::EVENT => {
                let event: WatcherEvent = decode(&mut reader)?;
                let kind = EventType::from_i32(event.event_type);
                let kind = kind.ok_or_else(|| violation(ORDER, "an unknown event"))?;
                self.watching.hear(kind, &event.path)
            }
            Xid::AUTH => {
                let is_auth = |(_, expected): &(Xid, Expected)| {
                    matches!(expected, Expected::Credentials | Expected::End)
                };
                let at = self.expected.iter().position(is_auth);
                let at = at.ok_or_else(|| violation(ORDER, "unexpected reply to credentials"))?;
                self.expected.remove(at);
                self.replies += 1;
                Ok(())
            }
            _ => self.replied(head, &mut reader, history),
        }
    }

    fn greeted(&mut self, reader: &mut Reader) -> Checked {
        let response: ConnectResponse = decode(reader)?;
        self.is_greeted = true;
        self.session = response.session_id;
        self.password = response.password.expose().clone();
        // The session has expired, or the password was wrong.
        self.may_end |= self.session == SessionId::NONE;
        Ok(())
    }

    fn replied(&mut self, head: ReplyHeader, reader: &mut Reader, history: &History) -> Checked {
        let first = self.expected.front();
        let is_end = matches!(self.expected.back(), Some((xid, Expected::End)) if *xid == head.xid);
        if is_end {
            self.expected.pop_back();
            self.replies += 1;
            return Ok(());
        }
        if first.is_none_or(|(xid, _)| *xid != head.xid) {
            let text = format!("a reply with xid {}, expected {first:?}", head.xid.0);
            return Err(violation(ORDER, text));
        }
        let Some((_, expected)) = self.expected.pop_front() else {
            return Ok(());
        };
        self.replies += 1;
        let err = ErrorCode::from_i32(head.err);
        let err = err.ok_or_else(|| violation(ORDER, "an unknown error code"))?;
        if self.is_closed {
            return Err(violation(ORDER, "a reply after the reply to closeSession"));
        }
        self.is_closed |= matches!(expected, Expected::CloseSession);
        if matches!(err, ErrorCode::ThrottledOp | ErrorCode::SessionExpired) {
            return Ok(());
        }
        self.check_zxid(&expected, head, history)?;
        // A connection receives replies, but no events, between the expiry of its session and its end.
        if !history.is_closed(self.session, head.zxid) {
            self.watching.check(head.zxid, history)?;
        }
        if let Expected::Read(read) = &expected {
            check_read(read, head.zxid, err, reader, history)?;
            self.watching.answered(read, head.zxid, err);
        }
        Ok(())
    }

    fn check_zxid(&mut self, expected: &Expected, head: ReplyHeader, history: &History) -> Checked {
        let (zxid, last) = (head.zxid, self.last);
        self.last = self.last.max(zxid);
        let is_own = matches!(expected, Expected::Write | Expected::CloseSession);
        if zxid < last || (is_own && zxid == last) || zxid > history.last {
            let text = format!(
                "a reply to {expected:?} with zxid {zxid} after {last}, the server is at {}",
                history.last
            );
            return Err(violation(ZXIDS, text));
        }
        let request = history.request(zxid);
        if is_own && request != Some((self.session, head.xid.0)) {
            let text = format!(
                "a write {} of session {} is answered with {zxid}, which is {request:?}",
                head.xid.0, self.session
            );
            return Err(violation(ZXIDS, text));
        }
        Ok(())
    }
}

fn decode<T: Decode>(reader: &mut Reader) -> Result<T, Violation> {
    T::decode(reader).map_err(|error| violation(ORDER, format!("an undecodable frame: {error}")))
}

/// Compares the reply to a read with the history.
fn check_read(
    read: &ReadRequest,
    zxid: Zxid,
    err: ErrorCode,
    reader: &mut Reader,
    history: &History,
) -> Checked {
    let Some(path) = read.path().map(ToString::to_string) else {
        return Ok(());
    };
    let znode = history.get(&path, zxid);
    let wrong = |what: &str| {
        let text = format!("{read:?} as of {zxid} returns {err}, {what}, but it is {znode:?}");
        let cut: String = text.chars().take(600).collect();
        violation(READS, cut)
    };
    let (stat, data) = match (read, err) {
        (ReadRequest::Exists(_), ErrorCode::Ok) => (decode::<StatResponse>(reader)?.stat, None),
        (ReadRequest::GetData(_), ErrorCode::Ok) => {
            let response: GetDataResponse = decode(reader)?;
            (response.stat, Some(response.data))
        }
        (ReadRequest::GetChildren2(_), ErrorCode::Ok) => {
            (decode::<GetChildren2Response>(reader)?.stat, None)
        }
        (ReadRequest::GetAcl(_), ErrorCode::Ok) => (decode::<GetAclResponse>(reader)?.stat, None),
        (
            ReadRequest::Exists(_)
            | ReadRequest::GetData(_)
            | ReadRequest::GetChildren(_)
            | ReadRequest::GetChildren2(_),
            ErrorCode::NoNode,
        ) => {
            return match znode {
                Some(_) => Err(wrong("no znode")),
                None => Ok(()),
            };
        }
        _ => return Ok(()),
    };
    let Some(znode) = znode else {
        return Err(wrong("a znode"));
    };
    let is_data = data.is_none_or(|data| data == znode.data);
    if is_data && is_stat(&stat, znode) {
        Ok(())
    } else {
        Err(wrong(&format!("{stat:?}")))
    }
}

fn is_stat(stat: &Stat, znode: &Znode) -> bool {
    stat.czxid == znode.czxid
        && stat.mzxid == znode.mzxid
        && stat.version == znode.version
        && stat.aversion == znode.aversion
}
