//! Requests out, replies and events in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Reader, Str};
use proto::connect::ReplyHeader;
use proto::mutant::{self, Mutant};
use proto::request::{PathModeRequest, PathRequest, PathVersionRequest, PathWatchRequest};
use proto::response::NamesResponse;
use proto::watch::{EventType, WatcherEvent};
use proto::{ErrorCode, OpCode, SessionId, Xid};
use tokio::sync::oneshot;

use super::in_flight::{Asker, Pending, Reply};
use super::watches::{Registration, Unwanted};
use super::{Link, Machine, Phase};
use crate::chores::Chore;
use crate::error::{Call, Error, LossReason, Result};
use crate::frame::{put_request, split_reply};
use crate::limits::AUTHS_MAX;
use crate::state::WatchEvent;

/// A request on its way from a caller to its session. No `Debug`: the body may be a credential.
pub(crate) struct Command {
    pub(crate) op: OpCode,
    pub(crate) path: Option<Str>,
    pub(crate) body: Bytes,
    /// In which session it may be sent, if not in any.
    pub(crate) session: Option<SessionId>,
    pub(crate) watch: Option<Registration>,
    /// Set before the request goes, for callers who must know whether it may have been carried out.
    pub(crate) is_sent: Option<Arc<AtomicBool>>,
    pub(crate) reply: oneshot::Sender<Result<Reply>>,
}

impl Command {
    /// A request with nothing beside it, and where its answer comes.
    pub(crate) fn new(
        op: OpCode,
        path: Option<Str>,
        body: Bytes,
    ) -> (Self, oneshot::Receiver<Result<Reply>>) {
        let (reply, answer) = oneshot::channel();
        let command = Self {
            op,
            path,
            body,
            session: None,
            watch: None,
            is_sent: None,
            reply,
        };
        (command, answer)
    }

    fn call(&self, server: &Arc<str>) -> Call {
        Call {
            op: self.op,
            path: self.path.clone(),
            server: Arc::clone(server),
        }
    }

    pub(super) fn refuse(self, error: Error) {
        // Whoever does not listen any more does not care.
        let _ = self.reply.send(Err(error));
    }
}

impl Machine {
    /// Sends a call.
    pub(crate) fn submit(&mut self, command: Command, out: &mut Vec<u8>, now: Duration) {
        if let Some(is_sent) = &command.is_sent {
            // Before the look at the caller, who closes before it looks at this.
            is_sent.store(true, Ordering::SeqCst);
        }
        if command.reply.is_closed() {
            return;
        }
        let server = self.hosts.current();
        if let Some(session) = command.session
            && session != self.session_id()
            && !mutant::is(Mutant::SentInAnySession)
        {
            return command.refuse(Error::SessionExpired { session, server });
        }
        let is_auth = command.op == OpCode::Auth;
        let xid = if is_auth { Xid::AUTH } else { self.take_xid() };
        let link = match &mut self.phase {
            Phase::Connected(link) if !link.is_closing => link,
            _ => {
                let error = Error::Closed { op: command.op };
                return command.refuse(error);
            }
        };
        link.is_closing = command.op == OpCode::CloseSession;
        put_request(xid, command.op.number(), out, |out| {
            out.extend_from_slice(&command.body);
        });
        link.last_sent = now;
        link.in_flight.push(Pending {
            xid,
            call: command.call(&link.server),
            sent: now,
            watch: command.watch,
            auth: is_auth.then_some(command.body),
            asker: Asker::Caller(command.reply),
        });
    }

    /// 1, 2, 3 ... and from 2^31-2 to 1 again: what is not positive is reserved.
    fn take_xid(&mut self) -> Xid {
        let xid = self.next_xid;
        self.next_xid = if xid >= i32::MAX - 1 { 1 } else { xid + 1 };
        Xid(xid)
    }

    /// Answers the calls that wait for a connection, and says whether a close was among them, which
    /// ends the client.
    pub(super) fn refuse_waiting(&mut self, last: &Error) -> bool {
        let server = self.hosts.current();
        while let Ok(command) = self.inbox.try_recv() {
            let is_close = command.op == OpCode::CloseSession;
            let call = command.call(&server);
            let last = Box::new(last.clone());
            command.refuse(Error::Unreachable { call, last });
            if is_close {
                return true;
            }
        }
        false
    }

