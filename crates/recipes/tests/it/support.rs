//! Servers, clients, and waits with time limits.

use std::time::Duration;

use client::{Client, Error, Options, Session, State};
use tests::{Flavour, Server};

use crate::proxy::Proxy;

/// Time limit of a step. It suffices for a slow machine, and only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between checks of a condition.
const PAUSE: Duration = Duration::from_millis(5);
/// Timeout of sessions that a test does not end.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for `future`. Fails the test after the time limit.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// Checks a condition repeatedly until it holds.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    soon(what, async {
        while !holds().await {
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await;
}

pub(crate) fn server() -> Server {
    Server::start(Flavour::Zoarium).unwrap()
}

pub(crate) fn options(address: &str) -> Options {
    Options::new(address)
        .with_session_timeout(SESSION_TIMEOUT)
        .with_renewal()
}

pub(crate) async fn connect(address: &str) -> Client {
    soon("a session", Client::connect(options(address)))
        .await
        .unwrap()
}

pub(crate) async fn two_clients(server: &Server) -> (Client, Client) {
    let address = server.address();
    (connect(&address).await, connect(&address).await)
}

/// Returns a proxy before the server, a client with a direct connection, and a client through the
/// proxy.
pub(crate) async fn both_ways(server: &Server) -> (Proxy, Client, Client) {
    let proxy = Proxy::start(&server.address()).await;
    let direct = connect(&server.address()).await;
    let through = connect(&proxy.address.to_string()).await;
    (proxy, direct, through)
}

/// Waits until the client knows that it is disconnected. Its session may still exist.
pub(crate) async fn until_cut_off(client: &Client) {
    let mut state = client.state();
    let cut =
        state.wait_for(|state| *state != State::Closed && state.connected_session().is_none());
    soon("the loss", cut).await.map(drop).unwrap();
}

pub(crate) async fn until_watches(server: &Server, count: usize) {
    let count = count.to_string();
    until(&format!("{count} watches"), async || {
        server.metric("watch_count").as_ref() == Some(&count)
    })
    .await;
}

/// Returns the names in a directory, or an empty list if the directory is missing.
pub(crate) async fn children(client: &Client, path: &str) -> Vec<String> {
    match client.get_children(path).await {
        Ok(names) => names.iter().map(|name| name.to_string()).collect(),
        Err(error) if error.code() == Some(proto::ErrorCode::NoNode) => Vec::new(),
        Err(error) => panic!("{path}: {error}"),
    }
}

pub(crate) async fn until_children(client: &Client, path: &str, count: usize) {
    soon(&format!("{count} children of {path}"), async {
        while children(client, path).await.len() != count {
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await;
}

/// Ends a session as an operator can. A client that has the password can close the session.
pub(crate) async fn expire(address: &str, session: Session) {
    soon("the end of a session", async {
        loop {
            let options = options(address).with_session(session.clone());
            match Client::connect(options).await {
                // The session's own client may reconnect before the session is closed.
                Ok(other) => drop(other.close().await),
                Err(Error::SessionExpired { .. }) => return,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
}
