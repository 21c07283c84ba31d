//! Learner's side: one attempt to reach a leader, and the resulting connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use config::members::HostPort;
use host::LinkName;
use jute::Limits;
use proto::learner::LearnerPacket;
use proto::packet::QuorumPacket;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use transport::tls::Connector;
use transport::{DialRetries, ReadHalf, SocketOptions, Stream, connect_patiently};
use tree::TreeSettings;

use super::error::PeerError;
use super::event::{PeerEvent, PeerSink, ReadAhead};
use super::outbox::{Outbox, PacketBatch, write_packets};
use super::reader::PacketReader;
use super::receive::{Receiving, receive};
use crate::auth::{DialledServer, QuorumAuth};

/// Configuration of the learner's side.
#[derive(Clone)]
pub(crate) struct LearnerSettings {
    /// Limits of the attempts to reach the leader.
    pub(crate) dial: DialRetries,
    /// Maximum size of a string or buffer in a packet or snapshot, in bytes.
    pub(crate) limits: Limits,
    /// Maximum time without progress while sending to a leader (`initLimit`).
    pub(crate) stall: Duration,
    /// Credentials of this server.
    pub(crate) auth: Arc<QuorumAuth>,
    /// Settings of the tree that is loaded from a snapshot.
    pub(crate) tree: Arc<TreeSettings>,
    /// Connector for connections to the leader.
    pub(crate) connector: Connector,
    /// Source of the work that is run after packets have been delivered to the core.
    pub(crate) deferred_work: DeferredWork,
}

/// Function that removes and returns the work that the core has deferred to the task that delivers
/// the leader's packets. The work waits for the disk.
pub type DeferredWork = Arc<dyn Fn() -> Option<Box<dyn FnOnce() + Send>> + Send + Sync>;

/// Reading side of a connection to the leader.
struct LeaderReader {
    reader: PacketReader<ReadHalf>,
    read_ahead: ReadAhead,
}

/// Connection to a leader, or an attempt to connect to a leader. Dropping the value closes the
/// connection and ends its events.
///
/// Its methods hold locks only briefly and never wait otherwise.
#[derive(Debug)]
pub(crate) struct LeaderConnection {
    line: Arc<ConnectionTasks>,
    /// Packets that were sent since the last flush.
    staged: PacketBatch,
}

/// State that the reading and the writing task of a connection share.
struct ConnectionTasks {
    attempt: u64,
    outbox: Outbox,
    closing: watch::Sender<bool>,
    /// Signal that the core is ready for the snapshot.
    is_awaited: Notify,
    settings: LearnerSettings,
    sink: PeerSink,
}

/// Factory for connections to leaders.
pub(crate) struct Dialer {
    runtime: Handle,
    settings: LearnerSettings,
    sink: PeerSink,
}

impl Dialer {
    /// Creates a dialer. `runtime` runs the tasks of the connections, and `sink` receives their
    /// events.
    pub(crate) fn new(runtime: Handle, settings: LearnerSettings, sink: PeerSink) -> Self {
        Self {
            runtime,
            settings,
            sink,
        }
    }

    /// Starts, after a pause, to dial the leader at its quorum addresses. `Connected` or `Closed`
    /// follows. Packets that are sent earlier wait until the connection exists.
    pub(crate) fn dial(
        &self,
        attempt: u64,
        leader: Vec<HostPort>,
        pause: Duration,
    ) -> LeaderConnection {
        let line = Arc::new(ConnectionTasks {
            attempt,
            outbox: Outbox::of_leader(),
            closing: watch::Sender::new(false),
            is_awaited: Notify::new(),
            settings: self.settings.clone(),
            sink: self.sink.clone(),
        });
        let dialing = line.clone();
        self.runtime.spawn(async move {
            let run = async {
                sleep(pause).await;
                dialing.clone().run(leader).await;
            };
            let mut closing = dialing.closing.subscribe();
            tokio::select! {
                biased;
                _ = closing.wait_for(|is_closing| *is_closing) => {}
                () = run => {}
            }
        });
        LeaderConnection {
            line,
            staged: PacketBatch::default(),
        }
    }
}

impl LeaderConnection {
    /// Returns the number of the attempt.
    pub(crate) fn attempt(&self) -> u64 {
        self.line.attempt
    }

    /// Sends a packet no later than at the next flush.
    pub(crate) fn send(&mut self, packet: LearnerPacket) {
        self.staged.add(&QuorumPacket::from(packet));
        if self.staged.is_full() {
            self.flush();
        }
    }

    /// Writes or queues the packets that were sent since the last flush.
    pub(crate) fn flush(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let outbox = &self.line.outbox;
        if !outbox.try_write(&self.staged)
            && let Err(error) = outbox.push(&self.staged)
        {
            self.line.end(error);
        }
        self.staged.clear();
    }

    /// Returns the number of bytes that wait to be written to the leader.
    pub(crate) fn waiting_bytes(&self) -> usize {
        usize::try_from(self.line.outbox.waiting().bytes).unwrap_or(usize::MAX)
    }

    /// Receives the snapshot that follows the SNAP packet at the start of the synchronisation, and
    /// then continues reading packets. `SnapshotReceived` or `SnapshotDamaged` follows.
    pub(crate) fn receive_snapshot(&self) {
        self.line.is_awaited.notify_one();
    }

