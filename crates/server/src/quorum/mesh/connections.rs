//! The sockets behind the numbers that [`election::links::Links`] decides about.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use election::links::{CloseReason, ConnectionId};
use proto::Sid;
use proto::notification::Notification;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use transport::Stream;

use super::actor::Input;
use super::dial::{Call, DialError};
use super::link::{Link, LinkEnd};
use super::listener::ListenerContext;

/// All connections, and the tasks that run or open them. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Connections {
    context: ListenerContext,
    last: u64,
    undecided: BTreeMap<ConnectionId, Undecided>,
    kept: BTreeMap<ConnectionId, Kept>,
    /// Servers that are not reached, with the last reported reason.
    unreachable: BTreeMap<Sid, String>,
    tasks: JoinSet<()>,
}

/// A connection that is to be kept or closed.
#[derive(Debug)]
pub(super) struct Undecided {
    pub(super) stream: Stream,
    /// Who connected; nobody if we did.
    pub(super) peer: Option<SocketAddr>,
    /// What came behind the hello.
    pub(super) rest: Vec<u8>,
}

#[derive(Debug)]
struct Kept {
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

    /// Opens a connection; the end of the attempt comes as [`Input::Dialled`].
    pub(super) fn dial(&mut self, call: Call) {
        let inputs = self.context.inputs.clone();
        self.tasks.spawn(async move {
            let result = call.dial().await;
            let (sid, is_member) = (call.sid, call.is_member);
            // If nobody takes it, the server stops.
            let _ = inputs
                .send(Input::Dialled {
                    sid,
                    is_member,
                    result,
                })
                .await;
        });
    }

    /// Reports that a server is not reached, once for each reason until it is reached again.
    pub(super) fn tell_unreachable(&mut self, sid: Sid, error: &DialError) {
        let reason = error.to_string();
        if self.unreachable.get(&sid) == Some(&reason) {
            return tracing::debug!(%sid, err = %error, "server still not reached for an election");
        }
        self.unreachable.insert(sid, reason);
        log_limiter::limited!(in self.context.log_limiter => warn, %sid, err = %error, "server not reached for an election");
    }

    /// A server was reached.
    pub(super) fn forget_unreachable(&mut self, sid: Sid) {
        self.unreachable.remove(&sid);
    }

    /// A number for a connection, which the core has kept or closed.
    pub(super) fn number(&mut self, undecided: Undecided) -> ConnectionId {
        self.last += 1;
        let connection = ConnectionId(self.last);
        self.undecided.insert(connection, undecided);
        connection
    }

    /// Reads and writes from now on; what is read comes as [`Input::Heard`].
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
        let kept = Kept {
            sid,
            task,
            outgoing,
        };
        self.kept.insert(connection, kept);
    }

    /// Writes this, in place of what was not written yet.
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
            self.tell_close(undecided.peer, reason);
        }
    }

    /// The connection ended by itself, unless it was closed before.
    pub(super) fn handle_end(&mut self, connection: ConnectionId, end: &LinkEnd) {
        let Some(Kept { sid, .. }) = self.kept.remove(&connection) else {
            return;
        };
        match end {
            LinkEnd::Closed => tracing::debug!(%sid, "election connection closed"),
            // A member that cannot be reached again is reported.
            LinkEnd::Io(_) => tracing::debug!(%sid, err = %end, "election connection broken"),
            LinkEnd::Length { .. } | LinkEnd::Stalled => {
                log_limiter::limited!(in self.context.log_limiter => warn, %sid, err = %end, "election connection broken");
            }
        }
    }

    /// Waits for the next task that ends; for ever if there is none.
    pub(super) async fn reap(&mut self) {
        match self.tasks.is_empty() {
            true => std::future::pending().await,
            false => drop(self.tasks.join_next().await),
        }
    }

    pub(super) async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }

    fn tell_close(&self, peer: Option<SocketAddr>, reason: CloseReason) {
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let complaint = match reason {
            CloseReason::OwnSid => {
                "another server has this server's id: each needs its own in dataDir/myid"
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
