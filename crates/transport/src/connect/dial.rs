//! Connections to other servers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use config::members::HostPort;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connector::Connector;
use crate::options::SocketOptions;
use crate::stream::Stream;

/// Time after which the next address is tried concurrently (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to the first address that answers. The next address is tried when an attempt fails or
/// is slow.
///
/// # Errors
/// If there is no address (`NotFound`), or if all addresses fail. Returns the first error other
/// than `ConnectionRefused`. `ConnectionRefused` means that all addresses refuse.
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
        // Waits for `STAGGER` if further addresses exist, and otherwise until an attempt ends.
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

/// Limits for the attempts to reach a server that may not listen yet.
#[derive(Debug, Clone)]
pub struct DialRetries {
    /// Pause between two attempts. The first pauses are shorter.
    pub retry_delay: Duration,
    /// Time limit for all attempts together.
    pub time_limit: Duration,
}

/// Error if none of the addresses could be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialFailure {
    /// Address of the last attempt, as configured.
    pub address: String,
    /// Reason for the failure of that attempt.
    pub reason: String,
}

/// Maximum number of attempts per address, not including the quick attempts ([`QUICK_PAUSES_MS`]).
const TRIES: u32 = 5;

/// Pauses before the quick attempts, ms. Leader and followers finish an election at the same time,
/// so the leader often starts listening just after the first attempt. A long pause is not necessary
/// then.
const QUICK_PAUSES_MS: [u64; 4] = [5, 10, 20, 40];

/// Connects to a server that may not listen yet, at one of its `addresses`. A refusal is not final:
/// each address is tried several times, with pauses, until the time limit. Several addresses are
/// tried concurrently, and the first connection is used. Names are resolved for each attempt,
/// because in a starting cluster a name may receive its address later. `to` names the target in the
/// log.
///
/// Source: Learner.connectToLeader, LeaderConnector.
///
/// # Errors
/// If no address could be reached. Returns the error of the address that failed last.
pub async fn connect_patiently(
    to: &'static str,
    addresses: &[HostPort],
    patience: &DialRetries,
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
        address: to.to_owned(),
        reason: format!("the host of {to} does not have an address"),
    };
    // Dropping the set aborts the other attempts.
    while let Some(dialled) = dialling.join_next().await {
        match dialled {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(error) => tracing::error!(err = %error, "an attempt to connect panicked"),
        }
    }
    Err(last)
}

async fn dial_one(
    to: &'static str,
    address: HostPort,
    patience: DialRetries,
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
            tracing::debug!(to, %address, err = reason, "the server does not accept connections yet");
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
