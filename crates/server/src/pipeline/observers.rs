//! The core thread as host of an observer master: a follower with `observerMasterPort`.
//!
//! What observers ask goes up over this follower's own connection to the leader, in the order in
//! which it came, and the answers are told apart by that order.
//!
//! Source: ensemble-protocol.md 17 (ObserverMaster, FollowerZooKeeperServer).

use std::collections::VecDeque;

use bytes::Bytes;
use config::members::MemberRole;
use jute::Reader;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerRequest, Touch};
use proto::request::Request;
use proto::{OpCode, SessionId, Sid};
use zab::Record;
use zab::leader::{Action, LinkFault, LinkId};
use zab::observer_master::{Facts, ObserverMaster};

use super::core::Core;
use super::role::{Learning, Role, SyncWaiter};
use crate::clock;
use crate::peer::PeerEvent;

/// The observers of this follower, and what was asked for them.
pub(super) struct Observers {
    master: ObserverMaster,
    /// Sessions that the leader was asked about, and by whom; oldest first.
    revalidations: VecDeque<(LinkId, Touch)>,
}

impl Observers {
    pub(super) fn synced(&self) -> u64 {
        self.master.synced_observers() as u64
    }

    pub(super) fn deadline_ms(&self) -> Option<i64> {
        self.master.deadline_ms()
    }
}

impl Core {
    /// This server is up to date: if it follows, observers may come.
    pub(super) fn begin_serving_observers(&mut self) {
        let (Role::Learning(learning), Some(member)) = (&mut self.role, &self.member) else {
            return;
        };
        let Some(port) = &member.observer_port else {
            return;
        };
        if member.keeper.role() != MemberRole::Participant {
            return;
        }
        if let Err(error) = port.open() {
            return tracing::error!(err = %error, "cannot listen for observers, following without them");
        }
        let (me, epoch) = (member.keeper.me(), member.epochs.current);
        let last = self.shared.tree.read().last_zxid();
        let (settings, now_ms) = (member.zab_settings, clock::session_ms());
        learning.observers = Some(Observers {
            master: ObserverMaster::new(me, epoch, last, settings, now_ms),
            revalidations: VecDeque::new(),
        });
    }

    /// An observer's connection has something to say.
    pub(super) fn handle_observer(&mut self, event: PeerEvent) {
        match event {
            PeerEvent::LearnerConnected { link, peer } => {
                tracing::debug!(link = link.0, %peer, "an observer connects");
                self.with_observers(|master, _, now_ms, _| master.handle_connected(link, now_ms));
            }
            PeerEvent::LearnerPackets {
                link,
                packets,
                permit: _permit,
            } => self.with_observers(|master, facts, now_ms, out| {
                for packet in packets {
                    master.handle_packet(link, packet, facts, now_ms, out);
                }
            }),
            PeerEvent::LearnerClosed { link, reason } => {
                tracing::info!(link = link.0, %reason, "an observer's connection is gone");
                self.with_observers(|master, _, _, _| master.handle_closed(link));
                self.is_role_stale = true;
            }
            PeerEvent::SnapshotSent { link } => self.with_observers(|master, _, now_ms, _| {
                master.handle_snapshot_sent(link, now_ms);
            }),
            _ => {}
        }
    }

    /// Something of the observers may be due.
    pub(super) fn handle_observers_deadline(&mut self) {
        self.with_observers(|master, _, now_ms, out| master.handle_deadline(now_ms, out));
    }

    /// The leader has said that this is committed.
    pub(super) fn inform_observers(&mut self, record: &Record, designated_leader: Option<Sid>) {
        if matches!(&self.role, Role::Learning(learning) if learning.observers.is_some()) {
            self.with_observers(|master, _, _, out| {
                master.handle_committed(record, designated_leader, out);
            });
        }
    }

    /// The leader has answered an observer's `sync`.
    pub(super) fn answer_observers_sync(&mut self, to: LinkId) {
        self.with_observers(|master, _, _, out| master.handle_sync_done(to, out));
    }

