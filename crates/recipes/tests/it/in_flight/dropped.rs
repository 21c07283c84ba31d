//! Test that the compiler warns of every guard and handle that is dropped immediately.

#![deny(unfulfilled_lint_expectations)]

use std::time::Duration;

use client::Client;
use zoarium_recipes::{
    CacheScope, DoubleBarrier, GroupMember, LeaderLatch, MultiLock, Mutex, Party, PersistentNode,
    PersistentTtlNode, Queue, ReadWriteLock, Result, Semaphore, ServiceDiscovery, ServiceProvider,
    SetPartitioner, Strategy, TreeCache, UnfairElection,
};

/// Drops each kind of guard. Without a warning, this function does not compile.
async fn drop_guards(client: &Client) -> Result<()> {
    let (mutex, lock) = (
        Mutex::new(client, "/m")?,
        ReadWriteLock::new(client, "/rw")?,
    );
    #[expect(unused_must_use)]
    mutex.acquire().await?;
    #[expect(unused_must_use)]
    mutex.acquire_as("owner").await?;
    #[expect(unused_must_use)]
    mutex.requeue(mutex.acquire().await?).await?;
    #[expect(unused_must_use)]
    lock.read().await?;
    #[expect(unused_must_use)]
    lock.write().await?;
    #[expect(unused_must_use)]
    lock.write().await?.downgrade().await?;
    let semaphore = Semaphore::new(client, "/s", 2)?;
    #[expect(unused_must_use)]
    semaphore.acquire().await?;
    #[expect(unused_must_use)]
    semaphore.acquire_many(2).await?;
    #[expect(unused_must_use)]
    MultiLock::new(vec![mutex])?.acquire().await?;
    #[expect(unused_must_use)]
    DoubleBarrier::new(client, "/b", 2)?.enter().await?;
    #[expect(unused_must_use)]
    Queue::new(client, "/q")?.take().await?;
    Ok(())
}

/// Drops each kind of handle that works in the background.
async fn drop_handles(client: &Client) -> Result<()> {
    #[expect(unused_must_use)]
    LeaderLatch::start(client, "/l", "")?;
    #[expect(unused_must_use)]
    UnfairElection::start(client, "/e", "id")?;
    #[expect(unused_must_use)]
    GroupMember::start(client, "/g", "id", "")?;
    #[expect(unused_must_use)]
    Party::start(client, "/p", "id")?;
    #[expect(unused_must_use)]
    PersistentNode::start(client, "/n", "")?;
    #[expect(unused_must_use)]
    PersistentTtlNode::start(client, "/t", Duration::from_secs(1), "")?;
    #[expect(unused_must_use)]
    TreeCache::start(client, "/c")?;
    #[expect(unused_must_use)]
    TreeCache::start_with(client, "/c", CacheScope::Node, |_| true)?.events();
    let partitioner = SetPartitioner::start(client, "/s", &["a"], "id")?;
    #[expect(unused_must_use)]
    partitioner.share().await?;
    let services = ServiceDiscovery::new(client, "/services")?;
    #[expect(unused_must_use)]
    ServiceProvider::start(&services, "print", Strategy::Random)?;
    Ok(())
}

#[test]
fn a_dropped_guard_is_a_warning() {
    // They have been compiled.
    let _ = (drop_guards, drop_handles);
}
