//! Registration and removal of connections.

use std::net::SocketAddr;
use std::sync::Arc;

use admission::{ConnectionLimits, Ledger, Refused};
use host::{ServerState, SharedConnection};
use metrics::usage::ClosedConnectionUsage;
use parking_lot::MutexGuard;
use proto::Id;
use replica::connection::{Queued, QueuedWork};
use tree::WatcherId;

use crate::audit_trail::audit_refusal;
use crate::connection::inbox::{ClientMessage, CoreInbox};
use crate::connection::{Connection, ConnectionState, Registry};
use crate::requests::answer::AnswerContext;
use crate::{clock, limits};

/// Open connections of a server.
///
/// Locks are acquired in the order that [`SharedConnection`] describes. The registry's lock is held
/// only for a single lookup or change, and no other lock is acquired meanwhile.
pub(crate) struct OpenConnections {
    pub(crate) registry: Arc<Registry>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) answers: Arc<AnswerContext>,
    /// Request counts of connections that have ended.
    pub(crate) closed_usage: Arc<ClosedConnectionUsage>,
    pub(crate) core: Arc<dyn CoreInbox>,
}

impl OpenConnections {
    /// Registers a client with this address if the limits allow it.
    pub(crate) fn register(&self, peer: SocketAddr) -> Result<Arc<Connection>, Refused> {
        let address = peer.ip().to_canonical();
        let identity = Id {
            scheme: "ip".into(),
            id: tree::auth::host_address(address).into(),
        };
        let ledger = &self.ledger;
        let id = ledger.connections.enter(address, self.limits)?;
        let connection = Connection::new(id, peer, Arc::from([identity]), ledger.buffered.clone());
        let connection = Arc::new(connection);
        self.registry.insert(connection.clone());
        Ok(connection)
    }

    /// Removes a connection that has ended. Its session stays alive.
    pub(crate) fn forget(&self, connection: &Arc<Connection>) {
        connection.close();
        // A thread that already holds the state's lock finishes before the connection ends. A
        // thread that acquires the lock later finds an empty queue, so no watches can be added for
        // the removed connection.
        let mut state = connection.lock();
        self.audit_refusals_of(connection, &state);
        state.drop_requests();
        connection.count_deferred(&state, &self.answers.deferred_connections);
        if let Some(connection_budgets) = state.connection_budgets.take() {
            // The session may exist for its timeout, plus the time until a server notices that it
            // has expired.
            let timeout_ms = u64::try_from(connection.timeout_ms()).unwrap_or(0);
            let until_ms = clock::monotonic_ms().saturating_add(2 * timeout_ms);
            connection_budgets.end(connection.session(), until_ms);
        }
        let (address, figures) = (connection.peer.ip(), connection.stats.get());
        let identities = state.client.identities.clone();
        drop(state);
        self.closed_usage.note(address, &identities, &figures);
        if self.registry.remove(connection) {
            self.ledger.connections.leave(address.to_canonical());
        }
        remove_watches(&self.answers.state, connection.id);
        self.core.send(ClientMessage::Gone(connection.ticket()));
    }

    /// Audits the queued refusals of a connection that has ended, because their replies will not be
    /// sent.
    fn audit_refusals_of(&self, connection: &Connection, state: &ConnectionState) {
        let audit = self.answers.audit.as_deref();
        for Queued { head, work } in state.client.requests() {
            if let QueuedWork::Refuse(err) = work {
                let identities = &state.client.identities;
                audit_refusal(audit, connection, identities, head.op, *err);
            }
        }
    }
}

/// Removes the watches of a connection in small groups, because all other connections wait while
/// the watch table is locked.
fn remove_watches(state: &Arc<ServerState>, watcher: WatcherId) {
    let remove_some = move |state: &ServerState| {
        let mut watches = state.watches.lock();
        let is_done = watches.remove_some(watcher, limits::WATCHES_REMOVED_AT_ONCE);
        MutexGuard::unlock_fair(watches);
        is_done
    };
    if !remove_some(state) {
        let state = state.clone();
        // The remaining work must not run on a thread that serves other connections.
        blocking::run(move || while !remove_some(&state) {});
    }
}