    /// Closes the connection, and drops all waiting output.
    pub(crate) fn close(&self) {
        self.line.closing.send_replace(true);
    }
}

impl Drop for LeaderConnection {
    fn drop(&mut self) {
        self.close();
    }
}

impl ConnectionTasks {
    async fn run(self: Arc<Self>, leader: Vec<HostPort>) {
        let (patience, options) = (&self.settings.dial, SocketOptions::default());
        let connector = &self.settings.connector;
        let dialled = connect_patiently("the leader", &leader, patience, options, connector).await;
        let connected = match dialled {
            Ok(stream) => self.log_in(stream, &leader).await,
            Err(failure) => Err(failure.into()),
        };
        let stream = match connected {
            Ok(stream) => stream,
            Err(error) => return self.end(error),
        };
        let attempt = self.attempt;
        tracing::debug!(attempt, peer = ?stream.peer_addr().ok(), "connected to the leader");
        (self.sink)(self.name().connected().into());
        self.serve(stream);
    }

    async fn log_in(&self, mut stream: Stream, at: &[HostPort]) -> Result<Stream, PeerError> {
        let dialled = DialledServer {
            sid: None,
            host: at.first().map_or("", |at| at.host.as_str()),
        };
        let log_in = self.settings.auth.log_in(&mut stream, dialled);
        match tokio::time::timeout(self.settings.stall, log_in).await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(error)) => {
                tracing::error!(peer = ?stream.peer_addr().ok(), err = %error, "cannot log in to the leader");
                Err(error.into())
            }
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }

    /// Writes and reads in separate tasks.
    fn serve(self: Arc<Self>, stream: Stream) {
        let (input, mut output) = stream.into_split();
        let writing = self.clone();
        tokio::spawn(async move {
            let _at_once = writing.outbox.write_at_once(output.direct_writer());
            let mut closing = writing.closing.subscribe();
            tokio::select! {
                biased;
                _ = closing.wait_for(|is_closing| *is_closing) => {}
                // A learner does not send snapshots, so this task ends only with an error.
                written = write_packets(&writing.outbox, &mut output, writing.settings.stall) => {
                    if let Err(reason) = written {
                        writing.end(reason);
                    }
                }
            }
        });
        let reader = PacketReader::of_leader(self.attempt, input, self.settings.limits);
        let read_ahead = ReadAhead::new();
        self.spawn_reading(LeaderReader { reader, read_ahead });
    }

    /// Reads in a new task until the connection ends.
    fn spawn_reading(self: Arc<Self>, reading: LeaderReader) {
        tokio::spawn(async move {
            let mut closing = self.closing.subscribe();
            tokio::select! {
                biased;
                _ = closing.wait_for(|is_closing| *is_closing) => {}
                ended = self.clone().read(reading) => {
                    if let Some(event) = ended {
                        self.end_by(event);
                    }
                }
            }
        });
    }

    /// Delivers packets and the snapshot. Returns the event for the end of the connection. Returns
    /// `None` if another task continues reading because this task had to wait for the disk.
    async fn read(self: Arc<Self>, reading: LeaderReader) -> Option<PeerEvent> {
        let name = self.name();
        let LeaderReader {
            mut reader,
            read_ahead,
        } = reading;
        loop {
            if reader.is_at_tree() {
                self.is_awaited.notified().await;
                let tree = match receive(reader, self.receiving()).await {
                    Ok((the_reader, tree)) => {
                        reader = the_reader;
                        tree
                    }
                    Err(reason) => return Some(PeerEvent::end(name.tree_received(None), reason)),
                };
                (self.sink)(name.tree_received(Some(tree)).into());
            }
            let (input, bytes) = match reader.read().await {
                Ok(packets) => packets,
                Err(reason) => return Some(PeerEvent::end(name.closed(), reason)),
            };
            let permit = read_ahead.take(bytes).await;
            (self.sink)(PeerEvent::packets(input, permit));
            if let Some(work) = (self.settings.deferred_work)() {
                self.clone()
                    .spawn_reading(LeaderReader { reader, read_ahead });
                blocking::in_place(work);
                return None;
            }
        }
    }

    fn receiving(&self) -> Receiving {
        let (sink, name) = (self.sink.clone(), self.name());
        Receiving {
            limits: self.settings.limits,
            tree: self.settings.tree.clone(),
            runtime: Handle::current(),
            progress: Box::new(move || sink(name.tree_progress().into())),
            reported: Instant::now(),
            closing: self.closing.subscribe(),
        }
    }

    /// Returns the name of the link in the replica.
    fn name(&self) -> LinkName {
        LinkName::Leader(self.attempt)
    }

    /// Reports that the attempt failed, or that its connection broke.
    fn end(&self, reason: PeerError) {
        self.end_by(PeerEvent::end(self.name().closed(), reason));
    }

    /// Reports the end of the attempt. The core receives the event only once, and not if it has
    /// closed the connection itself.
    fn end_by(&self, event: PeerEvent) {
        if !self.closing.send_replace(true) {
            tracing::debug!(?event, "connection to the leader ended");
            (self.sink)(event);
        }
    }
}

impl std::fmt::Debug for ConnectionTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "attempt {}", self.attempt)
    }
}
