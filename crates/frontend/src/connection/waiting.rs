//! Clients that wait for results, and the origins of their requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use proto::OpCode;
use replica::connection::Identities;
use replica::{Applied, ClientRequest, Ticket};

use crate::connection::Connection;

/// Clients of this server that may wait for results.
///
/// The origins of requests are kept here and not in the connections, because a request is executed
/// and needs its origin even if its client disconnects or authenticates meanwhile.
pub struct WaitingClients {
    clients: HashMap<Ticket, WaitingClient>,
    /// Whether origins are needed.
    keeps_origins: bool,
    /// Number of clients that have disconnected and have requests in progress.
    disconnected: usize,
}

struct WaitingClient {
    /// `None` after the client has disconnected.
    connection: Option<Arc<Connection>>,
    peer: SocketAddr,
    /// Requests in progress, oldest first. Empty if origins are not needed.
    in_progress: VecDeque<RequestInProgress>,
}

struct RequestInProgress {
    cxid: i32,
    op: OpCode,
    /// Identities of the client when the request arrived.
    identities: Identities,
}

impl WaitingClients {
    /// Creates the set without clients.
    pub fn new(keeps_origins: bool) -> Self {
        Self {
            clients: HashMap::new(),
            keeps_origins,
            disconnected: 0,
        }
    }

    /// Returns whether no clients are registered.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Registers a connection that is about to wait for the results of these requests.
    pub fn note(&mut self, connection: &Arc<Connection>, requests: &[ClientRequest]) {
        let client = self.clients.entry(connection.ticket());
        let client = client.or_insert_with(|| WaitingClient {
            connection: Some(connection.clone()),
            peer: connection.peer,
            in_progress: VecDeque::new(),
        });
        if self.keeps_origins {
            let in_progress = requests.iter().map(|request| RequestInProgress {
                cxid: request.cxid,
                op: request.request.op(),
                identities: request.identities.clone(),
            });
            client.in_progress.extend(in_progress);
        }
    }

    /// Returns a connection that waits, unless it has ended.
    pub fn connection(&self, ticket: Ticket) -> Option<&Arc<Connection>> {
        self.clients.get(&ticket)?.connection.as_ref()
    }

    /// Returns the origin of an applied transaction, which needs it no longer; `None` if the origin
    /// is unknown.
    pub fn take_origin(&mut self, applied: &Applied<'_>) -> Option<(SocketAddr, Identities)> {
        let ticket = applied.origin.filter(|_| self.keeps_origins)?;
        let client = self.clients.get_mut(&ticket)?;
        let cxid = applied.record.header.cxid;
        let mut in_progress = client.in_progress.iter();
        let at = in_progress.position(|next| next.cxid == cxid && next.op == applied.op)?;
        // Earlier requests were not executed, because the leader skipped them.
        let found = client.in_progress.drain(..=at).next_back()?;
        let origin = (client.peer, found.identities);
        if client.is_done() {
            self.clients.remove(&ticket);
            self.disconnected -= 1;
        }
        Some(origin)
    }

    /// Removes a connection that has ended. `is_idle` states whether the server has no requests in
    /// progress.
    pub fn disconnected(&mut self, ticket: Ticket, is_idle: bool) {
        if is_idle && self.disconnected > 0 {
            // The requests of these clients have been dropped.
            self.forget_requests();
        }
        if let Some(client) = self.clients.get_mut(&ticket) {
            client.connection = None;
            if client.is_done() {
                self.clients.remove(&ticket);
            } else {
                self.disconnected += 1;
            }
        }
    }

    /// Forgets all requests. Called when a new role begins, because this server cannot know the
    /// results of requests from the previous role.
    pub fn forget_requests(&mut self) {
        self.clients.retain(|_, client| {
            client.in_progress.clear();
            !client.is_done()
        });
        self.disconnected = 0;
    }
}

impl WaitingClient {
    fn is_done(&self) -> bool {
        self.connection.is_none() && self.in_progress.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proto::request::WriteRequest;
    use proto::txn::{Txn, TxnHeader, TxnRecord};
    use proto::{ErrorCode, Id, SessionId, Zxid};
    use replica::LargeBytes;
    use tree::{Outcome, WatcherId};

    use super::*;

    fn client(number: u16) -> Arc<Connection> {
        let peer = ([127, 0, 0, 1], number).into();
        let id = WatcherId(number.into());
        Arc::new(Connection::new(id, peer, Arc::from([]), Arc::default()))
    }

    fn identities(user: &str) -> Identities {
        let (scheme, id) = ("digest".into(), user.into());
        Arc::from([Id { scheme, id }])
    }

    fn request(connection: &Connection, cxid: i32, user: &str) -> ClientRequest {
        ClientRequest {
            ticket: connection.ticket(),
            session: SessionId(1),
            cxid,
            identities: identities(user),
            request: WriteRequest::CloseSession,
            body: Bytes::new(),
            large_bytes: LargeBytes::NONE,
            upgrade_ms: None,
        }
    }

    /// Applies a request, and returns its origin.
    fn apply(
        clients: &mut WaitingClients,
        connection: &Connection,
        cxid: i32,
    ) -> Option<(SocketAddr, Identities)> {
        let header = TxnHeader {
            session: SessionId(1),
            cxid,
            zxid: Zxid(1),
            time_ms: 0,
            op: OpCode::CloseSession as i32,
        };
        let record = TxnRecord {
            header,
            txn: Txn::CloseSession { paths: None },
            digest: None,
        };
        clients.take_origin(&Applied {
            record: &record,
            outcome: &Outcome::Error(ErrorCode::Ok),
            events: &mut Vec::new(),
            op: OpCode::CloseSession,
            origin: Some(connection.ticket()),
            is_counted: true,
            large_bytes: LargeBytes::NONE,
            is_last: true,
            is_committed: true,
        })
    }

    #[test]
    fn a_request_keeps_its_origin_until_it_is_applied() {
        let (mut clients, connection) = (WaitingClients::new(true), client(1));
        let ticket = connection.ticket();
        let requests = [(1, "a"), (2, "b"), (3, "c")];
        let requests = requests.map(|(cxid, user)| request(&connection, cxid, user));
        clients.note(&connection, &requests);
        let origin_of = |user: &str| Some((connection.peer, identities(user)));
        assert_eq!(apply(&mut clients, &connection, 1), origin_of("a"));
        clients.disconnected(ticket, false);
        assert!(clients.connection(ticket).is_none());
        // The leader skipped the second request.
        assert_eq!(apply(&mut clients, &connection, 3), origin_of("c"));
        assert_eq!(apply(&mut clients, &connection, 2), None);
        assert!(clients.clients.is_empty());
        assert_eq!(clients.disconnected, 0);
    }

    /// Dropped requests are never applied.
    #[test]
    fn dropped_requests_are_forgotten() {
        let (mut clients, connection, other) = (WaitingClients::new(true), client(1), client(2));
        let drop_request = |clients: &mut WaitingClients| {
            clients.note(&connection, &[request(&connection, 1, "a")]);
            clients.note(&other, &[]);
            clients.disconnected(connection.ticket(), false);
            assert_eq!(clients.clients.len(), 2);
        };
        drop_request(&mut clients);
        clients.forget_requests();
        assert_eq!(apply(&mut clients, &connection, 1), None);
        assert_eq!(clients.clients.len(), 1);
        drop_request(&mut clients);
        clients.disconnected(other.ticket(), true);
        assert!(clients.clients.is_empty());
    }
}
