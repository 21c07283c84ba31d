//! Types of the simulation, with the checks of this crate.

use simulation::world::HeldWork;

use crate::checks::Checks;

pub(crate) type World = simulation::world::World<Checks>;
pub(crate) type Server = simulation::server::Server<Checks>;
pub(crate) type Event = simulation::world::Event<Checks>;

/// Event of clients, recipes or faults.
#[derive(Debug)]
pub(crate) enum OwnEvent {
    /// A client checks its deadlines.
    ClientWake { client: usize },
    /// The clock of a process with a recipe advances.
    Contend { number: usize },
    /// A fault begins or ends.
    Weather,
    /// All servers look for a leader again.
    AllLookAgain,
    /// A server no longer holds back this work.
    Release { server: usize, work: HeldWork },
}
