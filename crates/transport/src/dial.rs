//! Reaching another server.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use config::members::HostPort;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::options::SocketOptions;
use crate::stream::Stream;
use crate::tls::Connector;

/// How long an address may take before the next one is tried beside it (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

/// The first address that answers. The next one is tried as soon as one fails or takes long.
///
/// # Errors
/// Of several failures a refusal says least: the error is one only if all addresses refuse.
pub async fn connect_first(
    addresses: Vec<SocketAddr>,
    limit: Duration,
    options: SocketOptions,
) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        let next = waiting.next();
        if let Some(address) = next {
            attempts.spawn(attempt(address, limit, options));
        }
        // While there is another address, only for a moment.
        let pause = async {
            match next {
                Some(_) if waiting.len() > 0 => sleep(STAGGER).await,
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

async fn attempt(
    address: SocketAddr,
    limit: Duration,
    options: SocketOptions,
) -> io::Result<TcpStream> {
    let connected = timeout(limit, TcpStream::connect(address)).await;
    let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let stream =
        connected.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
    options.apply(&stream, address);
    Ok(stream)
}

/// How long one that may not listen yet is tried to be reached.
#[derive(Debug, Clone)]
pub struct Patience {
    /// Pause between two tries.
    pub retry_delay: Duration,
    /// All tries together.
    pub time_limit: Duration,
}

/// No address could be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialFailure {
    /// The address that was tried last, as configured.
    pub address: String,
    /// What came of it.
    pub reason: String,
}

/// Tries of one address, the quick ones aside.
const TRIES: u32 = 5;

/// Pauses before the first of them, ms. Leader and followers conclude an election at the same
/// moment, so the leader often listens just after it was dialled: no reason to wait for long.
const QUICK_PAUSES_MS: [u64; 4] = [5, 10, 20, 40];

/// A connection to one of `addresses`, where somebody may listen only in a moment: a refusal is not the
/// last word, and each address is tried some times, with pauses, until the time is used up. Several
/// addresses are tried side by side, and the first connection wins. A name is resolved at each attempt,
/// since in a cluster that is just being started it may get its address meanwhile. `to` says in the log
/// who is dialled.
///
/// Source: Learner.connectToLeader, LeaderConnector.
///
/// # Errors
/// If none could be reached in time: what came of the last try.
pub async fn connect_patiently(
    to: &'static str,
    addresses: &[HostPort],
    patience: &Patience,
    options: SocketOptions,
    connector: &Connector,
) -> Result<Stream, DialFailure> {
    let mut dialling = JoinSet::new();
    for address in addresses {
        dialling.spawn(dial_one(
            to,
            address.clone(),
            patience.clone(),
            options,
            connector.clone(),
        ));
    }
    let mut last = DialFailure {
        address: "nowhere".to_owned(),
        reason: format!("{to} has no address"),
    };
    // The rest is aborted when the set is dropped.
    while let Some(dialled) = dialling.join_next().await {
        match dialled {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(error) => tracing::error!(err = %error, "an attempt to connect broke off"),
        }
    }
    Err(last)
}

async fn dial_one(
    to: &'static str,
    address: HostPort,
    patience: Patience,
    options: SocketOptions,
    connector: Connector,
) -> Result<Stream, DialFailure> {
    let deadline = Instant::now() + patience.time_limit;
    let quick = QUICK_PAUSES_MS.into_iter().map(Duration::from_millis);
    let mut quick = quick.map(|pause| pause.min(patience.retry_delay));
    let mut tries = 1;
    loop {
        let connecting = connect_one(&address, options, &connector);
        let reason = match timeout_at(deadline, connecting).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        let is_over = Instant::now() + patience.retry_delay >= deadline;
        let next_quick = quick.next().filter(|_| !is_over);
        if let Some(pause) = next_quick {
            tracing::debug!(to, %address, err = reason, "no connection is taken yet");
            sleep(pause).await;
            continue;
        }
        tracing::warn!(to, %address, tries, err = reason, "cannot connect");
        if is_over || tries >= TRIES {
            let address = address.to_string();
            return Err(DialFailure { address, reason });
        }
        tries += 1;
        sleep(patience.retry_delay).await;
    }
}

async fn connect_one(
    address: &HostPort,
    options: SocketOptions,
    connector: &Connector,
) -> io::Result<Stream> {
    let name = (address.host.as_str(), address.port);
    let stream = TcpStream::connect(name).await?;
    options.apply(&stream, stream.peer_addr()?);
    connector.establish(stream, &[&address.host]).await
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn every_address_is_tried() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let there = listener.local_addr().unwrap();
        let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let nobody = refusing.local_addr().unwrap();
        drop(refusing);
        let options = SocketOptions::default();
        let stream = connect_first(vec![nobody, nobody, there], LIMIT, options);
        assert_eq!(stream.await.unwrap().peer_addr().unwrap(), there);
        let error = connect_first(vec![nobody], LIMIT, options).await;
        let error = error.unwrap_err();
        assert!(
            error.to_string().starts_with(&nobody.to_string()),
            "{error}"
        );
        assert!(connect_first(vec![], LIMIT, options).await.is_err());
    }
}
