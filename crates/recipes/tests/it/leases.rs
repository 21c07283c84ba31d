//! Leases of a semaphore: a deletion by an operator, the death of the gate's holder, several leases
//! at once, and invalid numbers.

use zoarium_recipes::{DoubleBarrier, Error, Lease, MultiLock, Mutex, Semaphore, UncertaintyCause};

use crate::support::{
    children, connect, server, soon, two_clients, until, until_children, until_watches,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_an_operator_deletes_goes_to_the_next() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let lease = Semaphore::new(&one, "/s", 1).unwrap();
    let lease = lease.acquire().await.unwrap();
    let semaphore = Semaphore::new(&two, "/s", 1).unwrap();
    let waiting = tokio::spawn(async move { semaphore.acquire().await.unwrap() });
    until_children(&one, "/s/leases", 2).await;
    let (cause, ()) = tokio::join!(soon("uncertain", lease.wait_until_uncertain()), async {
        // The waiter watches the leases and its gate, and the holder watches its lease.
        until_watches(&server, 3).await;
        two.delete(lease.path(), -1).await.unwrap();
    });
    assert_eq!(cause, UncertaintyCause::Gone);
    let next = soon("the lease", waiting).await.unwrap();
    assert!(next.token() > lease.token());
    // Returning a deleted lease is harmless, and reports the loss.
    let lost = lease.release().await.unwrap_err().to_string();
    assert_eq!(
        lost,
        "the lock at /s/leases is lost: its session expired, or its znode was deleted"
    );
    assert!(next.is_certain());
    until_children(&one, "/s/leases", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_dies_at_the_gate_does_not_block_others() {
    let server = server();
    let holder = connect(&server.address()).await;
    let lease = Semaphore::new(&holder, "/s", 1).unwrap();
    let lease = lease.acquire().await.unwrap();
    let dying = connect(&server.address()).await;
    let first = Semaphore::new(&dying, "/s", 1).unwrap();
    let first = tokio::spawn(async move { first.acquire().await });
    until_children(&holder, "/s/leases", 2).await;
    let patient = connect(&server.address()).await;
    let second = Semaphore::new(&patient, "/s", 1).unwrap();
    let second = tokio::spawn(async move { second.acquire().await.unwrap() });
    until_children(&holder, "/s/locks", 2).await;
    dying.close().await.unwrap();
    assert!(soon("the end", first).await.unwrap().is_err());
    // The second waiter now holds the gate and watches the leases.
    until_children(&holder, "/s/locks", 1).await;
    until_children(&holder, "/s/leases", 2).await;
    assert!(!second.is_finished());
    lease.release().await.unwrap();
    let lease = soon("the lease", second).await.unwrap();
    lease.release().await.unwrap();
    until_children(&holder, "/s/leases", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_waiters_for_all_leases_get_them_in_turn() {
    let server = server();
    let holder = connect(&server.address()).await;
    let all = Semaphore::new(&holder, "/s", 2).unwrap();
    let held = all.acquire_many(2).await.unwrap();
    let mut waiters = Vec::new();
    for at_gate in 1..=2 {
        let client = connect(&server.address()).await;
        let all = Semaphore::new(&client, "/s", 2).unwrap();
        waiters.push(tokio::spawn(async move {
            let held = all.acquire_many(2).await.unwrap();
            held.release().await.unwrap();
        }));
        until_children(&holder, "/s/locks", at_gate).await;
    }
    held.release().await.unwrap();
    for waiter in waiters {
        soon("all leases", waiter).await.unwrap();
    }
    until_children(&holder, "/s/leases", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_all_leases_restarts_when_an_operator_deletes_a_part() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let held = Semaphore::new(&one, "/s", 2).unwrap();
    let held = held.acquire().await.unwrap();
    let all = Semaphore::new(&two, "/s", 2).unwrap();
    let waiter = tokio::spawn(async move { all.acquire_many(2).await.unwrap() });
    for directory in ["/s/locks", "/s/leases"] {
        // The new leases are complete, and the waiter watches them and its gate.
        until_children(&one, "/s/leases", 3).await;
        until_watches(&server, 2).await;
        let of_waiter = async |path: &str| {
            let names = children(&one, path).await.into_iter();
            let paths = names.map(|name| format!("{path}/{name}"));
            let others = paths.filter(|path| path != held.path());
            others.collect::<Vec<_>>()
        };
        let before = of_waiter("/s/leases").await;
        let part = of_waiter(directory).await.remove(0);
        one.delete(&part, -1).await.unwrap();
        until("new leases", async || {
            let now = of_waiter("/s/leases").await;
            now.len() == 2 && now.iter().all(|path| !before.contains(path))
        })
        .await;
    }
    held.release().await.unwrap();
    let leases = soon("all leases", waiter).await.unwrap();
    assert!(leases.as_slice().iter().all(Lease::is_certain));
    until_children(&one, "/s/leases", 2).await;
    until_children(&one, "/s/locks", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_would_wait_without_end_are_refused() {
    let server = server();
    let client = connect(&server.address()).await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let two = Semaphore::new(&client, "/s", 2).unwrap();
    let held = two.acquire().await.unwrap();
    let refusals: [(Error, &str); 6] = [
        (
            Semaphore::new(&client, "/s", 0).unwrap_err(),
            "invalid argument for the recipe at /s: a semaphore needs at least one lease",
        ),
        (
            two.acquire_many(3).await.unwrap_err(),
            "invalid argument for the recipe at /s: 3 of 2 leases cannot be acquired",
        ),
        (
            two.acquire_many(0).await.unwrap_err(),
            "invalid argument for the recipe at /s: 0 of 2 leases cannot be acquired",
        ),
        (
            DoubleBarrier::new(&client, "/d", 0).unwrap_err(),
            "invalid argument for the recipe at /d: a double barrier needs at least one member",
        ),
        (
            MultiLock::new(vec![mutex.clone(), mutex]).unwrap_err(),
            "invalid argument for the recipe at /m: a lock that occurs twice waits for itself",
        ),
        (
            MultiLock::new(Vec::new()).unwrap_err(),
            "invalid argument for several locks: there must be at least one lock",
        ),
    ];
    for (refused, text) in refusals {
        assert_eq!(refused.to_string(), text);
    }
    // A refused request has acquired nothing.
    assert_eq!(children(&client, "/s/leases").await.len(), 1);
    held.release().await.unwrap();
}
