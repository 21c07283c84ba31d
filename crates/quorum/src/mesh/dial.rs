//! Outgoing connections, and the hello that identifies this server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use proto::Sid;
use proto::hello::{Endpoint, Hello, HelloAddresses, HelloFault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use transport::{NameSource, Stream, connect_first, resolve, resolve_all};

use super::limits::{HANG_UP_WAIT, TRIES_MAX};
use super::settings::MeshSettings;
use crate::auth::{AuthError, DialledServer};

/// Parameters of an outgoing connection.
#[derive(Debug)]
pub(super) struct DialRequest {
    /// Server to dial.
    pub(super) sid: Sid,
    /// Possible addresses of the server, best first.
    pub(super) at: Vec<Endpoint>,
    /// Addresses of this server in the member list.
    pub(super) own: Vec<Endpoint>,
    /// Whether a member list contains the server.
    pub(super) is_member: bool,
    pub(super) settings: Arc<MeshSettings>,
}

/// Reason why a server was not reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// No address of the server is known.
    #[error("the member list does not contain this server")]
    Nowhere,
    /// None of the server's addresses answers, or the connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// This server's addresses do not fit into a hello.
    #[error(transparent)]
    Hello(#[from] HelloFault),
    /// The login failed.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

impl DialError {
    /// Returns whether every address refuses connections, which means that the hosts are running
    /// but the server is not.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Returns whether an established connection was reset.
    fn is_reset(&self) -> bool {
        let Self::Io(error) = self else {
            return false;
        };
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
        )
    }
}

impl DialRequest {
    /// Connects, writes the hello and logs in. If the other server must call back, waits until that
    /// server has closed the connection.
    ///
    /// When a process ends, the system accepts connections for it until its port is closed, and
    /// then resets them. Therefore a reset connection is retried immediately. If the process has
    /// ended, the retry is refused.
    pub(super) async fn dial(&self) -> Result<Stream, DialError> {
        for _ in 1..TRIES_MAX {
            match self.try_once().await {
                Err(error) if error.is_reset() => {}
                end => return end,
            }
        }
        self.try_once().await
    }

    /// Makes one attempt. Names are resolved each time, because the server may have moved to
    /// another address.
    async fn try_once(&self) -> Result<Stream, DialError> {
        if self.at.is_empty() {
            return Err(DialError::Nowhere);
        }
        let limit = self.settings.connect_timeout;
        let at: Vec<_> = self
            .at
            .iter()
            .map(|at| (at.host.as_str(), at.port))
            .collect();
        let source = if self.is_member {
            NameSource::Configured
        } else {
            NameSource::Announced
        };
        let addresses = resolve_all(source, &at, limit).await?;
        // Built before the connection, because the other server waits for it only for a short time,
        // and the lookup of this server's own name may take longer.
        let hello = self.hello().await?;
        let options = self.settings.socket_options();
        let stream = connect_first(addresses, limit, options).await?;
        let hosts: Vec<_> = self.at.iter().map(|at| at.host.as_str()).collect();
        let connecting = self.settings.connector.establish(stream, &hosts);
        let connected = timeout(limit, connecting).await;
        let mut stream = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let write = async {
            stream.write_all(&hello).await?;
            stream.flush().await
        };
        let write = timeout(limit, write).await;
        write.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let dialled = DialledServer {
            sid: Some(self.sid),
            host: hosts.last().copied().unwrap_or_default(),
        };
        let log_in = self.settings.auth.log_in(&mut stream, dialled);
        let logged_in = timeout(self.settings.read_timeout, log_in).await;
        logged_in.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))?;
        if self.settings.me < self.sid {
            wait_for_end(&mut stream).await?;
        }
        Ok(stream)
    }

    async fn hello(&self) -> Result<Vec<u8>, DialError> {
        let limit = self.settings.connect_timeout;
        let mut own = Vec::new();
        for endpoint in &self.own {
            own.push(announced_address(endpoint, limit).await);
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

/// Waits until the other side has closed the connection, up to a time limit.
async fn wait_for_end(stream: &mut Stream) -> io::Result<()> {
    let mut unwanted = [0; 64];
    let end = async {
        while stream.read(&mut unwanted).await? > 0 {}
        Ok(())
    };
    timeout(HANG_UP_WAIT, end).await.unwrap_or(Ok(()))
}

/// Returns the address that this server announces. As in Java, this is the current address and not
/// the name, because the name may still resolve to the old address on other hosts if this server
/// has just moved. If the name resolves to a loopback or wildcard address (for example, in the
/// hosts file of this machine), the name itself is announced, because other hosts can resolve it.
async fn announced_address(own: &Endpoint, limit: Duration) -> Endpoint {
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
    use tokio::net::TcpListener;
    use transport::tls::{Acceptor, Connector};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn endpoint(host: &str, port: u16) -> Endpoint {
        let host = host.to_owned();
        Endpoint { host, port }
    }

    #[tokio::test]
    async fn a_loopback_name_is_announced_as_a_name() {
        for (host, told) in [
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "0.0.0.0"),
            ("192.0.2.1", "192.0.2.1"),
            ("host.invalid", "host.invalid"),
        ] {
            assert_eq!(
                announced_address(&endpoint(host, 7), LIMIT).await,
                endpoint(told, 7)
            );
        }
    }
    /// Returns a dial from server 1 to server `sid` on a port of the loopback address.
    fn call(sid: i64, port: u16) -> DialRequest {
        let settings = MeshSettings {
            me: Sid(1),
            connect_timeout: LIMIT,
            read_timeout: LIMIT,
            listen_on_all_ips: false,
            multi_address: false,
            bind_attempts: None,
            tcp_keep_alive: false,
            acceptor: Acceptor::plain(),
            connector: Connector::plain(),
            auth: Arc::default(),
        };
        DialRequest {
            sid: Sid(sid),
            at: vec![endpoint("127.0.0.1", port)],
            own: vec![endpoint("127.0.0.1", 1)],
            is_member: true,
            settings: Arc::new(settings),
        }
    }

    #[tokio::test]
    async fn a_process_that_exits_during_a_dial_refuses_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let call = call(2, listener.local_addr().unwrap().port());
        let end = async {
            let (stream, _) = listener.accept().await.unwrap();
            // The hello is not read, so the system resets the connection when it is closed.
            stream.peek(&mut [0]).await.unwrap();
            drop((listener, stream));
        };
        let (dialled, ()) = tokio::join!(call.dial(), end);
        assert!(dialled.unwrap_err().is_refusal());
    }

    #[tokio::test]
    async fn dials_to_a_server_that_resets_connections_are_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let call = call(2, listener.local_addr().unwrap().port());
        let mut seen = 0;
        let resets = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                seen += 1;
                stream.peek(&mut [0]).await.unwrap();
            }
        };
        let error = tokio::select! {
            dialled = call.dial() => dialled.unwrap_err(),
            () = resets => unreachable!(),
        };
        assert!(error.is_reset() && !error.is_refusal(), "{error}");
        assert_eq!(seen, TRIES_MAX);
    }

    #[tokio::test]
    async fn a_knock_ends_when_the_other_has_hung_up_and_a_call_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let knock = call(2, port);
        let mut dialling = Box::pin(knock.dial());
        let mut stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            _ = &mut dialling => panic!("it waits"),
        };
        let hello = knock.hello().await.unwrap();
        let mut heard = vec![0; hello.len()];
        tokio::select! {
            read = stream.read_exact(&mut heard) => drop(read.unwrap()),
            _ = &mut dialling => panic!("it waits"),
        }
        assert_eq!(heard, hello);
        drop(stream);
        dialling.await.unwrap();
        // Server 0 has the smaller id, so the connection is kept.
        let kept = call(0, port);
        let (kept, accepted) = tokio::join!(kept.dial(), listener.accept());
        drop((kept.unwrap(), accepted.unwrap()));
    }
}