    /// Takes up what handles left to be done.
    pub(crate) fn handle_chores(&mut self, out: &mut Vec<u8>, now: Duration) {
        for chore in self.chores.take() {
            let phase = std::mem::replace(&mut self.phase, Phase::Ended);
            if let Phase::Connected(mut link) = phase {
                self.send_chore(&mut link, chore, out, now);
                self.phase = Phase::Connected(link);
                continue;
            }
            self.phase = phase;
            match chore {
                // There is nothing on a server to be taken off.
                Chore::Forget(id) => drop(self.watches.forget(id)),
                other if self.is_ended() => drop(other),
                other => self.undone.push_back(other),
            }
        }
    }

    pub(super) fn send_chore(
        &mut self,
        link: &mut Link,
        chore: Chore,
        out: &mut Vec<u8>,
        now: Duration,
    ) {
        match &chore {
            // The session's end takes ephemerals and watches with it; if it does not end, they are
            // taken care of on the next connection.
            _ if link.is_closing => self.undone.push_back(chore),
            Chore::Forget(id) => {
                if let Some(unwanted) = self.watches.forget(*id) {
                    self.take_off(link, &unwanted, out, now);
                }
            }
            Chore::Delete(path) => {
                let record = PathVersionRequest {
                    path: Some(path.clone()),
                    version: -1,
                };
                let path = path.clone();
                let asker = Asker::Chore(chore);
                self.ask(link, (OpCode::Delete, path), &record, asker, out, now);
            }
            Chore::FindAndDelete { parent, .. } => {
                let path = parent.clone();
                // The creation may be on its way through another server: what comes behind a sync
                // sees it, or it will never be carried out.
                let sync = PathRequest {
                    path: Some(path.clone()),
                };
                let (op, asker) = (OpCode::Sync, Asker::Nobody);
                self.ask(link, (op, path.clone()), &sync, asker, out, now);
                let list = PathWatchRequest {
                    path: Some(path.clone()),
                    watch: false,
                };
                let asker = Asker::Chore(chore);
                self.ask(link, (OpCode::GetChildren, path), &list, asker, out, now);
            }
        }
    }

    /// Takes a watch off the server, unless a request on its way sets the same: that one would be
    /// taken off with it.
    fn take_off(&mut self, link: &mut Link, unwanted: &Unwanted, out: &mut Vec<u8>, now: Duration) {
        if link.in_flight.may_set(unwanted) {
            return;
        }
        let record = PathModeRequest {
            path: Some(unwanted.path.clone()),
            mode: unwanted.kind as i32,
        };
        let what = (OpCode::RemoveWatches, unwanted.path.clone());
        self.ask(link, what, &record, Asker::Nobody, out, now);
    }

    fn ask(
        &mut self,
        link: &mut Link,
        (op, path): (OpCode, Str),
        record: &impl Encode,
        asker: Asker,
        out: &mut Vec<u8>,
        now: Duration,
    ) {
        let xid = self.take_xid();
        put_request(xid, op.number(), out, |out| record.encode(out));
        link.last_sent = now;
        let call = Call {
            op,
            path: Some(path),
            server: Arc::clone(&link.server),
        };
        link.in_flight.push(Pending {
            xid,
            call,
            sent: now,
            watch: None,
            auth: None,
            asker,
        });
    }

