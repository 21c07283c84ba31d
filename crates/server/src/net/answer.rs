//! Answering what needs no transaction: reads, pings, syncs and refusals.

use jute::Encode;
use proto::connect::ReplyHeader;
use proto::request::ReadRequest;
use proto::watch::{EventType, STATE_SYNC_CONNECTED, WatcherEvent};
use proto::{ErrorCode, Id, OpCode, Xid, Zxid};
use tree::{Caller, Tree};

use super::connection::{Connection, ConnectionState, Queued, Work, push_frame};
use crate::shared::{Reply, Shared};

/// A request that is answered from this server's tree.
pub(crate) struct Answer<'a> {
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    pub(crate) request: &'a ReadRequest,
    pub(crate) identities: &'a [Id],
}

/// Answers a read into the connection's outbox, stamped with the last applied zxid.
pub(crate) fn read(
    shared: &Shared,
    tree: &Tree,
    connection: &Connection,
    state: &mut ConnectionState,
    answer: &Answer<'_>,
) {
    let zxid = tree.last_zxid();
    let Answer {
        xid,
        request,
        identities,
        ..
    } = *answer;
    let err = match request {
        // A ping is answered with the reserved xid, whatever the request's was.
        ReadRequest::Ping => state.push_reply(Xid::PING, zxid, |_| Ok(())),
        ReadRequest::SetWatches(request) => {
            let mut missed = Vec::new();
            let set = tree.set_watches(request, connection.id, &shared.watches, &mut missed);
            for (event_type, path) in missed {
                push_event_frame(&mut state.outbox, event_type, path, Zxid(-1));
            }
            state.push_reply(xid, zxid, |_| set)
        }
        request => {
            let caller = Caller {
                session: connection.session(),
                watcher: connection.id,
                identities,
            };
            state.push_reply(xid, zxid, |out| {
                tree.read(request, &caller, &shared.watches, out)
            })
        }
    };
    tracing::trace!(xid = %xid, op = answer.op.name(), %zxid, err = %err, "read answered");
}

/// Answers everything at the head of the queue that waits for no transaction.
pub(crate) fn drain_queue(
    shared: &Shared,
    tree: &Tree,
    connection: &Connection,
    state: &mut ConnectionState,
    now_ms: u64,
) {
    while state
        .queue
        .front()
        .is_some_and(|next| !next.work.is_write())
    {
        let Some(Queued {
            xid,
            op,
            received_ms,
            work,
        }) = state.queue.pop_front()
        else {
            return;
        };
        let zxid = tree.last_zxid();
        match work {
            Work::Read {
                request,
                identities,
            } => {
                let answer = Answer {
                    xid,
                    op,
                    request: &request,
                    identities: &identities,
                };
                read(shared, tree, connection, state, &answer);
            }
            Work::Sync { path } => push_sync(state, xid, zxid, &path),
            Work::Refuse(err) => state.push_header(xid, zxid, err),
            Work::Write | Work::Handshake { .. } => return,
        }
        let xid = if op == OpCode::Ping { Xid::PING } else { xid };
        shared.note_reply(
            connection,
            Reply {
                xid,
                op,
                zxid,
                received_ms,
                now_ms,
            },
        );
    }
}

/// Appends the reply to a sync: the path as it came.
pub(crate) fn push_sync(
    state: &mut ConnectionState,
    xid: Xid,
    zxid: Zxid,
    path: &Option<jute::Str>,
) {
    state.push_reply(xid, zxid, |out| {
        path.encode(out);
        Ok(())
    });
}

/// Appends an event frame. `zxid` is that of the change, or -1 for one missed while away.
pub(crate) fn push_event_frame(
    out: &mut Vec<u8>,
    event_type: EventType,
    path: jute::Str,
    zxid: Zxid,
) {
    let event = WatcherEvent {
        event_type: event_type as i32,
        state: STATE_SYNC_CONNECTED,
        path,
    };
    push_frame(out, Xid::EVENT, zxid, |out| {
        event.encode(out);
        Ok(())
    });
}

const _: () = assert!(ReplyHeader::BYTES == 16);

/// The refusal of a request whose record does not decode.
pub(crate) const UNDECODABLE: ErrorCode = ErrorCode::MarshallingError;
