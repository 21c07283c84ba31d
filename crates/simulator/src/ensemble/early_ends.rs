//! Leaders that end before their epoch is established.
//!
//! Random faults hardly ever cause this sequence of events: a leader logs a write that no other
//! server has, is elected again, and stops after a learner has applied the write. The next leader
//! lacks the write.

use host::SnapshotReason;
use replica::RoleView;
use simulation::queue::{MS, SECOND};

use super::Ensemble;
use crate::simulated::{Event, OwnEvent, Server, World};

impl Ensemble {
    /// Isolates the leader for a moment, so that only the leader logs the writes of its clients.
    pub(super) fn leave_leader_alone(&mut self) {
        let Some(leader) = self.leader() else {
            return;
        };
        self.servers.world.say("network", || {
            format!("server {} is disconnected from all others", leader + 1)
        });
        for other in (0..self.servers.machines.len()).filter(|other| *other != leader) {
            self.servers.world.network.cut(leader, other);
            self.servers.world.network.cut(other, leader);
        }
        let delay = self.servers.world.random.range(20 * MS, 300 * MS);
        self.servers
            .world
            .queue
            .after(delay, Event::Own(OwnEvent::AllLookAgain));
    }

    /// Makes all servers look for a leader at the same time, by restarting them or by breaking all
    /// connections.
    pub(super) fn all_look_again(&mut self) {
        if self.servers.world.is_healed {
            return;
        }
        let World { network, queue, .. } = &mut self.servers.world;
        network.heal(queue);
        if self.servers.world.random.percent(50) {
            for index in 0..self.servers.machines.len() {
                self.kill(index);
                let delay = self.servers.world.random.range(10 * MS, 200 * MS);
                let event = Event::Start { server: index };
                self.servers.world.queue.after(delay, event);
            }
            return;
        }
        for connection in self.servers.world.network.between_servers(false) {
            for end in 0..2 {
                let event = Event::Broken { connection, end };
                self.servers.world.queue.after(0, event);
            }
        }
    }

    /// Handles a learner that has applied a write before its leader was established. May stop the
    /// leader long enough for the others to elect another leader, and may then also isolate the
    /// learner.
    pub(super) fn strike_early(&mut self, learner: usize) {
        let plan = &self.servers.world.checks.plan;
        if !plan.ends_early
            || self.servers.world.is_healed
            || !self.servers.world.random.percent(40)
        {
            return;
        }
        let is_about_to_lead = |server: &Server| {
            let view = server.replica.view();
            let leads = view.is_some_and(|view| matches!(view.role, RoleView::Leading { .. }));
            leads && !server.is_serving()
        };
        let mut servers = 0..self.servers.machines.len();
        let leader = servers.find(|index| self.process(*index).is_some_and(is_about_to_lead));
        let Some(leader) = leader else {
            return;
        };
        if self.servers.world.random.percent(50) {
            self.lose_power(leader);
        } else {
            self.kill(leader);
        }
        let delay = self.servers.world.random.range(2 * SECOND, 6 * SECOND);
        let event = Event::Start { server: leader };
        self.servers.world.queue.after(delay, event);
        if self.servers.world.random.percent(50) {
            for other in (0..self.servers.machines.len()).filter(|other| *other != learner) {
                self.servers.world.network.cut(learner, other);
                self.servers.world.network.cut(other, learner);
            }
        }
    }

    /// Requests a snapshot of a random server, as an operator would.
    pub(super) fn ask_for_snapshot(&mut self) {
        let index = self.any_server();
        if let Some(process) = self.process(index).map(|server| server.host.process) {
            self.with(process, |server| {
                server.host.request_snapshot(SnapshotReason::Operator);
            });
        }
    }
}