    /// Takes one frame of the server's.
    ///
    /// # Errors
    /// If the connection cannot be trusted any more.
    pub(crate) fn handle_frame(
        &mut self,
        frame: &[u8],
        out: &mut Vec<u8>,
        now: Duration,
    ) -> Result<(), LossReason> {
        let (header, body) = split_reply(frame)?;
        let Phase::Connected(link) = &mut self.phase else {
            return Ok(());
        };
        link.last_heard = now;
        match header.xid {
            Xid::EVENT => return self.handle_event(&header, body),
            Xid::PING => {
                if let Some(sent) = link.pings.pop_front() {
                    self.touched = self.touched.max(sent);
                }
            }
            Xid::SET_WATCHES => {
                if header.err != 0 {
                    tracing::warn!(err = header.err, "watches were not set again");
                }
            }
            Xid::AUTH if link.auths_restored > 0 => {
                link.auths_restored -= 1;
                if header.err != 0 {
                    tracing::warn!(err = header.err, "credentials were refused on reconnect");
                    self.auths.clear();
                }
            }
            _ => {
                let body = Bytes::copy_from_slice(body);
                let pending = link.in_flight.answered_by(&header)?;
                return self.handle_reply(pending, header, body, out, now);
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, header: &ReplyHeader, body: &[u8]) -> Result<(), LossReason> {
        let mut input = Reader::new(Bytes::copy_from_slice(body));
        let event = WatcherEvent::decode(&mut input).map_err(|source| LossReason::Decode {
            what: "watch event",
            source,
        })?;
        let Some(kind) = EventType::from_i32(event.event_type) else {
            tracing::warn!(kind = event.event_type, "watch event of an unknown type");
            return Ok(());
        };
        let event = WatchEvent {
            kind,
            path: event.path,
            zxid: header.zxid,
        };
        self.watches.handle_event(&event);
        // It is no error that nobody listens.
        let _ = self.events.send(event.inside(&self.options.chroot));
        Ok(())
    }

    fn handle_reply(
        &mut self,
        pending: Pending,
        header: ReplyHeader,
        body: Bytes,
        out: &mut Vec<u8>,
        now: Duration,
    ) -> Result<(), LossReason> {
        let op = pending.call.op;
        self.last_zxid = self.last_zxid.max(header.zxid);
        self.touched = self.touched.max(pending.sent);
        let succeeded = header.err == 0;
        let unwanted = pending
            .watch
            .and_then(|asked| self.watches.handle_reply(asked, header.err));
        if let (Some(packet), true) = (pending.auth, succeeded)
            && self.auths.len() < AUTHS_MAX
            && !self.auths.contains(&packet)
        {
            self.auths.push(packet);
        }
        let mut found = Vec::new();
        match pending.asker {
            Asker::Caller(reply) => {
                let result = match header.err {
                    // A multiRead that failed has its results so far in the body, of use to nobody.
                    0 => Ok(Reply { header, body }),
                    code => Err(Error::Op {
                        call: pending.call,
                        code,
                    }),
                };
                let _ = reply.send(result);
            }
            Asker::Chore(chore) => {
                found = done(&chore, header.err, body)?;
                self.later.extend(later(chore));
            }
            Asker::Nobody => {}
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let Phase::Connected(mut link) = phase else {
            self.phase = phase;
            return Ok(());
        };
        if let Some(unwanted) = unwanted {
            self.take_off(&mut link, &unwanted, out, now);
        }
        for chore in found {
            self.send_chore(&mut link, chore, out, now);
        }
        link.is_closed |= op == OpCode::CloseSession && succeeded;
        let is_closed = link.is_closed;
        self.phase = Phase::Connected(link);
        match op {
            OpCode::CloseSession if is_closed => {
                self.handle_lost(&LossReason::ClosedByServer, now);
                Ok(())
            }
            OpCode::Auth if !succeeded => Err(LossReason::AuthFailed),
            _ => Ok(()),
        }
    }
}

/// What is still to be done when a chore was answered.
fn done(chore: &Chore, err: i32, body: Bytes) -> Result<Vec<Chore>, LossReason> {
    if err != 0 {
        if err != ErrorCode::NoNode.code() {
            tracing::warn!(?chore, err, "a znode that should go is refused");
        }
        return Ok(Vec::new());
    }
    let Chore::FindAndDelete { parent, prefix, .. } = chore else {
        return Ok(Vec::new());
    };
    let names = NamesResponse::decode(&mut Reader::new(body)).map_err(|source| {
        let what = "list of children";
        LossReason::Decode { what, source }
    })?;
    let ours = names
        .names
        .iter()
        .filter(|name| name.starts_with(&**prefix));
    let separator = if &**parent == "/" { "" } else { "/" };
    let paths = ours.map(|name| Str::from(format!("{parent}{separator}{name}")));
    Ok(paths.map(Chore::Delete).collect())
}

/// What is to be looked for once more when some time has passed.
fn later(chore: Chore) -> Option<Chore> {
    match chore {
        Chore::FindAndDelete {
            parent,
            prefix,
            looks: looks @ 2..,
        } => Some(Chore::FindAndDelete {
            parent,
            prefix,
            looks: looks - 1,
        }),
        _ => None,
    }
}
