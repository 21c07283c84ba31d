//! Sockets of the connections that [`election::links::Links`] identifies by number.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use election::links::{CloseReason, ConnectionId};
use proto::Sid;
use proto::notification::Notification;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use transport::Stream;

use super::dial::{DialError, DialRequest};
use super::input::{Input, ListenerContext};
use super::link::{Link, LinkEnd};

/// All connections and their tasks. Dropping the value ends them.
#[derive(Debug)]
pub(super) struct Connections {
    context: ListenerContext,
    last: u64,
    undecided: BTreeMap<ConnectionId, UndecidedConnection>,
    kept: BTreeMap<ConnectionId, KeptConnection>,
    /// Unreachable servers, each with the last reported reason.
    unreachable: BTreeMap<Sid, String>,
    tasks: JoinSet<()>,
}

/// Connection that the core will keep or close.
#[derive(Debug)]
pub(super) struct UndecidedConnection {
    pub(super) stream: Stream,
    /// Address of an incoming connection. `None` for an outgoing one.
    pub(super) peer: Option<SocketAddr>,
    /// Bytes that were received after the hello.
    pub(super) rest: Vec<u8>,
}

#[derive(Debug)]
struct KeptConnection {
    sid: Sid,
    task: AbortHandle,
    outgoing: watch::Sender<Option<Notification>>,
}

impl Connections {
    pub(super) fn new(context: ListenerContext) -> Self {
        Self {
            context,
            last: 0,
            undecided: BTreeMap::new(),
            kept: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Opens a connection. [`Input::Dialled`] reports the result of the attempt.
    pub(super) fn dial(&mut self, call: DialRequest) {
        let inputs = self.context.inputs.clone();
        self.tasks.spawn(async move {
            let result = call.dial().await;
            let (sid, is_member) = (call.sid, call.is_member);
            // An error means that the server is stopping.
            let _ = inputs
                .send(Input::Dialled {
                    sid,
                    is_member,
                    result,
                })
                .await;
        });
    }

    /// Logs that a server is unreachable. If the reason is still the same, logs only at debug level
    /// until the server is reached again.
    pub(super) fn log_unreachable(&mut self, sid: Sid, error: &DialError) {
        let reason = error.to_string();
        if self.unreachable.get(&sid) == Some(&reason) {
            return tracing::debug!(%sid, err = %error, "still cannot connect to a server for an election");
        }
        self.unreachable.insert(sid, reason);
        log_limiter::limited!(in self.context.log_limiter => warn, %sid, err = %error, "cannot connect to a server for an election");
    }

    /// Records that a server has been reached.
    pub(super) fn forget_unreachable(&mut self, sid: Sid) {
        self.unreachable.remove(&sid);
    }

    /// Assigns a number to a connection that the core will keep or close.
    pub(super) fn add_undecided(&mut self, undecided: UndecidedConnection) -> ConnectionId {
        self.last += 1;
        let connection = ConnectionId(self.last);
        self.undecided.insert(connection, undecided);
        connection
    }

    /// Starts reading and writing. [`Input::ReceivedNotification`] reports received messages.
    pub(super) fn keep(&mut self, connection: ConnectionId, sid: Sid) {
        let Some(undecided) = self.undecided.remove(&connection) else {
            return;
        };
        let (outgoing, receiver) = watch::channel(None);
        let link = Link {
            connection,
            sid,
            rest: undecided.rest,
            outgoing: receiver,
            context: self.context.clone(),
        };
        let task = self.tasks.spawn(link.run(undecided.stream));
        let kept = KeptConnection {
            sid,
            task,
            outgoing,
        };
        self.kept.insert(connection, kept);
    }

    /// Writes this message. Replaces an older message that has not been written.
    pub(super) fn write(&self, connection: ConnectionId, notification: Notification) {
        if let Some(kept) = self.kept.get(&connection) {
            kept.outgoing.send_replace(Some(notification));
        }
    }

    pub(super) fn close(&mut self, connection: ConnectionId, reason: CloseReason) {
        if let Some(kept) = self.kept.remove(&connection) {
            tracing::debug!(sid = %kept.sid, %reason, "election connection closed");
            kept.task.abort();
        }
        if let Some(undecided) = self.undecided.remove(&connection) {
            self.log_close(undecided.peer, reason);
        }
    }

    /// Removes a connection that has ended, and logs why. Does nothing if the connection was
    /// already closed.
    pub(super) fn handle_end(&mut self, connection: ConnectionId, end: &LinkEnd) {
        let Some(KeptConnection { sid, .. }) = self.kept.remove(&connection) else {
            return;
        };
        match end {
            LinkEnd::Closed => tracing::debug!(%sid, "election connection closed"),
            // If the member is then unreachable, the failed dial is reported.
            LinkEnd::Io(_) => tracing::debug!(%sid, err = %end, "election connection broken"),
            LinkEnd::Length { .. } | LinkEnd::Stalled => {
                log_limiter::limited!(in self.context.log_limiter => warn, %sid, err = %end, "election connection broken");
            }
        }
    }

    /// Waits for the next task that ends. Never returns if there are no tasks.
    pub(super) async fn reap(&mut self) {
        if self.tasks.is_empty() {
            std::future::pending::<()>().await;
        } else {
            drop(self.tasks.join_next().await);
        }
    }

    pub(super) async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }

    fn log_close(&self, peer: Option<SocketAddr>, reason: CloseReason) {
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let complaint = match reason {
            CloseReason::OwnSid => {
                "another server has the same id as this server: give each server its own id in dataDir/myid"
            }
            CloseReason::TooManyStrangers => {
                "election connection closed: too many servers outside the member list"
            }
            CloseReason::Knocked | CloseReason::CallBack | CloseReason::Replaced => {
                return tracing::debug!(peer, %reason, "election connection closed");
            }
        };
        log_limiter::limited!(in self.context.log_limiter => warn, me = %self.context.settings.me, peer, "{complaint}");
    }
}
