//! Elections seen from outside, pools and their shares, leases for a fixed time, and znodes with a
//! TTL.

use std::time::Duration;

use client::{Client, Create};
use tests::{Flavour, ServerBuilder};
use zoarium_recipes::{
    Counter, Election, Error, LeaderLatch, LeaderSelector, MultiNonBlockingLease, Mutex,
    NonBlockingLease, Party, PersistentTtlNode, SetPartitioner, UnfairElection,
};

use crate::cuts::at_every_request;
use crate::support::{
    children, connect, expire, server, soon, two_clients, until, until_children, until_watches,
};

const HOUR: Duration = Duration::from_secs(3600);

async fn ids(election: &Election) -> Vec<String> {
    let participants = election.participants().await.unwrap();
    let leaders = participants.iter().filter(|one| one.is_leader).count();
    assert_eq!(leaders, usize::from(!participants.is_empty()));
    let ids = participants.iter().map(|one| one.id.to_vec());
    ids.map(|id| String::from_utf8(id).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_election_is_seen_from_outside() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let election = Election::new(&other, "/latch").unwrap();
    assert_eq!(election.leader().await.unwrap(), None);
    let one = LeaderLatch::start(&client, "/latch", "one").unwrap();
    one.leads().await.unwrap();
    let two = LeaderLatch::start(&client, "/latch", "two").unwrap();
    until_children(&client, "/latch", 2).await;
    assert_eq!(ids(&election).await, ["one", "two"]);
    one.close().await;
    until("the next", async || ids(&election).await == ["two"]).await;
    assert_eq!(election.leader().await.unwrap().unwrap().id, "two");
    two.close().await;

    let selector = LeaderSelector::new(&client, "/selector").unwrap();
    let selector = selector.with_id("three");
    let led = selector.lead(|_| async {
        let election = Election::new(&other, "/selector").unwrap();
        ids(&election).await
    });
    assert_eq!(led.await.unwrap().unwrap(), ["three"]);

    let leader = async || UnfairElection::leader_at(&other, "/unfair").await.unwrap();
    assert_eq!(leader().await, None);
    let unfair = UnfairElection::start(&client, "/unfair", "four").unwrap();
    unfair.leads().await.unwrap();
    assert_eq!(leader().await.as_deref(), Some("four"));
    unfair.close().await;
    // The observer has left no znodes or watches.
    assert_eq!(children(&other, "/latch").await.len(), 0);
    until_watches(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_party_see_each_other() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    for is_shallow in [false, true] {
        let directory = format!("/{is_shallow}");
        let start = |client: &Client, identifier: &str| {
            let started = if is_shallow {
                Party::start_shallow(client, &directory, identifier)
            } else {
                Party::start(client, &directory, identifier)
            };
            started.unwrap()
        };
        let (first, second) = (start(&one, "a-1"), start(&two, "b"));
        first.is_there().await.unwrap();
        second.is_there().await.unwrap();
        assert_eq!(first.members().await.unwrap(), ["a-1", "b"]);
        let old = one.session();
        expire(&server.address(), old.clone()).await;
        until("a new session", async || one.session_id() != old.id).await;
        until("both again", async || {
            second.members().await.unwrap() == ["a-1", "b"]
        })
        .await;
        second.close().await;
        until("one", async || first.members().await.unwrap() == ["a-1"]).await;
        let [name] = &children(&one, &directory).await[..] else {
            panic!("one member")
        };
        let (hex, rest) = name.split_at(32);
        assert!(hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        assert_eq!(rest, if is_shallow { "-a-1" } else { "__party__" });
    }
    assert!(Party::start_shallow(&one, "/p", "a/b").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_znode_with_a_ttl_outlives_its_client_for_a_while() {
    let server = ServerBuilder::new(Flavour::Zoarium)
        .setting("znode.container.checkIntervalMs", "50")
        .start()
        .unwrap();
    let (client, other) = two_clients(&server).await;
    let ttl = Duration::from_secs(1);
    let node = PersistentTtlNode::start(&client, "/jobs/n", ttl, "1").unwrap();
    node.is_there().await.unwrap();
    let touched = async || match other.exists("/jobs/n/touch").await.unwrap() {
        Some(stat) => stat.mzxid,
        None => 0,
    };
    for _ in 0..3 {
        let before = touched().await;
        until("a touch", async || touched().await > before).await;
    }
    node.set_data("2");
    until("the data", async || {
        let (data, _) = other.get_data("/jobs/n").await.unwrap();
        data.as_deref() == Some(b"2")
    })
    .await;
    let stat = other.exists("/jobs/n").await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, 0, "it belongs to a session");
    drop(node);
    until("its end", async || {
        other.exists("/jobs/n").await.unwrap().is_none()
    })
    .await;
    let refused = PersistentTtlNode::start(&other, "/n", Duration::ZERO, "").unwrap_err();
    assert!(matches!(refused, Error::Argument { .. }), "{refused}");

    // The recipe repairs a deletion by an operator.
    let node = PersistentTtlNode::start(&other, "/n", HOUR, "").unwrap();
    node.is_there().await.unwrap();
    let touched = async || other.exists("/n/touch").await.unwrap().is_some();
    until("the child", touched).await;
    for path in ["/n/touch", "/n"] {
        other.delete(path, -1).await.unwrap();
    }
    until("the znode", async || {
        other.exists("/n").await.unwrap().is_some()
    })
    .await;
    node.close().await;
    assert!(other.exists("/n").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_belongs_to_one_holder_until_its_end() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let ours = NonBlockingLease::new(&one, "/leases/l", "a").unwrap();
    let theirs = NonBlockingLease::new(&two, "/leases/l", "b").unwrap();
    assert!(ours.obtain(HOUR).await.unwrap());
    assert!(!theirs.obtain(HOUR).await.unwrap());
    assert!(ours.obtain(HOUR).await.unwrap());
    let path = "/leases/l/lease_holder";
    let (data, _) = one.get_data(path).await.unwrap();
    let data = String::from_utf8(data.unwrap().to_vec()).unwrap();
    assert!(
        data.starts_with("{\"version\": 1, \"holder\": \"a\", \"end\": \"2"),
        "{data}"
    );
    let (before, _) = data.split_once("\"end\"").unwrap();
    let over = format!("{before}\"end\": \"2020-01-01T00:00:00\"}}");
    one.set_data(path, over, -1).await.unwrap();
    assert!(theirs.obtain(HOUR).await.unwrap());
    assert!(!ours.obtain(HOUR).await.unwrap());
    let refused = ours.obtain(Duration::from_millis(1)).await.unwrap_err();
    assert!(matches!(refused, Error::Argument { .. }), "{refused}");
    assert_eq!(children(&one, "/leases/l").await, ["lease_holder"]);

    let lease = |id| MultiNonBlockingLease::new(&one, "/two", 2, id).unwrap();
    for (id, number) in [("a", Some(0)), ("b", Some(1)), ("c", None), ("a", Some(0))] {
        assert_eq!(lease(id).obtain(HOUR).await.unwrap(), number, "{id}");
    }
    assert!(MultiNonBlockingLease::new(&one, "/two", 0, "a").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_divided_among_its_members() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let start = |client: &Client, identifier: &str| {
        let all = ["a", "b", "c"];
        let partitioner = SetPartitioner::start(client, "/set", &all, identifier).unwrap();
        partitioner.with_quiet_time(Duration::from_millis(100))
    };
    let first = start(&one, "1");
    let share = soon("everything", first.share()).await.unwrap();
    assert_eq!(share.items(), ["a", "b", "c"]);
    let second = start(&two, "2");
    soon("the second", share.is_outdated()).await;
    let waiting = tokio::spawn(async move {
        let share = second.share().await.unwrap();
        assert_eq!(share.items(), ["b"]);
        assert!(share.is_certain());
        share.is_outdated().await;
    });
    // The item stays locked until its last owner releases it.
    until_children(&one, "/set/locks/b", 2).await;
    assert!(!waiting.is_finished());
    share.release().await.unwrap();
    let share = soon("a part", first.share()).await.unwrap();
    assert_eq!(share.items(), ["a", "c"]);
    // An operator deletes the lock of an item.
    let path = share.guards()[0].path().to_owned();
    two.delete(&path, -1).await.unwrap();
    soon("the loss", share.is_outdated()).await;
    assert!(matches!(share.release().await, Err(Error::NotHeld { .. })));
    first.close().await;
    soon("the end", waiting).await.unwrap();
    assert!(SetPartitioner::start(&one, "/set", &["a/b"], "1").is_err());
    assert!(SetPartitioner::start(&one, "/set", &[], "1").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_is_multiplied_and_promoted_to_a_lock() {
    at_every_request(3, &["/lock"], async |through, direct, path| {
        let counter = |client| {
            let lock = Mutex::new(client, &format!("{path}/lock")).unwrap();
            let counter = Counter::new(client, &format!("{path}/n")).unwrap();
            counter.with_promotion(lock, 0)
        };
        let (ours, theirs) = (counter(through), counter(direct));
        let known = |result: Result<i64, Error>| match result {
            Ok(_) => true,
            Err(Error::Unknown { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(theirs.add(3).await.unwrap(), 3);
        let both = tokio::join!(ours.multiply(5), theirs.multiply(7));
        let expected = match (known(both.0), known(both.1)) {
            (true, true) => vec![105],
            _ => vec![15, 21, 105],
        };
        let number = theirs.get().await.unwrap();
        assert!(expected.contains(&number), "{number}");
    })
    .await;
    let server = server();
    let client = connect(&server.address()).await;
    let counter = Counter::new(&client, "/n").unwrap();
    assert_eq!(counter.add(i64::MAX).await.unwrap(), i64::MAX);
    let error = counter.multiply(2).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "9223372036854775807 * 2 is not a valid number for the recipe at /n"
    );
    client
        .create("/m", "", &Create::persistent())
        .await
        .unwrap();
    assert_eq!(
        Counter::new(&client, "/m")
            .unwrap()
            .multiply(9)
            .await
            .unwrap(),
        0
    );
}
