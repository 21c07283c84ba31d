//! What a replica needs of its host.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use proto::Zxid;
use tree::{Generation, Tree, Watches};
use zab::Record;

use crate::effect::{Applied, DiskOrder, Effect, Synchronised};
use crate::input::Ticket;
use crate::note::Note;
use crate::sessions::Sessions;

/// The tree and what belongs to it. Connections read it as well, so it is the host's to guard.
///
/// Locks, where there are any, are taken in this order: tree, then watches or sessions.
pub trait State {
    /// Holds the tree together with readers.
    fn tree(&self) -> impl Deref<Target = Tree>;

    /// Holds the tree alone.
    fn tree_mut(&self) -> impl DerefMut<Target = Tree>;

    /// Puts another tree in its place, in a generation that is not established. Snapshots of the earlier
    /// tree are given up.
    fn replace_tree(&self, tree: Tree);

    /// Returns the generation of the tree, while the caller holds the tree. A snapshot that began in an
    /// earlier generation must not be finished.
    fn generation(&self) -> Generation;

    /// Begins a generation that is not established. The replica calls it before the tree holds anything
    /// that may be cut off again.
    fn begin_unestablished(&self);

    /// Notes that everything in the tree is committed.
    fn establish(&self);

    /// The watches.
    fn watches(&self) -> impl DerefMut<Target = Watches>;

    /// The table of sessions.
    fn sessions(&self) -> impl DerefMut<Target = Sessions>;
}

/// Carries out what a replica decides.
pub trait Host {
    /// The tree and what belongs to it.
    type State: State;

    /// Carries this out, or has it carried out; never waits.
    fn effect(&mut self, effect: Effect);

    /// Appends this transaction to the log: [`Effect::Append`], for a host that copies it to where it
    /// gathers transactions for the disk and needs no record.
    fn append(&mut self, zxid: Zxid, txn: &[u8]) {
        let txn = Bytes::copy_from_slice(txn);
        self.effect(Effect::Append(Record::new(zxid, txn)));
    }

    /// A transaction that this connection has asked for is about to be applied. What it asked
    /// before must be answered without it. The tree is held alone.
    fn applying(&mut self, _tree: &Tree, _origin: Ticket) {}

    /// A transaction was applied: events go to the outboxes of watchers, then the reply to the one
    /// who asked, then the answers of reads that waited behind it. The tree is held alone.
    fn applied(&mut self, tree: &Tree, applied: Applied<'_>);

    /// The epoch of this server's role is established, and so is its tree ([`State::establish`]): what its
    /// files hold up to here is committed, also what it was not told of by [`Host::applied`].
    fn established(&mut self, last: Zxid);

    /// The oldest `sync` of this connection is answered, from this tree.
    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket);

    /// The tree was let go after some calls of [`Host::applied`] or [`Host::answer_sync`]: whoever
    /// got something can be woken.
    fn tree_released(&mut self) {}

    /// Something worth counting.
    fn note(&mut self, note: Note<'_>);
}

/// The time of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Of a clock that never goes back, ms.
    pub ms: i64,
    /// Since 1970, ms; goes where an administrator sets it.
    pub wall_ms: i64,
}

/// What the replica is lent while it handles one input.
pub struct Turn<'a, H: Host> {
    /// When.
    pub now: Now,
    /// The tree and what belongs to it.
    pub state: &'a H::State,
    /// Carries out what follows.
    pub host: &'a mut H,
}

impl<H: Host> Turn<'_, H> {
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.host.effect(effect);
    }

    pub(crate) fn disk(&mut self, order: DiskOrder) {
        self.effect(Effect::Disk(order));
    }

    /// The tree, which ends at `last`, becomes this server's history.
    pub(crate) fn take_over(&mut self, attempt: u64, last: Zxid) {
        let generation = self.state.generation();
        let of = Synchronised {
            attempt,
            generation,
        };
        self.disk(DiskOrder::TakeOver { last, of });
    }

    /// Everything in the tree, which ends at `last`, is committed.
    pub(crate) fn establish(&mut self, last: Zxid) {
        self.state.establish();
        self.host.established(last);
    }

    pub(crate) fn note(&mut self, note: Note<'_>) {
        self.host.note(note);
    }
}
