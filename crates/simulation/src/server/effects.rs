//! Effects of the replica, which are first reported to the checks and then executed.

use host::{
    DeliveryHost as _, LogGroup, PendingAnswer, ServerState, answer_renewal, answer_sync, deliver,
};
use proto::Zxid;
use replica::{Applied, Effect, Host, Note, Service, State as _, Ticket};
use tree::Tree;

use super::{Server, SimHost};
use crate::checks::{HeldBack, ProcessChecks as _, StepChecks};
use crate::configured::sid_of;

impl<C: StepChecks> Server<C> {
    /// Returns whether the server serves clients.
    pub fn is_serving(&self) -> bool {
        self.host.clients.service() != Service::None
    }

    /// Returns whether the server serves clients as the leader.
    pub fn is_leading(&self) -> bool {
        self.host.clients.service() == Service::Deciding
    }
}

impl<C: StepChecks> SimHost<C> {
    /// Reports an effect of the replica to the checks.
    fn show_effect(&mut self, effect: &Effect) {
        let (tree, disk) = (self.state.tree(), self.disk.history.disk());
        self.observed.effect(effect, &tree, disk, &mut self.world);
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Append(record) => {
                let group = &mut self.disk.queue.group;
                group.push(record.zxid, &record.txn, || 0);
            }
            Effect::Flush => {
                if self.flushes_now() {
                    self.flush_packets();
                    self.offer_group();
                }
            }
            Effect::Disk(order) => {
                self.disk.queue.order(order, LogGroup::default);
                self.start_order();
            }
            Effect::Listen { port, .. } => {
                self.members.listens.insert(port);
            }
            Effect::StopListening { port, hands_over } => self.stop_listening(port, hands_over),
            Effect::Send { to, packet, .. } => self.core.stage(to.0, packet.into()),
            Effect::SendSnapshot { to, zxid, .. } => self.send_snapshot(to.0, zxid),
            Effect::ReadLog { to, from, upto } => self.read_log(to, from, upto),
            Effect::CloseLink { link, .. } => self.drop_link(link.0),
            Effect::Dial {
                attempt,
                addresses,
                pause_ms,
            } => self.dial(attempt, &addresses, pause_ms),
            Effect::SendToLeader(packet) => self.core.stage(self.members.leader, packet.into()),
            Effect::ReceiveSnapshot => self.receive_snapshot(),
            Effect::HangUp => self.drop_link(self.members.leader),
            Effect::Election(effect) => self.elect(effect),
            Effect::QueryOracle => self.world.query_oracle(self.process),
            Effect::Serve(service) => self.clients.serve(service),
            Effect::StopServing => self.clients.stop_serving(),
            Effect::CloseClient(ticket) => self.clients.close(ticket),
            Effect::CloseSession(session) => self.clients.close_session(session),
            Effect::Renewed { renewal, is_valid } => {
                answer_renewal(&self.clients, &renewal, is_valid);
            }
            Effect::Stop => {
                let reason = "the server's data differs from the data of other servers";
                self.ended = Some(reason.to_owned());
            }
            // A simulated server works without request permits, TLS and operators.
            Effect::Release { .. } | Effect::SetMemberHosts(_) | Effect::Show(_) => {}
        }
    }

    /// Reports the data that the server holds back after a turn.
    pub(super) fn show_held_back(&mut self) {
        let held_back = HeldBack {
            unsynced: self.disk.unsynced(),
            // Inputs that wait for a busy or sleeping thread are not counted.
            inputs: if self.ended.is_some() || self.core.is_away() {
                0
            } else {
                self.inputs.len()
            },
            unflushed: match self.ended {
                Some(_) => 0,
                None => self.unflushed(),
            },
            requests: {
                let clients = self.clients.all();
                let states = clients.iter().map(|client| client.lock());
                let of = states.map(|state| state.client.waiting() + state.own.incoming.len());
                of.sum()
            },
        };
        let sid = sid_of(self.process.server);
        self.world.checks.holds_back(sid, held_back);
    }
}

impl<C: StepChecks> Host for SimHost<C> {
    type State = ServerState;

    fn effect(&mut self, effect: Effect) {
        if self.ended.is_none() {
            self.show_effect(&effect);
            if effect.follows_packets() {
                self.flush_packets();
            }
            self.execute(effect);
        }
    }

    fn applying(&mut self, tree: &Tree, origin: Ticket) {
        if let Some(connection) = self.clients.of(origin) {
            self.answer(tree, &connection, PendingAnswer::Deferred);
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        let disk = self.disk.history.disk();
        self.observed.applied(&applied, tree, disk, &mut self.world);
        let origin = applied.origin.and_then(|origin| self.clients.of(origin));
        deliver(self, &mut Vec::new(), tree, applied, origin.as_ref());
    }

    fn established(&mut self, last: Zxid) {
        self.observed.established(last, &mut self.world);
        self.resume_snapshot();
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        if let Some(connection) = self.clients.of(ticket) {
            answer_sync(self, tree, &connection);
        }
    }

    fn note(&mut self, note: Note<'_>) {
        self.observed.note(&note, &mut self.world);
    }
}
