//! Numbers of requests and notifications of each recipe, as a proxy counts them.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use client::{Client, Create};
use tokio::task::JoinHandle;
use zoarium_recipes::{
    Barrier, CacheScope, Counter, DelayQueue, DoubleBarrier, Election, GroupMember, IdQueue,
    Instance, LeaderLatch, LeaderSelector, LockingQueue, MultiLock, MultiNonBlockingLease, Mutex,
    NonBlockingLease, Party, PersistentNode, PersistentTtlNode, PriorityQueue, Queue,
    ReadWriteLock, Semaphore, ServiceDiscovery, ServiceProvider, SetPartitioner, SharedValue,
    SimpleQueue, Strategy, TakenItems, TreeCache,
};

use crate::proxy::Proxy;
use crate::support::{connect, server, soon};

const HOUR: Duration = Duration::from_secs(3600);

/// Requests of clients, and notifications of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    requests: usize,
    notifications: usize,
}

/// Two clients whose requests are counted. They need a runtime with one thread, in which a client
/// sends a request before others learn of its reason.
struct Counted {
    _server: tests::Server,
    proxy: Proxy,
    one: Client,
    two: Client,
}

impl Counted {
    async fn start() -> Self {
        let server = server();
        let proxy = Proxy::start(&server.address()).await;
        let address = proxy.address.to_string();
        Self {
            one: connect(&address).await,
            two: connect(&address).await,
            _server: server,
            proxy,
        }
    }

    /// Waits until the clients send no more requests. Returns the number of its own requests.
    async fn settle(&self) -> usize {
        let (mut own, mut quiet) = (0, 0);
        while quiet < 2 {
            let before = self.proxy.seen();
            let (one, two) = tokio::join!(self.one.sync("/"), self.two.sync("/"));
            one.and(two).unwrap();
            own += 2;
            quiet = if self.proxy.seen() == before + 2 {
                quiet + 1
            } else {
                0
            };
        }
        own
    }

    async fn cost(&self, work: impl Future) -> Cost {
        self.settle().await;
        self.proxy.count();
        self.proxy.count_notifications();
        soon("a recipe", work).await;
        let own = self.settle().await;
        Cost {
            requests: self.proxy.count() - own,
            notifications: self.proxy.count_notifications(),
        }
    }

    /// Returns the cost of a later time, when all znodes that remain exist.
    async fn once(&self, work: impl AsyncFn(&Client)) -> Cost {
        work(&self.one).await;
        work(&self.one).await;
        self.cost(work(&self.one)).await
    }

    /// Returns the cost until a waiter has what a holder releases.
    async fn change<T>(&self, release: impl Future, waiting: JoinHandle<T>) -> Cost {
        self.settle().await;
        assert!(!waiting.is_finished());
        let cost = self.cost(async {
            release.await;
            waiting.await.unwrap()
        });
        cost.await
    }
}

/// Costs by recipe: of one use without others, and of a change with one waiter.
pub(crate) type Costs = BTreeMap<&'static str, [String; 2]>;

fn text(cost: Option<Cost>) -> String {
    cost.map_or_else(String::new, |cost| {
        format!("{}, {}", cost.requests, cost.notifications)
    })
}

/// Measures the costs of all recipes.
pub(crate) async fn costs() -> Costs {
    let counted = Counted::start().await;
    let mut costs = Costs::new();
    let mut put = |name, once, change| {
        let before = costs.insert(name, [text(Some(once)), text(change)]);
        assert_eq!(before, None, "{name}");
    };
    let change = Box::pin(locks(&counted)).await;
    put("Mutex", change.0, Some(change.1));
    let change = Box::pin(read_write_locks(&counted)).await;
    put("ReadWriteLock", change.0, Some(change.1));
    let change = Box::pin(semaphores(&counted)).await;
    put("Semaphore", change.0, Some(change.1));
    let change = Box::pin(latches(&counted)).await;
    put("LeaderLatch", change.0, Some(change.1));
    let change = Box::pin(selectors(&counted)).await;
    put("LeaderSelector", change.0, Some(change.1));
    let change = Box::pin(barriers(&counted)).await;
    put("Barrier", change.0, Some(change.1));
    let change = Box::pin(values(&counted)).await;
    put("SharedValue", change.0, Some(change.1));
    let change = Box::pin(caches(&counted)).await;
    put("TreeCache", change.0, Some(change.1));
    for (name, (once, change)) in Box::pin(queues(&counted)).await {
        put(name, once, Some(usual(name, change)));
    }
    for (name, once) in Box::pin(others(&counted)).await {
        put(name, once, None);
    }
    for (name, once) in Box::pin(members(&counted)).await {
        put(name, once, None);
    }
    costs
}

