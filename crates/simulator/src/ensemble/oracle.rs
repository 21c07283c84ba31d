//! The oracle (`oraclePath`) of an ensemble with two voters. It represents an operator, or a disk
//! that both voters share (docs/ENSEMBLES.md).
//!
//! The oracle names at most one server. It may name the other server only while both servers serve
//! in the same epoch with all committed data, or if it has named no server since this was last the
//! case. Java has the same requirement, because a server that continued alone has data that the
//! other one lacks.

use simulation::queue::MS;

use super::Ensemble;
use crate::simulated::{Event, World};

impl Ensemble {
    /// Makes the oracle name a random server or no server. Then usually separates the two voters,
    /// or cuts the power of a server.
    pub(super) fn turn_oracle(&mut self) {
        let random = &mut self.servers.world.random;
        let any = random.pick(&[Some(0), Some(1), None]).flatten();
        self.name(any);
        match self.servers.world.random.below(10) {
            0..=4 => self.part(),
            5..=6 => {
                let index = self.any_server();
                self.stop_one(index, true);
            }
            _ => {}
        }
    }

    /// Makes the oracle name the server `wanted`, or no server. If only the other server may be
    /// named, makes the oracle name that server instead of `wanted`.
    pub(crate) fn name(&mut self, wanted: Option<usize>) {
        if self.are_together() {
            self.entitled = None;
        }
        let named = wanted.map(|wanted| self.entitled.unwrap_or(wanted));
        self.servers.world.oracle = named;
        self.entitled = self.entitled.or(named);
        let named = named.map(|named| named + 1);
        self.servers
            .world
            .say("oracle", || format!("selects server {named:?}"));
    }

    /// Cuts the path between the two servers. Both servers notice the cut soon.
    pub(crate) fn part(&mut self) {
        self.servers.world.network.cut(0, 1);
        self.servers.world.network.cut(1, 0);
        for connection in self.servers.world.network.between_servers(true) {
            for end in 0..2 {
                let World { queue, random, .. } = &mut self.servers.world;
                let event = Event::Broken { connection, end };
                queue.after(random.range(0, 100 * MS), event);
            }
        }
    }

    /// Returns whether both servers serve in the same epoch and have all committed data.
    fn are_together(&self) -> bool {
        let end = self.servers.world.checks.history_end();
        let epoch_of = |index| {
            let process = self.process(index).filter(|process| process.is_serving())?;
            let candidate = process.replica.candidate()?;
            (candidate.zxid? >= end).then_some(candidate.peer_epoch)
        };
        let epochs = [epoch_of(0), epoch_of(1)];
        self.leader().is_some() && epochs[0].is_some() && epochs[0] == epochs[1]
    }
}
