//! Budgets of a connection, and numbers of the watches and ephemerals that it holds.

use std::collections::HashSet;
use std::sync::Arc;

use admission::{Budgets, Obeyed, Share};
use replica::Ticket;
use replica::connection::Holding;

use crate::clients::Clients;
use crate::clock;
use crate::connection::Connection;
use crate::requests::answer::Served;
use crate::requests::batch::Batch;

/// Returns the shares of a connection. They are recomputed only when its identities change.
pub(crate) fn shares_of(budgets: &Budgets, connection: &Connection) -> Arc<[Arc<Share>]> {
    let mut state = connection.lock();
    let identities = &state.client.identities;
    if let Some(obeyed) = state.obeyed.as_ref().filter(|it| it.holds_for(identities)) {
        return obeyed.shares();
    }
    let identities = identities.clone();
    let address = connection.peer.ip().to_canonical();
    if let Some(obeyed) = state.obeyed.take() {
        obeyed.leave();
    }
    let shares = budgets.find(address, &identities, clock::monotonic_ms());
    let obeyed = Obeyed::begin(connection.id, identities, shares.clone());
    state.obeyed = Some(Box::new(obeyed));
    shares
}

/// Refreshes the counts of a connection's shares if its batch may add watches or ephemerals and the
/// last count is old. No locks may be held.
pub(crate) fn count_if_due(clients: &Clients, connection: &Connection, batch: &Batch) {
    let mut kinds = batch.requests.iter().map(|request| &request.kind);
    if !clients.ledger.bounds_holding() || !kinds.any(Holding::may_grow_by) {
        return;
    }
    let shares = connection.lock().obeyed.as_ref().map(|of| of.shares());
    for share in shares.iter().flat_map(|shares| shares.iter()) {
        count(clients, share);
    }
}

fn count(clients: &Clients, share: &Share) {
    let now_ms = clock::monotonic_ms();
    let Some(ids) = share.connections_to_count(now_ms) else {
        return;
    };
    let mut connected = HashSet::new();
    for id in ids {
        let found = clients.registry.of(Ticket(id.0)).map(|connection| {
            let holding = holding_of(clients, &connection);
            connected.insert(connection.session());
            holding
        });
        share.note_holding(id, found);
    }
    let departed = share.departed(&connected, now_ms).into_iter();
    let tree = clients.state.tree.read();
    let ephemerals = departed.map(|session| tree.ephemeral_count(session)).sum();
    drop(tree);
    share.note_departed(ephemerals);
}

fn holding_of(clients: &Clients, connection: &Connection) -> Holding {
    let served = Served {
        clients,
        connection,
        now_ms: 0,
    };
    let tree = clients.state.tree.read();
    let state = connection.lock();
    Holding::of(&state.client, &served.responder(&tree))
}
