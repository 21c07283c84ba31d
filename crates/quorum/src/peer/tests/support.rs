//! Member with both sides of the quorum port, and peers that are only sockets.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::members::HostPort;
use crossbeam_channel::{Receiver, Sender};
use host::ServerState;
use jute::Encode;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket};
use proto::packet::QuorumPacket;
use proto::{Acl, Epoch, Id, SessionId, Sid, StatPersisted, Zxid};
use replica::session::SessionIds;
use replica::{Input, LeaderEvent, LearnerEvent, Port};
use storage::{ContentError, DataDirs, SnapshotDigest, State, read_body};
use tokio::runtime::Runtime;
use transport::DialRetries;
use transport::tls::{Acceptor, Connector};
use tree::{Tree, TreeLoader, TreeSettings};
use zab::leader::LinkId;

use crate::auth::QuorumAuth;
use crate::peer::{
    DeferredWork, Dialer, LeaderConnection, LearnerPort, LearnerSettings, ListenSettings,
    PeerEvent, PeerSink, PortSettings,
};

/// Time limit of all waits in tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runtime and data of a member, and the events of both sides of its quorum port. The test itself
/// is the core thread.
pub(super) struct TestMember {
    pub(super) runtime: Runtime,
    pub(super) dir: tempfile::TempDir,
    pub(super) state: Arc<ServerState>,
    learners: (Sender<PeerEvent>, Receiver<PeerEvent>),
    leaders: (Sender<PeerEvent>, Receiver<PeerEvent>),
    /// Token that every source of events clones.
    tellers: Arc<()>,
    pub(super) auth: Arc<QuorumAuth>,
    pub(super) stall: Duration,
    pub(super) dial: DialRetries,
    /// Work for the task that delivers the leader's packets.
    pub(super) deferred_work: DeferredWork,
}

