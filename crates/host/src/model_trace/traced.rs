//! A host whose replica is observed.

use std::ops::{Deref, DerefMut};

use proto::Zxid;
use replica::{Applied, Effect, Host, Input, Note, State as _, Ticket};
use tree::Tree;

use super::ReplicaTrace;

/// Host that adds the steps of its replica to a trace, if there is one, before it executes them.
#[derive(Debug)]
pub struct Traced<H> {
    host: H,
    trace: Option<Box<ReplicaTrace>>,
}

impl<H> Traced<H> {
    /// Creates an observed host.
    pub fn new(host: H, trace: Option<Box<ReplicaTrace>>) -> Self {
        Self { host, trace }
    }

    /// Adds an input. Called before the replica handles it.
    pub fn note_input(&mut self, input: &Input, state: &H::State)
    where
        H: Host,
    {
        if let Some(trace) = &mut self.trace {
            trace.input(input, state.tree().last_zxid());
        }
    }
}

impl<H> Deref for Traced<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.host
    }
}

impl<H> DerefMut for Traced<H> {
    fn deref_mut(&mut self) -> &mut H {
        &mut self.host
    }
}

impl<H: Host> Host for Traced<H> {
    type State = H::State;

    fn effect(&mut self, effect: Effect) {
        if let Some(trace) = &mut self.trace {
            trace.effect(&effect);
        }
        self.host.effect(effect);
    }

    fn append(&mut self, zxid: Zxid, txn: &[u8]) {
        if let Some(trace) = &mut self.trace {
            trace.append(zxid, txn);
        }
        self.host.append(zxid, txn);
    }

    fn applying(&mut self, tree: &Tree, origin: Ticket) {
        self.host.applying(tree, origin);
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.applied(applied.record, applied.is_committed);
        }
        self.host.applied(tree, applied);
    }

    fn established(&mut self, last: Zxid) {
        self.host.established(last);
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        self.host.answer_sync(tree, ticket);
    }

    fn tree_released(&mut self) {
        self.host.tree_released();
    }

    fn note(&mut self, note: Note<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.note(&note);
        }
        self.host.note(note);
    }
}
