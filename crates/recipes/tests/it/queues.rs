//! Queues: order, one consumer for each item, and the remains of dead consumers.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use client::Create;
use tests::Flavour::Zoarium;
use tests::ensemble::EnsembleBuilder;
use tests::{java_program, or_skip};
use zoarium_recipes::{
    DelayQueue, Error, IdQueue, PriorityQueue, Queue, SimpleQueue, TakenItems, UncertaintyCause,
};

use crate::cuts::at_every_request;
use crate::foreign::run_to_the_end;
use crate::proxy::Proxy;
use crate::support::{
    both_ways, children, connect, expire, server, soon, two_clients, until, until_children,
    until_watches,
};

fn text(taken: &TakenItems) -> String {
    let [item] = taken.items() else {
        panic!("one item: {:?}", taken.items())
    };
    String::from_utf8(item.to_vec()).unwrap()
}

async fn confirmed(taken: TakenItems) -> String {
    let text = text(&taken);
    taken.confirm().await.unwrap();
    text
}

fn assert_lost(ended: Result<(), Error>) {
    assert!(matches!(ended, Err(Error::NotHeld { .. })), "{ended:?}");
}

/// Takes all items that are currently free.
async fn drain(queue: &Queue) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(taken) = queue.try_take().await.unwrap() {
        all.push(confirmed(taken).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_connection_is_cut() {
    at_every_request(9, &["", "-locks"], async |through, direct, path| {
        let (ours, theirs) = (
            Queue::new(through, path).unwrap(),
            Queue::new(direct, path).unwrap(),
        );
        // Each item exists once, even if its answer was lost.
        theirs.put("1").await.unwrap();
        ours.put("2").await.unwrap();
        theirs.put("3").await.unwrap();
        assert_eq!(theirs.count().await.unwrap(), 3);
        let first = ours.take().await.unwrap();
        assert_eq!(text(&first), "1");
        let second = theirs.take().await.unwrap();
        assert_eq!(text(&second), "2");
        first.requeue().await.unwrap();
        let third = ours.take().await.unwrap();
        assert_eq!(text(&third), "3");
        third.give_back().await.unwrap();
        second.confirm().await.unwrap();
        assert_eq!(drain(&theirs).await, ["3", "1"]);
        // A waiting consumer receives the next item.
        let coming = async {
            until_children(direct, &format!("{path}-locks"), 2).await;
            theirs.put("4").await.unwrap();
        };
        let (taken, ()) = tokio::join!(ours.take(), coming);
        assert_eq!(confirmed(taken.unwrap()).await, "4");
        assert_eq!(ours.count().await.unwrap(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_priority_queue_whose_connection_is_cut() {
    at_every_request(6, &["", "-locks"], async |through, direct, path| {
        let ours = PriorityQueue::new(through, path).unwrap();
        let theirs = PriorityQueue::new(direct, path).unwrap();
        theirs.put(5, "late").await.unwrap();
        ours.put(-1, "soon").await.unwrap();
        ours.put(5, "later").await.unwrap();
        let first = ours.take().await.unwrap();
        assert_eq!(text(&first), "soon");
        let second = theirs.take().await.unwrap();
        assert_eq!(text(&second), "late");
        second.requeue().await.unwrap();
        first.confirm().await.unwrap();
        for expected in ["later", "late"] {
            assert_eq!(confirmed(ours.take().await.unwrap()).await, expected);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_survive_the_loss_of_the_leader() {
    let mut ensemble = EnsembleBuilder::new(&[Zoarium; 3]).start().unwrap();
    let leader = ensemble.wait_until_all_serve();
    let servers = ensemble.addresses(&ensemble.ids()).join(",");
    let (one, two) = (connect(&servers).await, connect(&servers).await);
    let queue = Queue::new(&one, "/q").unwrap();
    let jobs = PriorityQueue::new(&one, "/jobs").unwrap();
    for item in ["a", "b"] {
        queue.put(item).await.unwrap();
    }
    jobs.put(1, "second").await.unwrap();
    let taken = queue.take().await.unwrap();
    let waiting = tokio::spawn({
        let queue = Queue::new(&two, "/waited-for").unwrap();
        async move { confirmed(queue.take().await.unwrap()).await }
    });
    until_children(&one, "/waited-for-locks", 1).await;

    ensemble.member_mut(leader).kill();
    let others: Vec<_> = ensemble.up();
    tokio::task::block_in_place(|| ensemble.wait_until_these_serve(&others));
    jobs.put(0, "first").await.unwrap();
    let waited_for = Queue::new(&one, "/waited-for").unwrap();
    waited_for.put("x").await.unwrap();
    assert_eq!(soon("an item", waiting).await.unwrap(), "x");
    // Another consumer cannot take an item that is already taken.
    let other = Queue::new(&two, "/q").unwrap();
    assert_eq!(drain(&other).await, ["b"]);
    assert_eq!(confirmed(taken).await, "a");
    let jobs = PriorityQueue::new(&two, "/jobs").unwrap();
    for expected in ["first", "second"] {
        assert_eq!(confirmed(jobs.take().await.unwrap()).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_item_of_a_dead_consumer_is_taken_again() {
    let server = server();
    let (direct, consumer) = two_clients(&server).await;
    let (ours, theirs) = (
        Queue::new(&consumer, "/q").unwrap(),
        Queue::new(&direct, "/q").unwrap(),
    );
    theirs.put("work").await.unwrap();
    let first = ours.take().await.unwrap();
    assert!(first.is_certain() && theirs.try_take().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let theirs = theirs.clone();
        async move { theirs.take().await.unwrap() }
    });
    until_children(&direct, "/q-locks", 3).await;
    assert!(!waiting.is_finished());
    expire(&server.address(), consumer.session()).await;
    let second = soon("the item", waiting).await.unwrap();
    assert_eq!(text(&second), "work");
    assert!(second.token() > first.token());
    // The connection may be lost before the client knows the end of the session.
    let mut state = consumer.state();
    let gone = async {
        while first.wait_until_uncertain().await != UncertaintyCause::Gone {
            state.changed().await.unwrap();
        }
    };
    soon("end of the session", gone).await;
    // The confirmation is late, and does not affect the consumer that holds the item.
    assert_lost(first.confirm().await);
    assert!(ours.try_take().await.unwrap().is_none());
    second.confirm().await.unwrap();
    assert_eq!(theirs.count().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_item_returns_to_the_queue() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    let ours = Queue::new(&through, "/q").unwrap();
    let theirs = Queue::new(&direct, "/q").unwrap();
    theirs.put("1").await.unwrap();
    drop(ours.take().await.unwrap());
    assert_eq!(text(&soon("1", theirs.take()).await.unwrap()), "1");
    // A cancelled take does not take an item, at any time and even if its answer was lost.
    for requests in 0..6 {
        proxy.count();
        let taking = tokio::spawn({
            let ours = ours.clone();
            async move { ours.take().await }
        });
        let mut seen = 0;
        while seen < requests && !taking.is_finished() {
            seen += proxy.count();
            tokio::task::yield_now().await;
        }
        proxy.close();
        taking.abort();
        drop(taking.await);
        proxy.open();
        let taken = soon("what was given up", theirs.take()).await.unwrap();
        taken.give_back().await.unwrap();
    }
    assert_eq!(drain(&theirs).await, ["1"]);
    drop((ours, theirs));
    until_children(&direct, "/q-locks", 0).await;
    until_watches(&server, 0).await;
}

/// A runtime that shuts down accepts no tasks. Dropping an item in it must not retry endlessly.
#[test]
fn an_item_dropped_with_its_runtime_returns_with_its_session() {
    let server = server();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    first.block_on(async {
        let client = connect(&server.address()).await;
        let queue = Queue::new(&client, "/q").unwrap();
        queue.put("1").await.unwrap();
        let taken = queue.take().await.unwrap();
        tokio::spawn(async move {
            let _kept = (client, taken);
            std::future::pending::<()>().await;
        });
    });
    drop(first);
    runtime().block_on(async {
        let client = connect(&server.address()).await;
        let queue = Queue::new(&client, "/q").unwrap();
        let taken = soon("the item", queue.take()).await.unwrap();
        assert_eq!(confirmed(taken).await, "1");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_items_stay_and_do_not_block_others() {
    let server = server();
    let client = connect(&server.address()).await;
    let queue = Queue::new(&client, "/deep/q").unwrap();
    assert!(queue.try_take().await.unwrap().is_none());
    queue.put_together(&[]).await.unwrap();
    let kind = Create::persistent().sequential();
    for data in ["", "garbage"] {
        client.create("/deep/q/queue-", data, &kind).await.unwrap();
    }
    client
        .create("/deep/q/config", "", &Create::persistent())
        .await
        .unwrap();
    let both = ["a", "b"].map(Bytes::from);
    queue.put_together(&both).await.unwrap();
    let empty = queue.take().await.unwrap();
    assert!(empty.items().is_empty());
    let taken = queue.take().await.unwrap();
    assert_eq!(taken.items(), both);
    empty.confirm().await.unwrap();
    taken.confirm().await.unwrap();
    assert!(queue.try_take().await.unwrap().is_none());
    assert_eq!(children(&client, "/deep/q").await.len(), 3);
    assert_eq!(queue.count().await.unwrap(), 2);

    // Deletions by an operator are reported, and no locks remain.
    queue.put("gone").await.unwrap();
    let taken = queue.take().await.unwrap();
    client.delete(&taken.path(), -1).await.unwrap();
    assert_lost(taken.confirm().await);
    queue.put("unlocked").await.unwrap();
    let taken = queue.take().await.unwrap();
    let (_, name) = taken.path().rsplit_once('/').map(own).unwrap();
    client
        .delete(&format!("/deep/q-locks/{name}"), -1)
        .await
        .unwrap();
    assert_lost(taken.confirm().await);
    assert_eq!(drain(&queue).await, ["unlocked"]);

    let refused = Queue::with_locks(&client, "/a", "/a").unwrap_err();
    assert!(matches!(refused, Error::Path { .. }), "{refused}");
}

fn own((one, other): (&str, &str)) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_put_is_unknown_after_its_session() {
    let server = server();
    let proxy = Proxy::start(&server.address()).await;
    let through = connect(&proxy.address.to_string()).await;
    let queue = Queue::new(&through, "/q").unwrap();
    queue.put("1").await.unwrap();
    proxy.cut_at(1, crate::proxy::Cut::BeforeReply);
    let session = through.session();
    let putting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.put("2").await }
    });
    until("the cut", async || proxy.has_cut()).await;
    proxy.close();
    expire(&server.address(), session).await;
    proxy.open();
    let put = soon("the put", putting).await.unwrap();
    let direct = connect(&server.address()).await;
    let all = drain(&Queue::new(&direct, "/q").unwrap()).await;
    match put {
        Err(Error::UnknownPut { .. }) => assert!(all == ["1", "2"] || all == ["1"], "{all:?}"),
        // The client had reconnected before its session was ended.
        Ok(()) => assert_eq!(all, ["1", "2"]),
        Err(error) => panic!("{error}"),
    }
    queue.put("3").await.unwrap();
}

const ITEMS: usize = 10;

async fn share(program: Vec<PathBuf>) {
    let server = server();
    let client = connect(&server.address()).await;
    let persistent = Create::persistent();
    let seen = [
        "seen",
        "seen-priority",
        "seen-delayed",
        "seen-ids",
        "seen-simple",
    ];
    let seen = seen.map(|name| format!("/c/{name}"));
    client.create("/c", "", &persistent).await.unwrap();
    for path in &seen {
        client.create(path, "", &persistent).await.unwrap();
    }
    let queue = Queue::with_locks(&client, "/c/queue", "/c/locks").unwrap();
    let jobs = PriorityQueue::with_locks(&client, "/c/jobs", "/c/job-locks").unwrap();
    let delayed = DelayQueue::with_locks(&client, "/c/delayed", "/c/delayed-locks").unwrap();
    let ids = IdQueue::with_locks(&client, "/c/ids", "/c/id-locks").unwrap();
    let simple = SimpleQueue::new(&client, "/c/simple").unwrap();
    let arguments = vec![server.address(), "/c".to_owned(), ITEMS.to_string()];
    let theirs = tokio::spawn(run_to_the_end(program, arguments));
    let putting = async {
        for number in 0..ITEMS {
            let item = format!("ours-{number}");
            queue.put(item.clone()).await.unwrap();
            jobs.put(-1, item.clone()).await.unwrap();
            let delay = Duration::from_millis(100);
            delayed.put(delay, item.clone()).await.unwrap();
            ids.put("c", item.clone()).await.unwrap();
            simple.put(item).await.unwrap();
        }
    };
    // Each consumer of an item creates a note, which can succeed only once.
    let note = async |seen: &str, item: &str| {
        let path = format!("{seen}/{item}");
        client.create(&path, "ours", &persistent).await.unwrap();
    };
    let taking = async {
        until("the end", async || {
            let taken = [
                queue.try_take().await.unwrap(),
                jobs.try_take().await.unwrap(),
                delayed.try_take().await.unwrap(),
                ids.try_take().await.unwrap(),
            ];
            for (taken, seen) in taken.into_iter().zip(&seen) {
                let Some(taken) = taken else { continue };
                note(seen, &text(&taken)).await;
                taken.confirm().await.unwrap();
            }
            if let Some(item) = simple.try_take().await.unwrap() {
                note(&seen[4], std::str::from_utf8(&item).unwrap()).await;
            }
            let mut all = 0;
            for path in &seen {
                all += children(&client, path).await.len();
            }
            all == 2 * ITEMS * seen.len()
        })
        .await;
    };
    tokio::join!(putting, taking);
    for path in ["/c/queue", "/c/jobs", "/c/delayed", "/c/ids", "/c/simple"] {
        until_children(&client, path, 0).await;
    }
    client.create("/c/end", "", &persistent).await.unwrap();
    theirs.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_zoarium_share_queues() {
    let program =
        tokio::task::block_in_place(|| java_program("CuratorQueues", &["PatientCurator"], &[]));
    if let Some(program) = or_skip("Curator", program) {
        share(program).await;
    }
}
