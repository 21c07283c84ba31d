//! Checks of a simulation. They observe each step of each server and record violations of rules.

use host::AnswerOutcome;
use proto::{SessionId, Sid, Zxid};
use replica::{Applied, Effect, Input, Note};
use testkit::SimDisk;
use tree::Tree;

use crate::network::{Endpoint, Message};
use crate::queue::Micros;
use crate::server::Server;
use crate::settings::EnsembleSettings;
use crate::world::{Event, World};

/// Amounts of unfinished work and data that a server holds in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeldBack {
    /// Number of records that are not synced yet.
    pub unsynced: usize,
    /// Number of inputs that wait for the replica; 0 while the core is busy or being woken.
    pub inputs: usize,
    /// Number of packets and records that wait for a flush although no flush is scheduled.
    pub unflushed: usize,
    /// Number of unanswered requests from the clients of this server.
    pub requests: usize,
}

/// A snapshot of its own tree that a server has written.
#[derive(Debug, Clone, Copy)]
pub struct OwnSnapshot {
    /// Transaction in the snapshot's name.
    pub zxid: Zxid,
    /// Last transaction of which the snapshot may contain a part.
    pub covers: Zxid,
    /// Last transaction of the tree when the snapshot got its name.
    pub last: Zxid,
    /// Last transaction of the log on disk when the snapshot got its name.
    pub logged: Zxid,
}

/// Checks of a simulation. Every method reports a step, except [`StepChecks::blank`],
/// [`StepChecks::of_process`] and [`StepChecks::fail`].
pub trait StepChecks: Sized + 'static {
    /// Event that the owner of the simulation handles, for example the beginning of a fault.
    type OwnEvent;
    /// Checks of one process of a server.
    type OfProcess: ProcessChecks<Self>;

    /// Returns the checks of the blank world that a server holds while no world is lent to it.
    fn blank() -> Self;

    /// Creates the checks of a process. `end` is the last transaction in the server's log.
    fn of_process(server: usize, end: Zxid, settings: &EnsembleSettings) -> Self::OfProcess;

    /// Records the violation of a rule.
    fn fail(&mut self, rule: &'static str, text: String);

    /// Called when an event happens.
    fn event(&mut self, _now: Micros, _event: &Event<Self>) {}

    /// Called when a message arrives at the end of a connection.
    fn message(&mut self, _now: Micros, _connection: u64, _to: Endpoint, _message: &Message) {}

    /// Called when a server is about to start from this disk.
    fn starts(_world: &mut World<Self>, _server: usize, _disk: &SimDisk) {}

    /// Called when a server has started and has not executed anything yet.
    fn started(_world: &mut World<Self>, _server: &Server<Self>) {}

    /// Called when a server has completed a step.
    fn stepped(_world: &mut World<Self>, _server: usize) {}

    /// Called after each step of a server, with the amounts that the server holds in memory.
    fn holds_back(&mut self, _sid: Sid, _held_back: HeldBack) {}

    /// Called when a server has begun a snapshot that is named after `zxid`.
    fn begins_snapshot(&mut self, _sid: Sid, _zxid: Zxid) {}

    /// Called when a server has written a snapshot of its own tree.
    fn writes_snapshot(&mut self, _sid: Sid, _written: OwnSnapshot) {}
}

/// Checks of one process of a server. Each method reports a step of the process.
pub trait ProcessChecks<C: StepChecks> {
    /// Called when the replica is about to handle an input.
    fn input(&mut self, _input: &Input, _world: &mut World<C>) {}

    /// Called when the replica requests an effect, with the tree and the disk at that time.
    fn effect(&mut self, _effect: &Effect, _tree: &Tree, _disk: &SimDisk, _world: &mut World<C>) {}

    /// Called when the replica has applied a transaction, with the tree and the disk at that time.
    fn applied(
        &mut self,
        _applied: &Applied<'_>,
        _tree: &Tree,
        _disk: &SimDisk,
        _world: &mut World<C>,
    ) {
    }

    /// Called when everything up to `last` is committed on this server.
    fn established(&self, _last: Zxid, _world: &mut World<C>) {}

    /// Called when the replica reports a notable event.
    fn note(&self, _note: &Note<'_>, _world: &mut World<C>) {}

    /// Called when the server replies to a request in a session.
    fn answers(&self, _to: SessionId, _what: &AnswerOutcome, _tree: &Tree, _world: &mut World<C>) {}
}

/// No checks.
impl<C: StepChecks> ProcessChecks<C> for () {}
