//! Queues with due times, ids and priorities, and queues that delete an item when it is taken.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Client, WallClock};
use zoarium_recipes::{DelayQueue, Error, IdQueue, Layout, LockingQueue, SimpleQueue, TakenItems};

use crate::cuts::at_every_request;
use crate::support::{children, connect, options, server, soon, two_clients, until_children};

async fn confirmed(taken: TakenItems) -> String {
    let text = String::from_utf8(taken.items()[0].to_vec()).unwrap();
    taken.confirm().await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_item_is_taken_when_it_is_due() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let ours = DelayQueue::new(&one, "/q").unwrap();
    let theirs = DelayQueue::new(&two, "/q").unwrap();
    ours.put(Duration::from_secs(3600), "late").await.unwrap();
    assert!(ours.try_take().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { confirmed(theirs.take().await.unwrap()).await });
    until_children(&one, "/q-locks", 2).await;
    let due = SystemTime::now() + Duration::from_millis(100);
    ours.put_at(due, "soon").await.unwrap();
    assert_eq!(soon("the item", waiting).await.unwrap(), "soon");
    assert!(SystemTime::now() >= due);
    ours.put(Duration::ZERO, "2").await.unwrap();
    let earlier = due - Duration::from_secs(1);
    ours.put_at(earlier, "1").await.unwrap();
    for expected in ["1", "2"] {
        assert_eq!(confirmed(ours.take().await.unwrap()).await, expected);
    }
    assert_eq!(ours.count().await.unwrap(), 1);
    let names = children(&one, "/q").await;
    assert!(names[0].starts_with("queue-|1"), "{names:?}");
    assert_eq!(names[0].matches('|').count(), 2, "{names:?}");
}

/// Clock that stands still between two ms.
#[derive(Debug)]
struct StoppedClock;

impl WallClock for StoppedClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(1_000_000_500)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_without_a_delay_does_not_wait_for_the_next_ms() {
    let server = server();
    let options = options(&server.address()).with_wall_clock(Arc::new(StoppedClock));
    let client = Client::connect(options).await.unwrap();
    let queue = DelayQueue::new(&client, "/q").unwrap();
    queue.put(Duration::ZERO, "now").await.unwrap();
    let taken = queue.try_take().await.unwrap().unwrap();
    assert_eq!(confirmed(taken).await, "now");
    for later in [Duration::from_nanos(1), Duration::from_millis(1)] {
        queue.put(later, "later").await.unwrap();
        assert!(queue.try_take().await.unwrap().is_none());
    }
    let names = children(&client, "/q").await;
    // Both are due at 1,000,001 ms.
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("queue-|000F4241|")),
        "{names:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn items_are_removed_by_their_ids() {
    at_every_request(6, &["", "-locks"], async |through, direct, path| {
        let ours = IdQueue::new(through, path).unwrap();
        let theirs = IdQueue::new(direct, path).unwrap();
        theirs.put("a/b", "1").await.unwrap();
        ours.put("c", "2").await.unwrap();
        theirs.put("a/b", "3").await.unwrap();
        theirs.put("a/b", "4").await.unwrap();
        // A consumer keeps the item that it has taken.
        let taken = theirs.take().await.unwrap();
        assert_eq!(ours.remove("a/b").await.unwrap(), 2);
        assert_eq!(ours.remove("d").await.unwrap(), 0);
        taken.requeue().await.unwrap();
        for expected in ["2", "1"] {
            assert_eq!(confirmed(ours.take().await.unwrap()).await, expected);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locking_queue_obeys_priorities() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let ours = LockingQueue::new(&one, "/q").unwrap();
    let theirs = LockingQueue::new(&two, "/q").unwrap();
    ours.put("b").await.unwrap();
    ours.put_first(999, "c").await.unwrap();
    theirs.put_first(7, "a").await.unwrap();
    let (first, second) = (ours.take().await.unwrap(), theirs.take().await.unwrap());
    assert_eq!(
        (first.items()[0].as_ref(), second.items()[0].as_ref()),
        (&b"a"[..], &b"b"[..])
    );
    second.give_back().await.unwrap();
    first.confirm().await.unwrap();
    for expected in ["b", "c"] {
        assert_eq!(confirmed(theirs.take().await.unwrap()).await, expected);
    }
    let refused = ours.put_first(1000, "d").await.unwrap_err();
    assert!(matches!(refused, Error::Argument { .. }), "{refused}");
    until_children(&one, "/q/entries", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_queue_gives_each_item_once() {
    for layout in [Layout::Curator, Layout::Kazoo] {
        at_every_request(6, &["", "-locks"], async |through, direct, path| {
            let ours = SimpleQueue::with_layout(through, path, layout).unwrap();
            let theirs = SimpleQueue::with_layout(direct, path, layout).unwrap();
            ours.put("1").await.unwrap();
            theirs.put("2").await.unwrap();
            ours.put("3").await.unwrap();
            assert_eq!(theirs.count().await.unwrap(), 3);
            assert_eq!(ours.take().await.unwrap(), "1");
            assert_eq!(theirs.take().await.unwrap(), "2");
            assert_eq!(ours.take().await.unwrap(), "3");
            assert_eq!(ours.try_take().await.unwrap(), None);
            // A waiting consumer receives the next item.
            let coming = async {
                until_children(direct, &format!("{path}-locks"), 2).await;
                theirs.put("4").await.unwrap();
            };
            let (taken, ()) = tokio::join!(ours.take(), coming);
            assert_eq!(taken.unwrap(), "4");
        })
        .await;
    }
    let server = server();
    let client = connect(&server.address()).await;
    let (curator, kazoo) = (
        SimpleQueue::new(&client, "/curator").unwrap(),
        SimpleQueue::with_layout(&client, "/kazoo", Layout::Kazoo).unwrap(),
    );
    curator.put("x").await.unwrap();
    kazoo.put("x").await.unwrap();
    assert_eq!(children(&client, "/curator").await, ["qn-0000000000"]);
    assert_eq!(children(&client, "/kazoo").await, ["entry-100-0000000000"]);
    let (data, _) = client
        .get_data("/kazoo/entry-100-0000000000")
        .await
        .unwrap();
    assert_eq!(data.as_deref(), Some(&b"x"[..]));
}
