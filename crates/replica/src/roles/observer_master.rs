//! Observers of a follower with `observerMasterPort`.
//!
//! Observers' requests go to the leader over this follower's own connection, in order of arrival.
//! Answers arrive in the same order and are matched with the requests by this order.
//!
//! The leader distinguishes a session's connections by the member connection on which requests
//! arrive. This follower and all its observers share one such connection. The follower itself must
//! therefore distinguish them: after a session came back over one connection, it is not served over
//! another. Apache ZooKeeper lacks this check. There, a late request of an old connection may be
//! executed after requests of the new one.
//!
//! Source: ObserverMaster, FollowerZooKeeperServer.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use config::members::MemberRole;
use jute::{Encode, Limits, Reader};
use proto::leader::LeaderPacket;
use proto::learner::{LearnerRequest, Touch};
use proto::request::{PathVersionRequest, Request};
use proto::txn::{Txn, TxnHeader, TxnRecord};
use proto::{ErrorCode, OpCode, SessionId, Sid, Zxid};
use zab::Record;
use zab::leader::{Action, LinkFault, LinkId};
use zab::learner::Learner;
use zab::observer_master::{FollowerFacts, ObserverMaster};

use super::master_choice::at_port;
use super::{Learning, Role, SyncWaiter};
use crate::interface::effect::Effect;
use crate::interface::host::{Host, State, Turn};
use crate::interface::input::{LearnerEvent, Port};
use crate::order::apply::decode;
use crate::replica::Replica;

/// Observers of this follower and their pending requests.
pub(crate) struct Observers {
    master: ObserverMaster,
    /// Sessions about which the leader was queried, oldest first, each with the observer that
    /// asked.
    revalidations: VecDeque<(LinkId, Touch)>,
    /// Connection on which each live session last returned.
    holders: HashMap<SessionId, SessionHolder>,
    /// Late requests whose replacement the leader has not answered yet.
    refused: VecDeque<RefusedRequest>,
}

/// A request of an observer that must not be executed.
#[derive(Debug, Clone, Copy)]
struct RefusedRequest {
    link: LinkId,
    session: SessionId,
    cxid: i32,
}

/// Connection on which a session last returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionHolder {
    /// A client's connection to this follower.
    Client,
    /// An observer's connection to this follower.
    Observer(LinkId),
}

impl Observers {
    /// Records that a session came back and the leader is being queried about it. Requests over
    /// another connection are late from now on.
    pub(crate) fn note_session_return(&mut self, session: SessionId, holder: SessionHolder) {
        self.holders.insert(session, holder);
    }

    /// Forgets an ended session.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.holders.remove(&session);
    }

    /// Forgets the refused requests of a disconnected observer.
    fn forget_link(&mut self, link: LinkId) {
        self.refused.retain(|refused| refused.link != link);
    }

    /// Replaces the leader's answer to a [`refusal`] with the error that the session has moved. The
    /// observer then ends the connection, and a client that still uses it reconnects. Late requests
    /// are normal, because a server may still know a client that has left while the next server
    /// already serves it (ZOOKEEPER-710).
    fn replace_refusal_answer(&mut self, record: &TxnRecord) -> Option<(LinkId, TxnRecord)> {
        let TxnHeader { session, cxid, .. } = record.header;
        let is_it = |refused: &RefusedRequest| (refused.session, refused.cxid) == (session, cxid);
        let at = self.refused.iter().position(is_it)?;
        let RefusedRequest { link, .. } = self.refused.remove(at)?;
        // The leader may return a different result, for example that the session is over.
        let is_refusal = record.txn == Txn::error(ErrorCode::BadArguments);
        let txn = Txn::error(ErrorCode::SessionMoved);
        is_refusal.then(|| {
            (
                link,
                TxnRecord {
                    txn,
                    ..record.clone()
                },
            )
        })
    }

    /// Returns whether a request is late, which means that its session has returned over another
    /// connection. Any connection may end a session or send a `sync`.
    pub(crate) fn is_late(&self, session: SessionId, op: OpCode, from: SessionHolder) -> bool {
        let is_bound = !op.is_of_session() && op != OpCode::Sync;
        let holder = self.holders.get(&session);
        is_bound && holder.is_some_and(|holder| *holder != from)
    }

    pub(crate) fn synced(&self) -> u64 {
        self.master.synced_observers() as u64
    }

    pub(crate) fn deadline_ms(&self) -> Option<i64> {
        self.master.deadline_ms()
    }
}

