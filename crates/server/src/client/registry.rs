//! Who is connected: by connection, by session, by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use proto::SessionId;
use tree::WatcherId;

use super::connection::Connection;

/// All connections of a server.
#[derive(Default)]
pub(crate) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next_id: u64,
    connections: HashMap<WatcherId, Arc<Connection>>,
    by_session: HashMap<SessionId, WatcherId>,
    per_address: HashMap<IpAddr, usize>,
}

/// Why a connection is turned away at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// `maxClientCnxns`.
    #[error("too many connections from {address} - max is {max}")]
    PerAddress { address: IpAddr, max: usize },
    /// `maxCnxns`.
    #[error("too many connections in total - max is {max}")]
    Total { max: usize },
}

/// Limits on connections; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionLimits {
    /// `maxClientCnxns`.
    pub(crate) per_address: Option<usize>,
    /// `maxCnxns`.
    pub(crate) total: Option<usize>,
}

impl Registry {
    /// Registers a connection made by `make`, which is given its id.
    pub(crate) fn admit(
        &self,
        address: IpAddr,
        limits: ConnectionLimits,
        make: impl FnOnce(WatcherId) -> Connection,
    ) -> Result<Arc<Connection>, Refused> {
        let mut inner = self.inner.lock();
        if let Some(max) = limits.total.filter(|max| inner.connections.len() >= *max) {
            return Err(Refused::Total { max });
        }
        let from_address = inner.per_address.get(&address).copied().unwrap_or(0);
        if let Some(max) = limits.per_address.filter(|max| from_address >= *max) {
            return Err(Refused::PerAddress { address, max });
        }
        *inner.per_address.entry(address).or_insert(0) += 1;
        inner.next_id += 1;
        let id = WatcherId(inner.next_id);
        let connection = Arc::new(make(id));
        inner.connections.insert(id, connection.clone());
        Ok(connection)
    }

    /// Forgets a connection that has ended.
    pub(crate) fn remove(&self, connection: &Connection) {
        let mut inner = self.inner.lock();
        if inner.connections.remove(&connection.id).is_none() {
            return;
        }
        let address = connection.peer.ip().to_canonical();
        if let Some(count) = inner.per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                inner.per_address.remove(&address);
            }
        }
        let session = connection.session();
        if inner.by_session.get(&session) == Some(&connection.id) {
            inner.by_session.remove(&session);
        }
    }

    /// Makes `connection` the one that serves `session`.
    pub(crate) fn bind(&self, connection: &Connection, session: SessionId) {
        self.inner.lock().by_session.insert(session, connection.id);
    }

    /// The connection that serves `session`.
    pub(crate) fn of_session(&self, session: SessionId) -> Option<Arc<Connection>> {
        let inner = self.inner.lock();
        inner
            .by_session
            .get(&session)
            .and_then(|id| inner.connections.get(id))
            .cloned()
    }

    /// Cuts the connection that serves `session`, if there is one, sending nothing.
    pub(crate) fn close_session_connection(&self, session: SessionId) {
        if let Some(connection) = self.of_session(session) {
            connection.close();
        }
    }

    /// Those of `ids` that are still connected. Collected, so that no lock is held while their
    /// outboxes are filled.
    pub(crate) fn each_of(&self, ids: &[WatcherId]) -> Vec<Arc<Connection>> {
        let inner = self.inner.lock();
        ids.iter()
            .filter_map(|id| inner.connections.get(id))
            .cloned()
            .collect()
    }

    /// All connections, at this moment.
    pub(crate) fn all(&self) -> Vec<Arc<Connection>> {
        self.inner.lock().connections.values().cloned().collect()
    }

    /// How many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().connections.len()
    }
}
