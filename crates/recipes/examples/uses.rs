//! Measures how often one session can use each recipe. `tests/performance_recipes.py` compares this
//! program with two others.
//!
//! ```text
//! uses HOST:PORT
//! ```
//!
//! Each line on standard input, `NAME PATH SECONDS`, requests a measurement. The program answers
//! with a line on standard output: the number of uses, and the elapsed seconds.

mod measured;

use std::time::{Duration, Instant};

use client::{Client, Create};
use tokio::sync::mpsc;
use zoarium_recipes::{
    Barrier, CacheScope, Counter, DelayQueue, DoubleBarrier, GroupMember, IdQueue, Instance,
    Layout, LockingQueue, MultiLock, MultiNonBlockingLease, Mutex, NonBlockingLease, Party,
    PersistentNode, PersistentTtlNode, PriorityQueue, Queue, ReadWriteLock, Semaphore,
    ServiceDiscovery, ServiceProvider, SetPartitioner, SharedValue, SimpleQueue, Strategy,
    TreeCache, Width,
};

use measured::{Failure, answer_lines, connect};

const HOUR: Duration = Duration::from_secs(3600);
/// Number of znodes below the root of a cache.
const CACHED: usize = 500;
/// Time without a change of the members of a set.
const QUIET_TIME: Duration = Duration::from_millis(50);

/// Number of uses, and the elapsed time.
type Counted = (u64, Duration);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    answer_lines(answer).await
}

/// Executes the measurement that the words of a line request.
async fn answer(servers: &str, words: &[&str]) -> Result<String, Failure> {
    let [name, path, seconds] = *words else {
        return Err(format!("what is {words:?}?").into());
    };
    let client = connect(servers).await?;
    let time = Duration::from_secs_f64(seconds.parse()?);
    let uses = Uses {
        client: &client,
        path,
        time,
    };
    let (count, elapsed) = uses.of(name).await?;
    client.close().await?;
    Ok(format!("{count} {}", elapsed.as_secs_f64()))
}

/// Uses of one recipe.
struct Uses<'a> {
    client: &'a Client,
    path: &'a str,
    time: Duration,
}

