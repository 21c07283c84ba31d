//! Recipes across the loss of an ensemble's leader.

use client::Client;
use tests::Flavour::Zoarium;
use tests::ensemble::EnsembleBuilder;
use zoarium_recipes::{
    Barrier, Counter, DoubleBarrier, GroupMember, LeaderLatch, LeaderSelector, MultiLock, Mutex,
    ReadWriteLock, Semaphore, SharedValue, TreeCache, UnfairElection,
};

use crate::support::{connect, soon, until, until_children};

#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_survive_a_change_of_leader() {
    let mut ensemble = EnsembleBuilder::new(&[Zoarium; 3]).start().unwrap();
    let leader = ensemble.wait_until_all_serve();
    let servers = ensemble.addresses(&ensemble.ids()).join(",");
    let (one, two) = (connect(&servers).await, connect(&servers).await);

    let held = Mutex::new(&one, "/m").unwrap().acquire().await.unwrap();
    let writing = ReadWriteLock::new(&one, "/rw")
        .unwrap()
        .write()
        .await
        .unwrap();
    let lease = Semaphore::new(&one, "/s", 1)
        .unwrap()
        .acquire()
        .await
        .unwrap();
    let latch = LeaderLatch::start(&one, "/latch", "one").unwrap();
    let leadership = latch.leads().await.unwrap();
    let unfair = UnfairElection::start(&one, "/leader", "one").unwrap();
    let elected = unfair.leads().await.unwrap();

    let mutex = Mutex::new(&two, "/m").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    let rw = ReadWriteLock::new(&two, "/rw").unwrap();
    let reading = tokio::spawn(async move { rw.read().await.unwrap() });
    let semaphore = Semaphore::new(&two, "/s", 1).unwrap();
    let leasing = tokio::spawn(async move { semaphore.acquire().await.unwrap() });
    let other = LeaderLatch::start(&two, "/latch", "two").unwrap();
    let candidate = UnfairElection::start(&two, "/leader", "two").unwrap();
    for (path, count) in [("/m", 2), ("/rw", 2), ("/s/leases", 2), ("/latch", 2)] {
        until_children(&one, path, count).await;
    }

    ensemble.member_mut(leader).kill();
    let others: Vec<_> = ensemble.up();
    tokio::task::block_in_place(|| ensemble.wait_until_these_serve(&others));
    let again = soon("the leadership", latch.leads()).await.unwrap();
    assert_eq!(again.token(), leadership.token());
    let again = soon("the leadership", unfair.leads()).await.unwrap();
    assert_eq!(again.token(), elected.token());
    let certain = async || held.is_certain() && writing.is_certain() && lease.is_certain();
    until("the connection", certain).await;
    assert!(!waiting.is_finished() && !reading.is_finished() && !leasing.is_finished());
    assert!(!other.has_leadership() && candidate.leadership().is_none());

    let (held_token, lease_token) = (held.token(), lease.token());
    held.release().await.unwrap();
    writing.release().await.unwrap();
    lease.release().await.unwrap();
    latch.close().await;
    unfair.close().await;
    let held = soon("the lock", waiting).await.unwrap();
    assert!(held.token() > held_token);
    drop(soon("the reader", reading).await.unwrap());
    assert!(soon("the lease", leasing).await.unwrap().token() > lease_token);
    let next = soon("the latch", other.leads()).await.unwrap();
    assert!(next.token() > leadership.token());
    let next = soon("the election", candidate.leads()).await.unwrap();
    assert!(next.token() > elected.token());
    held.release().await.unwrap();

    // The killed member is restarted. A lock that survived all losses still works normally.
    ensemble.start(leader);
    tokio::task::block_in_place(|| ensemble.wait_until_all_serve());
    take_turns(&one, &two).await;
}

async fn take_turns(one: &Client, two: &Client) {
    let mut token = None;
    for client in [one, two, one, two] {
        let selector = LeaderSelector::new(client, "/m").unwrap();
        let led = loop {
            let led = selector.lead(|leadership| async move { leadership.token() });
            if let Some(led) = soon("a turn", led).await.unwrap() {
                break led;
            }
        };
        assert!(token < Some(led));
        token = Some(led);
    }
    until_children(one, "/m", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn barriers_values_and_groups_survive_a_change_of_leader() {
    let mut ensemble = EnsembleBuilder::new(&[Zoarium; 3]).start().unwrap();
    let leader = ensemble.wait_until_all_serve();
    let servers = ensemble.addresses(&ensemble.ids()).join(",");
    let (one, two) = (connect(&servers).await, connect(&servers).await);

    let barrier = Barrier::new(&one, "/barrier").unwrap();
    barrier.set().await.unwrap();
    // The client's member may lag, and would then admit the client too early.
    two.sync("/barrier").await.unwrap();
    let waiting = {
        let barrier = Barrier::new(&two, "/barrier").unwrap();
        tokio::spawn(async move { barrier.wait().await })
    };
    let entering = {
        let double = DoubleBarrier::new(&one, "/double", 2).unwrap();
        tokio::spawn(async move { double.enter().await.unwrap() })
    };
    let counter = Counter::new(&one, "/counter").unwrap();
    assert_eq!(counter.add(5).await.unwrap(), 5);
    let value = SharedValue::new(&one, "/value", "old").unwrap();
    let read = value.get().await.unwrap();
    let changing = {
        let (value, read) = (value.clone(), read.clone());
        tokio::spawn(async move { value.changed_from(&read).await.unwrap() })
    };
    let members = (
        GroupMember::start(&one, "/group", "a", "").unwrap(),
        GroupMember::start(&two, "/group", "b", "").unwrap(),
    );
    members.0.is_there().await.unwrap();
    members.1.is_there().await.unwrap();
    let cache = TreeCache::start(&two, "/value").unwrap();
    cache.is_complete().await.unwrap();
    let locks = |client| {
        let locks = ["/a", "/b"].map(|path| Mutex::new(client, path).unwrap());
        MultiLock::new(locks.to_vec()).unwrap()
    };
    let taken = locks(&one).acquire().await.unwrap();
    until_children(&two, "/double", 1).await;

    ensemble.member_mut(leader).kill();
    let others: Vec<_> = ensemble.up();
    tokio::task::block_in_place(|| ensemble.wait_until_these_serve(&others));
    assert!(!waiting.is_finished() && !entering.is_finished() && !changing.is_finished());
    soon("an open barrier", barrier.remove()).await.unwrap();
    soon("the way through", waiting).await.unwrap().unwrap();
    let double = DoubleBarrier::new(&two, "/double", 2).unwrap();
    let inside = soon("the second member", double.enter()).await.unwrap();
    let first = soon("the first member", entering).await.unwrap();
    let (left, also) = tokio::join!(inside.leave(), first.leave());
    left.unwrap();
    also.unwrap();
    assert_eq!(soon("a sum", counter.add(2)).await.unwrap(), 7);
    soon("a value", value.set("new")).await.unwrap();
    let seen = soon("the change", changing).await.unwrap();
    assert_eq!(&*seen.data, b"new");
    let is_new = async || {
        cache
            .get("/value")
            .is_some_and(|node| &*node.data == b"new")
    };
    until("the copy", is_new).await;
    assert_eq!(members.0.members().await.unwrap().len(), 2);
    assert!(locks(&two).try_acquire().await.unwrap().is_none());
    taken.release().await.unwrap();
    drop(soon("the locks", locks(&two).acquire()).await.unwrap());
    for path in ["/double", "/a", "/b"] {
        until_children(&one, path, 0).await;
    }
}
