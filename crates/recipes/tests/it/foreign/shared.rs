//! Recipes that Curator or kazoo and this crate share, one after the other. Marks in a directory
//! tell both programs how far the other one is.

use std::path::PathBuf;

use client::{Client, Create};
use tests::{java_program, or_skip};
use zoarium_recipes::{
    Barrier, CacheScope, Counter, GroupMember, Instance, Layout, LeaderSelector, MultiLock,
    MultiNonBlockingLease, Mutex, PersistentNode, ReadWriteLock, Semaphore, ServiceDiscovery,
    ServiceProvider, SharedValue, Strategy, TreeCache, Width,
};

use super::{HOUR, ROUNDS, kazoo, make, run_to_the_end};
use crate::caches::shows;
use crate::support::{children, connect, server, soon, until, until_children};

const LEASES: usize = 2;

/// Client of this crate, next to a program of another library.
struct Both {
    client: Client,
}

impl Both {
    async fn mark(&self, name: &str) {
        make(&self.client, &[&format!("/marks/{name}")]).await;
    }

    async fn await_mark(&self, name: &str) {
        let path = format!("/c/marks/{name}");
        until(&path, async || {
            self.client.exists(&path).await.unwrap().is_some()
        })
        .await;
    }

    async fn counts(&self, counter: &Counter) {
        for _ in 0..ROUNDS {
            soon("an increment", counter.add(1)).await.unwrap();
        }
        let all = i64::try_from(2 * ROUNDS).unwrap();
        until("all increments", async || {
            counter.get().await.unwrap() == all
        })
        .await;
    }

    async fn barriers(&self) {
        self.await_mark("first").await;
        let first = Barrier::new(&self.client, "/c/first").unwrap();
        let waiting = tokio::spawn(async move { first.wait().await.unwrap() });
        assert!(!waiting.is_finished());
        self.mark("waits").await;
        soon("an open barrier", waiting).await.unwrap();
        let second = Barrier::new(&self.client, "/c/second").unwrap();
        second.set().await.unwrap();
        self.mark("second").await;
        self.await_mark("waits-too").await;
        second.remove().await.unwrap();
    }

    /// Holds a lease while at most one other holder exists.
    async fn hold(&self, semaphore: &Semaphore) {
        let lease = soon("a lease", semaphore.acquire()).await.unwrap();
        let inside = Create::ephemeral();
        let created = self.client.create("/c/inside/ours", "", &inside).await;
        created.unwrap();
        let holders = children(&self.client, "/c/inside").await;
        assert!(holders.len() <= LEASES, "{holders:?}");
        self.client.delete("/c/inside/ours", -1).await.unwrap();
        lease.release().await.unwrap();
    }

    async fn locks(&self) {
        let locks = ["a", "b"].map(|name| Mutex::new(&self.client, &format!("/c/multi/{name}")));
        let locks = MultiLock::new(locks.map(Result::unwrap).into()).unwrap();
        let semaphore = Semaphore::new(&self.client, "/c/semaphore", LEASES).unwrap();
        for _ in 0..ROUNDS {
            let guards = soon("both locks", locks.acquire()).await.unwrap();
            let witness = Create::ephemeral();
            let created = self.client.create("/c/witness", "", &witness).await;
            created.expect("nobody else is inside");
            self.client.delete("/c/witness", -1).await.unwrap();
            guards.release().await.unwrap();
            self.hold(&semaphore).await;
        }
    }

    async fn readers(&self) {
        self.await_mark("reads").await;
        let lock = ReadWriteLock::new(&self.client, "/c/rw").unwrap();
        let reading = soon("a reader", lock.read()).await.unwrap();
        let writing = tokio::spawn(async move { lock.write().await.unwrap() });
        until_children(&self.client, "/c/rw", 3).await;
        reading.release().await.unwrap();
        assert!(!writing.is_finished());
        self.mark("writer-waits").await;
        let writing = soon("the writer", writing).await.unwrap();
        writing.release().await.unwrap();
    }

    async fn requests(&self) {
        self.await_mark("holds").await;
        let mutex = Mutex::new(&self.client, "/c/asked").unwrap();
        assert!(mutex.ask_for().await.unwrap());
        let guard = soon("the lock", mutex.acquire()).await.unwrap();
        self.mark("holds-too").await;
        assert!(soon("a request", guard.is_asked_for()).await);
        guard.release().await.unwrap();
    }

    async fn node(&self) {
        self.await_mark("node").await;
        let before = self.client.exists("/c/node").await.unwrap().unwrap();
        self.client.delete("/c/node", -1).await.unwrap();
        until("Curator's znode again", async || {
            let now = self.client.exists("/c/node").await.unwrap();
            now.is_some_and(|now| now.czxid > before.czxid)
        })
        .await;
        let node = PersistentNode::start(&self.client, "/c/node", "ours").unwrap();
        self.mark("node-waits").await;
        soon("our znode", node.is_there()).await.unwrap();
        let (data, _) = self.client.get_data("/c/node").await.unwrap();
        assert_eq!(data.as_deref(), Some(&b"ours"[..]));
        node.close().await;
    }

    async fn members(&self) {
        let member = GroupMember::start(&self.client, "/c/group", "ours", "o").unwrap();
        let found = async || {
            let members = member.members().await.unwrap().into_iter();
            let found = members.map(|member| (member.id, member.payload.to_vec()));
            found.collect::<Vec<_>>()
        };
        let both = [("curator", "c"), ("ours", "o")];
        let both = both.map(|(id, payload)| (id.to_owned(), payload.as_bytes().to_vec()));
        until("both members", async || found().await == both).await;
        self.await_mark("member").await;
        self.mark("member-too").await;
        member.close().await;
    }

