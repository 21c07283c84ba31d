//! The oracle of two voters, and who has its word: what an operator, or a disk that both share, answers
//! for (docs/ENSEMBLES.md).
//!
//! It names one server at most. Another one than before is named while both are together, with all that
//! is committed on both disks, or when nobody could go on alone since they were. Java asks for the same:
//! whoever went on alone has what the other one lacks.

use super::Ensemble;
use crate::plan::MS;
use crate::world::World;

/// Whom the oracle names.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) named: Option<usize>,
    /// Who was named since both were together: nobody else may be.
    entitled: Option<usize>,
}

impl Ensemble {
    /// The oracle names somebody else, or nobody. Mostly there is a reason: the two are about to part.
    pub(super) fn turn_oracle(&mut self) {
        let random = &mut self.world.random;
        let any = random.pick(&[Some(0), Some(1), None]).flatten();
        self.name(any);
        match self.world.random.below(10) {
            0..=4 => self.part(),
            5..=6 => {
                let index = self.any_server();
                self.stop_one(index, true);
            }
            _ => {}
        }
    }

    /// The oracle names this one, or who alone may be, or nobody.
    pub(crate) fn name(&mut self, wanted: Option<usize>) {
        if self.are_together() {
            self.world.oracle.entitled = None;
        }
        let oracle = &mut self.world.oracle;
        oracle.named = wanted.map(|wanted| oracle.entitled.unwrap_or(wanted));
        oracle.entitled = oracle.entitled.or(oracle.named);
        let named = oracle.named.map(|named| named + 1);
        self.world
            .say("oracle", || format!("names server {named:?}"));
    }

    /// The path between the two is cut, and they hear of it soon.
    pub(crate) fn part(&mut self) {
        self.world.network.cut(0, 1);
        self.world.network.cut(1, 0);
        for connection in self.world.network.between_servers(true) {
            for end in 0..2 {
                let World { queue, random, .. } = &mut self.world;
                let event = crate::queue::Event::Broken { connection, end };
                queue.after(random.range(0, 100 * MS), event);
            }
        }
    }

    /// Whether both serve in one epoch and have all that is committed.
    fn are_together(&self) -> bool {
        let end = self.world.checks.history_end();
        let epoch_of = |index| {
            let process = self.process(index).filter(|process| process.is_serving())?;
            let candidate = process.replica.candidate()?;
            (candidate.zxid? >= end).then_some(candidate.peer_epoch)
        };
        let epochs = [epoch_of(0), epoch_of(1)];
        self.leader().is_some() && epochs[0].is_some() && epochs[0] == epochs[1]
    }
}
