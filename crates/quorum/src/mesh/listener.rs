//! Election port: binding, retries, and reading hellos.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::Poll;

use proto::hello::{Endpoint, Hello, HelloFault};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use transport::tls::looks_like_tls;
use transport::{
    Accepting, Listener, ReservedDescriptors, Stream, accept_each, bind_everywhere, resolve,
};

use super::event::BindError;
use super::input::{Input, ListenerContext};
use super::limits::{BACKLOG, BIND_PAUSE, GREETINGS_MAX};
use super::settings::MeshSettings;
use crate::auth::AuthError;
use crate::greetings::Greetings;
use crate::limits::RESOLVE_TIMEOUT;

/// Returns the addresses to listen on: the addresses of this server or, with `on_all_ips`, their
/// ports on all addresses of this machine.
pub(super) fn listen_addresses(own: &[Endpoint], on_all_ips: bool) -> Vec<Endpoint> {
    let mut places = Vec::new();
    for endpoint in own {
        let place = if on_all_ips {
            let host = Ipv4Addr::UNSPECIFIED.to_string();
            let port = endpoint.port;
            Endpoint { host, port }
        } else {
            endpoint.clone()
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Listens until the task is aborted, or the limit of failed attempts is reached.
///
/// Names are resolved for each attempt. Source: QuorumCnxManager.Listener.
pub(super) async fn listen(endpoint: Endpoint, context: ListenerContext) -> BindError {
    let mut attempts = 0;
    loop {
        let source = match bind(&endpoint).await {
            Ok(listeners) => {
                tracing::info!(%endpoint, "listening for elections");
                accept_on_all(listeners, &context).await;
                continue;
            }
            Err(source) => source,
        };
        attempts += 1;
        if context
            .settings
            .bind_attempts
            .is_some_and(|max| attempts >= max)
        {
            return BindError {
                endpoint,
                attempts,
                source,
            };
        }
        tracing::warn!(%endpoint, err = %source, attempts, "cannot listen for elections, retrying");
        sleep(BIND_PAUSE).await;
    }
}

/// Binds the addresses of a host. Fails only if none of them can be bound.
async fn bind(endpoint: &Endpoint) -> io::Result<Vec<TcpListener>> {
    if endpoint.is_wildcard() {
        return bind_everywhere(endpoint.port, BACKLOG).map(|listener| vec![listener]);
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut bound = Vec::new();
    for address in resolve(&endpoint.host, endpoint.port, RESOLVE_TIMEOUT).await? {
        match transport::bind(address, BACKLOG) {
            Ok(listener) => bound.push(listener),
            Err(error) => failure = error,
        }
    }
    if bound.is_empty() {
        return Err(failure);
    }
    Ok(bound)
}

/// Accepts connections on all sockets. They close when this future is dropped, so that another task
/// can bind their addresses at once. In tasks of their own, they would close later.
async fn accept_on_all(listeners: Vec<TcpListener>, context: &ListenerContext) {
    let accepting = |listener| Box::pin(accept(listener, context.clone()));
    let mut all: Vec<_> = listeners.into_iter().map(accepting).collect();
    poll_fn(|wakers| {
        all.retain_mut(|one| one.as_mut().poll(wakers).is_pending());
        if all.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

async fn accept(listener: TcpListener, context: ListenerContext) {
    let listener = Listener::new(listener);
    let accepting = Accepting {
        of: "elections",
        options: context.settings.socket_options(),
        reserved_descriptors: ReservedDescriptors::ByMembers,
    };
    let mut greetings = JoinSet::new();
    let mut bounded = Greetings::new(GREETINGS_MAX);
    let admit = |stream, peer| {
        while greetings.try_join_next().is_some() {}
        let greeting = greetings.spawn(greet(stream, peer, context.clone()));
        if let Some(peer) = bounded.add(peer, greeting) {
            log_limiter::limited!(in context.log_limiter => warn, %peer, "too many election connections without a hello, closing the oldest one");
        }
    };
    accept_each(&listener, accepting, admit).await;
}

/// Reason why a connection is closed before the peer has been identified.
#[derive(Debug, thiserror::Error)]
enum HelloRefusal {
    /// The peer closed the connection before its hello was complete. Port scanners and health
    /// checks do this.
    #[error("the peer closed the connection before its hello arrived")]
    Left,
    #[error("the peer's hello did not arrive in time")]
    Silent,
    #[error(
        "the peer uses TLS, but this port accepts only plain connections (sslQuorum, portUnification)"
    )]
    Tls,
    #[error(transparent)]
    Fault(#[from] HelloFault),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Auth(#[from] AuthError),
}

async fn greet(stream: TcpStream, peer: SocketAddr, context: ListenerContext) {
    let mut stream = match context.settings.acceptor.establish(stream, peer).await {
        Ok(stream) => stream,
        Err(refused) => return refused.log("elections", peer, &context.log_limiter),
    };
    let limit = context.settings.read_timeout;
    let read = timeout(limit, admit_hello(&mut stream, &context.settings)).await;
    match read.unwrap_or(Err(HelloRefusal::Silent)) {
        Ok((hello, rest)) => {
            let input = Input::Hello {
                stream,
                peer,
                hello,
                rest,
            };
            // An error means that the server is stopping.
            let _ = context.inputs.send(input).await;
        }
        Err(HelloRefusal::Left) => tracing::debug!(%peer, "election connection without a hello"),
        Err(error) => {
            log_limiter::limited!(in context.log_limiter => warn, %peer, err = %error, "election connection closed");
        }
    }
}

/// Returns the hello of an admitted server, and the bytes after it.
async fn admit_hello(
    stream: &mut Stream,
    settings: &MeshSettings,
) -> Result<(Hello, Vec<u8>), HelloRefusal> {
    let (hello, rest) = read_hello(stream).await?;
    let rest = settings.auth.admit(stream, rest).await?;
    Ok((hello, rest))
}

/// Reads the hello. Returns it with the bytes that follow it.
async fn read_hello(stream: &mut Stream) -> Result<(Hello, Vec<u8>), HelloRefusal> {
    let mut bytes = Vec::with_capacity(Hello::BYTES_MAX);
    loop {
        if looks_like_tls(&bytes) {
            return Err(HelloRefusal::Tls);
        }
        if let Some((hello, len)) = Hello::decode(&bytes)? {
            return Ok((hello, bytes.split_off(len)));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(HelloRefusal::Left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(host: &str, port: u16) -> Endpoint {
        let host = host.to_owned();
        Endpoint { host, port }
    }

    #[test]
    fn on_all_addresses_a_port_is_bound_once() {
        let own = [endpoint("a", 1), endpoint("b", 1), endpoint("b", 2)];
        assert_eq!(listen_addresses(&own, false), own);
        let everywhere = [endpoint("0.0.0.0", 1), endpoint("0.0.0.0", 2)];
        assert_eq!(listen_addresses(&own, true), everywhere);
    }

    #[tokio::test]
    async fn a_wildcard_is_bound_everywhere() {
        for host in ["0.0.0.0", "::"] {
            let bound = bind(&endpoint(host, 0)).await.unwrap();
            assert_eq!(bound.len(), 1);
            let port = bound[0].local_addr().unwrap().port();
            TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .await
                .unwrap();
        }
        let bound = bind(&endpoint("127.0.0.1", 0)).await.unwrap();
        assert_eq!(bound[0].local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
    }
}
