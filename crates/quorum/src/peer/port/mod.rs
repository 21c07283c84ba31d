//! Leader's side of the quorum port.

mod admit;
pub(crate) mod catch_up;
mod link;
mod link_figures;
mod listen;
mod send_tree;
mod staging;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use host::{Schedule, ServerState, Writer, read_log};
use jute::Limits;
use log_limiter::LogLimiter;
use metrics::Metrics;
use metrics::view::ObserverInfo;
use parking_lot::Mutex;
use proto::Zxid;
use proto::leader::LeaderPacket;
use proto::packet::QuorumPacket;
use replica::{Input, LearnerEvent, Port as Which};
use storage::DataDirs;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use transport::Listener;
use transport::tls::Acceptor;
use zab::leader::{LinkFault, LinkId};

pub(crate) use self::listen::ListenSettings;

use self::catch_up::log_pages;
use self::link::Link;
use self::listen::BindAddress;
use self::staging::Staging;
use super::error::PeerError;
use super::event::{PeerEvent, PeerSink, ReadAhead};
use super::outbox::PacketBatch;
use crate::auth::QuorumAuth;
use crate::greetings::Greetings;
use crate::limits;

/// Configuration of the leader's side.
#[derive(Debug, Clone)]
pub(crate) struct PortSettings {
    /// Maximum size of a string or buffer in a packet, in bytes.
    pub(crate) limits: Limits,
    /// Maximum time without progress while sending to a learner (`initLimit`).
    pub(crate) stall: Duration,
    /// Rules for logins (`quorum.auth.*`).
    pub(crate) auth: Arc<QuorumAuth>,
    /// Directories of the log and the snapshots.
    pub(crate) dirs: DataDirs,
    /// Size factor of `zookeeper.snapshotSizeFactor`. With `None` (a negative value), the log is
    /// never read.
    pub(crate) snapshot_size_factor: Option<f64>,
    /// Metrics of the learners' queues.
    pub(crate) metrics: Arc<Metrics>,
    /// Acceptor for incoming connections.
    pub(crate) acceptor: Acceptor,
    /// Kind of port. Requests from a follower's observers share one connection to the leader, so
    /// all observers together have the read-ahead of one learner.
    pub(crate) port: Which,
}

/// Port on which learners reach their leader.
///
/// It is open for one term at a time. Packets are sent no later than at the next
/// [`flush`](Self::flush). Orders for a closed link are ignored. Either the link's `Closed` event
/// is in transit, or the core has closed the link itself and the link's events have ended.
///
/// Except where noted, its methods hold locks only briefly and never wait otherwise.
pub(crate) struct LearnerPort(Arc<Port>);

struct Port {
    runtime: Handle,
    state: Arc<ServerState>,
    settings: PortSettings,
    sink: PeerSink,
    log_limiter: LogLimiter,
    links_made: AtomicU64,
    /// Connection on which the last requests arrived.
    latest_requester: AtomicU64,
    /// Read-ahead of all connections, if they share it.
    read_ahead: Option<ReadAhead>,
    /// Learners that are logging in.
    greetings: Mutex<Greetings>,
    /// Packets that were sent since the last flush.
    staged: Mutex<Staging>,
    term: Mutex<Term>,
}

#[derive(Default)]
struct Term {
    /// Number of the term. It distinguishes connections that were accepted in an earlier term.
    number: u64,
    sockets: Vec<(Arc<Listener>, AbortHandle)>,
    #[cfg(test)]
    addresses: Vec<std::net::SocketAddr>,
    links: HashMap<LinkId, Arc<Link>>,
    /// Links of the previous term whose output is still being written.
    parting: Vec<Weak<Link>>,
}

impl Term {
    /// Returns the oldest connection whose learner has not introduced itself, if there are too many
    /// connections.
    fn silent_if_full(&self) -> Option<Arc<Link>> {
        if self.links.len() < limits::LEARNER_LINKS_MAX {
            return None;
        }
        let silent = self.links.values();
        let silent = silent.filter(|link| link.figures.learner().is_none());
        silent.min_by_key(|link| link.id.0).cloned()
    }
}

impl LearnerPort {
    /// Creates a closed port. `runtime` runs its tasks, and `sink` receives its events.
    pub(crate) fn new(
        runtime: Handle,
        state: Arc<ServerState>,
        settings: PortSettings,
        sink: PeerSink,
    ) -> Self {
        let read_ahead = (settings.port == Which::Observers).then(ReadAhead::new);
        Self(Arc::new(Port {
            runtime,
            state,
            settings,
            sink,
            log_limiter: LogLimiter::of("quorum port"),
            links_made: AtomicU64::new(0),
            latest_requester: AtomicU64::new(0),
            read_ahead,
            greetings: Mutex::new(Greetings::new(limits::LOGINS_MAX)),
            staged: Mutex::default(),
            term: Mutex::default(),
        }))
    }

