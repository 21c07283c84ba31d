//! Opening a connection to another server, and saying who we are.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use proto::Sid;
use proto::hello::{Endpoint, Hello, HelloAddresses, HelloFault};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use transport::{Stream, connect_first, resolve, resolve_all};

use super::settings::MeshSettings;
use crate::quorum::auth::{AuthError, Dialled};

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
    /// It does not let us in.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

impl DialError {
    /// Whether every address refuses: the hosts are there, the server is not.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl Call {
    /// Connects and writes the hello. Names are looked up now: a server may have moved.
    pub(super) async fn dial(&self) -> Result<Stream, DialError> {
        if self.at.is_empty() {
            return Err(DialError::Nowhere);
        }
        let limit = self.settings.connect_timeout;
        let at: Vec<_> = self
            .at
            .iter()
            .map(|at| (at.host.as_str(), at.port))
            .collect();
        let addresses = resolve_all(&at, limit).await?;
        let options = self.settings.socket_options();
        let stream = connect_first(addresses, limit, options).await?;
        let hosts: Vec<_> = self.at.iter().map(|at| at.host.as_str()).collect();
        let connecting = self.settings.connector.establish(stream, &hosts);
        let connected = timeout(limit, connecting).await;
        let mut stream = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let hello = self.hello().await?;
        let write = async {
            stream.write_all(&hello).await?;
            stream.flush().await
        };
        let write = timeout(limit, write).await;
        write.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let dialled = Dialled {
            sid: Some(self.sid),
            host: hosts.last().copied().unwrap_or_default(),
        };
        let log_in = self.settings.auth.log_in(&mut stream, dialled);
        let logged_in = timeout(self.settings.read_timeout, log_in).await;
        logged_in.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))?;
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
    let found = resolve(&own.host, own.port, limit).await;
    let found = found.unwrap_or_default();
    let first = found.first().map(|address| address.ip().to_canonical());
    match first.filter(|ip| !ip.is_loopback() && !ip.is_unspecified()) {
        Some(ip) => Endpoint {
            host: ip.to_string(),
            port: own.port,
        },
        None => own.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn endpoint(host: &str, port: u16) -> Endpoint {
        let host = host.to_owned();
        Endpoint { host, port }
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
