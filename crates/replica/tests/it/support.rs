//! A host that records the replica's effects and does not act by itself.

use std::cell::{Ref, RefCell, RefMut};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use config::{Config, RawConfig, Surroundings, SystemProperties};
use proto::multi::request_acl;
use proto::request::{CreateRequest, WriteRequest, flags};
use proto::{Epoch, OpCode, SessionId, Zxid};
use tree::{CurrentGeneration, Generation, Tree, TreeSettings, Watches};
use zoarium_replica::members::MemberLists;
use zoarium_replica::session::Sessions;
use zoarium_replica::{
    Applied, ClientRequest, Effect, Epochs, Host, Input, LargeBytes, MemberStart, Note, Now,
    Replica, ReplicaSettings, Start, State, Ticket, Turn,
};

/// The state of a server in a single thread.
pub(crate) struct Held {
    pub(crate) tree: RefCell<Tree>,
    pub(crate) watches: RefCell<Watches>,
    pub(crate) sessions: RefCell<Sessions>,
    generation: CurrentGeneration,
    /// The generations in which the tree was changed.
    pub(crate) changed_in: RefCell<Vec<Generation>>,
}

impl State for Held {
    fn tree(&self) -> impl Deref<Target = Tree> {
        Ref::map(self.tree.borrow(), |tree| tree)
    }

    fn tree_mut(&self) -> impl DerefMut<Target = Tree> {
        self.changed_in.borrow_mut().push(self.generation());
        RefMut::map(self.tree.borrow_mut(), |tree| tree)
    }

    fn replace_tree(&self, tree: Tree) {
        self.begin_unestablished();
        *self.tree.borrow_mut() = tree;
    }

    fn generation(&self) -> Generation {
        self.generation.get()
    }

    fn begin_unestablished(&self) {
        self.generation.begin_unestablished();
    }

    fn establish(&self) {
        self.generation.establish();
    }

    fn watches(&self) -> impl DerefMut<Target = Watches> {
        self.watches.borrow_mut()
    }

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.sessions.borrow_mut()
    }
}

/// Calls that the replica made since the last query.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) effects: Vec<Effect>,
    /// Transactions that clients may see.
    pub(crate) applied: Vec<Zxid>,
    /// Transactions in `applied` that are known to be committed, and the ends of the committed log
    /// when epochs began.
    pub(crate) committed: Vec<Zxid>,
    pub(crate) established: Vec<Zxid>,
    /// Number of events that clients may see.
    pub(crate) events: usize,
    pub(crate) syncs: Vec<Ticket>,
    /// Transactions whose digest differs from the digest of the tree.
    pub(crate) mismatches: Vec<Zxid>,
}

impl Host for Book {
    type State = Held;

    fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn applied(&mut self, _tree: &Tree, applied: Applied<'_>) {
        self.applied.push(applied.record.header.zxid);
        if applied.is_committed {
            self.committed.push(applied.record.header.zxid);
        }
        self.events += applied.events.len();
    }

    fn established(&mut self, last: Zxid) {
        self.established.push(last);
    }

    fn answer_sync(&mut self, _tree: &Tree, ticket: Ticket) {
        self.syncs.push(ticket);
    }

    fn tree_released(&mut self) {}

    fn note(&mut self, note: Note<'_>) {
        if let Note::DigestMismatch { zxid } = note {
            self.mismatches.push(zxid);
        }
    }
}

/// A replica on its host.
pub(crate) struct Server {
    pub(crate) replica: Replica<Book>,
    pub(crate) state: Held,
    pub(crate) book: Book,
    pub(crate) now_ms: i64,
}

/// Surroundings in which `myid` contains this number, and other files are missing.
struct MyId(i64);

impl Surroundings for MyId {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        if path.ends_with("myid") {
            Ok(self.0.to_string().into_bytes())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn resolve(&mut self, _host: &str) -> io::Result<IpAddr> {
        Ok(Ipv4Addr::LOCALHOST.into())
    }
}

pub(crate) fn config(my_id: i64, lines: &str) -> Config {
    let text = format!("dataDir=data\ntickTime=200\ninitLimit=10\nsyncLimit=5\n{lines}");
    let raw = RawConfig::parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap();
    Config::parse(raw, SystemProperties::new(), &mut MyId(my_id)).unwrap()
}

/// Configuration lines of three servers.
pub(crate) const THREE: &str = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n";

impl Server {
    /// Creates a standalone server that serves.
    pub(crate) fn alone() -> Self {
        Self::start(ReplicaSettings::new(&config(0, "clientPort=2181\n")), None)
    }