    /// Returns the connected learners, for operators.
    pub(crate) fn links(&self) -> LearnerLinks {
        LearnerLinks(self.0.clone())
    }

    /// Begins a term, and ends the previous term. Listens on the addresses immediately, or after
    /// their names have been resolved. `ListenFailed` with `attempt` follows if none of the
    /// addresses can be used.
    pub(crate) fn open(&self, attempt: u64, listen: ListenSettings) {
        self.close_all();
        let (port, number) = (self.0.clone(), self.0.term.lock().number);
        match listen.known_addresses() {
            Some(addresses) => port.listen(attempt, number, addresses),
            None => drop(self.0.runtime.spawn(async move {
                port.listen(attempt, number, listen.resolve().await);
            })),
        }
    }

    /// Returns the addresses on which the port listens.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> Vec<std::net::SocketAddr> {
        self.0.term.lock().addresses.clone()
    }

    /// Ends the term. Refuses new connections, and drops existing ones with their waiting output.
    pub(crate) fn close_all(&self) {
        self.end_term(|_| false);
    }

    /// Ends the term because another server leads. Synchronised learners first receive their
    /// waiting output, which announces the new leader. Their packets are no longer delivered.
    /// Learners that read too slowly are dropped after the stall time, or at the end of the next
    /// term.
    pub(crate) fn hand_over(&self) {
        self.end_term(Link::close_after_flush);
    }

    fn end_term(&self, parts: impl Fn(&Link) -> bool) {
        self.flush();
        self.end_term_of_links(parts);
        // The term is over, so no greeting is added. Greetings hold the locks of the directories,
        // which a stopped server must release.
        self.0.greetings.lock().end_all();
    }

    fn end_term_of_links(&self, parts: impl Fn(&Link) -> bool) {
        let term = &mut *self.0.term.lock();
        term.number += 1;
        #[cfg(test)]
        term.addresses.clear();
        for (socket, accepting) in term.sockets.drain(..) {
            socket.close();
            // Closing a socket in this way does not wake its task.
            accepting.abort();
        }
        for link in term.parting.drain(..).filter_map(|link| link.upgrade()) {
            link.close();
        }
        for (_, link) in term.links.drain() {
            if parts(&link) {
                term.parting.push(Arc::downgrade(&link));
            } else {
                link.close();
            }
        }
    }

    /// Sends a packet no later than at the next flush.
    pub(crate) fn send(&self, link: LinkId, packet: LeaderPacket) {
        let staging = &mut *self.0.staged.lock();
        let Some((to, batch)) = staging.of(link, || self.0.link(link)) else {
            return;
        };
        if matches!(packet, LeaderPacket::NewLeader { .. }) {
            // The log is no longer read for this learner, so the file can be closed. If a read
            // still holds the lock, the file stays open.
            if let Some(mut cursor) = to.cursor.try_lock() {
                cursor.take();
            }
        }
        batch.add(&QuorumPacket::from(packet));
        if batch.is_full() {
            self.0.queue(to, batch);
        }
    }

    /// Writes or queues the packets since the last flush, in the order of the schedule. Also called
    /// before any other operation on the connections.
    pub(crate) fn flush(&self) {
        let latest_requester = LinkId(self.0.latest_requester.load(Ordering::Relaxed));
        let mut links = self.0.staged.lock().take(latest_requester);
        let writer = Schedule::writer_to_members(links.len());
        for (to, batch) in &mut links {
            match writer {
                Writer::Core => self.0.write(to, batch),
                Writer::Task => self.0.queue(to, batch),
            }
        }
        self.0.staged.lock().put_back(links);
    }

    /// Sends a SNAP packet with `zxid` and then the tree, before all later packets. `SnapshotSent`
    /// follows.
    pub(crate) fn send_snapshot(&self, link: LinkId, zxid: Zxid) {
        self.flush();
        if let Some(to) = self.0.link(link) {
            to.outbox.push_snapshot(zxid, self.0.state.tree_bytes());
        }
    }

    /// Reads a part of the log once the connection has space. `LogRecords` or `LogUnusable`
    /// follows. Only one read per link may be pending.
    pub(crate) fn read_log(&self, link: LinkId, from: Zxid, upto: Zxid) {
        self.flush();
        if let Some(to) = self.0.link(link) {
            let port = self.0.clone();
            self.0.runtime.spawn(async move {
                if let Some(event) = to.while_open(port.read_log(&to, from, upto)).await {
                    let event = Input::Learner(port.settings.port, event);
                    (port.sink)(event.into());
                }
            });
        }
    }

    /// Drops a connection, with its waiting output, for this reason.
    pub(crate) fn close(&self, link: LinkId, fault: &LinkFault) {
        self.flush();
        let closed = self.0.term.lock().links.remove(&link);
        let Some(closed) = closed else { return };
        closed.close();
        let (link, peer) = (link.0, closed.peer);
        if fault.is_wrong_input() {
            log_limiter::limited!(warn, link, %peer, err = %fault, "dropping a learner");
        } else {
            log_limiter::limited!(info, link, %peer, err = %fault, "dropping a learner");
        }
    }
}

