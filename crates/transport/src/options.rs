//! Options of connected sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

/// Options of the socket of an incoming or outgoing connection. Small writes are always sent
/// immediately (`TCP_NODELAY`).
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketOptions {
    /// Whether the kernel probes a silent peer.
    pub keep_alive: bool,
    /// Time after which unacknowledged data breaks the connection (Linux only). Without this limit,
    /// after a partition or the loss of a host, the kernel sends the data again at increasing
    /// intervals of up to two minutes.
    pub unacknowledged_max: Option<Duration>,
}

impl SocketOptions {
    /// Sets the options. A connection works without them, so a failure is only logged.
    pub fn apply(&self, stream: &TcpStream, peer: SocketAddr) {
        if let Err(error) = self.try_apply(stream) {
            tracing::debug!(%peer, err = %error, "cannot set socket options");
        }
    }

    fn try_apply(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(stream);
        if self.keep_alive {
            socket.set_keepalive(true)?;
        }
        #[cfg(target_os = "linux")]
        if self.unacknowledged_max.is_some() {
            socket.set_tcp_user_timeout(self.unacknowledged_max)?;
        }
        Ok(())
    }
}
