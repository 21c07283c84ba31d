//! Watches that the application removes from a client that it shares with recipes. The recipes set
//! them again and continue.

use client::{Client, Create, WatchKind};
use tests::Server;
use zoarium_recipes::{
    Barrier, DoubleBarrier, LeaderLatch, Mutex, PersistentNode, Queue, Semaphore, SharedValue,
    TreeCache, UnfairElection,
};

use crate::support::{server, soon, two_clients, until, until_watches};

/// Removes the watches on a path when the server has `count` watches in total, and waits until the
/// recipe has set them again.
async fn remove(server: &Server, client: &Client, path: &str, count: usize) {
    until_watches(server, count).await;
    client.remove_watches(path, WatchKind::Any).await.unwrap();
    until_watches(server, count).await;
}

/// Waits for `waiting`, which must not end while its watch is removed. It must end after `change`.
async fn outlives<T>(
    removed: impl Future<Output = ()>,
    waiting: impl Future<Output = T>,
    change: impl Future,
) -> T {
    let mut waiting = std::pin::pin!(waiting);
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("a wait ended together with its watch"),
        () = removed => {}
    }
    let both = async { tokio::join!(waiting, change).0 };
    soon("the change", both).await
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_outlive_their_watches() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let removed = async |path: &str, count| remove(&server, &client, path, count).await;

    let barrier = Barrier::new(&client, "/b").unwrap();
    barrier.set().await.unwrap();
    let passed = outlives(removed("/b", 1), barrier.wait(), other.delete("/b", -1));
    passed.await.unwrap();

    let ours = DoubleBarrier::new(&client, "/d", 2).unwrap();
    let theirs = DoubleBarrier::new(&other, "/d", 2).unwrap();
    let entered = outlives(removed("/d/ready", 1), ours.enter(), theirs.enter());
    let inside = entered.await.unwrap();
    soon("the way out", inside.leave()).await.unwrap();

    let value = SharedValue::new(&client, "/v", "1").unwrap();
    let read = value.get().await.unwrap();
    let change = other.set_data("/v", "2", -1);
    let next = outlives(removed("/v", 1), value.changed_from(&read), change);
    assert_eq!(next.await.unwrap().data, "2");

    let queue = Queue::new(&client, "/q").unwrap();
    let putting = Queue::new(&other, "/q").unwrap();
    client.create("/q", "", &Create::container()).await.unwrap();
    let taken = outlives(removed("/q", 2), queue.take(), putting.put("1"));
    taken.await.unwrap().confirm().await.unwrap();

    let held = Mutex::new(&other, "/m").unwrap().acquire().await.unwrap();
    let path = held.path().to_owned();
    let mutex = Mutex::new(&client, "/m").unwrap();
    let guard = outlives(removed(&path, 1), mutex.acquire(), held.release());
    let guard = guard.await.unwrap();
    let path = guard.path();
    let change = other.set_data(path, "__REVOKE__", -1);
    assert!(outlives(removed(path, 1), guard.is_asked_for(), change).await);
    let change = other.delete(path, -1);
    outlives(removed(path, 1), guard.wait_until_uncertain(), change).await;

    let lease = Semaphore::new(&other, "/s", 1).unwrap().acquire().await;
    let semaphore = Semaphore::new(&client, "/s", 1).unwrap();
    // The waiter also watches its gate.
    let waiting = outlives(
        removed("/s/leases", 2),
        semaphore.acquire(),
        lease.unwrap().release(),
    );
    waiting.await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_znodes_and_caches_outlive_their_watches() {
    let server = server();
    let (client, other) = two_clients(&server).await;

    let latch = LeaderLatch::start(&client, "/latch", "me").unwrap();
    let leadership = latch.leads().await.unwrap();
    remove(&server, &client, leadership.path(), 1).await;
    assert!(latch.has_leadership());
    latch.close().await;

    let election = UnfairElection::start(&client, "/unfair", "me").unwrap();
    let token = election.leads().await.unwrap().token();
    remove(&server, &client, "/unfair", 1).await;
    assert_eq!(election.leads().await.unwrap().token(), token);
    election.close().await;

    let node = PersistentNode::start(&client, "/n", "mine").unwrap();
    node.is_there().await.unwrap();
    remove(&server, &client, "/n", 1).await;
    node.is_there().await.unwrap();
    node.close().await;

    let cache = TreeCache::start(&client, "/t").unwrap();
    cache.is_complete().await.unwrap();
    remove(&server, &client, "/t", 1).await;
    other
        .create("/t", "1", &Create::persistent())
        .await
        .unwrap();
    until("the znode", async || cache.get("/t").is_some()).await;
    cache.close().await;
}
