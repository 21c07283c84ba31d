//! The checks of a simulation. They see each step of each server, and can end the run.

use host::Answered;
use proto::{SessionId, Sid, Zxid};
use replica::{Applied, Effect, Note};
use testkit::SimDisk;
use tree::Tree;

use crate::network::{Endpoint, Message};
use crate::queue::Micros;
use crate::server::Server;
use crate::settings::EnsembleSettings;
use crate::world::{Event, World};

/// Amounts of data that a server holds in memory for peers, or for its disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeldBack {
    /// Records that are not synced yet.
    pub unsynced: usize,
    /// Pending inputs of the replica.
    pub inputs: usize,
    /// Packets and records that wait for a flush although no flush is scheduled.
    pub unflushed: usize,
    /// Requests of the clients of this server without a reply.
    pub requests: usize,
}

/// Checks of a simulation. Every method except [`StepChecks::blank`] and [`StepChecks::fail`]
/// reports a step.
pub trait StepChecks: Sized + 'static {
    /// Event of the owner of the simulation, for example the beginning of a fault.
    type OwnEvent;
    /// Checks of one process of a server.
    type OfProcess: ProcessChecks<Self>;

    /// Returns the value that a server holds while no world is lent to it.
    fn blank() -> Self;

    /// Returns the checks of a process. The server's tree ends at `end`.
    fn of_process(server: usize, end: Zxid, settings: &EnsembleSettings) -> Self::OfProcess;

    /// Records the violation of a rule.
    fn fail(&mut self, rule: &'static str, text: String);

    /// An event happens.
    fn event(&mut self, _now: Micros, _event: &Event<Self>) {}

    /// A message arrives at the end of a connection.
    fn message(&mut self, _now: Micros, _connection: u64, _to: Endpoint, _message: &Message) {}

    /// A server is about to start from this disk.
    fn starts(_world: &mut World<Self>, _server: usize, _disk: &SimDisk) {}

    /// A server has started, and has not executed anything yet.
    fn started(_world: &mut World<Self>, _server: &Server<Self>) {}

    /// A server has completed a step.
    fn stepped(_world: &mut World<Self>, _server: usize) {}

    /// A server holds back this data after a turn.
    fn holds_back(&mut self, _sid: Sid, _held_back: HeldBack) {}

    /// A server has written a snapshot that is named after `zxid`. Its tree ends at `last`.
    fn writes_snapshot(&mut self, _sid: Sid, _zxid: Zxid, _last: Zxid) {}
}

/// Checks of one process of a server, which report its steps to the world.
pub trait ProcessChecks<C: StepChecks> {
    /// The replica requests an effect, with the current state of the disk.
    fn effect(&mut self, _effect: &Effect, _tree: &Tree, _disk: &SimDisk, _world: &mut World<C>) {}

    /// The replica has applied a transaction, with the current state of the disk.
    fn applied(
        &mut self,
        _applied: &Applied<'_>,
        _tree: &Tree,
        _disk: &SimDisk,
        _world: &mut World<C>,
    ) {
    }

    /// Everything up to `last` is committed on this server.
    fn established(&self, _last: Zxid, _world: &mut World<C>) {}

    /// The replica reports a notable event.
    fn note(&self, _note: &Note<'_>, _world: &mut World<C>) {}

    /// The server replies to a request of a session.
    fn answers(&self, _to: SessionId, _what: &Answered, _tree: &Tree, _world: &mut World<C>) {}
}

/// No checks.
impl<C: StepChecks> ProcessChecks<C> for () {}
