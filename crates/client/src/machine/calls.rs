//! Outgoing requests, and incoming replies and events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Reader, Str};
use proto::connect::ReplyHeader;
use proto::request::{PathModeRequest, PathRequest, PathVersionRequest, PathWatchRequest};
use proto::response::NamesResponse;
use proto::watch::{EventType, WatcherEvent};
use proto::{ErrorCode, OpCode, SessionId, Xid};
use tokio::sync::oneshot;

use super::in_flight::{Pending, Reply, ReplyTarget};
use super::watches::{Registration, UnwantedWatch};
use super::{LaterCleanup, Machine, Phase, ServerConnection};
use crate::cleanup::Cleanup;
use crate::error::{Call, Error, LossReason, Result};
use crate::frame::{put_request, split_reply};
use crate::limits::AUTHS_MAX;
use crate::state::WatchEvent;

/// A request that a caller passes to the session. Without `Debug`, because the body may contain a
/// credential.
pub(crate) struct Command {
    pub(crate) op: OpCode,
    pub(crate) path: Option<Str>,
    pub(crate) body: Bytes,
    /// Session in which the request may be sent. With `None`, any session is permitted.
    pub(crate) session: Option<SessionId>,
    pub(crate) watch: Option<Registration>,
    /// Flag that is set before the request is sent, for callers that must know whether the server
    /// may have executed it.
    pub(crate) is_sent: Option<Arc<AtomicBool>>,
    pub(crate) reply: oneshot::Sender<Result<Reply>>,
}

impl Command {
    /// Creates a request without a session, watch or flag, and the receiver for its answer.
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
        // Fails if the caller no longer waits.
        let _ = self.reply.send(Err(error));
    }
}

