//! Putting what follows from a committed transaction into the outboxes.

use std::sync::Arc;

use jute::Encode;
use proto::txn::Txn;
use proto::{ErrorCode, SessionId};
use replica::{Applied, LargeBytes, Service};
use tree::{Event, Tree};

use crate::client::answer::{Pace, Responder, push_event_frame};
use crate::client::clients::Clients;
use crate::client::connection::{
    CONNECT_RESPONSE_BYTES, Connection, Queued, Work, connect_response,
};
use crate::clock;
use crate::metrics::Replies;

/// Hands out what follows from transactions, and remembers whom to wake once the tree is free again.
#[derive(Default)]
pub(crate) struct Delivery {
    woken: Vec<Arc<Connection>>,
    frame: Vec<u8>,
    replies: Replies,
    /// Permits of transactions that were applied.
    permits: usize,
    /// What they took of the bounds on large requests.
    large_bytes: LargeBytes,
    /// When the group began to be applied: the clock is read once for all of it.
    begun: Option<Moment>,
    /// Transactions of the group.
    group: u64,
}

/// One point in time by both clocks.
#[derive(Clone, Copy)]
struct Moment {
    wall_ms: i64,
    monotonic_ms: u64,
}

impl Moment {
    fn now() -> Self {
        Self {
            wall_ms: clock::wall_ms(),
            monotonic_ms: clock::monotonic_ms(),
        }
    }
}

impl Delivery {
    /// A transaction was applied: events, then its reply, then the reads that waited for it.
    ///
    /// The last of a group settles the group before its reply can be seen: a client that was
    /// answered finds its request counted, and nothing of it outstanding. Earlier ones are settled
    /// with it, as counting each alone would cost more than it tells.
    pub(crate) fn applied(
        &mut self,
        clients: &Clients,
        tree: &Tree,
        applied: Applied<'_>,
        origin: Option<&Arc<Connection>>,
    ) {
        self.permits += usize::from(applied.is_counted);
        self.large_bytes += applied.large_bytes;
        let record = applied.record;
        let now = *self.begun.get_or_insert_with(Moment::now);
        self.replies.applied(record, now.wall_ms);
        self.group += 1;
        self.deliver_events(clients, tree, applied.events);
        if let Some(connection) = origin {
            let responder = Responder {
                clients,
                tree,
                connection,
                now_ms: now.monotonic_ms,
            };
            self.reply(&responder, connection, &applied);
        }
        if matches!(record.txn, Txn::CloseSession { .. }) {
            self.end_session(clients, record.header.session, origin);
        }
    }

    /// Wakes the tasks of all connections that got something. Called without the tree's lock.
    pub(crate) fn wake(&mut self) {
        for connection in self.woken.drain(..) {
            connection.wake();
        }
    }

    /// Counts what was answered since the last call, and gives the permits of it back.
    pub(crate) fn settle(&mut self, clients: &Clients) {
        clients.stats.replied(&self.replies);
        self.replies = Replies::default();
        if let Some(begun) = self.begun.take() {
            let took_ms = clock::monotonic_ms().saturating_sub(begun.monotonic_ms);
            let under_way = clients.permits.outstanding() as u64;
            let group = std::mem::take(&mut self.group);
            clients.metrics.group_applied(group, took_ms, under_way);
            if clients.service.get() == Service::Deciding {
                // They were made here, and are no longer ahead of the tree.
                clients.metrics.outstanding_changes_removed.add(group);
            }
        }
        clients.permits.give_back(std::mem::take(&mut self.permits));
        let large_bytes = std::mem::take(&mut self.large_bytes);
        clients.large_requests.give_back(large_bytes);
    }

