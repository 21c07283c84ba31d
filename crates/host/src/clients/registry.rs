//! All client connections, by connection and by session, and the current service for clients.

use std::collections::HashMap;
use std::sync::Arc;

use executor::sync::Mutex;
use proto::SessionId;
use replica::session::Passwords;
use replica::{Service, Ticket};
use tree::WatcherId;

use super::service::ServiceSwitch;
use super::status::{ConnectionStatus, SharedConnection};

/// All connections of a server. Its lock is held only for lookups, and no other lock is acquired
/// meanwhile.
#[derive(Debug)]
pub struct Registry<C> {
    inner: Mutex<Inner<C>>,
    service: ServiceSwitch,
    passwords: Passwords,
}

#[derive(Debug)]
struct Inner<C> {
    connections: HashMap<WatcherId, Arc<C>>,
    by_session: HashMap<SessionId, WatcherId>,
}

impl<C> Default for Registry<C> {
    fn default() -> Self {
        let inner = Mutex::new(Inner {
            connections: HashMap::new(),
            by_session: HashMap::new(),
        });
        Self {
            inner,
            service: ServiceSwitch::default(),
            passwords: Passwords::default(),
        }
    }
}

impl<C: SharedConnection> Registry<C> {
    /// Creates a registry without connections. `passwords` are the rules for the passwords of the
    /// server's sessions.
    pub fn with_passwords(passwords: Passwords) -> Self {
        Self {
            passwords,
            ..Self::default()
        }
    }

    /// Returns the rules for session passwords.
    pub fn passwords(&self) -> &Passwords {
        &self.passwords
    }

    /// Registers a connection.
    pub fn insert(&self, connection: Arc<C>) {
        let id = connection.status().id;
        self.inner.lock().connections.insert(id, connection);
    }

    /// Removes an ended connection. Returns whether the registry contained it.
    pub fn remove(&self, connection: &C) -> bool {
        let mut inner = self.inner.lock();
        let status = connection.status();
        if inner.connections.remove(&status.id).is_none() {
            return false;
        }
        let session = status.session();
        if inner.by_session.get(&session) == Some(&status.id) {
            inner.by_session.remove(&session);
        }
        true
    }

    /// Returns the connection with this number.
    pub fn of(&self, ticket: Ticket) -> Option<Arc<C>> {
        let id = WatcherId(ticket.0);
        self.inner.lock().connections.get(&id).cloned()
    }

    /// Makes a connection the one that serves `session`, with its timeout in ms. A connection that
    /// has been removed meanwhile receives the session, but the registry does not contain it again.
    pub(super) fn bind(&self, status: &ConnectionStatus, session: SessionId, timeout_ms: i32) {
        let mut inner = self.inner.lock();
        // The removal of a connection reads its session under the same lock.
        status.set_session(session, timeout_ms);
        if inner.connections.contains_key(&status.id) {
            inner.by_session.insert(session, status.id);
        }
    }

    /// Returns the connection that serves `session`.
    pub fn of_session(&self, session: SessionId) -> Option<Arc<C>> {
        let inner = self.inner.lock();
        let id = inner.by_session.get(&session);
        id.and_then(|id| inner.connections.get(id)).cloned()
    }

    /// Returns the connections in `ids` that are still open. They are collected so that the lock is
    /// not held while their outboxes are filled.
    pub(super) fn open_connections(&self, ids: &[WatcherId]) -> Vec<Arc<C>> {
        let inner = self.inner.lock();
        ids.iter()
            .filter_map(|id| inner.connections.get(id))
            .cloned()
            .collect()
    }

    /// Returns all current connections, oldest first.
    pub fn all(&self) -> Vec<Arc<C>> {
        let mut all: Vec<_> = self.inner.lock().connections.values().cloned().collect();
        all.sort_unstable_by_key(|connection| connection.status().id.0);
        all
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.inner.lock().connections.len()
    }

    /// Returns whether the registry is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the connection with this number, if it exists, without sending anything.
    pub fn close(&self, ticket: Ticket) {
        if let Some(connection) = self.of(ticket) {
            connection.close();
        }
    }

    /// Ends the connection that serves `session`, if any, without sending anything.
    pub fn close_session(&self, session: SessionId) {
        if let Some(connection) = self.of_session(session) {
            connection.close();
        }
    }

    /// Returns the current service for clients. Initially, clients are not served.
    pub fn service(&self) -> Service {
        self.service.get()
    }

    /// Sets the service for clients.
    pub fn serve(&self, service: Service) {
        self.service.set(service);
    }

    /// Stops serving clients. Every connection ends without another answer, even during its
    /// handshake. Later reads of the tree or the sessions find their connection closed.
    pub fn stop_serving(&self) {
        self.service.set(Service::None);
        self.close_all();
    }

    /// Ends all connections without sending anything.
    pub fn close_all(&self) {
        for connection in self.all() {
            connection.close();
        }
    }
}
