//! A server, its clients, and waiting with limits.

use std::time::Duration;

use client::{Client, Error, Options, Session, State};
use tests::{Flavour, Server};

use crate::proxy::Proxy;

/// Long enough for any machine; only a failing test takes it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// Of sessions that nothing ends by itself.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Fails the test instead of hanging it.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// Asks again and again until it is so.
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

/// A proxy in front of the server, a client that does not go through it, and one that does.
pub(crate) async fn both_ways(server: &Server) -> (Proxy, Client, Client) {
    let proxy = Proxy::start(&server.address()).await;
    let direct = connect(&server.address()).await;
    let through = connect(&proxy.address.to_string()).await;
    (proxy, direct, through)
}

/// Waits until the client knows that it has no connection; its session may live.
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

/// Names in a directory; none if there is no directory.
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

/// Ends a session as an operator would: whoever has its password closes it.
pub(crate) async fn expire(address: &str, session: Session) {
    soon("the end of a session", async {
        loop {
            let options = options(address).with_session(session.clone());
            match Client::connect(options).await {
                // Its own client may take it back before it is closed.
                Ok(other) => drop(other.close().await),
                Err(Error::SessionExpired { .. }) => return,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
}