    fn touched(&mut self, connection: &Arc<Connection>) {
        // A pipelining client's replies come in runs.
        if !self
            .woken
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, connection))
        {
            self.woken.push(connection.clone());
        }
    }

    /// Each event is encoded once and copied to every watcher that may see it.
    fn deliver_events(&mut self, clients: &Clients, tree: &Tree, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            let metrics = &clients.metrics;
            metrics.event_fired(event.event_type, event.watchers.len());
            self.frame.clear();
            push_event_frame(&mut self.frame, event.event_type, event.path, event.zxid);
            for connection in clients.registry.each_of(&event.watchers) {
                if tree.may_see(event.acl.as_deref(), &connection.lock().identities) {
                    connection.push_event(&self.frame);
                    self.replies.event(self.frame.len().saturating_sub(4));
                    self.touched(&connection);
                }
            }
        }
    }

    fn reply(
        &mut self,
        responder: &Responder<'_>,
        connection: &Arc<Connection>,
        applied: &Applied<'_>,
    ) {
        let (outcome, is_last) = (applied.outcome, applied.is_last);
        let header = &applied.record.header;
        let zxid = header.zxid;
        let mut state = connection.lock();
        let Some(Queued { asked, work }) = state.dequeue() else {
            return;
        };
        let waiting = state.queue.len() as u64;
        let waited_ms = responder.now_ms.saturating_sub(asked.received_ms);
        let metrics = &responder.clients.metrics;
        metrics.write_commitproc_time_ms.record(waited_ms);
        if let Work::ForwardedSync { .. } = work {
            drop(state);
            // Out of step with the leader: no answer is better than another one's.
            tracing::warn!(peer = %connection.peer, session = %header.session, cxid = header.cxid, "the leader answers out of turn, closing connection");
            connection.close();
            return;
        }
        if let Work::WriteInVain(err) = work {
            responder.reply(&mut state, &mut self.replies, asked, zxid, |_| Err(err));
        } else if let Work::Handshake { new_style } = work {
            let bytes = CONNECT_RESPONSE_BYTES;
            responder.note(&mut self.replies, asked, zxid, ErrorCode::Ok, bytes);
            if is_last {
                self.settle(responder.clients);
            }
            drop(state);
            let session = outcome_session(applied);
            open_connection(responder.clients, connection, session, new_style);
            // Nothing waits behind a handshake.
            return self.touched(connection);
        } else if outcome.error() == ErrorCode::SessionMoved {
            // Not an answer that a client may see: it finds its session at the other server.
            drop(state);
            connection.close();
            return;
        } else {
            responder.reply(
                &mut state,
                &mut self.replies,
                asked,
                zxid,
                |out| match outcome.error() {
                    ErrorCode::Ok => {
                        outcome.encode_body(applied.op, out);
                        Ok(())
                    }
                    err => Err(err),
                },
            );
        }
        let pace = Pace::of_core(&state);
        responder.drain_queue(&mut state, &mut self.replies, pace);
        if waiting > 0 {
            let answered = waiting.saturating_sub(state.queue.len() as u64);
            metrics.reads_behind_write(waiting, answered, waited_ms);
        }
        if is_last {
            self.settle(responder.clients);
        }
        drop(state);
        self.touched(connection);
    }

    /// Answers the reads that stand in front of the next write or sync of `connection`, and that
    /// its task has not come to.
    pub(crate) fn answer_left_over(
        &mut self,
        clients: &Clients,
        tree: &Tree,
        connection: &Arc<Connection>,
    ) {
        if !connection.has_left_over() {
            return;
        }
        let responder = Responder {
            clients,
            tree,
            connection,
            now_ms: clock::monotonic_ms(),
        };
        let mut state = connection.lock();
        let pace = Pace::of_core_before_write(&state);
        responder.drain_queue(&mut state, &mut self.replies, pace);
    }

    /// The leader has answered the oldest sync of `connection`, which is at the head of its queue.
    pub(crate) fn answer_sync(
        &mut self,
        clients: &Clients,
        tree: &Tree,
        connection: &Arc<Connection>,
    ) {
        self.answer_left_over(clients, tree, connection);
        let responder = Responder {
            clients,
            tree,
            connection,
            now_ms: clock::monotonic_ms(),
        };
        let mut state = connection.lock();
        match state.dequeue() {
            Some(Queued {
                asked,
                work: Work::ForwardedSync { path },
            }) => {
                let zxid = tree.last_zxid();
                responder.reply(&mut state, &mut self.replies, asked, zxid, |out| {
                    path.encode(out);
                    Ok(())
                });
                let pace = Pace::of_core(&state);
                responder.drain_queue(&mut state, &mut self.replies, pace);
                self.settle(clients);
            }
            _ => {
                drop(state);
                // Out of step with the leader; only a connection that is gone may be.
                connection.close();
                return;
            }
        }
        drop(state);
        self.touched(connection);
    }

    /// The session is over: its connection ends, after the reply if it asked for it itself, and
    /// without a byte if it expired.
    fn end_session(
        &mut self,
        clients: &Clients,
        session: SessionId,
        asked_by: Option<&Arc<Connection>>,
    ) {
        if let Some(connection) = asked_by {
            let mut state = connection.lock();
            state.ends_after_flush = true;
            state.clear_queue();
            drop(state);
            self.touched(connection);
        }
        let served_by = clients.registry.of_session(session);
        let is_other =
            |served: &Arc<Connection>| !asked_by.is_some_and(|asked| Arc::ptr_eq(asked, served));
        if let Some(connection) = served_by.filter(is_other) {
            connection.close();
        }
    }
}

fn outcome_session(applied: &Applied<'_>) -> Option<(SessionId, i32)> {
    match applied.record.txn {
        Txn::CreateSession { timeout_ms } if applied.outcome.error() == ErrorCode::Ok => {
            Some((applied.record.header.session, timeout_ms))
        }
        _ => None,
    }
}

fn open_connection(
    clients: &Clients,
    connection: &Arc<Connection>,
    session: Option<(SessionId, i32)>,
    new_style: bool,
) {
    if let Some((id, timeout_ms)) = session {
        clients.registry.bind(connection, id);
        connection.set_session(id, timeout_ms);
        tracing::info!(peer = %connection.peer, session = %id, timeout_ms, "session established");
    }
    let mut state = connection.lock();
    state.push_connect_response(&connect_response(session, new_style, false));
    state.ends_after_flush |= session.is_none();
}
