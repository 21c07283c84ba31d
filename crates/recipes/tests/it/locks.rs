//! Order, reentrancy, cancelled waits, and the cost of a change of holder.

use std::time::Duration;

use client::{Create, MultiOp};
use proto::watch::EventType;
use zoarium_recipes::{
    Error, LeaderLatch, LeaderSelector, Mutex, ReadWriteLock, Semaphore, UnfairElection,
};

use crate::proxy::Proxy;
use crate::support::{
    children, connect, server, soon, two_clients, until, until_children, until_watches,
};

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_served_in_order_and_a_change_notifies_one() {
    let server = server();
    let holder = connect(&server.address()).await;
    let held = Mutex::new(&holder, "/m").unwrap().acquire().await.unwrap();
    let mut waiters = Vec::new();
    let (told, mut order) = tokio::sync::mpsc::channel(20);
    for number in 0..20 {
        let client = connect(&server.address()).await;
        let events = client.events();
        let mutex = Mutex::new(&client, "/m").unwrap();
        let told = told.clone();
        let task = tokio::spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            told.send((number, guard.token())).await.unwrap();
            guard
        });
        until_children(&holder, "/m", number + 2).await;
        waiters.push((client, events, task));
    }
    // Every waiter has set its watch. The directory itself is not watched.
    until_watches(&server, 20).await;
    let mut token = held.token();
    held.release().await.unwrap();
    for (expected, (client, mut events, task)) in waiters.into_iter().enumerate() {
        let (number, next) = soon("the next holder", order.recv()).await.unwrap();
        assert_eq!(number, expected);
        assert!(next > token);
        token = next;
        let event = events.try_recv().unwrap();
        assert_eq!(event.kind, EventType::NodeDeleted);
        assert!(events.try_recv().is_err(), "a waiter was told twice");
        task.await.unwrap().release().await.unwrap();
        client.close().await.unwrap();
    }
    until_children(&holder, "/m", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requeue_moves_a_holder_to_the_end_in_one_request() {
    let server = server();
    let proxy = Proxy::start(&server.address()).await;
    let client = connect(&proxy.address.to_string()).await;
    let other = connect(&server.address()).await;
    let (ours, theirs) = (
        Mutex::new(&client, "/m").unwrap().with_data("again"),
        Mutex::new(&other, "/m").unwrap(),
    );
    let guard = ours.acquire().await.unwrap();
    // The owner has another guard, so the lock stays held.
    let twice = guard.again();
    let kept = soon("the same", ours.requeue(twice)).await.unwrap();
    assert_eq!(kept.token(), guard.token());
    drop(kept);
    let waiting = tokio::spawn(async move { theirs.acquire().await.unwrap() });
    until_watches(&server, 1).await;
    let (path, token) = (guard.path().to_owned(), guard.token());
    proxy.count();
    let again = tokio::spawn({
        let ours = ours.clone();
        async move { ours.requeue(guard).await.unwrap() }
    });
    let next = soon("the other", waiting).await.unwrap();
    until_watches(&server, 1).await;
    assert_eq!(proxy.count(), 3, "multi, getChildren, getData");
    assert!(client.exists(&path).await.unwrap().is_none());
    assert!(next.token() > token);
    next.release().await.unwrap();
    let guard = soon("its next turn", again).await.unwrap();
    assert!(guard.token() > token);
    let (data, _) = client.get_data(guard.path()).await.unwrap();
    assert_eq!(data.as_deref(), Some(&b"again"[..]));
    // An operator has deleted the znode, so there is nothing to release.
    other.delete(guard.path(), -1).await.unwrap();
    let guard = soon("a new place", ours.requeue(guard)).await.unwrap();
    assert_eq!(children(&other, "/m").await.len(), 1);
    drop(guard);
    until_children(&other, "/m", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_reentrant_until_the_last_release() {
    let server = server();
    let client = connect(&server.address()).await;
    let mutex = Mutex::new(&client, "/m").unwrap().with_data("me");
    let once = mutex.acquire_as("owner").await.unwrap();
    let twice = soon("the same", mutex.acquire_as("owner")).await.unwrap();
    assert_eq!(once.path(), twice.path());
    let (data, _) = client.get_data(once.path()).await.unwrap();
    assert_eq!(data.as_deref(), Some(&b"me"[..]));
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(children(&client, "/m").await.len(), 1);
    assert!(!once.release().await.unwrap());
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let twice = soon("its next turn", mutex.requeue(twice)).await.unwrap();
    let thrice = soon("the same", mutex.acquire_as("owner")).await.unwrap();
    assert_eq!(thrice.path(), twice.path());
    assert!(!thrice.release().await.unwrap());
    assert!(twice.release().await.unwrap());
    let other = mutex.try_acquire().await.unwrap().unwrap();
    drop(other);
    until_children(&client, "/m", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_notified_of_a_request_for_the_lock() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let theirs = Mutex::new(&other, "/m").unwrap();
    assert!(!theirs.ask_for().await.unwrap());
    let guard = Mutex::new(&client, "/m").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let theirs = theirs.clone();
        async move { theirs.acquire().await.unwrap() }
    });
    until_children(&client, "/m", 2).await;
    let ask = async {
        // Other data does not request the release of the lock.
        other.set_data(guard.path(), "x", -1).await.unwrap();
        theirs.ask_for().await.unwrap()
    };
    let asked = async { tokio::join!(guard.is_asked_for(), ask) };
    assert_eq!(soon("the request", asked).await, (true, true));
    // The requester also waits until the lock is released.
    assert!(guard.is_certain() && !waiting.is_finished());
    guard.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap();
    let (asked, ()) = tokio::join!(guard.is_asked_for(), async {
        client.delete(guard.path(), -1).await.unwrap();
    });
    assert!(!asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_wait_leaves_the_queue_and_its_successor_continues() {
    let server = server();
    let client = connect(&server.address()).await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let held = mutex.acquire().await.unwrap();
    let (give_up, given_up) = tokio::sync::oneshot::channel();
    let impatient = async {
        tokio::select! {
            _ = mutex.acquire() => false,
            told = given_up => told.is_ok(),
        }
    };
    let patient = async {
        until_children(&client, "/m", 2).await;
        mutex.acquire().await
    };
    let (is_given_up, patient, ()) = tokio::join!(impatient, patient, async {
        // The impatient waiter leaves first, then the holder.
        until_children(&client, "/m", 3).await;
        give_up.send(()).unwrap();
        until_children(&client, "/m", 2).await;
        held.release().await.unwrap();
    });
    assert!(is_given_up, "it was granted");
    patient.unwrap().release().await.unwrap();
    until_children(&client, "/m", 0).await;
    until_watches(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_and_a_writer_excludes_them() {
    let server = server();
    let client = connect(&server.address()).await;
    let lock = ReadWriteLock::new(&client, "/rw").unwrap();
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let writing = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().await.unwrap() }
    });
    until_children(&client, "/rw", 3).await;
    let late = tokio::spawn({
        let lock = lock.clone();
        async move { lock.read().await.unwrap() }
    });
    until_children(&client, "/rw", 4).await;
    one.release().await.unwrap();
    assert!(!writing.is_finished() && !late.is_finished());
    two.release().await.unwrap();
    let writer = soon("the writer", writing).await.unwrap();
    assert!(!late.is_finished());

    // A second writer waits for the first one, which continues as a reader.
    let second = tokio::spawn(async move { lock.write().await.unwrap() });
    until_children(&client, "/rw", 3).await;
    let reader = writer.downgrade().await.unwrap();
    let late = soon("the late reader", late).await.unwrap();
    late.release().await.unwrap();
    assert!(!second.is_finished());
    reader.release().await.unwrap();
    let second = soon("the second writer", second).await.unwrap();
    second.release().await.unwrap();
    until_children(&client, "/rw", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returned_lease_notifies_one_waiter() {
    let server = server();
    let client = connect(&server.address()).await;
    let semaphore = Semaphore::new(&client, "/s", 2).unwrap();
    let leases = semaphore.acquire_many(2).await.unwrap();
    assert_eq!(leases.as_slice().len(), 2);
    let mut leases = leases.into_vec();
    assert_ne!(leases[0].token(), leases[1].token());
    let waiting = |semaphore: Semaphore| tokio::spawn(async move { semaphore.acquire().await });
    let (one, two) = (waiting(semaphore.clone()), waiting(semaphore.clone()));
    until_children(&client, "/s/locks", 2).await;
    until_children(&client, "/s/leases", 3).await;
    // The request exceeds the available leases. Cancelling it releases everything that it acquired.
    let many = tokio::time::timeout(Duration::from_millis(50), semaphore.acquire_many(2));
    assert!(many.await.is_err());
    until_children(&client, "/s/locks", 2).await;
    leases.pop().unwrap().release().await.unwrap();
    until("one lease", async || one.is_finished() != two.is_finished()).await;
    leases.pop().unwrap().release().await.unwrap();
    for task in [one, two] {
        let lease = soon("a lease", task).await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
    until_children(&client, "/s/leases", 0).await;
    until_children(&client, "/s/locks", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_take_turns_in_strict_rotation() {
    let server = server();
    let (told, mut turns) = tokio::sync::mpsc::channel(100);
    let mut tasks = Vec::new();
    let watcher = connect(&server.address()).await;
    for number in 0..4_usize {
        let client = connect(&server.address()).await;
        let selector = LeaderSelector::new(&client, "/sel").unwrap();
        let selector = selector.with_id(number.to_string());
        let (told, observer) = (told.clone(), watcher.clone());
        tasks.push(tokio::spawn(async move {
            let led = selector.run(|leadership| {
                let (told, observer) = (told.clone(), observer.clone());
                async move {
                    // All candidates are in the queue before any of them releases the leadership.
                    until_children(&observer, "/sel", 4).await;
                    let _ = told.send((number, leadership.token())).await;
                }
            });
            drop(led.await);
        }));
    }
    let mut seen = Vec::new();
    let mut tokens = Vec::new();
    for _ in 0..12 {
        let (number, token) = soon("a turn", turns.recv()).await.unwrap();
        seen.push(number);
        tokens.push(token);
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    for (turn, number) in seen.iter().enumerate().skip(4) {
        assert_eq!(*number, seen[turn - 4], "{seen:?}");
    }
    for task in tasks {
        task.abort();
        assert!(soon("the end", task).await.is_err());
    }
    until_children(&watcher, "/sel", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_leading_releases_leadership() {
    let server = server();
    let client = connect(&server.address()).await;
    let selector = LeaderSelector::new(&client, "/sel").unwrap();
    let panicking = tokio::spawn(async move {
        selector
            .lead(|_| async { panic!("as the test wants") })
            .await
    });
    assert!(soon("the panic", panicking).await.is_err());
    until_children(&client, "/sel", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_are_listed_and_follow_each_other() {
    let server = server();
    let client = connect(&server.address()).await;
    let one = LeaderLatch::start(&client, "/latch", "one").unwrap();
    one.leads().await.unwrap();
    let two = LeaderLatch::start(&client, "/latch", "two").unwrap();
    until_children(&client, "/latch", 2).await;
    let listed = two.participants().await.unwrap();
    let listed: Vec<_> = listed.iter().map(|one| (&*one.id, one.is_leader)).collect();
    assert_eq!(listed, [(&b"one"[..], true), (&b"two"[..], false)]);
    let third = LeaderLatch::start(&client, "/latch", "three").unwrap();
    until_children(&client, "/latch", 3).await;
    // The middle candidate leaves. The last candidate still does not lead.
    two.close().await;
    until_children(&client, "/latch", 2).await;
    assert!(one.has_leadership() && !third.has_leadership());
    drop(one);
    soon("the last", third.leads()).await.unwrap();
    third.close().await;
    until_children(&client, "/latch", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_candidates_on_one_znode_one_leads() {
    let server = server();
    let client = connect(&server.address()).await;
    let start = |number: usize| {
        UnfairElection::start(&client, "/unfair/leader", &number.to_string()).unwrap()
    };
    let mut candidates: Vec<_> = (0..5).map(start).collect();
    while !candidates.is_empty() {
        let led = || candidates.iter().position(|one| one.leadership().is_some());
        until("a leader", async || led().is_some()).await;
        let leads = candidates.iter().filter(|one| one.leadership().is_some());
        assert_eq!(leads.count(), 1);
        let leader = candidates.remove(led().unwrap());
        leader.close().await;
    }
    assert_eq!(client.exists("/unfair/leader").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_comes_too_late_is_refused() {
    let server = server();
    let client = connect(&server.address()).await;
    client
        .create("/data", "", &Create::persistent())
        .await
        .unwrap();
    let mutex = Mutex::new(&client, "/m").unwrap();
    let old = mutex.acquire().await.unwrap();
    let guarded =
        |check: MultiOp, data: &'static str| [check, MultiOp::set_data("/data", data, -1)];
    client.multi(&guarded(old.check(), "old")).await.unwrap();
    // An operator deletes the lock's znode. The holder is notified, and another client acquires the
    // lock.
    let operator = connect(&server.address()).await;
    let (cause, deleted) = tokio::join!(old.wait_until_uncertain(), async {
        until_watches(&server, 1).await;
        operator.delete(old.path(), -1).await
    });
    deleted.unwrap();
    assert_eq!(cause, zoarium_recipes::UncertaintyCause::Gone);
    let new = soon("the lock", mutex.acquire()).await.unwrap();
    assert!(new.token() > old.token());
    client.multi(&guarded(new.check(), "new")).await.unwrap();
    assert!(client.multi(&guarded(old.check(), "late")).await.is_err());
    let (data, _) = client.get_data("/data").await.unwrap();
    assert_eq!(data.as_deref(), Some(&b"new"[..]));
    // Releasing a lost lock is harmless, and reports the loss.
    let lost = old.release().await.unwrap_err();
    assert!(matches!(lost, Error::NotHeld { .. }), "{lost}");
    assert!(mutex.try_acquire().await.unwrap().is_none());
}

/// Checks the figures of docs/lab/recipes.md.
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_as_many_as_the_table_says() {
    let server = server();
    let (one, two) = (
        Proxy::start(&server.address()).await,
        Proxy::start(&server.address()).await,
    );
    let first = connect(&one.address.to_string()).await;
    let second = connect(&two.address.to_string()).await;
    let observer = connect(&server.address()).await;
    for path in ["/m", "/l", "/u"] {
        observer
            .create(path, "", &Create::persistent())
            .await
            .unwrap();
    }
    let counts = || (one.count(), two.count());

    let mutex = Mutex::new(&first, "/m").unwrap();
    let held = mutex.acquire().await.unwrap();
    assert_eq!(counts(), (2, 0));
    let mutex = Mutex::new(&second, "/m").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    until_watches(&server, 1).await;
    assert_eq!(counts(), (0, 3));
    held.release().await.unwrap();
    let held = waiting.await.unwrap();
    assert_eq!(counts(), (1, 1));
    held.release().await.unwrap();
    assert_eq!(counts(), (0, 1));

    let leader = LeaderLatch::start(&first, "/l", "").unwrap();
    leader.leads().await.unwrap();
    until_watches(&server, 1).await;
    assert_eq!(counts(), (3, 0));
    let next = LeaderLatch::start(&second, "/l", "").unwrap();
    until_watches(&server, 2).await;
    assert_eq!(counts(), (0, 3));
    leader.close().await;
    next.leads().await.unwrap();
    until_watches(&server, 1).await;
    // The leader removes the watch on its own znode, or receives its event first.
    let (left, took) = counts();
    assert!(left <= 2 && took == 2, "{left} {took}");
    next.close().await;
    until_watches(&server, 0).await;
    counts();

    let leader = UnfairElection::start(&first, "/u/leader", "").unwrap();
    leader.leads().await.unwrap();
    until_watches(&server, 1).await;
    assert_eq!(counts(), (2, 0));
    let next = UnfairElection::start(&second, "/u/leader", "").unwrap();
    until_watches(&server, 2).await;
    assert_eq!(counts(), (0, 3));
    leader.close().await;
    next.leads().await.unwrap();
    until_watches(&server, 1).await;
    let (left, took) = counts();
    assert!(left <= 2 && took == 2, "{left} {took}");
    next.close().await;
}
