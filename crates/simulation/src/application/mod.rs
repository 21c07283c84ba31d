//! Processes with the shipped client, on simulated sockets and time.

mod environment;
mod error;
mod faults;
mod plan;
mod process;
mod simulation;
mod sockets;
mod steps;

pub use environment::Environment;
pub use error::SimulationError;
pub use plan::{Fault, Plan, Target};
pub use process::Process;
pub use simulation::Simulation;
pub use sockets::{Sockets, name_of};

use crate::checks::StepChecks;
use crate::network::{DialAttempts, Endpoint, Message, Port};
use crate::world::World;
use sockets::SocketRequest;

/// Executes the network requests of a process.
pub fn carry_out<C: StepChecks>(sockets: &Sockets, place: Endpoint, world: &mut World<C>) {
    for wanted in sockets.take_wanted() {
        match wanted {
            SocketRequest::Dial { socket, server } => {
                let connection = world.dial(place, Port::Client, server, DialAttempts::Once);
                sockets.dialling(socket, connection);
            }
            SocketRequest::Send { connection, frame } => {
                world.send(place, connection, Message::ToServer(frame));
            }
            SocketRequest::Close { connection } => world.close(place, connection),
        }
    }
}
