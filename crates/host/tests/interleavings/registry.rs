//! The registry of connections, between the tasks of the connections and the core.

use std::sync::Arc;

use proto::SessionId;
use replica::Service;
use replica::connection::ClientConnection;
use testkit::interleavings::{check, thread};
use tree::WatcherId;
use zoarium_host::{Connection, LockedState, Registry, SharedConnection as _, answer_handshake};

type Client = Connection<LockedState<(), ()>>;

const SESSION: SessionId = SessionId(7);
const TIMEOUT_MS: i32 = 4000;

fn connection(number: u64) -> Arc<Client> {
    let state = LockedState {
        client: ClientConnection::new([].into()),
        own: (),
    };
    Arc::new(Connection::new(WatcherId(number), state))
}

/// Ends a connection, like its task.
fn end(registry: &Registry<Client>, connection: &Client) {
    connection.close();
    assert!(registry.remove(connection));
}

/// The core gives a session to a connection, if the connection still exists. Then the client
/// returns, and the core gives the session to the new connection. Meanwhile the first connection
/// ends.
fn returning_client() {
    let registry = Arc::new(Registry::<Client>::default());
    let (first, second) = (connection(1), connection(2));
    registry.insert(first.clone());
    registry.insert(second.clone());
    let core = {
        let (registry, tickets) = (registry.clone(), [first.ticket(), second.ticket()]);
        thread::spawn(move || {
            for ticket in tickets {
                if let Some(connection) = registry.of(ticket) {
                    answer_handshake(&registry, &*connection, Some((SESSION, TIMEOUT_MS)), true);
                }
            }
        })
    };
    let task = {
        let registry = registry.clone();
        thread::spawn(move || end(&registry, &first))
    };
    core.join().unwrap();
    task.join().unwrap();
    let serves = registry.of_session(SESSION).unwrap();
    assert!(Arc::ptr_eq(&serves, &second));
    end(&registry, &second);
    assert_no_session(&registry);
}

/// The core gives a session to each of several connections, which end meanwhile.
fn ending_clients() {
    let registry = Arc::new(Registry::<Client>::default());
    let connections = [1, 2].map(connection);
    for connection in &connections {
        registry.insert(connection.clone());
    }
    let tasks = connections.clone().map(|connection| {
        let registry = registry.clone();
        thread::spawn(move || end(&registry, &connection))
    });
    for (number, connection) in (1..).zip(&connections) {
        if let Some(connection) = registry.of(connection.ticket()) {
            let session = Some((SessionId(number), TIMEOUT_MS));
            answer_handshake(&registry, &*connection, session, true);
        }
    }
    tasks.into_iter().for_each(|task| task.join().unwrap());
    assert_no_session(&registry);
}

/// Checks that the registry has forgotten all connections and their sessions.
fn assert_no_session(registry: &Registry<Client>) {
    assert!(registry.is_empty());
    let text = format!("{registry:?}");
    assert!(text.contains("by_session: {}"), "{text}");
}

/// Clients connect while the server stops serving.
fn stop() {
    let registry = Arc::new(Registry::<Client>::default());
    registry.serve(Service::Deciding);
    let connections = [1, 2].map(connection);
    let tasks = connections.clone().map(|connection| {
        let registry = registry.clone();
        thread::spawn(move || {
            registry.insert(connection.clone());
            if registry.service() == Service::None {
                connection.close();
            }
        })
    });
    registry.stop_serving();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    for connection in &connections {
        assert!(connection.is_closed(), "{:?} is served", connection.id);
    }
}

#[test]
fn shuttle_finds_no_session_without_its_connection() {
    check(returning_client);
    check(ending_clients);
}

#[test]
fn shuttle_finds_no_connection_that_outlives_the_service() {
    check(stop);
}
