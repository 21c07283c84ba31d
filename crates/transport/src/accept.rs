//! Acceptance of connections.

use std::io;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

use crate::options::SocketOptions;
use crate::reserved_descriptors::{self, ReservedDescriptors};
use log_limiter::LogLimiter;

/// Listening socket that can be closed immediately, even while a task waits for a connection.
/// Closing frees the address.
#[derive(Debug)]
pub struct Listener(Mutex<Option<TcpListener>>);

/// Pause after a failed accept. The usual cause is a lack of file descriptors, which ends when
/// other connections are closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Listener {
    /// Takes ownership of the socket.
    pub fn new(listener: TcpListener) -> Self {
        Self(Mutex::new(Some(listener)))
    }

    /// Closes the socket. Connections are then refused. Does not wake a task that waits in
    /// [`accept_each`]; the task must be aborted.
    pub fn close(&self) {
        *self.0.lock() = None;
    }

    /// Returns the next connection, or `None` once the socket is closed.
    async fn accept(&self) -> Option<io::Result<(TcpStream, SocketAddr)>> {
        std::future::poll_fn(|context| match &*self.0.lock() {
            Some(listener) => listener.poll_accept(context).map(Some),
            None => Poll::Ready(None),
        })
        .await
    }
}

/// Settings for [`accept_each`].
#[derive(Debug, Clone, Copy)]
pub struct Accepting {
    /// Name of the connections in the log.
    pub of: &'static str,
    /// Options that are set on each connection.
    pub options: SocketOptions,
    /// File descriptors reserved for other uses.
    pub reserved_descriptors: ReservedDescriptors,
}

/// Passes each connection, with its options set, to `admit` until the socket is closed or the task
/// is aborted. `admit` must not wait, because further connections may be pending.
///
/// A connection that would use a reserved file descriptor is closed immediately. The first
/// connection closed in a shortage of file descriptors is logged.
pub async fn accept_each(
    listener: &Listener,
    accepting: Accepting,
    mut admit: impl FnMut(TcpStream, SocketAddr) + Send,
) {
    let (of, files_limit) = (accepting.of, reserved_descriptors::limit());
    let log_limiter = LogLimiter::of(of);
    let mut shortage = OpenFileShortage::default();
    while let Some(accepted) = listener.accept().await {
        match accepted {
            Ok((stream, _)) if accepting.reserved_descriptors.has(&stream, files_limit) => {
                if shortage.begins() {
                    let limit = files_limit.unwrap_or(u64::MAX);
                    log_limiter::limited!(in log_limiter => warn, of, limit, "no file descriptors left, closing new connections until other connections end; raise `ulimit -n`, or lower maxCnxns");
                }
            }
            Ok((stream, peer)) => {
                accepting.options.apply(&stream, peer);
                admit(stream, peer);
            }
            Err(error) => {
                log_limiter::limited!(in log_limiter => warn, of, err = %error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A period in which connections are closed because of a lack of file descriptors. It ends when no
/// connection has been closed for [`SHORTAGE_OVER`].
#[derive(Debug, Default)]
struct OpenFileShortage(Option<Instant>);

/// Time without a closed connection after which a shortage is over.
const SHORTAGE_OVER: Duration = Duration::from_secs(60);

impl OpenFileShortage {
    /// Records a closed connection. Returns whether it is the first of a shortage.
    fn begins(&mut self) -> bool {
        let before = self.0.replace(Instant::now());
        before.is_none_or(|before| before.elapsed() > SHORTAGE_OVER)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use tokio::sync::mpsc;

    use super::*;
    use crate::bind;

    #[tokio::test]
    async fn connections_are_handed_over_until_the_socket_is_closed() {
        let bound = bind((Ipv4Addr::LOCALHOST, 0).into(), 8).unwrap();
        let address = bound.local_addr().unwrap();
        let listener = Arc::new(Listener::new(bound));
        let (sender, mut accepted) = mpsc::unbounded_channel();
        let accepting = listener.clone();
        let task = tokio::spawn(async move {
            let admit = |stream, peer| sender.send((stream, peer)).unwrap();
            let how = Accepting {
                of: "tests",
                options: SocketOptions::default(),
                reserved_descriptors: ReservedDescriptors::ByClients,
            };
            accept_each(&accepting, how, admit).await;
        });
        let ours = TcpStream::connect(address).await.unwrap();
        let (theirs, peer) = accepted.recv().await.unwrap();
        assert_eq!(peer, ours.local_addr().unwrap());
        assert!(theirs.nodelay().unwrap());
        listener.close();
        task.abort();
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