type Pair = (Cost, Cost);

/// Returns the usual cost of an item for a waiting consumer. The changes of a put notify the
/// consumer once or twice, so a measured cost may differ by two requests and one notification.
fn usual(name: &str, measured: Cost) -> Cost {
    let requests = if name == "SimpleQueue" { 11 } else { 14 };
    let notifications = 2;
    let is_usual = measured.requests.abs_diff(requests) <= 2
        && measured.notifications.abs_diff(notifications) <= 1;
    assert!(is_usual, "{name}: {measured:?}");
    Cost {
        requests,
        notifications,
    }
}

async fn locks(counted: &Counted) -> Pair {
    let mutex = |client: &Client| Mutex::new(client, "/mutex").unwrap();
    let once = counted.once(async |client| {
        let guard = mutex(client).acquire().await.unwrap();
        guard.release().await.unwrap();
    });
    let once = once.await;
    let held = mutex(&counted.one).acquire().await.unwrap();
    let waiting = mutex(&counted.two);
    let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    let change = counted.change(async { held.release().await.unwrap() }, waiting);
    (once, change.await)
}

async fn read_write_locks(counted: &Counted) -> Pair {
    let lock = |client: &Client| ReadWriteLock::new(client, "/read-write").unwrap();
    let once = counted.once(async |client| {
        let guard = lock(client).write().await.unwrap();
        guard.release().await.unwrap();
    });
    let once = once.await;
    let held = lock(&counted.one).write().await.unwrap();
    let waiting = lock(&counted.two);
    let waiting = tokio::spawn(async move { waiting.write().await.unwrap() });
    let change = counted.change(async { held.release().await.unwrap() }, waiting);
    (once, change.await)
}

async fn semaphores(counted: &Counted) -> Pair {
    let semaphore = |client: &Client| Semaphore::new(client, "/semaphore", 1).unwrap();
    let once = counted.once(async |client| {
        let lease = semaphore(client).acquire().await.unwrap();
        lease.release().await.unwrap();
    });
    let once = once.await;
    let held = semaphore(&counted.one).acquire().await.unwrap();
    let waiting = semaphore(&counted.two);
    let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    let change = counted.change(async { held.release().await.unwrap() }, waiting);
    (once, change.await)
}

async fn latches(counted: &Counted) -> Pair {
    let start = |client: &Client| LeaderLatch::start(client, "/latch", "").unwrap();
    let once = counted.once(async |client| {
        let latch = start(client);
        latch.leads().await.unwrap();
        latch.close().await;
    });
    let once = once.await;
    let leader = start(&counted.one);
    leader.leads().await.unwrap();
    let next = start(&counted.two);
    let waiting = tokio::spawn(async move {
        next.leads().await.unwrap();
        next
    });
    let change = counted.change(leader.close(), waiting);
    (once, change.await)
}

async fn selectors(counted: &Counted) -> Pair {
    let selector = |client: &Client| LeaderSelector::new(client, "/selector").unwrap();
    let once = counted.once(async |client| {
        selector(client).lead(|_| async {}).await.unwrap();
    });
    let once = once.await;
    let (resign, resigned) = tokio::sync::oneshot::channel::<()>();
    let leader = selector(&counted.one);
    let leading = tokio::spawn(async move {
        let lead = |_| async move { resigned.await.unwrap() };
        leader.lead(lead).await.unwrap();
    });
    counted.settle().await;
    let next = selector(&counted.two);
    let waiting = tokio::spawn(async move { next.lead(|_| async {}).await.unwrap() });
    let change = counted.change(
        async {
            resign.send(()).unwrap();
            leading.await.unwrap();
        },
        waiting,
    );
    (once, change.await)
}

async fn barriers(counted: &Counted) -> Pair {
    let barrier = |client: &Client| Barrier::new(client, "/barrier").unwrap();
    let once = counted.once(async |client| {
        barrier(client).set().await.unwrap();
        barrier(client).remove().await.unwrap();
    });
    let once = once.await;
    let closed = barrier(&counted.one);
    closed.set().await.unwrap();
    let waiting = barrier(&counted.two);
    let waiting = tokio::spawn(async move { waiting.wait().await.unwrap() });
    let change = counted.change(async { closed.remove().await.unwrap() }, waiting);
    (once, change.await)
}