/// Connected learners, for operators.
#[derive(Clone)]
pub struct LearnerLinks(Arc<Port>);

impl LearnerLinks {
    /// Returns the observers.
    pub fn observers(&self) -> Vec<ObserverInfo> {
        let mut observers: Vec<ObserverInfo> = self
            .all()
            .iter()
            .filter_map(|link| link.figures.observer(link.peer, link.outbox.waiting()))
            .collect();
        observers.sort_by_key(|observer| observer.sid);
        observers
    }

    /// Resets the counters.
    pub fn reset(&self) {
        self.all().iter().for_each(|link| link.figures.reset());
    }

    fn all(&self) -> Vec<Arc<Link>> {
        self.0.term.lock().links.values().cloned().collect()
    }
}

impl Drop for LearnerPort {
    fn drop(&mut self) {
        self.close_all();
    }
}

impl Port {
    fn listen(self: &Arc<Self>, attempt: u64, number: u64, addresses: Vec<BindAddress>) {
        let opened = match listen::open(&self.runtime, addresses) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::error!(err = %error, "cannot listen for learners on any address");
                let port = self.settings.port;
                return (self.sink)(Input::ListenFailed { port, attempt }.into());
            }
        };
        let mut term = self.term.lock();
        if term.number != number {
            // The term is over, so the sockets are closed again.
            return;
        }
        for (socket, address) in opened {
            tracing::debug!(%address, "listening for learners");
            let accepting = self.clone().accept(socket.clone(), number);
            let accepting = self.runtime.spawn(accepting).abort_handle();
            term.sockets.push((socket, accepting));
            #[cfg(test)]
            term.addresses.push(address);
        }
    }

    fn link(&self, id: LinkId) -> Option<Arc<Link>> {
        self.term.lock().links.get(&id).cloned()
    }

    fn queue(&self, to: &Link, batch: &mut PacketBatch) {
        if !batch.is_empty() {
            match to.outbox.push(batch) {
                Ok(waiting) => self.count_sent(to, batch, waiting as u64),
                Err(error) => self.end(to, error),
            }
        }
        batch.clear();
    }

    /// Writes directly to the connection. Queues the bytes that the socket does not accept
    /// immediately.
    fn write(&self, to: &Link, batch: &mut PacketBatch) {
        if to.outbox.try_write(batch) {
            self.count_sent(to, batch, batch.packets().0);
            to.note_waited(0, &self.settings.metrics);
            batch.clear();
        } else {
            self.queue(to, batch);
        }
    }

    fn count_sent(&self, to: &Link, batch: &PacketBatch, waiting: u64) {
        let (packets, last) = batch.packets();
        to.figures.sent(packets, last);
        if let Some(learner) = to.figures.learner() {
            let sizes = &self.settings.metrics.learner_handler_qp_size;
            sizes.record(&learner.key, waiting);
        }
    }

    /// Ends a connection that has broken or must be closed. The core receives the event only once.
    fn end(&self, link: &Link, reason: PeerError) {
        if self.term.lock().links.remove(&link.id).is_some() {
            link.close();
            let (event, link, peer) = (link.name.closed(), link.id, link.peer);
            if reason.is_expected() {
                log_limiter::limited!(info, link = link.0, %peer, err = %reason, "learner's connection ended");
            } else {
                log_limiter::limited!(warn, link = link.0, %peer, err = %reason, "learner's connection ended");
            }
            (self.sink)(PeerEvent::end(event, reason));
        }
    }

    async fn read_log(&self, to: &Arc<Link>, from: Zxid, upto: Zxid) -> LearnerEvent {
        let link = to.id;
        let Some(size_factor) = self.settings.snapshot_size_factor else {
            return LearnerEvent::LogUnusable { link };
        };
        to.outbox.wait_below(limits::LOG_PAGE_BYTES).await;
        let (dirs, limits) = (self.settings.dirs.clone(), self.settings.limits);
        let pages = log_pages(dirs, limits, size_factor);
        let of = to.clone();
        let reading = move || read_log(&pages, &mut of.cursor.lock(), link, from, upto);
        let read = blocking::run(reading).await;
        read.unwrap_or_else(|error| {
            tracing::error!(link = link.0, err = %error, "cannot read the log for a learner");
            LearnerEvent::LogUnusable { link }
        })
    }
}