impl TestMember {
    pub(super) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("version-2")).unwrap();
        let tree = Tree::new(Arc::new(tree_settings()));
        Self {
            runtime,
            dir,
            state: Arc::new(ServerState::new(tree, 2000, SessionIds::new(1, 1))),
            learners: crossbeam_channel::unbounded(),
            leaders: crossbeam_channel::unbounded(),
            tellers: Arc::new(()),
            auth: Arc::default(),
            stall: PATIENCE,
            dial: DialRetries {
                retry_delay: Duration::from_millis(20),
                time_limit: PATIENCE,
            },
            deferred_work: Arc::new(|| None),
        }
    }

    pub(super) fn dirs(&self) -> DataDirs {
        DataDirs::unlocked(self.dir.path(), self.dir.path())
    }

    /// Returns a port that is not open yet.
    pub(super) fn port(&self) -> LearnerPort {
        let settings = PortSettings {
            auth: self.auth.clone(),
            limits: testkit::LIMITS,
            stall: self.stall,
            dirs: self.dirs(),
            snapshot_size_factor: Some(0.0),
            metrics: Arc::default(),
            acceptor: Acceptor::plain(),
            port: Port::Learners,
        };
        let runtime = self.runtime.handle().clone();
        let sink = self.sink(&self.learners.0);
        LearnerPort::new(runtime, self.state.clone(), settings, sink)
    }

    /// Opens the learner port on a free TCP port.
    pub(super) fn open_port(&self) -> (LearnerPort, SocketAddr) {
        let port = self.port();
        let addresses = open(&port, listen_on("127.0.0.1", 0));
        assert_eq!(addresses.len(), 1);
        (port, addresses[0])
    }

    pub(super) fn dial(&self, attempt: u64, leader: &[SocketAddr]) -> LeaderConnection {
        let leader = leader.iter().copied().map(host_port).collect();
        self.dialer().dial(attempt, leader, Duration::ZERO)
    }

    pub(super) fn dialer(&self) -> Dialer {
        let settings = LearnerSettings {
            auth: self.auth.clone(),
            dial: self.dial.clone(),
            limits: testkit::LIMITS,
            stall: self.stall,
            tree: Arc::new(tree_settings()),
            deferred_work: self.deferred_work.clone(),
            connector: Connector::plain(),
        };
        let runtime = self.runtime.handle().clone();
        Dialer::new(runtime, settings, self.sink(&self.leaders.0))
    }

    fn sink(&self, events: &Sender<PeerEvent>) -> PeerSink {
        let (events, teller) = (events.clone(), self.tellers.clone());
        Arc::new(move |event| {
            // Holds the token until the sink is dropped.
            let _ = &teller;
            // Fails if the test is over.
            let _ = events.send(event);
        })
    }

    /// Waits until every task and thread of the ports and connections has ended.
    pub(super) fn wait_for_silence(&self) {
        let begun = Instant::now();
        while Arc::strong_count(&self.tellers) > 1 {
            assert!(begun.elapsed() < PATIENCE, "something is left");
            std::thread::yield_now();
        }
    }

    /// Returns the next event of the leader's side.
    pub(super) fn at_leader(&self) -> PeerEvent {
        self.learners.1.recv_timeout(PATIENCE).unwrap()
    }

    /// Returns the next event of the learner's side.
    pub(super) fn at_learner(&self) -> PeerEvent {
        self.leaders.1.recv_timeout(PATIENCE).unwrap()
    }

    /// Returns the next event of the learner's side with its attempt.
    pub(super) fn of_leader(&self) -> (u64, LeaderEvent) {
        of_leader(self.at_learner().input)
    }

    /// Returns the next event of the learner's side, if it arrives within `time`.
    pub(super) fn at_learner_within(&self, time: Duration) -> Option<PeerEvent> {
        self.leaders.1.recv_timeout(time).ok()
    }

    /// Returns the next event of the leader's side, if it arrives within `time`.
    pub(super) fn at_leader_within(&self, time: Duration) -> Option<PeerEvent> {
        self.learners.1.recv_timeout(time).ok()
    }

    pub(super) fn learner_connected(&self) -> LinkId {
        match self.at_leader().input {
            Input::Learner(_, LearnerEvent::Connected { link }) => link,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the end of a link, ignoring its other events. Returns the reason.
    pub(super) fn learner_closed(&self, wanted: LinkId) -> String {
        loop {
            let PeerEvent { input, reason, .. } = self.at_leader();
            match input {
                Input::Learner(_, LearnerEvent::Closed { link }) => {
                    assert_eq!(link, wanted);
                    return reason.unwrap().to_string();
                }
                Input::Learner(_, LearnerEvent::Packets { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Returns the next `count` packets from a learner.
    pub(super) fn learner_packets(&self, count: usize) -> Vec<LearnerPacket> {
        let mut all = Vec::new();
        while all.len() < count {
            match self.at_leader().input {
                Input::Learner(_, LearnerEvent::Packets { packets, .. }) => all.extend(packets),
                other => panic!("{other:?}"),
            }
        }
        all
    }

    pub(super) fn leader_connected(&self) {
        let (_, event) = self.of_leader();
        assert!(matches!(event, LeaderEvent::Connected), "{event:?}");
    }

    /// Returns the next `count` packets from the leader.
    pub(super) fn leader_packets(&self, count: usize) -> Vec<LeaderPacket> {
        let mut all = Vec::new();
        while all.len() < count {
            match self.of_leader().1 {
                LeaderEvent::Packets(packets) => all.extend(packets),
                other => panic!("{other:?}"),
            }
        }
        all
    }

    pub(super) fn snapshot_received(&self) -> Tree {
        loop {
            match self.of_leader().1 {
                LeaderEvent::SnapshotReceived(tree) => return *tree,
                LeaderEvent::SnapshotProgress => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) fn snapshot_damaged(&self) -> String {
        loop {
            let PeerEvent { input, reason, .. } = self.at_learner();
            match of_leader(input).1 {
                LeaderEvent::SnapshotDamaged => return reason.unwrap().to_string(),
                LeaderEvent::SnapshotProgress => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Returns the attempt and the event of an input from a leader's connection.
pub(super) fn of_leader(input: Input) -> (u64, LeaderEvent) {
    match input {
        Input::Leader { attempt, event } => (attempt, event),
        other => panic!("{other:?}"),
    }
}

/// Opens a port. Returns the addresses once it listens.
pub(super) fn open(port: &LearnerPort, listen: ListenSettings) -> Vec<SocketAddr> {
    port.open(1, listen);
    let begun = Instant::now();
    while port.addresses().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "the port does not listen");
        std::thread::yield_now();
    }
    port.addresses()
}

pub(super) fn listen_on(host: &str, port: u16) -> ListenSettings {
    ListenSettings {
        addresses: vec![HostPort {
            host: host.to_owned(),
            port,
        }],
        on_all_ips: false,
    }
}

pub(super) fn host_port(address: SocketAddr) -> HostPort {
    HostPort {
        host: address.ip().to_string(),
        port: address.port(),
    }
}

/// Returns a learner that is only a socket.
pub(super) fn raw_learner(leader: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(leader).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns a leader that is only a socket, and its address.
pub(super) fn raw_leader() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns whether the other side has closed the connection. Discards earlier data.
pub(super) fn is_closed(mut stream: &TcpStream) -> bool {
    let mut some = [0; 4096];
    loop {
        match stream.read(&mut some) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

pub(super) fn introduction(sid: i64) -> LearnerPacket {
    LearnerPacket::FollowerInfo {
        accepted_epoch: Epoch(3),
        info: Some(LearnerInfo::new(Sid(sid), 0)),
    }
}

pub(super) fn bytes_of(packet: impl Into<QuorumPacket>) -> Vec<u8> {
    packet.into().to_bytes().to_vec()
}

pub(super) fn write_packet(mut stream: &TcpStream, packet: impl Into<QuorumPacket>) {
    stream.write_all(&bytes_of(packet)).unwrap();
}

pub(super) fn tree_settings() -> TreeSettings {
    TreeSettings {
        extended_types: true,
        ..TreeSettings::new(testkit::LIMITS)
    }
}

/// Returns a tree of `znodes` with `data_bytes` each, on three levels, with sessions and several
/// ACL lists.
pub(super) fn grown_tree(zxid: Zxid, znodes: usize, data_bytes: usize) -> Tree {
    let mut loader = TreeLoader::new(Arc::new(tree_settings()));
    for session in 0..50 {
        loader.session(SessionId(0x100_0000 + session), 4000 + session as i32);
    }
    let acl = |perms, scheme: &str, id: &str| Acl {
        perms,
        id: Id {
            scheme: scheme.into(),
            id: id.into(),
        },
    };
    loader.acl(1, &[acl(31, "world", "anyone")]);
    loader.acl(2, &[acl(3, "ip", "127.0.0.1"), acl(31, "digest", "me:x")]);
    let stat = |number: i64, owner| StatPersisted {
        czxid: number,
        mzxid: number + 1,
        ctime: 1_700_000_000_000 + number,
        mtime: 1_700_000_000_001 + number,
        version: 3,
        cversion: 0,
        aversion: 1,
        ephemeral_owner: owner,
        pzxid: number,
    };
    let none: Option<&[u8]> = None;
    loader.znode("", Some(b""), 1, stat(0, 0)).unwrap();
    let data = vec![7; data_bytes];
    for number in 0..znodes {
        let path = match number % 10 {
            0 => format!("/top-{number:06}"),
            _ => format!("/top-{:06}/n-{number}", number - number % 10),
        };
        // One in ten is ephemeral, one in ten lacks data.
        let owner = (number % 10 == 5).then_some(0x100_0000 + (number % 50) as i64);
        let data = if number % 10 == 7 {
            none
        } else {
            Some(&data[..])
        };
        let acl = 1 + (number % 2) as i64;
        let stat = stat(number as i64, owner.unwrap_or(0));
        loader.znode(&path, data, acl, stat).unwrap();
    }
    loader.finish(zxid).unwrap()
}

/// Contents of a tree, in an order and with ACL lists that do not depend on its history.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    sessions: BTreeMap<SessionId, i32>,
    acls: BTreeMap<i64, String>,
    znodes: BTreeMap<String, (Option<Vec<u8>>, String, StatPersisted)>,
}

impl Content {
    pub(super) fn of_tree(tree: &Tree) -> Self {
        let (mut cursor, mut bytes) = (tree.start_snapshot(), Vec::new());
        while tree.snapshot_chunk(&mut cursor, 4096, &mut bytes) {}
        Self::of_body(&bytes)
    }

    pub(super) fn of_body(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        read_body(bytes, "a body".as_ref(), testkit::LIMITS, &mut content).unwrap();
        content.acls.clear();
        content
    }
}

impl State for Content {
    fn begin(&mut self) {}

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.insert(id, timeout_ms);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.insert(id, format!("{acl:?}"));
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        let acl = self.acls.get(&acl).cloned().unwrap_or(acl.to_string());
        let znode = (data.map(<[u8]>::to_vec), acl, stat);
        self.znodes.insert(path.to_owned(), znode);
        Ok(())
    }

    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }

    fn txn(&mut self, _: &proto::txn::TxnRecord) {}
}
