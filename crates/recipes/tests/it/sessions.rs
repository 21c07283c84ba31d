//! Lost connections and ended sessions during waits and while a lock is held.

use client::{Client, Create, Options};
use zoarium_recipes::{
    Barrier, DoubleBarrier, Error, LeaderLatch, LeaderSelector, Mutex, Queue, ReadWriteLock,
    Semaphore, SharedValue, UncertaintyCause, UnfairElection,
};

use crate::support::{
    both_ways, children, connect, expire, server, soon, two_clients, until, until_children,
    until_cut_off, until_watches,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_session_ends_queues_again_at_the_end() {
    let server = server();
    let address = server.address();
    let holder = connect(&address).await;
    let waiter = connect(&address).await;
    let last = connect(&address).await;
    let held = Mutex::new(&holder, "/m").unwrap().acquire().await.unwrap();
    let wait = |client: &Client| {
        let mutex = Mutex::new(client, "/m").unwrap();
        tokio::spawn(async move { mutex.acquire().await.unwrap() })
    };
    let first = wait(&waiter);
    until_children(&holder, "/m", 2).await;
    let second = wait(&last);
    until_children(&holder, "/m", 3).await;
    let old = waiter.session();
    expire(&address, old.clone()).await;
    until("a new session", async || waiter.session_id() != old.id).await;
    until_children(&holder, "/m", 3).await;
    held.release().await.unwrap();
    let second = soon("the second", second).await.unwrap();
    assert!(!first.is_finished());
    second.release().await.unwrap();
    let first = soon("the first", first).await.unwrap();
    assert!(first.is_certain());
    first.release().await.unwrap();
    until_children(&holder, "/m", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_znode_an_operator_deletes_queues_again() {
    let server = server();
    let client = connect(&server.address()).await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let held = mutex.acquire().await.unwrap();
    let own = held.path().rsplit_once('/').unwrap().1.to_owned();
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap() }
    });
    until_children(&client, "/m", 2).await;
    let names = children(&client, "/m").await;
    let other = names.iter().find(|name| **name != own).unwrap();
    client.delete(&format!("/m/{other}"), -1).await.unwrap();
    held.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap();
    assert_ne!(guard.path(), format!("/m/{other}"));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_are_notified_of_the_end_of_their_session() {
    let server = server();
    let address = server.address();
    let (holder, other) = two_clients(&server).await;
    let guard = Mutex::new(&holder, "/m").unwrap().acquire().await.unwrap();
    let rw = ReadWriteLock::new(&holder, "/rw").unwrap();
    let writing = rw.write().await.unwrap();
    let lease = Semaphore::new(&holder, "/s", 1).unwrap();
    let lease = lease.acquire().await.unwrap();
    let wait = tokio::spawn({
        let mutex = Mutex::new(&other, "/m").unwrap();
        async move { mutex.acquire().await.unwrap() }
    });
    until_children(&other, "/m", 2).await;
    let old = holder.session();
    let (causes, ()) = tokio::join!(
        async {
            tokio::join!(
                guard.wait_until_uncertain(),
                writing.wait_until_uncertain(),
                lease.wait_until_uncertain()
            );
            // The first cause may be a lost connection. The end of the session follows.
            until("the end", async || holder.session_id() != old.id).await;
            tokio::join!(
                guard.wait_until_uncertain(),
                writing.wait_until_uncertain(),
                lease.wait_until_uncertain()
            )
        },
        expire(&address, old.clone())
    );
    assert_eq!(
        causes,
        (
            UncertaintyCause::Gone,
            UncertaintyCause::Gone,
            UncertaintyCause::Gone
        )
    );
    assert!(!guard.is_certain() && !writing.is_certain() && !lease.is_certain());
    let next = soon("the next", wait).await.unwrap();
    assert!(next.token() > guard.token());
    // Releasing a lost lock is harmless, and reports the loss.
    let is_loss = |error| matches!(error, Error::NotHeld { .. });
    assert!(guard.release().await.is_err_and(is_loss));
    assert!(writing.release().await.is_err_and(is_loss));
    assert!(lease.release().await.is_err_and(is_loss));
    assert_eq!(children(&other, "/m").await.len(), 1);
    let again = Semaphore::new(&other, "/s", 1).unwrap();
    drop(soon("a lease", again.acquire()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_leader_does_not_lead_and_resumes_its_position() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    let latch = LeaderLatch::start(&through, "/latch", "one").unwrap();
    let unfair = UnfairElection::start(&through, "/leader", "one").unwrap();
    let before = latch.leads().await.unwrap();
    let elected = unfair.leads().await.unwrap();
    let other = LeaderLatch::start(&direct, "/latch", "two").unwrap();
    until_children(&direct, "/latch", 2).await;
    let guard = Mutex::new(&through, "/m").unwrap().acquire().await.unwrap();

    proxy.close();
    until_cut_off(&through).await;
    assert!(!latch.has_leadership() && unfair.leadership().is_none() && !guard.is_certain());
    soon("the yield", latch.yields()).await;
    assert_eq!(
        guard.wait_until_uncertain().await,
        UncertaintyCause::Disconnected
    );
    assert!(
        !other.has_leadership(),
        "the session lives, and so does the place"
    );
    proxy.open();
    let after = soon("the leadership", latch.leads()).await.unwrap();
    assert_eq!(
        (after.path(), after.token()),
        (before.path(), before.token())
    );
    let again = soon("the leadership", unfair.leads()).await.unwrap();
    assert_eq!(again.token(), elected.token());
    assert!(guard.is_certain() && !other.has_leadership());

    // The session ends. The latch joins again at the end of the queue.
    let old = through.session();
    expire(&server.address(), old.clone()).await;
    soon("the other", other.leads()).await.unwrap();
    until_children(&direct, "/latch", 2).await;
    assert!(!latch.has_leadership());
    other.close().await;
    let last = soon("the leadership", latch.leads()).await.unwrap();
    assert!(last.token() > after.token());
    let again = soon("the leadership", unfair.leads()).await.unwrap();
    assert!(again.token() > elected.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_leader_stops_and_rejoins() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    let selector = LeaderSelector::new(&through, "/sel").unwrap();
    let (begun, mut beginnings) = tokio::sync::mpsc::channel(10);
    let (ended, mut ends) = tokio::sync::mpsc::channel(10);
    let leading = tokio::spawn(async move {
        let run = selector.run(|leadership| {
            let (begun, ended) = (begun.clone(), OnDrop(ended.clone()));
            async move {
                begun.send(leadership.token()).await.unwrap();
                std::future::pending::<()>().await;
                drop(ended);
            }
        });
        drop(run.await);
    });
    let first = soon("a beginning", beginnings.recv()).await.unwrap();
    proxy.close();
    soon("the stop", ends.recv()).await.unwrap();
    proxy.open();
    let second = soon("a beginning", beginnings.recv()).await.unwrap();
    assert!(second > first);
    // The old znode is deleted, so the candidate does not wait for itself.
    until_children(&direct, "/sel", 1).await;
    // An operator deletes the leader's znode.
    let name = children(&direct, "/sel").await.remove(0);
    direct.delete(&format!("/sel/{name}"), -1).await.unwrap();
    soon("the stop", ends.recv()).await.unwrap();
    let third = soon("a beginning", beginnings.recv()).await.unwrap();
    assert!(third > second);
    leading.abort();
    until_children(&direct, "/sel", 0).await;
}

/// Sends a message when it is dropped.
struct OnDrop(tokio::sync::mpsc::Sender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_recreates_its_deleted_directory() {
    let server = server();
    let client = connect(&server.address()).await;
    let latch = LeaderLatch::start(&client, "/a/latch", "one").unwrap();
    let before = latch.leads().await.unwrap();
    // The latch watches its own znode.
    until_watches(&server, 1).await;
    client.delete(before.path(), -1).await.unwrap();
    let _ = client.delete("/a/latch", -1).await;
    until("another znode", async || {
        latch
            .leadership()
            .is_some_and(|now| now.token() > before.token())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_end_when_the_client_does() {
    let server = server();
    let (holder, waiter) = two_clients(&server).await;
    let _held = Mutex::new(&holder, "/m").unwrap().acquire().await.unwrap();
    let rw = ReadWriteLock::new(&holder, "/rw").unwrap();
    let _writing = rw.write().await.unwrap();
    let latch = LeaderLatch::start(&holder, "/latch", "").unwrap();
    latch.leads().await.unwrap();
    let unfair = UnfairElection::start(&holder, "/leader", "").unwrap();
    unfair.leads().await.unwrap();
    let _lease = Semaphore::new(&holder, "/s", 1)
        .unwrap()
        .acquire()
        .await
        .unwrap();
    let barrier = Barrier::new(&holder, "/barrier").unwrap();
    barrier.set().await.unwrap();

    let mutex = Mutex::new(&waiter, "/m").unwrap();
    let rw = ReadWriteLock::new(&waiter, "/rw").unwrap();
    let other = LeaderLatch::start(&waiter, "/latch", "").unwrap();
    let candidate = UnfairElection::start(&waiter, "/leader", "").unwrap();
    let selector = LeaderSelector::new(&waiter, "/m").unwrap();
    let semaphore = Semaphore::new(&waiter, "/s", 1).unwrap();
    let barrier = Barrier::new(&waiter, "/barrier").unwrap();
    let double = DoubleBarrier::new(&waiter, "/double", 2).unwrap();
    let value = SharedValue::new(&waiter, "/value", "").unwrap();
    let queue = Queue::new(&waiter, "/q").unwrap();
    let read = value.get().await.unwrap();
    let closing = async {
        for (path, count) in [
            ("/m", 3),
            ("/rw", 2),
            ("/latch", 2),
            ("/s/leases", 2),
            ("/double", 1),
            ("/q-locks", 1),
        ] {
            until_children(&holder, path, count).await;
        }
        waiter.close().await.unwrap();
    };
    let waits = async {
        let locks = async {
            let (mutex, rw) = tokio::join!(mutex.acquire(), rw.read());
            mutex.is_err() && rw.is_err()
        };
        let leases = async { semaphore.acquire().await.is_err() };
        let leaders = async {
            let led = selector.lead(|_| async {});
            let (latch, unfair, led) = tokio::join!(other.leads(), candidate.leads(), led);
            latch.is_err() && unfair.is_err() && led.is_err()
        };
        let others = async {
            let barriers = async { tokio::join!(barrier.wait(), double.enter()) };
            let changed = value.changed_from(&read);
            let (barriers, changed, taken) = tokio::join!(barriers, changed, queue.take());
            barriers.0.is_err() && barriers.1.is_err() && changed.is_err() && taken.is_err()
        };
        tokio::join!(locks, leases, leaders, others)
    };
    let (ended, ()) = soon("the ends", async { tokio::join!(waits, closing) }).await;
    assert_eq!(ended, (true, true, true, true));
    for (path, count) in [("/m", 1), ("/latch", 1), ("/double", 0), ("/q-locks", 0)] {
        until_children(&holder, path, count).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_renewal_a_wait_fails_with_its_session() {
    let server = server();
    let address = server.address();
    let holder = connect(&address).await;
    let _held = Mutex::new(&holder, "/m").unwrap().acquire().await.unwrap();
    let waiter = Client::connect(Options::new(&address)).await.unwrap();
    let session = waiter.session();
    let mutex = Mutex::new(&waiter, "/m").unwrap();
    let (waited, ()) = tokio::join!(soon("the end", mutex.acquire()), async {
        until_children(&holder, "/m", 2).await;
        expire(&address, session).await;
    });
    let error = waited.unwrap_err().to_string();
    assert!(error.contains("expired"), "{error}");
    let refused = waiter.create("/x", "", &Create::persistent()).await;
    assert!(refused.is_err());
}