impl Machine {
    /// Sends the request of a call, or refuses the call. Drops the call if its caller no longer
    /// waits.
    pub(crate) fn submit(&mut self, command: Command, out: &mut Vec<u8>, now: Duration) {
        if let Some(is_sent) = &command.is_sent {
            // Must precede the check whether the caller still waits, because a dropped call closes
            // its receiver before it reads this flag.
            is_sent.store(true, Ordering::SeqCst);
        }
        if command.reply.is_closed() {
            return;
        }
        let server = self.hosts.current();
        if let Some(session) = command.session
            && session != self.session_id()
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
            asker: ReplyTarget::Caller(command.reply),
        });
    }

    /// Returns the next xid: 1, 2, 3 ... up to 2^31-2, then 1 again. Other values are reserved.
    fn take_xid(&mut self) -> Xid {
        let xid = self.next_xid;
        self.next_xid = if xid >= i32::MAX - 1 { 1 } else { xid + 1 };
        Xid(xid)
    }

    /// Refuses the calls that wait for a connection, up to and including the first closeSession.
    /// Returns whether there was a closeSession, which ends the client.
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

    /// Accepts the background work of dropped handles.
    pub(crate) fn handle_cleanups(&mut self, out: &mut Vec<u8>, now: Duration) {
        for cleanup in self.cleanups.take() {
            let phase = std::mem::replace(&mut self.phase, Phase::Ended);
            if let Phase::Connected(mut link) = phase {
                self.send_cleanup(&mut link, cleanup, out, now);
                self.phase = Phase::Connected(link);
                continue;
            }
            self.phase = phase;
            match cleanup {
                // Without a connection, no server has the watch.
                Cleanup::Forget(id) => drop(self.watches.forget(id)),
                other if self.is_ended() => drop(other),
                other => self.undone.push_back(other),
            }
        }
    }

    pub(super) fn send_cleanup(
        &mut self,
        link: &mut ServerConnection,
        cleanup: Cleanup,
        out: &mut Vec<u8>,
        now: Duration,
    ) {
        match &cleanup {
            // The end of the session deletes its ephemerals and watches. If the session does not
            // end after all, the next connection does this work.
            _ if link.is_closing => self.undone.push_back(cleanup),
            Cleanup::Forget(id) => {
                if let Some(unwanted) = self.watches.forget(*id) {
                    self.remove_watch(link, &unwanted, out, now);
                }
            }
            Cleanup::Delete(path) => {
                let record = PathVersionRequest {
                    path: Some(path.clone()),
                    version: -1,
                };
                let path = path.clone();
                let asker = ReplyTarget::Cleanup(cleanup);
                let call = link.call(OpCode::Delete, path);
                self.send_request(link, call, &record, asker, out, now);
            }
            Cleanup::FindAndDelete { parent, .. } => {
                let path = parent.clone();
                // This server may not have applied the creation yet. A read after a sync sees the
                // new znode.
                let sync = PathRequest {
                    path: Some(path.clone()),
                };
                let call = link.call(OpCode::Sync, path.clone());
                self.send_request(link, call, &sync, ReplyTarget::Nobody, out, now);
                let list = PathWatchRequest {
                    path: Some(path.clone()),
                    watch: false,
                };
                let asker = ReplyTarget::Cleanup(cleanup);
                let call = link.call(OpCode::GetChildren, path);
                self.send_request(link, call, &list, asker, out, now);
            }
        }
    }

    /// Removes a watch from the server, unless a request in flight sets an equal watch, because the
    /// server would remove both.
    fn remove_watch(
        &mut self,
        link: &mut ServerConnection,
        unwanted: &UnwantedWatch,
        out: &mut Vec<u8>,
        now: Duration,
    ) {
        // The client sends nothing after closeSession. See `ServerConnection::is_closing`.
        if link.is_closing || link.in_flight.may_set(unwanted) {
            return;
        }
        let record = PathModeRequest {
            path: Some(unwanted.path.clone()),
            mode: unwanted.kind as i32,
        };
        let call = link.call(OpCode::RemoveWatches, unwanted.path.clone());
        self.send_request(link, call, &record, ReplyTarget::Nobody, out, now);
    }

    fn send_request(
        &mut self,
        link: &mut ServerConnection,
        call: Call,
        record: &impl Encode,
        asker: ReplyTarget,
        out: &mut Vec<u8>,
        now: Duration,
    ) {
        let xid = self.take_xid();
        put_request(xid, call.op.number(), out, |out| record.encode(out));
        link.last_sent = now;
        link.in_flight.push(Pending {
            xid,
            call,
            sent: now,
            watch: None,
            auth: None,
            asker,
        });
    }

    /// Handles one frame of the server.
    ///
    /// # Errors
    /// If the frame shows that the connection is unusable.
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
        if header.err == 0 && header.xid != Xid::EVENT && !link.has_served {
            link.has_served = true;
            self.hosts.handle_served();
        }
        match header.xid {
            Xid::EVENT => return self.handle_event(&header, body),
            Xid::PING => {
                if let Some(sent) = link.pings.pop_front() {
                    self.touched = self.touched.max(sent);
                }
            }
            Xid::SET_WATCHES => {
                // The server has set none of them, so events would be lost.
                if header.err != 0 {
                    tracing::warn!(
                        err = header.err,
                        "cannot set the watches again after a reconnect"
                    );
                    return Err(LossReason::WatchesRefused(header.err));
                }
            }
            Xid::AUTH if link.auths_restored > 0 => {
                link.auths_restored -= 1;
                if header.err != 0 {
                    tracing::warn!(
                        err = header.err,
                        "the server refused the credentials after a reconnect"
                    );
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
            tracing::warn!(
                kind = event.event_type,
                "ignoring a watch event of an unknown type"
            );
            return Ok(());
        };
        let event = WatchEvent {
            kind,
            path: event.path,
            zxid: header.zxid,
        };
        self.watches.handle_event(&event);
        // Fails without listeners, which is not an error.
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
            .and_then(|registration| self.watches.handle_reply(registration, header.err));
        if let (Some(packet), true) = (pending.auth, succeeded)
            && self.auths.len() < AUTHS_MAX
            && !self.auths.contains(&packet)
        {
            self.auths.push(packet);
        }
        let mut found = Vec::new();
        match pending.asker {
            ReplyTarget::Caller(reply) => {
                let result = match header.err {
                    // The body of a failed multiRead contains partial results, which callers do not
                    // use.
                    0 => Ok(Reply { header, body }),
                    code => Err(Error::Op {
                        call: pending.call,
                        code,
                    }),
                };
                let _ = reply.send(result);
            }
            ReplyTarget::Cleanup(cleanup) => {
                let later = if is_temporary(header.err) {
                    Some(cleanup)
                } else {
                    found = done(&cleanup, header.err, body)?;
                    later(cleanup)
                };
                let due = now + self.ping_interval();
                let later = later.map(|cleanup| LaterCleanup { due, cleanup });
                self.later.extend(later);
            }
            ReplyTarget::Nobody => {}
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let Phase::Connected(mut link) = phase else {
            self.phase = phase;
            return Ok(());
        };
        if let Some(unwanted) = unwanted {
            self.remove_watch(&mut link, &unwanted, out, now);
        }
        for cleanup in found {
            self.send_cleanup(&mut link, cleanup, out, now);
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

/// Returns whether the server may execute the same request later: it is overloaded, or it has no
/// quorum.
fn is_temporary(err: i32) -> bool {
    err == ErrorCode::ThrottledOp.code() || err == ErrorCode::NotReadOnly.code()
}

/// Returns the further background work that results from the answer to `cleanup`.
fn done(cleanup: &Cleanup, err: i32, body: Bytes) -> Result<Vec<Cleanup>, LossReason> {
    if err != 0 {
        if err != ErrorCode::NoNode.code() {
            tracing::warn!(?cleanup, err, "the server refused to delete a znode");
        }
        return Ok(Vec::new());
    }
    let Cleanup::FindAndDelete { parent, prefix, .. } = cleanup else {
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
    Ok(paths.map(Cleanup::Delete).collect())
}

/// Returns the next search after the answer to `cleanup`, or `None` if no search remains.
fn later(cleanup: Cleanup) -> Option<Cleanup> {
    match cleanup {
        Cleanup::FindAndDelete {
            parent,
            prefix,
            looks: looks @ 2..,
        } => Some(Cleanup::FindAndDelete {
            parent,
            prefix,
            looks: looks - 1,
        }),
        _ => None,
    }
}
