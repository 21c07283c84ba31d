//! Recipes across restarts of a server and of an ensemble, and across the deletion of their
//! directory.

use std::time::Duration;

use client::{Client, Options};
use tests::Flavour::Zoarium;
use tests::ServerBuilder;
use tests::ensemble::EnsembleBuilder;
use zoarium_recipes::{LeaderLatch, Mutex, Semaphore, UnfairElection};

use crate::support::{children, connect, options, server, soon, until, until_children};

/// Session timeout. It is longer than a restart on any machine.
const LONG_SESSION: Duration = Duration::from_secs(40);

/// Returns the sorted names, because a server lists them in an arbitrary order.
async fn sorted(client: &Client, path: &str) -> Vec<String> {
    let mut names = children(client, path).await;
    names.sort();
    names
}

async fn connect_for_long(servers: &str) -> Client {
    let options: Options = options(servers).with_session_timeout(LONG_SESSION);
    soon("a session", Client::connect(options)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_outlives_fifty_restarts_of_the_server() {
    let mut server = ServerBuilder::new(Zoarium)
        .setting("maxSessionTimeout", "40000")
        .start()
        .unwrap();
    let address = server.address();
    let mut clients = Vec::new();
    let mut latches = Vec::new();
    for id in ["a", "b", "c"] {
        let client = connect_for_long(&address).await;
        latches.push(LeaderLatch::start(&client, "/latch", id).unwrap());
        clients.push(client);
        until_children(&clients[0], "/latch", clients.len()).await;
    }
    let looking = connect_for_long(&address).await;
    let mut last = soon("a leader", latches[0].leads()).await.unwrap();
    for restart in 1..=50 {
        tokio::task::block_in_place(|| server.crash_and_restart());
        // The sessions and the order of the contenders survive.
        let leader = soon("the leader", latches[0].leads()).await.unwrap();
        assert_eq!(leader.token(), last.token(), "restart {restart}");
        assert!(latches[1..].iter().all(|latch| !latch.has_leadership()));
        assert_eq!(children(&looking, "/latch").await.len(), 3);
        if restart % 10 == 0 {
            // The leader moves to the end of the queue.
            let (gone, client) = (latches.remove(0), clients.remove(0));
            gone.close().await;
            until_children(&looking, "/latch", 2).await;
            latches.push(LeaderLatch::start(&client, "/latch", "again").unwrap());
            clients.push(client);
            let next = soon("the next", latches[0].leads()).await.unwrap();
            assert!(next.token() > last.token());
            until_children(&looking, "/latch", 3).await;
            last = next;
        }
    }
    for latch in latches {
        latch.close().await;
    }
    until_children(&looking, "/latch", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_positions_survive_a_restart_of_the_ensemble() {
    let builder = EnsembleBuilder::new(&[Zoarium; 3]).setting("maxSessionTimeout", "40000");
    let mut ensemble = builder.start().unwrap();
    ensemble.wait_until_all_serve();
    let ids = ensemble.ids();
    let servers = ensemble.addresses(&ids).join(",");
    let (one, two) = (
        connect_for_long(&servers).await,
        connect_for_long(&servers).await,
    );
    let held = Mutex::new(&one, "/m").unwrap().acquire().await.unwrap();
    let lease = Semaphore::new(&one, "/s", 1).unwrap();
    let lease = lease.acquire().await.unwrap();
    let latch = LeaderLatch::start(&one, "/latch", "one").unwrap();
    let leadership = latch.leads().await.unwrap();
    let unfair = UnfairElection::start(&one, "/leader", "one").unwrap();
    let elected = unfair.leads().await.unwrap();
    let mutex = Mutex::new(&two, "/m").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    let other = LeaderLatch::start(&two, "/latch", "two").unwrap();
    until_children(&two, "/m", 2).await;
    until_children(&two, "/latch", 2).await;
    let stood = (sorted(&two, "/m").await, sorted(&two, "/latch").await);

    tokio::task::block_in_place(|| {
        for id in &ids {
            ensemble.member_mut(*id).kill();
        }
        for id in &ids {
            ensemble.start(*id);
        }
        ensemble.wait_until_all_serve();
    });
    let again = soon("the leadership", latch.leads()).await.unwrap();
    assert_eq!(again.token(), leadership.token());
    let again = soon("the leadership", unfair.leads()).await.unwrap();
    assert_eq!(again.token(), elected.token());
    until("the lock and the lease", async || {
        held.is_certain() && lease.is_certain()
    })
    .await;
    assert!(!waiting.is_finished() && !other.has_leadership());
    let stands = (sorted(&two, "/m").await, sorted(&two, "/latch").await);
    assert_eq!(stands, stood);

    let token = held.token();
    held.release().await.unwrap();
    let next = soon("the lock", waiting).await.unwrap();
    assert!(next.token() > token);
    latch.close().await;
    let next = soon("the leadership", other.leads()).await.unwrap();
    assert!(next.token() > leadership.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_even_if_sequence_numbers_restart() {
    let server = ServerBuilder::new(Zoarium)
        .property("znode.container.checkIntervalMs", "20")
        .start()
        .unwrap();
    let client = connect(&server.address()).await;
    let mutex = Mutex::new(&client, "/m").unwrap();
    let mut token = None;
    for _ in 0..3 {
        let guard = mutex.acquire().await.unwrap();
        assert!(guard.path().ends_with("lock-0000000000"), "{guard:?}");
        assert!(token < Some(guard.token()));
        token = Some(guard.token());
        guard.release().await.unwrap();
        // The directory is a container, so a server deletes it after its last child.
        until("no directory", async || {
            client.exists("/m").await.unwrap().is_none()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_acquisitions_leave_no_znodes() {
    const CLIENTS: usize = 10;
    const TURNS: usize = 100;
    let server = server();
    let looking = connect(&server.address()).await;
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let client = connect(&server.address()).await;
        tasks.push(tokio::spawn(async move {
            let mutex = Mutex::new(&client, "/m").unwrap();
            for _ in 0..TURNS {
                mutex.acquire().await.unwrap().release().await.unwrap();
            }
            client.close().await.unwrap();
        }));
    }
    for task in tasks {
        soon("all turns", task).await.unwrap();
    }
    let stat = looking.exists("/m").await.unwrap().unwrap();
    let changes = i32::try_from(2 * CLIENTS * TURNS).unwrap();
    assert_eq!((stat.cversion, stat.num_children), (changes, 0));
    for (metric, left) in [("watch_count", "0"), ("global_sessions", "1")] {
        assert_eq!(server.metric(metric).as_deref(), Some(left), "{metric}");
    }
}
