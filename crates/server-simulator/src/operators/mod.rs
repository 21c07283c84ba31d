//! Operators and their programs, which use the interfaces of the members during a run.
//!
//! Each operator is a task with its own source address, so that a refusal of one operator cannot
//! affect another one.

mod capacity;
mod collector;
mod commands;
mod console;
mod figures;
mod history;
mod operator;
mod restore;
pub(crate) mod settings;
mod stranger;
mod wire;

use std::sync::Arc;

use testkit::Random;
use tokio::task::JoinSet;

use self::history::Changes;
use self::operator::Operator;
use self::settings::Caller;
use crate::world::World;

/// Running operators.
pub(crate) struct Operators {
    tasks: JoinSet<()>,
    changes: Arc<Changes>,
    /// Operator that checks the members at the end.
    last: Operator,
}

/// Starts the operators. They end after the clients.
pub(crate) fn begin(world: &Arc<World>, random: &mut Random) -> Operators {
    let mut tasks = JoinSet::new();
    let changes = Arc::<Changes>::default();
    let mut operator = |number| Operator::new(world.clone(), Random::new(random.any()), number);
    let settings = &world.settings.operators;
    tasks.spawn(commands::run(operator(1), &commands::HONEST));
    tasks.spawn(commands::run(operator(2), &[Caller::Stranger]));
    if settings.has_traces {
        tasks.spawn(collector::run(world.clone(), Random::new(random.any())));
    }
    let mut operator = |number| Operator::new(world.clone(), Random::new(random.any()), number);
    tasks.spawn(figures::run(operator(3)));
    tasks.spawn(stranger::run(operator(4)));
    if world.settings.is_standalone {
        tasks.spawn(restore::run(operator(5)));
    }
    if settings.has_console {
        for number in 0..2 {
            tasks.spawn(console::run(operator(30 + number), number));
        }
    }
    if settings.has_history {
        for number in 0..3 {
            tasks.spawn(history::follow(operator(10 + number), changes.clone()));
        }
        tasks.spawn(history::run(operator(20), changes.clone()));
    }
    Operators {
        tasks,
        changes,
        last: operator(100),
    }
}

impl Operators {
    /// Restores a snapshot, after all other checks.
    pub(crate) async fn restore(&self, world: &World) {
        if world.settings.is_standalone && world.found().is_none() {
            restore::at_end(&self.last).await;
        }
    }

    /// Waits until the operators have ended.
    pub(crate) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Returns the number of changes that feeds have delivered.
    pub(crate) fn delivered(&self) -> usize {
        self.changes.delivered()
    }

    /// Checks the members after the faults.
    pub(crate) async fn at_end(&mut self, world: &World) {
        if world.settings.operators.has_history {
            history::histories(&mut self.last, &self.changes).await;
        }
        if world.found().is_none() {
            capacity::check(&mut self.last).await;
        }
    }
}
