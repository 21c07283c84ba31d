//! Operators and their programs, which use the interfaces of the members during a run.
//!
//! Each operator is a task with its own source address, so that a refusal of one operator cannot
//! affect another one.

mod commands;
mod dashboard;
mod http;
mod operator;
mod settings;

use std::sync::Arc;

use testkit::Random;
use tokio::task::JoinSet;

use self::operator::Operator;
pub(crate) use self::settings::Settings;
use crate::world::World;

/// Starts the operators. They end after the clients.
pub(crate) fn begin(world: &Arc<World>, random: &mut Random) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let mut operator = |number| Operator::new(world.clone(), Random::new(random.any()), number);
    tasks.spawn(dashboard::run(operator(1)));
    tasks
}