impl<H: Host> Replica<H> {
    /// Starts serving observers on an up-to-date follower, if configured.
    pub(crate) fn begin_serving_observers(&mut self, turn: &mut Turn<'_, H>) {
        let (Role::Learning(learning), Some(member)) = (&mut self.role, &self.member) else {
            return;
        };
        let Some(number) = member.settings.observer.master_port else {
            return;
        };
        if member.lists.role() != MemberRole::Participant {
            return;
        }
        let me = member.lists.me();
        let addresses = member.quorum_addresses(me).unwrap_or_default();
        turn.effect(Effect::Listen {
            port: Port::Observers,
            attempt: learning.attempt,
            addresses: at_port(&addresses, number),
        });
        let last = turn.state.tree().last_zxid();
        let (epoch, settings) = (member.epochs.current, member.settings.zab);
        let learner = learning.learner.as_ref();
        let compares = learner.is_some_and(Learner::leader_compares);
        learning.observers = Some(Observers {
            master: ObserverMaster::new(me, epoch, last, compares, settings, turn.now.ms),
            revalidations: VecDeque::new(),
            holders: HashMap::new(),
            refused: VecDeque::new(),
        });
    }

    /// Handles an event on an observer's connection.
    pub(crate) fn handle_observer(&mut self, event: LearnerEvent, turn: &mut Turn<'_, H>) {
        match event {
            LearnerEvent::Connected { link } => {
                self.with_observers(turn, |master, _, now_ms, _| {
                    master.handle_connected(link, now_ms);
                });
            }
            LearnerEvent::Packets { link, packets } => {
                self.with_observers(turn, |master, facts, now_ms, out| {
                    for packet in packets {
                        master.handle_packet(link, packet, facts, now_ms, out);
                    }
                });
            }
            LearnerEvent::Closed { link } => {
                self.with_observers(turn, |master, _, _, _| master.handle_closed(link));
                if let Some((observers, _)) = serving(&mut self.role) {
                    observers.forget_link(link);
                }
                self.is_view_stale = true;
            }
            LearnerEvent::SnapshotSent { link } => {
                self.with_observers(turn, |master, _, now_ms, _| {
                    master.handle_snapshot_sent(link, now_ms);
                });
            }
            // Only a leader requests records of the log.
            LearnerEvent::LogRecords { .. } | LearnerEvent::LogUnusable { .. } => {}
        }
        turn.effect(Effect::Flush);
    }

    /// Handles the deadlines for the observers.
    pub(crate) fn handle_observers_deadline(&mut self, turn: &mut Turn<'_, H>) {
        self.with_observers(turn, |master, _, now_ms, out| {
            master.handle_deadline(now_ms, out);
        });
        turn.effect(Effect::Flush);
    }

    /// Informs the observers about a transaction that the leader has committed.
    pub(crate) fn inform_observers(
        &mut self,
        record: &Record,
        designated_leader: Option<Sid>,
        turn: &mut Turn<'_, H>,
    ) {
        let Some((observers, _)) = serving(&mut self.role) else {
            return;
        };
        let otherwise = if observers.refused.is_empty() {
            None
        } else {
            self.replace_refusal_answer(record)
        };
        self.with_observers(turn, |master, _, _, out| {
            master.handle_committed(record, designated_leader, otherwise.as_ref(), out);
        });
    }

    fn replace_refusal_answer(&mut self, record: &Record) -> Option<(LinkId, Record)> {
        // An undecodable record ends the role when it is applied.
        let decoded = decode(record).ok()?;
        let (observers, _) = serving(&mut self.role)?;
        let (link, own) = observers.replace_refusal_answer(&decoded)?;
        Some((link, Record::new(record.zxid, own.to_bytes())))
    }

    /// Forwards the leader's query for the digest of the tree at `zxid`.
    pub(crate) fn query_observers_digests(&mut self, zxid: Zxid, turn: &mut Turn<'_, H>) {
        self.with_observers(turn, |master, _, _, out| master.query_digests(zxid, out));
    }

    /// Informs the observers that this server's digest at `zxid` is the digest of a quorum that
    /// includes the leader.
    pub(crate) fn judge_observers_digests(
        &mut self,
        zxid: Zxid,
        agreed: u64,
        turn: &mut Turn<'_, H>,
    ) {
        self.with_observers(turn, |master, _, _, out| {
            master.handle_digest_judged(zxid, agreed, out);
        });
    }

    /// Forwards the leader's answer to an observer's `sync`.
    pub(crate) fn answer_observers_sync(&mut self, to: LinkId, turn: &mut Turn<'_, H>) {
        self.with_observers(turn, |master, _, _, out| master.handle_sync_done(to, out));
    }

    /// Forwards the leader's answer about a session to the observer that requested it. Returns
    /// whether there is such an observer.
    pub(crate) fn answer_observers_question(
        &mut self,
        session: SessionId,
        is_valid: bool,
        turn: &mut Turn<'_, H>,
    ) -> bool {
        let Role::Learning(learning) = &mut self.role else {
            return false;
        };
        let asked = learning.observers.as_mut().and_then(|observers| {
            let is_it = |(_, touch): &(LinkId, Touch)| touch.session == session;
            let is_next = observers.revalidations.front().is_some_and(is_it);
            is_next.then(|| observers.revalidations.pop_front())?
        });
        let Some((to, touch)) = asked else {
            return false;
        };
        if is_valid {
            // The next answer to a PING reports the activity to the leader.
            self.touch_sessions(&[touch], turn);
        }
        self.with_observers(turn, |master, _, _, out| {
            master.handle_revalidated(to, session, is_valid, out);
        });
        true
    }