    /// Compares copies of a znode and of its children with what the other program writes.
    async fn copies(&self, other: &str, data: &str, root_data: &str) {
        let root = "/c/cached";
        let start = |scope| TreeCache::start_with(&self.client, root, scope, |_| true).unwrap();
        let scopes = [CacheScope::Subtree, CacheScope::Children, CacheScope::Node];
        let [tree, below, node] = scopes.map(start);
        let ours = format!("{root}/ours");
        let persistent = Create::persistent();
        self.client.create(&ours, "o", &persistent).await.unwrap();
        let theirs = format!("{root}/{other}");
        let (theirs, ours) = ((theirs.as_str(), data), (ours.as_str(), "o"));
        shows(&tree, &[(root, root_data), theirs, ours]).await;
        shows(&below, &[theirs, ours]).await;
        shows(&node, &[(root, root_data)]).await;
    }

    async fn services(&self) {
        let services = ServiceDiscovery::new(&self.client, "/c/services").unwrap();
        let instance = Instance::new("print", "ours").at("10.0.0.2", 6311);
        let registered = services.register(&instance).unwrap();
        let provider = ServiceProvider::start(&services, "print", Strategy::RoundRobin).unwrap();
        let ids = |found: Vec<Instance>| found.into_iter().map(|it| it.id).collect::<Vec<_>>();
        until("both instances", async || {
            ids(services.instances("print").await.unwrap()) == ["curator", "ours"]
        })
        .await;
        until("both in the cache", async || {
            ids(provider.instances()) == ["curator", "ours"]
        })
        .await;
        let chosen = [provider.choose(), provider.choose()].map(Option::unwrap);
        assert_eq!(chosen.map(|it| it.port), [Some(6310), Some(6311)]);
        self.await_mark("service").await;
        self.mark("service-too").await;
        registered.close().await;
    }
}

async fn start(program: Vec<PathBuf>) -> (tests::Server, Both, tokio::task::JoinHandle<()>) {
    let server = server();
    let client = connect(&server.address()).await;
    make(&client, &["", "/marks", "/inside"]).await;
    let persistent = Create::persistent();
    let root = client.create("/c/cached", "root", &persistent);
    root.await.unwrap();
    let arguments = vec![server.address(), "/c".to_owned(), ROUNDS.to_string()];
    let theirs = tokio::spawn(run_to_the_end(program, arguments));
    (server, Both { client }, theirs)
}

async fn with_curator(program: Vec<PathBuf>) {
    let (_server, both, theirs) = start(program).await;
    both.await_mark("counts").await;
    let int = |path| {
        let counter = Counter::new(&both.client, path).unwrap();
        counter.with_width(Width::Int)
    };
    both.counts(&int("/c/count")).await;
    both.counts(&int("/c/integer")).await;
    both.await_mark("value").await;
    let value = SharedValue::new(&both.client, "/c/value", "").unwrap();
    value.set("ours").await.unwrap();
    until("Curator's value", async || {
        value.get().await.unwrap().data == "curator"
    })
    .await;
    both.barriers().await;
    both.locks().await;
    both.readers().await;
    both.requests().await;
    both.node().await;
    both.members().await;
    both.copies("curator", "c", "root").await;
    both.services().await;
    theirs.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs other people's programs"]
async fn curator_and_zoarium_share_recipes_in_turn() {
    let program =
        tokio::task::block_in_place(|| java_program("CuratorShared", &["PatientCurator"], &[]));
    if let Some(program) = or_skip("Curator", program) {
        with_curator(program).await;
    }
}

async fn with_kazoo(program: Vec<PathBuf>) {
    let (_server, both, theirs) = start(program).await;
    let client = &both.client;
    let counter = Counter::new(client, "/c/count").unwrap();
    both.counts(&counter.with_width(Width::Int)).await;
    both.barriers().await;
    let semaphore = Semaphore::new(client, "/c/semaphore", LEASES).unwrap();
    let semaphore = semaphore.with_layout(Layout::Kazoo);
    for _ in 0..ROUNDS {
        both.hold(&semaphore).await;
    }
    let leases = |id| MultiNonBlockingLease::new(client, "/c/leases", LEASES, id).unwrap();
    assert_eq!(leases("ours").obtain(HOUR).await.unwrap(), Some(0));
    both.mark("leased").await;
    both.await_mark("leased-too").await;
    assert_eq!(leases("fourth").obtain(HOUR).await.unwrap(), None);
    client.set_data("/c/cached", "ours", -1).await.unwrap();
    both.copies("kazoo", "k", "ours").await;
    both.await_mark("leads").await;
    let candidate = LeaderSelector::new(client, "/c/election").unwrap();
    let candidate = candidate.with_layout(Layout::Kazoo);
    let leading = tokio::spawn(async move { candidate.lead(|_| async {}).await });
    until_children(client, "/c/election", 2).await;
    assert!(!leading.is_finished());
    both.mark("candidate").await;
    soon("the leadership", leading).await.unwrap().unwrap();
    theirs.await.unwrap();
    until_children(client, "/c/semaphore", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs other people's programs"]
async fn kazoo_and_zoarium_share_recipes_in_turn() {
    let program = tokio::task::block_in_place(|| kazoo("shared.py"));
    if let Some(program) = or_skip("kazoo", program) {
        with_kazoo(program).await;
    }
}
