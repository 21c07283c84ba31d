//! When the core of a simulated server runs: after anything that happened, and at its deadlines.

use replica::{Replica, Turn};

use crate::queue::Event;
use crate::server::{Server, SimHost};

impl Server {
    pub(crate) fn turn(
        &mut self,
        step: impl FnOnce(&mut Replica<SimHost>, &mut Turn<'_, SimHost>),
    ) {
        let Self { replica, host, .. } = self;
        let (now, state) = (
            host.world.clocks_of(host.process.server),
            &*host.state.clone(),
        );
        step(replica, &mut Turn { now, state, host });
    }

    /// A deadline may have come.
    pub(crate) fn handle_wake(&mut self) {
        self.wake_at = None;
        let now_ms = self.host.world.now_ms();
        if self.replica.deadline_ms().is_some_and(|at| at <= now_ms) {
            self.turn(|replica, turn| replica.handle_deadline(turn));
        }
    }

    /// After anything that happened: what the replica is told of it, and when to wake up.
    pub(crate) fn settle(&mut self) {
        while self.host.ended.is_none()
            && let Some(input) = self.host.inputs.pop_front()
        {
            self.turn(|replica, turn| replica.handle(input, turn));
        }
        if self.host.ended.is_none() {
            self.host.flush_clients();
        }
        self.host.show_held_back();
        // Never twice at one moment: what is due and not done now is done a little later.
        let soonest = self.host.world.now() + 1000;
        let at_deadline = |ms: i64| ms.saturating_mul(1000).max(soonest);
        let at = self.replica.deadline_ms().map(at_deadline);
        if let Some(at) = at.filter(|at| self.wake_at.is_none_or(|before| *at < before)) {
            self.wake_at = Some(at);
            let process = self.host.process;
            self.host.world.queue.at(at, Event::Wake { process });
        }
    }
}