    /// Whether the leader's word on a session was for an observer; it is passed on then.
    pub(super) fn answer_observers_question(&mut self, session: SessionId, is_valid: bool) -> bool {
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
            self.touch(&[touch]);
        }
        self.with_observers(|master, _, _, out| {
            master.handle_revalidated(to, session, is_valid, out);
        });
        true
    }

    fn with_observers(
        &mut self,
        handle: impl FnOnce(&mut ObserverMaster, &Facts<'_>, i64, &mut Vec<Action>),
    ) {
        let (Role::Learning(learning), Some(member)) = (&mut self.role, &self.member) else {
            return;
        };
        let Learning {
            observers: Some(observers),
            learner: Some(learner),
            ..
        } = &mut **learning
        else {
            return;
        };
        let keeper = &member.keeper;
        let seen = keeper.last_seen().unwrap_or(keeper.committed());
        let config = || Bytes::from(seen.node_data());
        let facts = Facts {
            committed: learner.committed(),
            config_version: keeper.committed().version.0,
            config: &config,
        };
        let mut actions = Vec::new();
        let now_ms = clock::session_ms();
        handle(&mut observers.master, &facts, now_ms, &mut actions);
        for action in actions {
            self.carry_out_observer_action(action);
        }
        let member = self.member.as_ref();
        if let Some(port) = member.and_then(|member| member.observer_port.as_ref()) {
            port.flush();
        }
    }

    fn carry_out_observer_action(&mut self, action: Action) {
        if matches!(action, Action::SendSnapshot { .. }) {
            self.apply_delivered();
        }
        let port = self
            .member
            .as_ref()
            .and_then(|member| member.observer_port.as_ref());
        let Some(port) = port else { return };
        match action {
            Action::Send { to, packet } => {
                self.is_role_stale |= matches!(packet, LeaderPacket::UpToDate);
                port.send(to, packet);
            }
            Action::SendSnapshot { to, zxid } => port.send_snapshot(to, zxid),
            Action::Close { link, fault } => {
                port.close(link, &fault);
                self.is_role_stale = true;
            }
            Action::Request { from, request } => self.relay_request(from, request),
            Action::Touch { sessions, .. } => self.touch(&sessions),
            Action::Revalidate { from, session } => self.relay_question(from, session),
            // A leader's alone.
            _ => {}
        }
    }

    /// The leader hears of them with the next answer to a PING.
    fn touch(&self, sessions: &[Touch]) {
        let now_ms = clock::session_ms();
        let mut tracker = self.shared.sessions.lock();
        for touch in sessions {
            tracker.touch(touch.session, touch.timeout_ms, now_ms);
        }
    }

    fn relay_request(&mut self, from: LinkId, request: LearnerRequest) {
        let Some(op) = request.op() else {
            return tracing::debug!(
                link = from.0,
                "an observer's request of an unknown type is dropped"
            );
        };
        if !decodes(op, &request.body) {
            let fault = LinkFault::UndecodableRequest;
            return self.with_observers(|master, _, _, out| {
                master.drop_observer(from, fault, out);
            });
        }
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let mut actions = Vec::new();
        let learner = learning.learner.as_mut();
        let is_sent = learner.is_some_and(|learner| learner.forward(request, &mut actions));
        if is_sent && op == OpCode::Sync {
            learning.syncs.push_back(SyncWaiter::Observer(from));
        }
        self.carry_out_learner(actions);
    }

    fn relay_question(&mut self, from: LinkId, session: Touch) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let Learning {
            observers: Some(observers),
            learner: Some(learner),
            ..
        } = &mut **learning
        else {
            return;
        };
        let mut actions = Vec::new();
        if learner.revalidate(session, &mut actions) {
            observers.revalidations.push_back((from, session));
        }
        self.carry_out_learner(actions);
    }
}

/// Whether a leader can read the request. An Apache leader that cannot stops for ever.
fn decodes(op: OpCode, body: &Bytes) -> bool {
    let mut input = Reader::new(body.clone());
    match op {
        OpCode::CreateSession => input.i32().is_ok(),
        OpCode::CloseSession | OpCode::Sync => true,
        op => Request::decode(op, &mut input).is_ok(),
    }
}
