//! Budgets of a connection, and numbers of the watches and ephemerals that it holds.

use std::collections::HashSet;
use std::sync::Arc;

use admission::{Budgets, ConnectionBudgets, Ledger, Share};
use replica::Ticket;
use replica::connection::ResourceCounts;

use crate::clock;
use crate::connection::{Connection, Registry};
use crate::requests::answer::{AnswerContext, LockedConnection};
use crate::requests::batch::Batch;

/// Returns the shares of a connection. They are recomputed only when its identities change.
pub(crate) fn shares_of(budgets: &Budgets, connection: &Connection) -> Arc<[Arc<Share>]> {
    let mut state = connection.lock();
    let identities = &state.client.identities;
    if let Some(connection_budgets) = state
        .connection_budgets
        .as_ref()
        .filter(|it| it.is_valid_for(identities))
    {
        return connection_budgets.shares();
    }
    let identities = identities.clone();
    let address = connection.peer.ip().to_canonical();
    if let Some(connection_budgets) = state.connection_budgets.take() {
        connection_budgets.leave();
    }
    let shares = budgets.find(address, &identities, clock::monotonic_ms());
    let connection_budgets = ConnectionBudgets::begin(connection.id, identities, shares.clone());
    state.connection_budgets = Some(Box::new(connection_budgets));
    shares
}

/// Refreshes the counts of a connection's shares if its batch may add watches or ephemerals and the
/// last count is old. No locks may be held.
pub(crate) fn count_if_due(
    answers: &AnswerContext,
    registry: &Registry,
    ledger: &Ledger,
    connection: &Connection,
    batch: &Batch,
) {
    let mut kinds = batch.requests.iter().map(|request| &request.kind);
    if !ledger.bounds_resources() || !kinds.any(ResourceCounts::may_grow_by) {
        return;
    }
    let shares = connection
        .lock()
        .connection_budgets
        .as_ref()
        .map(|of| of.shares());
    for share in shares.iter().flat_map(|shares| shares.iter()) {
        count(answers, registry, share);
    }
}

fn count(answers: &AnswerContext, registry: &Registry, share: &Share) {
    let now_ms = clock::monotonic_ms();
    let Some(ids) = share.connections_to_count(now_ms) else {
        return;
    };
    let mut connected = HashSet::new();
    for id in ids {
        let Some(connection) = registry.of(Ticket(id.0)) else {
            share.note_resources(id, None);
            continue;
        };
        note_resources_of(answers, &connection, share);
        connected.insert(connection.session());
    }
    let disconnected = share.disconnected(&connected, now_ms).into_iter();
    let tree = answers.state.tree.read();
    let ephemerals = disconnected
        .map(|session| tree.ephemeral_count(session))
        .sum();
    drop(tree);
    share.note_disconnected(ephemerals);
}

fn note_resources_of(answers: &AnswerContext, connection: &Connection, share: &Share) {
    let served = LockedConnection {
        answers,
        connection,
        now_ms: 0,
    };
    let tree = answers.state.tree.read();
    let state = connection.lock();
    let held = ResourceCounts::of(&state.client, &served.responder(&tree));
    share.note_resources(connection.id, Some(held));
}
