//! Leases of a semaphore that an operator deletes, and a gate whose holder dies.

use recipes::{Doubt, Semaphore};

use crate::support::{connect, server, soon, two_clients, until_children, until_watches};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_an_operator_deletes_goes_to_the_next() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let lease = Semaphore::new(&one, "/s", 1).unwrap();
    let lease = lease.acquire().await.unwrap();
    let semaphore = Semaphore::new(&two, "/s", 1).unwrap();
    let waiting = tokio::spawn(async move { semaphore.acquire().await.unwrap() });
    until_children(&one, "/s/leases", 2).await;
    let (doubt, ()) = tokio::join!(soon("the doubt", lease.in_doubt()), async {
        // The waiter watches the leases and its gate, and the holder watches its lease.
        until_watches(&server, 3).await;
        two.delete(lease.path(), -1).await.unwrap();
    });
    assert_eq!(doubt, Doubt::Gone);
    let next = soon("the lease", waiting).await.unwrap();
    assert!(next.token() > lease.token());
    // Returning a deleted lease is harmless.
    lease.release().await.unwrap();
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
