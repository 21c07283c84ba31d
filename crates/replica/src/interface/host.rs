//! Interfaces between a replica and its host.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use proto::Zxid;
use tree::{Generation, Tree, Watches};
use zab::Record;

use super::effect::{Applied, DiskOrder, Effect, Synchronised};
use super::input::Ticket;
use super::note::Note;
use crate::session::Sessions;

/// Tree, watches and sessions. Connections also read them, so the host guards them.
///
/// If they are guarded by locks, the order is: tree, then watches or sessions.
pub trait State {
    /// Locks the tree, shared with readers.
    fn tree(&self) -> impl Deref<Target = Tree>;

    /// Locks the tree exclusively.
    fn tree_mut(&self) -> impl DerefMut<Target = Tree>;

    /// Replaces the tree and begins a generation that is not established. Snapshots of the earlier
    /// tree are abandoned.
    fn replace_tree(&self, tree: Tree);

    /// Returns the generation of the current tree. A snapshot that began in an earlier generation
    /// must not be completed.
    fn generation(&self) -> Generation;

    /// Begins a generation that is not established. The replica calls it before the tree contains
    /// anything that may be cut.
    fn begin_unestablished(&self);

    /// Marks everything in the tree as committed.
    fn establish(&self);

    /// Returns the watches.
    fn watches(&self) -> impl DerefMut<Target = Watches>;

    /// Returns the table of sessions.
    fn sessions(&self) -> impl DerefMut<Target = Sessions>;
}

/// Environment that executes the decisions of a replica.
pub trait Host {
    /// Tree, watches and sessions of this host.
    type State: State;

    /// Executes or starts an effect. Never blocks.
    fn effect(&mut self, effect: Effect);

    /// Appends a transaction to the log, like [`Effect::Append`]. A host overrides this method if
    /// it copies the record into a buffer for the disk and need not own the record.
    fn append(&mut self, zxid: Zxid, txn: &[u8]) {
        let txn = Bytes::copy_from_slice(txn);
        self.effect(Effect::Append(Record::new(zxid, txn)));
    }

    /// Called before a transaction of this connection is applied. Earlier requests of the
    /// connection must be answered from the tree without the transaction. The tree is held
    /// exclusively.
    fn applying(&mut self, _tree: &Tree, _origin: Ticket) {}

    /// Called after a transaction has been applied. Events go to the outboxes of watchers, then the
    /// reply to the client, then the answers to reads that waited for the transaction. The tree is
    /// held exclusively.
    fn applied(&mut self, tree: &Tree, applied: Applied<'_>);

    /// Called when the epoch of this server's role has been established, after
    /// [`State::establish`]. Everything in the server's files up to `last` is committed, including
    /// records that [`Host::applied`] did not report.
    fn established(&mut self, last: Zxid);

    /// Called to answer the oldest `sync` of a connection from this tree.
    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket);

    /// Called when the tree has been released after calls to [`Host::applied`] or
    /// [`Host::answer_sync`]. The host can wake the connections that received output.
    fn tree_released(&mut self) {}

    /// Reports an event for metrics.
    fn note(&mut self, note: Note<'_>);
}

/// Times of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time, ms.
    pub ms: i64,
    /// Wall-clock time since 1970, ms. An administrator may change the clock.
    pub wall_ms: i64,
}

/// Values that the replica borrows while it handles one input.
pub struct Turn<'a, H: Host> {
    /// Times of the turn.
    pub now: Now,
    /// Tree, watches and sessions.
    pub state: &'a H::State,
    /// Host that executes the effects.
    pub host: &'a mut H,
}

impl<H: Host> Turn<'_, H> {
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.host.effect(effect);
    }

    pub(crate) fn disk(&mut self, order: DiskOrder) {
        self.effect(Effect::Disk(order));
    }

    /// Makes the tree this server's durable state. `last` is the last transaction in the tree.
    pub(crate) fn take_over(&mut self, attempt: u64, last: Zxid) {
        let generation = self.state.generation();
        let of = Synchronised {
            attempt,
            generation,
        };
        self.disk(DiskOrder::TakeOver { last, of });
    }

    /// Reports that everything in the tree, up to `last`, is committed.
    pub(crate) fn establish(&mut self, last: Zxid) {
        self.state.establish();
        self.host.established(last);
    }

    pub(crate) fn note(&mut self, note: Note<'_>) {
        self.host.note(note);
    }
}
