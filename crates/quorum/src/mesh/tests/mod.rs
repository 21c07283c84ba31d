//! Tests of meshes with real sockets on the loopback interface.

mod elections;
mod growth;
mod host;
mod intruders;
mod listening;
mod recorded;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use config::membership::Membership;
use election::{Candidate, Vote};
use parking_lot::Mutex;
use proto::hello::{Endpoint, Hello, HelloAddresses};
use proto::notification::{Notification, PeerState};
use proto::{ElectionRound, Epoch, Sid, Zxid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use transport::tls::{Acceptor, Connector};

use self::host::{Voter, VoterEvent, VoterStart};
use super::{MeshSettings, OracleFile};

/// Timeout that is longer than any event here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval at which a condition without a notification is polled.
const POLL: Duration = Duration::from_millis(5);

/// Returns a free port with five digits, below the range of outgoing connections.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() * 37 % 10_000;
    loop {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(10_000 + (start + step) % 10_000).unwrap();
        if StdListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn zxid(zxid: i64) -> Candidate {
    Candidate {
        zxid: Some(Zxid(zxid)),
        peer_epoch: Epoch(0),
    }
}

/// Servers and their ports.
#[derive(Debug, Clone)]
struct TestEnsemble {
    election_ports: BTreeMap<i64, u16>,
}

impl TestEnsemble {
    fn new(sids: impl IntoIterator<Item = i64>) -> Self {
        let election_ports = sids.into_iter().map(|sid| (sid, free_port())).collect();
        Self { election_ports }
    }

    fn line(&self, sid: i64, role: &str) -> String {
        let port = self.election_ports[&sid];
        format!("server.{sid}=127.0.0.1:{}:{port}:{role}\n", port - 9000)
    }

    /// Returns a list of participants and observers.
    fn list(&self, voters: &[i64], observers: &[i64], version: i64) -> Membership {
        let voters = voters.iter().map(|sid| self.line(*sid, "participant"));
        let observers = observers.iter().map(|sid| self.line(*sid, "observer"));
        let lines: String = voters.chain(observers).collect();
        Membership::parse(&format!("{lines}version={version:x}"), false).unwrap()
    }

    fn port(&self, sid: i64) -> u16 {
        self.election_ports[&sid]
    }
}

/// Settings of a server that takes part in elections.
struct VoterSettings {
    me: Sid,
    election: election::Settings,
    connect_timeout: Duration,
    read_timeout: Duration,
    listen_on_all_ips: bool,
    multi_address: bool,
    bind_attempts: Option<u32>,
    tcp_keep_alive: bool,
    oracle_path: Option<PathBuf>,
}

fn settings(me: i64) -> VoterSettings {
    VoterSettings {
        me: Sid(me),
        election: election::Settings::default(),
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(10),
        listen_on_all_ips: false,
        multi_address: false,
        bind_attempts: Some(3),
        tcp_keep_alive: false,
        oracle_path: None,
    }
}

/// Voter and its events.
struct Peer {
    voter: Voter,
    events: mpsc::UnboundedReceiver<VoterEvent>,
}

impl Peer {
    /// Starts a voter that does not look for a leader yet.
    fn start_idle(settings: VoterSettings, list: &Membership, candidate: Candidate) -> Self {
        let (told, events) = mpsc::unbounded_channel();
        let voter = Voter::start(VoterStart {
            settings: MeshSettings {
                auth: Arc::default(),
                me: settings.me,
                connect_timeout: settings.connect_timeout,
                read_timeout: settings.read_timeout,
                listen_on_all_ips: settings.listen_on_all_ips,
                multi_address: settings.multi_address,
                bind_attempts: settings.bind_attempts,
                tcp_keep_alive: settings.tcp_keep_alive,
                acceptor: Acceptor::plain(),
                connector: Connector::plain(),
            },
            election: settings.election,
            oracle: settings.oracle_path.map(OracleFile::new),
            list: list.clone(),
            candidate,
            told,
        });
        Self { voter, events }
    }

    fn with(settings: VoterSettings, list: &Membership, candidate: Candidate) -> Self {
        let peer = Self::start_idle(settings, list, candidate);
        peer.voter.start_election(candidate);
        peer
    }

    fn start(me: i64, list: &Membership, candidate: Candidate) -> Self {
        Self::with(settings(me), list, candidate)
    }

    async fn event(&mut self) -> VoterEvent {
        let event = timeout(PATIENCE, self.events.recv()).await;
        event.expect("an event in time").expect("a mesh that runs")
    }

    async fn elected(&mut self) -> (PeerState, i64) {
        let (state, vote, _) = self.outcome().await;
        (state, vote.leader.0)
    }

    async fn outcome(&mut self) -> (PeerState, Vote, ElectionRound) {
        loop {
            match self.event().await {
                VoterEvent::Elected { state, vote, round } => return (state, vote, round),
                VoterEvent::SupporterLooks { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Returns whether the peer has kept its role.
    fn is_settled(&mut self) -> bool {
        let events = std::iter::from_fn(|| self.events.try_recv().ok());
        let mut others = events.filter(|event| !matches!(event, VoterEvent::SupporterLooks { .. }));
        others.next().is_none()
    }
}

/// Scripted server.
struct Script {
    stream: TcpStream,
}

impl Script {
    async fn connect(port: u16) -> Self {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                Ok(stream) => return Self { stream },
                Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
            }
            sleep(POLL).await;
        }
    }

    /// Sends a hello with an address at which no server listens.
    async fn greet(port: u16, sid: i64) -> Self {
        let mut script = Self::connect(port).await;
        let nowhere = Endpoint {
            host: "127.0.0.1".to_owned(),
            port: 1,
        };
        let hello = Hello {
            sid: Sid(sid),
            addresses: HelloAddresses::One(vec![nowhere]),
        };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes).unwrap();
        script.write(&bytes).await;
        script
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn send_notification(&mut self, notification: &Notification) {
        let mut bytes = Vec::new();
        notification.encode_frame(&mut bytes);
        self.write(&bytes).await;
    }

    /// Reads a message with its length.
    async fn frame(&mut self) -> Vec<u8> {
        let read = async {
            let len = self.stream.read_i32().await?;
            let mut frame = len.to_be_bytes().to_vec();
            let body = u64::try_from(len).unwrap();
            (&mut self.stream)
                .take(body)
                .read_to_end(&mut frame)
                .await?;
            io::Result::Ok(frame)
        };
        let frame = timeout(PATIENCE, read).await.expect("a message in time");
        frame.expect("a message")
    }

    async fn received_notification(&mut self) -> Notification {
        let frame = self.frame().await;
        Notification::decode(frame[4..].to_vec().into()).unwrap()
    }

    /// Waits until the other side closes the connection. Ignores earlier data.
    async fn wait_for_close(&mut self) {
        let mut bytes = Vec::new();
        let end = timeout(PATIENCE, self.stream.read_to_end(&mut bytes)).await;
        if let Err(error) = end.expect("an end in time") {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }
}

/// Log of this thread, at `info` and above.
#[derive(Clone, Default)]
struct Log {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Log {
    /// Captures the log of this thread until the guard is dropped.
    fn capture() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn lines(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes.lock()).into_owned();
        let lines = text.lines().filter(|line| line.contains(part));
        lines.map(str::to_owned).collect()
    }

    async fn wait(&self, part: &str) {
        let found = async {
            while self.lines(part).is_empty() {
                sleep(POLL).await;
            }
        };
        assert!(
            timeout(PATIENCE, found).await.is_ok(),
            "no line with {part:?} in time: {:#?}",
            self.lines("")
        );
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
