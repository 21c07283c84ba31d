//! Options of connected sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

/// What is set on a connected socket, from whichever side. Small writes always leave at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketOptions {
    /// The kernel asks a silent other side whether it is there.
    pub keep_alive: bool,
    /// What was sent and is not acknowledged for so long breaks the connection (Linux only).
    /// Otherwise, after a partition or the loss of a host, it is sent again and again at growing
    /// intervals, up to two minutes.
    pub unacknowledged_max: Option<Duration>,
}

impl SocketOptions {
    /// Sets them. A connection without them still works, so a failure is no more than a line in the log.
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
