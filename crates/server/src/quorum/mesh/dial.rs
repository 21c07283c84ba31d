//! Opening a connection to another server, and saying who we are.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::Sid;
use proto::hello::{Endpoint, Hello, HelloAddresses, HelloFault};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::limits::{DIAL_ADDRESSES_MAX, DIAL_STAGGER};
use super::link;
use super::settings::MeshSettings;

/// A server that is to be dialled.
#[derive(Debug)]
pub(super) struct Call {
    /// Whom.
    pub(super) sid: Sid,
    /// Where it may be, the best guess first.
    pub(super) at: Vec<Endpoint>,
    /// Where this server is, as its line says.
    pub(super) own: Vec<Endpoint>,
    /// Whether a member list names it.
    pub(super) is_member: bool,
    pub(super) settings: Arc<MeshSettings>,
}

/// Why a server was not reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// No configuration names it.
    #[error("nobody knows where it is")]
    Nowhere,
    /// No address of it answers.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Our addresses make no hello.
    #[error(transparent)]
    Hello(#[from] HelloFault),
}

impl DialError {
    /// Whether every address refuses: the hosts are there, the server is not.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl Call {
    /// Connects and writes the hello. Names are looked up now: a server may have moved.
    pub(super) async fn dial(&self) -> Result<TcpStream, DialError> {
        if self.at.is_empty() {
            return Err(DialError::Nowhere);
        }
        let limit = self.settings.connect_timeout;
        let addresses = resolve_all(&self.at, limit).await?;
        let mut stream = connect(addresses, limit).await?;
        if let Err(error) = link::configure(&stream, &self.settings) {
            tracing::debug!(sid = %self.sid, err = %error, "cannot set socket options");
        }
        let hello = self.hello().await?;
        let write = timeout(limit, stream.write_all(&hello)).await;
        write.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(stream)
    }

    async fn hello(&self) -> Result<Vec<u8>, DialError> {
        let limit = self.settings.connect_timeout;
        let mut own = Vec::new();
        for endpoint in &self.own {
            own.push(placed(endpoint, limit).await);
        }
        let addresses = if self.settings.multi_address {
            HelloAddresses::Many(own)
        } else {
            own.truncate(1);
            HelloAddresses::One(own)
        };
        let hello = Hello {
            sid: self.settings.me,
            addresses,
        };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes)?;
        Ok(bytes)
    }
}

/// Where this server tells others that it is: the present address of its name, as Java tells it,
/// which other hosts may not have learnt yet when it has just moved. If the name only leads back
/// to this machine (a line of its own hosts file), it is the name that means something to others.
async fn placed(own: &Endpoint, limit: Duration) -> Endpoint {
    let found = resolve(own, limit).await.unwrap_or_default();
    let first = found.first().map(|address| address.ip().to_canonical());
    match first.filter(|ip| !ip.is_loopback() && !ip.is_unspecified()) {
        Some(ip) => Endpoint {
            host: ip.to_string(),
            port: own.port,
        },
        None => own.clone(),
    }
}

/// Every address of every place, each once, in order.
async fn resolve_all(places: &[Endpoint], limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    let mut failure = None;
    for place in places.iter().take(DIAL_ADDRESSES_MAX) {
        match resolve(place, limit).await {
            Ok(found) => addresses.extend(found),
            Err(error) => failure = Some(error),
        }
    }
    let mut known = Vec::new();
    addresses.retain(|address| {
        let is_new = !known.contains(address);
        known.push(*address);
        is_new
    });
    addresses.truncate(DIAL_ADDRESSES_MAX);
    match failure {
        Some(error) if addresses.is_empty() => Err(error),
        _ => Ok(addresses),
    }
}

async fn resolve(place: &Endpoint, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let looked_up = timeout(limit, lookup_host((place.host.as_str(), place.port))).await;
    let found = looked_up.unwrap_or_else(|_| {
        let text = format!("{} is not looked up in time", place.host);
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })?;
    Ok(found.collect())
}

/// The first address that answers. The next one is tried as soon as one fails or takes long. Of
/// several failures a refusal says least: the error is one only if all are.
async fn connect(addresses: Vec<SocketAddr>, limit: Duration) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        let next = waiting.next();
        if let Some(address) = next {
            attempts.spawn(attempt(address, limit));
        }
        // While there is another address, only for a moment.
        let pause = async {
            match next {
                Some(_) if waiting.len() > 0 => sleep(DIAL_STAGGER).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => match failure.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => failure = error,
                    _ => {}
                },
                Some(Err(_)) => {}
                None => return Err(failure),
            },
            () = pause => {}
        }
    }
}

async fn attempt(address: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let connected = timeout(limit, TcpStream::connect(address)).await;
    let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    connected.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn endpoint(host: &str, port: u16) -> Endpoint {
        let host = host.to_owned();
        Endpoint { host, port }
    }

    #[tokio::test]
    async fn every_address_is_tried() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let there = listener.local_addr().unwrap();
        let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let nobody = refusing.local_addr().unwrap();
        drop(refusing);
        let stream = connect(vec![nobody, nobody, there], LIMIT).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), there);
        let error = connect(vec![nobody], LIMIT).await.unwrap_err();
        assert!(
            error.to_string().starts_with(&nobody.to_string()),
            "{error}"
        );
        assert!(connect(vec![], LIMIT).await.is_err());
    }

    #[tokio::test]
    async fn places_are_resolved_once_each_and_not_without_end() {
        let twice = [endpoint("127.0.0.1", 7), endpoint("127.0.0.1", 7)];
        assert_eq!(resolve_all(&twice, LIMIT).await.unwrap().len(), 1);
        let many: Vec<_> = (1..500).map(|port| endpoint("127.0.0.1", port)).collect();
        let found = resolve_all(&many, LIMIT).await.unwrap();
        assert_eq!(found.len(), DIAL_ADDRESSES_MAX);
        let unknown = [endpoint("host.invalid", 7), endpoint("127.0.0.1", 7)];
        assert_eq!(resolve_all(&unknown, LIMIT).await.unwrap().len(), 1);
        assert!(resolve_all(&unknown[..1], LIMIT).await.is_err());
    }

    #[tokio::test]
    async fn a_name_for_this_machine_alone_is_told_as_a_name() {
        for (host, told) in [
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "0.0.0.0"),
            ("192.0.2.1", "192.0.2.1"),
            ("host.invalid", "host.invalid"),
        ] {
            assert_eq!(placed(&endpoint(host, 7), LIMIT).await, endpoint(told, 7));
        }
    }
}