    /// Creates a member with an empty log that looks for a leader.
    pub(crate) fn member(my_id: i64) -> Self {
        Self::member_that_keeps(my_id, 500)
    }

    /// Like [`Server::member`], with this number of committed transactions in memory.
    pub(crate) fn member_that_keeps(my_id: i64, commit_log_count: usize) -> Self {
        Self::member_of(&config(my_id, THREE), commit_log_count)
    }

    /// Creates one of three members, with these lines in its zoo.cfg.
    pub(crate) fn member_with(my_id: i64, lines: &str) -> Self {
        Self::member_of(&config(my_id, &format!("{THREE}{lines}")), 500)
    }

    /// Creates a member with an empty log.
    pub(crate) fn member_of(config: &Config, commit_log_count: usize) -> Self {
        Self::member_that_votes(config, commit_log_count, true)
    }

    /// Creates a member that may not vote, because its data was set aside.
    pub(crate) fn member_without_vote(my_id: i64) -> Self {
        Self::member_that_votes(&config(my_id, THREE), 1, false)
    }

    fn member_that_votes(config: &Config, commit_log_count: usize, is_trusted: bool) -> Self {
        let member = MemberStart {
            lists: MemberLists::new(config).unwrap(),
            epochs: Epochs::default(),
            last_logged: Zxid::ZERO,
            log_whole_from: Zxid::ZERO,
            is_trusted,
        };
        let mut settings = ReplicaSettings::new(config);
        if let Some(ensemble) = &mut settings.ensemble {
            ensemble.commit_log_count = commit_log_count;
        }
        Self::start(settings, Some(member))
    }

    fn start(settings: ReplicaSettings, member: Option<MemberStart>) -> Self {
        let tree_settings = TreeSettings {
            standalone: member.is_none(),
            ..TreeSettings::new(testkit::LIMITS)
        };
        let state = Held {
            tree: RefCell::new(Tree::new(Arc::new(tree_settings))),
            watches: RefCell::default(),
            sessions: RefCell::new(Sessions::reporting(200)),
            generation: CurrentGeneration::default(),
            changed_in: RefCell::default(),
        };
        let start = Start {
            settings,
            member,
            seed: 1,
        };
        let replica = Replica::new(start, &state, at(0)).unwrap();
        let mut server = Self {
            replica,
            state,
            book: Book::default(),
            now_ms: 0,
        };
        server.step(|replica, turn| replica.begin(turn));
        server
    }

    fn step(&mut self, step: impl FnOnce(&mut Replica<Book>, &mut Turn<'_, Book>)) {
        let mut turn = Turn {
            now: at(self.now_ms),
            state: &self.state,
            host: &mut self.book,
        };
        step(&mut self.replica, &mut turn);
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.step(|replica, turn| replica.handle(input, turn));
    }

    /// Advances the clock to `now_ms`, and handles the deadlines.
    pub(crate) fn wait_until(&mut self, now_ms: i64) {
        while let Some(at_ms) = self.replica.deadline_ms().filter(|at_ms| *at_ms <= now_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.step(|replica, turn| replica.handle_deadline(turn));
        }
        self.now_ms = now_ms;
    }

    /// Effects since the last call.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.book.effects)
    }

    /// Returns the records that went to the log since the last call.
    pub(crate) fn appended(&mut self) -> Vec<Zxid> {
        let effects = self.effects();
        let records = effects.into_iter().filter_map(|effect| match effect {
            Effect::Append(record) => Some(record.zxid),
            _ => None,
        });
        records.collect()
    }
}

fn at(now_ms: i64) -> Now {
    Now {
        ms: now_ms,
        wall_ms: 1_700_000_000_000 + now_ms,
    }
}

/// Creates a request of a client over this connection.
pub(crate) fn request(
    ticket: u64,
    session: i64,
    cxid: i32,
    request: WriteRequest,
) -> ClientRequest {
    ClientRequest {
        ticket: Ticket(ticket),
        session: SessionId(session),
        cxid,
        identities: Arc::from([]),
        request,
        body: Bytes::new(),
        large_bytes: LargeBytes::NONE,
        upgrade_ms: None,
    }
}

pub(crate) fn create(path: &str) -> WriteRequest {
    WriteRequest::Create {
        op: OpCode::Create,
        request: CreateRequest {
            path: Some(path.into()),
            data: None,
            acl: request_acl([proto::Acl::open()]),
            flags: flags::PERSISTENT,
        },
        ttl: -1,
    }
}

pub(crate) fn zxid(epoch: i64, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}
