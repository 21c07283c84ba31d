//! Inputs of the mesh: messages from its tasks to the task that owns the connections.

use std::net::SocketAddr;
use std::sync::Arc;

use election::links::ConnectionId;
use log_limiter::LogLimiter;
use proto::Sid;
use proto::hello::Hello;
use proto::notification::Notification;
use tokio::sync::mpsc;
use transport::Stream;

use super::dial::DialError;
use super::link::LinkEnd;
use super::settings::MeshSettings;

/// Message from a listener, a dial or a link.
#[derive(Debug)]
pub(super) enum Input {
    /// A server has connected and sent its hello.
    Hello {
        stream: Stream,
        peer: SocketAddr,
        hello: Hello,
        /// Bytes that were received after the hello.
        rest: Vec<u8>,
    },
    /// A dial has ended.
    Dialled {
        sid: Sid,
        /// Whether the server is in a member list.
        is_member: bool,
        result: Result<Stream, DialError>,
    },
    /// A message has been received.
    ReceivedNotification {
        connection: ConnectionId,
        notification: Notification,
    },
    /// A connection has ended.
    Closed {
        connection: ConnectionId,
        end: LinkEnd,
    },
}

/// State that the listeners and the links share.
#[derive(Debug, Clone)]
pub(super) struct ListenerContext {
    pub(super) settings: Arc<MeshSettings>,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) log_limiter: Arc<LogLimiter>,
}