async fn values(counted: &Counted) -> Pair {
    let value = |client: &Client| SharedValue::new(client, "/value", "seed").unwrap();
    let once = counted.once(async |client| {
        let read = value(client).get().await.unwrap();
        value(client).try_set(&read, "next").await.unwrap().unwrap();
    });
    let once = once.await;
    let waiting = value(&counted.two);
    let waiting = tokio::spawn(async move {
        let read = waiting.get().await.unwrap();
        waiting.changed_from(&read).await.unwrap()
    });
    let written = value(&counted.one);
    let change = counted.change(async { written.set("other").await.unwrap() }, waiting);
    (once, change.await)
}

async fn caches(counted: &Counted) -> Pair {
    let persistent = Create::persistent();
    counted
        .one
        .create("/cached", "1", &persistent)
        .await
        .unwrap();
    let start = |client: &Client| {
        TreeCache::start_with(client, "/cached", CacheScope::Subtree, |_| true).unwrap()
    };
    let once = counted.once(async |client| {
        let cache = start(client);
        cache.is_complete().await.unwrap();
        cache.close().await;
    });
    let once = once.await;
    let cache = start(&counted.two);
    let waiting = tokio::spawn(async move {
        let mut revisions = cache.revisions();
        while cache.get("/cached").is_none_or(|node| node.data != "2") {
            revisions.changed().await.unwrap();
        }
        cache
    });
    let change = counted.change(
        async { counted.one.set_data("/cached", "2", -1).await.unwrap() },
        waiting,
    );
    (once, change.await)
}

async fn confirm(taken: TakenItems) {
    taken.confirm().await.unwrap();
}

/// Measures a put with a take, and a put for a waiting consumer.
macro_rules! queue_costs {
    ($counted:ident, $queue:ident, $put:expr) => {{
        let path = concat!("/", stringify!($queue));
        let queue = |client: &Client| $queue::new(client, path).unwrap();
        let once = $counted.once(async |client| {
            let queue = queue(client);
            $put(&queue).await.unwrap();
            confirm(queue.take().await.unwrap()).await;
        });
        let once = once.await;
        let waiting = queue(&$counted.two);
        let waiting = tokio::spawn(async move { confirm(waiting.take().await.unwrap()).await });
        let put = queue(&$counted.one);
        let change = $counted.change(async { $put(&put).await.unwrap() }, waiting);
        (stringify!($queue), (once, change.await))
    }};
}

async fn queues(counted: &Counted) -> Vec<(&'static str, Pair)> {
    let simple = |client: &Client| SimpleQueue::new(client, "/simple").unwrap();
    let once = counted.once(async |client| {
        simple(client).put("1").await.unwrap();
        simple(client).take().await.unwrap();
    });
    let once = once.await;
    let waiting = simple(&counted.two);
    let waiting = tokio::spawn(async move { waiting.take().await.unwrap() });
    let put = simple(&counted.one);
    let change = counted.change(async { put.put("1").await.unwrap() }, waiting);
    let simple = ("SimpleQueue", (once, change.await));
    vec![
        queue_costs!(counted, Queue, async |queue: &Queue| queue.put("1").await),
        queue_costs!(counted, PriorityQueue, async |queue: &PriorityQueue| queue
            .put(1, "1")
            .await),
        // An item that is due now may be due a millisecond later on the consumer's clock.
        queue_costs!(counted, DelayQueue, async |queue: &DelayQueue| queue
            .put_at(UNIX_EPOCH, "1")
            .await),
        queue_costs!(counted, IdQueue, async |queue: &IdQueue| queue
            .put("a", "1")
            .await),
        queue_costs!(counted, LockingQueue, async |queue: &LockingQueue| queue
            .put("1")
            .await),
        simple,
    ]
}