impl Uses<'_> {
    async fn of(&self, name: &str) -> Result<Counted, Failure> {
        match name {
            "queue" | "priority-queue" | "delay-queue" | "id-queue" | "simple-queue"
            | "kazoo-queue" | "locking-queue" => self.of_queue(name).await,
            "cache" | "node-cache" | "children-watch" => self.of_cache(name).await,
            "mutex" | "semaphore" | "multi-lock" | "write-lock" | "read-lock" | "revoke" => {
                self.of_lock(name).await
            }
            "barrier" | "double-barrier" | "count" | "value" | "atomic" | "lease" | "leases" => {
                self.of_value(name).await
            }
            _ => self.of_member(name).await,
        }
    }

    /// Repeats a use until the time is over.
    async fn repeat(
        &self,
        one: impl AsyncFn(u64) -> Result<(), Failure>,
    ) -> Result<Counted, Failure> {
        let began = Instant::now();
        let mut count = 0;
        while began.elapsed() < self.time {
            one(count).await?;
            count += 1;
        }
        Ok((count, began.elapsed()))
    }

    async fn of_lock(&self, name: &str) -> Result<Counted, Failure> {
        let (client, path) = (self.client, self.path);
        let mutex = Mutex::new(client, path)?;
        let lock = ReadWriteLock::new(client, path)?;
        let semaphore = Semaphore::new(client, path, 2)?;
        let locks = ["a", "b"].map(|name| Mutex::new(client, &format!("{path}/{name}")));
        let locks = MultiLock::new(locks.into_iter().collect::<Result<_, _>>()?)?;
        let held = match name {
            "revoke" => Some(mutex.acquire().await?),
            _ => None,
        };
        let count = self.repeat(async |_| {
            match name {
                "mutex" => drop(mutex.acquire().await?.release().await?),
                "semaphore" => semaphore.acquire().await?.release().await?,
                "multi-lock" => locks.acquire().await?.release().await?,
                "write-lock" => lock.write().await?.release().await?,
                "read-lock" => drop(lock.read().await?.release().await?),
                _ => drop(mutex.ask_for().await?),
            }
            Ok(())
        });
        let count = count.await?;
        drop(held);
        Ok(count)
    }

    async fn of_value(&self, name: &str) -> Result<Counted, Failure> {
        let (client, path) = (self.client, self.path);
        let barrier = Barrier::new(client, path)?;
        let double = DoubleBarrier::new(client, path, 1)?;
        let count = Counter::new(client, path)?.with_width(Width::Int);
        let value = SharedValue::new(client, path, "0")?;
        let atomic = Counter::new(client, path)?;
        let lease = NonBlockingLease::new(client, path, "one")?;
        let leases = MultiNonBlockingLease::new(client, path, 2, "one")?;
        self.repeat(async |number| {
            match name {
                "barrier" => {
                    barrier.set().await?;
                    barrier.remove().await?;
                }
                "double-barrier" => double.enter().await?.leave().await?,
                "count" => drop(count.add(1).await?),
                "value" => {
                    let read = value.get().await?;
                    value.try_set(&read, number.to_string()).await?;
                }
                "atomic" => drop(atomic.add(1).await?),
                "lease" => drop(lease.obtain(HOUR).await?),
                _ => drop(leases.obtain(HOUR).await?),
            }
            Ok(())
        })
        .await
    }

    async fn of_queue(&self, name: &str) -> Result<Counted, Failure> {
        let (client, path) = (self.client.clone(), self.path.to_owned());
        let plain = Queue::new(&client, &path)?;
        let priority = PriorityQueue::new(&client, &path)?;
        let delay = DelayQueue::new(&client, &path)?;
        let id = IdQueue::new(&client, &path)?;
        let simple = SimpleQueue::new(&client, &path)?;
        let kazoo = SimpleQueue::with_layout(&client, &path, Layout::Kazoo)?;
        let locking = LockingQueue::new(&client, &path)?;
        if let "simple-queue" | "kazoo-queue" = name {
            let queue = match name {
                "simple-queue" => simple,
                _ => kazoo,
            };
            return self
                .repeat(async |_| {
                    queue.put("item").await?;
                    queue.take().await?;
                    Ok(())
                })
                .await;
        }
        // A consumer waits for each item.
        let (consumed, mut seen) = mpsc::channel(1);
        let consumer = {
            let (plain, priority, delay) = (plain.clone(), priority.clone(), delay.clone());
            let (id, locking, name) = (id.clone(), locking.clone(), name.to_owned());
            tokio::spawn(async move {
                loop {
                    let taken = match name.as_str() {
                        "queue" => plain.take().await?,
                        "priority-queue" => priority.take().await?,
                        "delay-queue" => delay.take().await?,
                        "id-queue" => id.take().await?,
                        _ => locking.take().await?,
                    };
                    taken.confirm().await?;
                    if consumed.send(()).await.is_err() {
                        return Ok::<_, Failure>(());
                    }
                }
            })
        };
        let mut count = 0;
        let began = Instant::now();
        while began.elapsed() < self.time {
            match name {
                "queue" => plain.put("item").await?,
                "priority-queue" => priority.put(1, "item").await?,
                "delay-queue" => delay.put(Duration::ZERO, "item").await?,
                "id-queue" => id.put("id", "item").await?,
                _ => locking.put("item").await?,
            }
            seen.recv().await.ok_or("the consumer has ended")?;
            count += 1;
        }
        consumer.abort();
        Ok((count, began.elapsed()))
    }

    /// Creates the znodes of a cache once, then starts and closes caches. For `children-watch`,
    /// only reads the names of the znodes.
    async fn of_cache(&self, name: &str) -> Result<Counted, Failure> {
        let (client, path) = (self.client, self.path);
        client.ensure_path(path).await?;
        for number in 0..CACHED {
            let child = format!("{path}/{number}");
            // The znode exists if an earlier measurement has created it.
            let _ = client.create(&child, "data", &Create::persistent()).await;
        }
        let scope = match name {
            "cache" => CacheScope::Subtree,
            "node-cache" => CacheScope::Node,
            // Like kazoo's ChildrenWatch, this use reads only the names.
            _ => {
                return self
                    .repeat(async |_| {
                        client
                            .watch_children(path)
                            .await
                            .map(drop)
                            .map_err(Into::into)
                    })
                    .await;
            }
        };
        self.repeat(async |_| {
            let cache = TreeCache::start_with(client, path, scope, |_| true)?;
            cache.is_complete().await?;
            cache.close().await;
            Ok(())
        })
        .await
    }

    async fn of_member(&self, name: &str) -> Result<Counted, Failure> {
        let (client, path) = (self.client, self.path);
        let services = ServiceDiscovery::new(client, path)?;
        let instance = Instance::new("print", "one").at("10.0.0.1", 6310);
        let provider = match name {
            "service-provider" => {
                services.register(&instance)?.is_there().await?;
                Some(services.register(&instance)?)
            }
            _ => None,
        };
        let count = self.repeat(async |_| {
            match name {
                "node" => {
                    let node = PersistentNode::start(client, &format!("{path}/n"), "1")?;
                    node.is_there().await?;
                    node.close().await;
                }
                "ttl-node" => {
                    let node = PersistentTtlNode::start(client, &format!("{path}/n"), HOUR, "1")?;
                    node.is_there().await?;
                    node.close().await;
                }
                "group" => {
                    let member = GroupMember::start(client, path, "one", "1")?;
                    member.is_there().await?;
                    member.members().await?;
                    member.close().await;
                }
                "party" | "shallow-party" => {
                    let member = match name {
                        "party" => Party::start(client, path, "one")?,
                        _ => Party::start_shallow(client, path, "one")?,
                    };
                    member.is_there().await?;
                    member.members().await?;
                    member.close().await;
                }
                "set" => {
                    let member = SetPartitioner::start(client, path, &["a", "b"], "one")?;
                    let member = member.with_quiet_time(QUIET_TIME);
                    member.share().await?.release().await?;
                    member.close().await;
                }
                "services" => {
                    let registered = services.register(&instance)?;
                    registered.is_there().await?;
                    services.instances("print").await?;
                    registered.close().await;
                }
                "service-provider" => {
                    let strategy = Strategy::RoundRobin;
                    let provider = ServiceProvider::start(&services, "print", strategy)?;
                    provider.is_complete().await?;
                    provider.close().await;
                }
                _ => return Err(format!("what is {name:?}?").into()),
            }
            Ok(())
        });
        let count = count.await?;
        drop(provider);
        Ok(count)
    }
}