    fn with_observers(
        &mut self,
        turn: &mut Turn<'_, H>,
        handle: impl FnOnce(&mut ObserverMaster, &FollowerFacts<'_>, i64, &mut Vec<Action>),
    ) {
        let (Some((observers, learner)), Some(member)) = (serving(&mut self.role), &self.member)
        else {
            return;
        };
        let lists = &member.lists;
        let config = || Bytes::from(lists.committed().node_data());
        let facts = FollowerFacts {
            committed: learner.committed(),
            config_version: lists.committed().version.0,
            config: &config,
        };
        let mut actions = Vec::new();
        handle(&mut observers.master, &facts, turn.now.ms, &mut actions);
        for action in actions {
            self.carry_out_observer_action(action, turn);
        }
    }

    fn carry_out_observer_action(&mut self, action: Action, turn: &mut Turn<'_, H>) {
        let port = Port::Observers;
        match action {
            Action::Send { to, packet } => {
                self.is_view_stale |= matches!(packet, LeaderPacket::UpToDate);
                turn.effect(Effect::Send { port, to, packet });
            }
            Action::SendSnapshot { to, zxid } => {
                self.apply_delivered(turn);
                turn.effect(Effect::SendSnapshot { port, to, zxid });
            }
            Action::Close { link, fault } => {
                turn.effect(Effect::CloseLink { port, link, fault });
                self.is_view_stale = true;
            }
            Action::Request { from, request } => self.relay_request(from, request, turn),
            // The next answer to a PING reports the activity to the leader.
            Action::Touch { sessions, .. } => self.touch_sessions(&sessions, turn),
            Action::Revalidate { from, session } => self.relay_question(from, session, turn),
            Action::CompareDigests { zxid, digest } => {
                self.with_learner(turn, |learner, _, out| {
                    learner.report_difference(zxid, digest, out);
                });
            }
            // Only a leader requests the other actions.
            _ => {}
        }
    }

    fn relay_request(&mut self, from: LinkId, request: LearnerRequest, turn: &mut Turn<'_, H>) {
        let Some(op) = request.op() else {
            return tracing::debug!(
                link = from.0,
                "dropping an observer's request of an unknown type"
            );
        };
        if !decodes(op, &request.body, self.settings.field_limits) {
            let fault = LinkFault::UndecodableRequest;
            return self.with_observers(turn, |master, _, _, out| {
                master.drop_observer(from, fault, out);
            });
        }
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let Learning {
            observers, learner, ..
        } = &mut **learning;
        let (Some(observers), Some(learner)) = (observers, learner) else {
            return;
        };
        let LearnerRequest { session, cxid, .. } = request;
        let is_late = observers.is_late(session, op, SessionHolder::Observer(from));
        let request = if is_late { refusal(request) } else { request };
        let mut actions = Vec::new();
        let is_sent = learner.forward(request, &mut actions);
        if is_sent && is_late {
            tracing::debug!(%session, cxid, link = from.0, "refusing a late request of a session that moved");
            observers.refused.push_back(RefusedRequest {
                link: from,
                session,
                cxid,
            });
        }
        if is_sent && op == OpCode::Sync {
            learning.syncs.push_back(SyncWaiter::Observer(from));
        }
        self.carry_out_learner(actions, turn);
    }

    fn relay_question(&mut self, from: LinkId, session: Touch, turn: &mut Turn<'_, H>) {
        let Some((observers, learner)) = serving(&mut self.role) else {
            return;
        };
        let mut actions = Vec::new();
        if learner.revalidate(session, &mut actions) {
            observers.revalidations.push_back((from, session));
            observers.note_session_return(session.session, SessionHolder::Observer(from));
        }
        self.carry_out_learner(actions, turn);
    }
}

/// Returns the observers and the learner, if the server is a learner that serves observers.
fn serving(role: &mut Role) -> Option<(&mut Observers, &mut Learner)> {
    let Role::Learning(learning) = role else {
        return None;
    };
    let Learning {
        observers, learner, ..
    } = &mut **learning;
    observers.as_mut().zip(learner.as_mut())
}

/// Replaces a request that must not be executed by one that every leader answers with the error
/// [`ErrorCode::BadArguments`], because the root cannot be deleted. Without a transaction, the
/// observer would wait indefinitely for its answer. The leader cannot return SessionMoved itself,
/// because it does not distinguish the follower from its observers.
fn refusal(request: LearnerRequest) -> LearnerRequest {
    let root = PathVersionRequest {
        path: Some("/".into()),
        version: -1,
    };
    LearnerRequest {
        op: OpCode::Delete.number(),
        body: root.to_bytes(),
        ..request
    }
}

/// Returns whether a leader can decode the request. An undecodable request stops an Apache leader
/// permanently.
fn decodes(op: OpCode, body: &Bytes, field_limits: Limits) -> bool {
    let mut input = Reader::with_limits(body.clone(), field_limits);
    op == OpCode::Sync || Request::decode_forwarded(op, &mut input).is_ok()
}