async fn others(counted: &Counted) -> Vec<(&'static str, Cost)> {
    let locks = |client: &Client| {
        let locks = ["/multi/a", "/multi/b"].map(|path| Mutex::new(client, path).unwrap());
        MultiLock::new(locks.into()).unwrap()
    };
    let multi = counted.once(async |client| {
        let guards = locks(client).acquire().await.unwrap();
        guards.release().await.unwrap();
    });
    let multi = multi.await;
    let asked = Mutex::new(&counted.one, "/asked").unwrap();
    let held = asked.acquire().await.unwrap();
    let seen = tokio::spawn(async move {
        assert!(held.is_asked_for().await);
        held
    });
    counted.settle().await;
    let asking = Mutex::new(&counted.two, "/asked").unwrap();
    let request = counted.cost(async {
        assert!(asking.ask_for().await.unwrap());
    });
    let request = request.await;
    drop(soon("the request", seen).await.unwrap());
    let meeting = counted.once(async |client| {
        let barrier = DoubleBarrier::new(client, "/double", 1).unwrap();
        barrier.enter().await.unwrap().leave().await.unwrap();
    });
    let meeting = meeting.await;
    let counter = |client: &Client| Counter::new(client, "/counter").unwrap();
    let add = counted.once(async |client| {
        counter(client).add(1).await.unwrap();
    });
    let add = add.await;
    let election = counted.once(async |client| {
        let election = Election::new(client, "/election").unwrap();
        election.leader().await.unwrap();
    });
    let election = election.await;
    let lease = counted.once(async |client| {
        let lease = NonBlockingLease::new(client, "/lease", "a").unwrap();
        assert!(lease.obtain(HOUR).await.unwrap());
    });
    let lease = lease.await;
    let leases = counted.once(async |client| {
        let leases = MultiNonBlockingLease::new(client, "/leases", 2, "a").unwrap();
        assert_eq!(leases.obtain(HOUR).await.unwrap(), Some(0));
    });
    vec![
        ("MultiLock", multi),
        ("ask_for", request),
        ("DoubleBarrier", meeting),
        ("Counter", add),
        ("Election", election),
        ("NonBlockingLease", lease),
        ("MultiNonBlockingLease", leases.await),
    ]
}

/// Returns the cost of a znode with a TTL. A run may close the znode before its child is created,
/// so the median of many runs counts.
async fn ttl_cost(counted: &Counted) -> Cost {
    let mut runs = Vec::new();
    for _ in 0..81 {
        let run = counted.once(async |client| {
            let node = PersistentTtlNode::start(client, "/ttl", HOUR, "").unwrap();
            node.is_there().await.unwrap();
            node.close().await;
        });
        runs.push(run.await);
    }
    runs.sort_by_key(|cost| cost.requests);
    runs[40]
}

async fn members(counted: &Counted) -> Vec<(&'static str, Cost)> {
    let node = counted.once(async |client| {
        let node = PersistentNode::start(client, "/node", "").unwrap();
        node.is_there().await.unwrap();
        node.close().await;
    });
    let node = node.await;
    let ttl = ttl_cost(counted).await;
    let group = counted.once(async |client| {
        let member = GroupMember::start(client, "/group", "a", "").unwrap();
        member.is_there().await.unwrap();
        assert_eq!(member.members().await.unwrap().len(), 1);
        member.close().await;
    });
    let group = group.await;
    let party = counted.once(async |client| {
        let member = Party::start(client, "/party", "a").unwrap();
        member.is_there().await.unwrap();
        assert_eq!(member.members().await.unwrap(), ["a"]);
        member.close().await;
    });
    let party = party.await;
    let shallow = counted.once(async |client| {
        let member = Party::start_shallow(client, "/shallow", "a").unwrap();
        member.is_there().await.unwrap();
        assert_eq!(member.members().await.unwrap(), ["a"]);
        member.close().await;
    });
    let shallow = shallow.await;
    let set = counted.once(async |client| {
        let member = SetPartitioner::start(client, "/set", &["a"], "1").unwrap();
        let member = member.with_quiet_time(Duration::from_millis(1));
        member.share().await.unwrap().release().await.unwrap();
        member.close().await;
    });
    let set = set.await;
    let services = |client: &Client| ServiceDiscovery::new(client, "/services").unwrap();
    let instance = Instance::new("print", "a");
    let registered = services(&counted.two).register(&instance).unwrap();
    registered.is_there().await.unwrap();
    let found = counted.once(async |client| {
        services(client).instances("print").await.unwrap();
    });
    let found = found.await;
    let provider = counted.once(async |client| {
        let services = services(client);
        let provider = ServiceProvider::start(&services, "print", Strategy::Random).unwrap();
        provider.is_complete().await.unwrap();
        provider.close().await;
    });
    vec![
        ("PersistentNode", node),
        ("PersistentTtlNode", ttl),
        ("GroupMember", group),
        ("Party", party),
        ("ShallowParty", shallow),
        ("SetPartitioner", set),
        ("ServiceDiscovery", found),
        ("ServiceProvider", provider.await),
    ]
}
