//! Barriers, values, counters, groups, and several locks that behave as one.

use client::{Client, Create};
use proto::SessionId;
use zoarium_recipes::{
    Barrier, Counter, DoubleBarrier, Error, GroupMember, Inside, MultiLock, Mutex, PersistentNode,
    SharedValue, Width,
};

use crate::cuts::at_every_request;
use crate::proxy::Cut;
use crate::support::{
    both_ways, children, connect, expire, server, soon, two_clients, until, until_children,
    until_watches,
};

#[tokio::test(flavor = "multi_thread")]
async fn several_locks_are_taken_together_or_not_at_all() {
    at_every_request(6, &["/a", "/b"], async |through, direct, path| {
        let paths = [format!("{path}/a"), format!("{path}/b")];
        let locks = |client| {
            let locks = paths.iter().map(|path| Mutex::new(client, path).unwrap());
            MultiLock::new(locks.collect()).unwrap()
        };
        let second = Mutex::new(direct, &paths[1]).unwrap();
        let held = second.acquire().await.unwrap();
        assert!(locks(direct).try_acquire().await.unwrap().is_none());
        assert_eq!(children(direct, &paths[0]).await.len(), 0);
        let ours = locks(through);
        let (taken, ()) = tokio::join!(ours.acquire(), async {
            until_children(direct, &paths[1], 2).await;
            held.release().await.unwrap();
        });
        let taken = taken.unwrap();
        assert_eq!(taken.guards().len(), 2);
        assert!(locks(direct).try_acquire().await.unwrap().is_none());
        taken.release().await.unwrap();
        drop(soon("both", locks(direct).acquire()).await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pass_a_barrier_when_it_is_removed() {
    at_every_request(3, &[], async |through, direct, path| {
        let path = format!("{path}/barrier");
        let ours = Barrier::new(through, &path).unwrap();
        let theirs = Barrier::new(direct, &path).unwrap();
        soon("an open one", theirs.wait()).await.unwrap();
        ours.set().await.unwrap();
        assert!(direct.exists(&path).await.unwrap().is_some());
        let waits = async { tokio::join!(ours.wait(), ours.wait(), theirs.wait()) };
        let (passed, ()) = tokio::join!(waits, async { theirs.remove().await.unwrap() });
        assert!(passed.0.is_ok() && passed.1.is_ok() && passed.2.is_ok());
        ours.set().await.unwrap();
        ours.remove().await.unwrap();
        // A late request from the old connection may close the barrier again.
        theirs.remove().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_passes_a_barrier_removed_during_its_cut() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    let theirs = Barrier::new(&direct, "/b").unwrap();
    theirs.set().await.unwrap();
    let waiting = tokio::spawn({
        let ours = Barrier::new(&through, "/b").unwrap();
        async move { ours.wait().await }
    });
    until_watches(&server, 1).await;
    proxy.close();
    until_watches(&server, 0).await;
    theirs.remove().await.unwrap();
    assert!(!waiting.is_finished());
    proxy.open();
    soon("the way through", waiting).await.unwrap().unwrap();
    until_watches(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_enter_and_leave_together() {
    at_every_request(6, &["/b"], async |through, direct, path| {
        let path = format!("{path}/b");
        let ours = DoubleBarrier::new(through, &path, 2).unwrap();
        let theirs = DoubleBarrier::new(direct, &path, 2).unwrap();
        let early = async {
            until_children(direct, &path, 1).await;
            assert_eq!(children(direct, &path).await.len(), 1);
            theirs.enter().await
        };
        let (one, two) = tokio::join!(ours.enter(), early);
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(children(direct, &path).await.contains(&"ready".to_owned()));
        let (left, also) = tokio::join!(one.leave(), two.leave());
        left.unwrap();
        also.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_dies_inside_does_not_block_others() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let enter = |client| {
        let barrier = DoubleBarrier::new(client, "/b", 2).unwrap();
        async move { barrier.enter().await.unwrap() }
    };
    // A cancelled member removes its znode.
    let barrier = DoubleBarrier::new(&one, "/b", 2).unwrap();
    let given_up = tokio::time::timeout(std::time::Duration::from_millis(50), barrier.enter());
    assert!(given_up.await.is_err());
    until_children(&one, "/b", 0).await;
    let (inside, _dying) = tokio::join!(enter(&one), enter(&two));
    let (left, ()) = tokio::join!(soon("the way out", inside.leave()), async {
        two.close().await.unwrap();
    });
    left.unwrap();
    until_children(&one, "/b", 0).await;
}

async fn inside(client: &Client) -> Inside {
    let barrier = DoubleBarrier::new(client, "/b", 2).unwrap();
    soon("the way in", barrier.enter()).await.unwrap()
}

/// Returns two members inside a barrier, in the order of their names.
async fn both_inside<'a>(one: &'a Client, two: &'a Client) -> [(&'a Client, Inside); 2] {
    let (of_one, of_two) = tokio::join!(inside(one), inside(two));
    let mut names = children(one, "/b").await;
    names.sort();
    let first = one.exists(&format!("/b/{}", names[0])).await.unwrap();
    match first.unwrap().ephemeral_owner {
        owner if owner == one.session_id().0 => [(one, of_one), (two, of_two)],
        _ => [(two, of_two), (one, of_one)],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_member_does_not_close_the_next_round() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let three = connect(&server.address()).await;
    let [(first, early), (_, late)] = both_inside(&one, &two).await;
    // This member stops while it waits for the first one.
    let mut leaving = std::pin::pin!(late.leave());
    tokio::select! {
        left = &mut leaving => panic!("left before the first member: {left:?}"),
        () = until_children(&three, "/b", 2) => {}
    }
    soon("the way out", early.leave()).await.unwrap();
    let next_round = tokio::join!(inside(first), inside(&three));
    soon("the late way out", leaving).await.unwrap();
    assert!(children(&three, "/b").await.contains(&"ready".to_owned()));
    drop(next_round);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_closes_the_barrier_after_the_death_of_the_first_member() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let [(first, _dying), (other, late)] = both_inside(&one, &two).await;
    let dies = async {
        until_children(other, "/b", 2).await;
        first.close().await.unwrap();
    };
    let (left, ()) = tokio::join!(soon("the way out", late.leave()), dies);
    left.unwrap();
    until_children(other, "/b", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_never_counts_twice() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    let theirs = Counter::new(&direct, "/counters/n").unwrap();
    let ours = Counter::new(&through, "/counters/n").unwrap();
    let (mut certain, mut unknown) = (0, 0);
    for cut in Cut::ALL {
        for number in 1..=4 {
            proxy.cut_at(number, cut);
            let adding = async { tokio::join!(ours.add(1), theirs.add(1)) };
            let (one, two) = soon("sums", adding).await;
            for added in [one, two] {
                match added {
                    Ok(_) => certain += 1,
                    Err(Error::Unknown { .. }) => unknown += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    let sum = theirs.get().await.unwrap();
    assert!(
        sum >= certain && sum <= certain + unknown,
        "{sum}: {certain} + {unknown}"
    );
    assert_eq!(certain + unknown, 24);

    assert!(theirs.compare_and_set(sum, -1).await.unwrap());
    assert!(!theirs.compare_and_set(sum, -1).await.unwrap());
    let (data, _) = direct.get_data("/counters/n").await.unwrap();
    assert_eq!(data.as_deref(), Some(&[0xff; 8][..]));
    let narrow = theirs.with_width(Width::Int);
    let error = narrow.get().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "[ff, ff, ff, ff, ff, ff, ff, ff] is not a valid number for the recipe at /counters/n"
    );
    let four = Counter::new(&direct, "/counters/four").unwrap();
    let four = four.with_width(Width::Int);
    assert_eq!(four.add(258).await.unwrap(), 258);
    let (data, _) = direct.get_data("/counters/four").await.unwrap();
    assert_eq!(data.as_deref(), Some(&[0, 0, 1, 2][..]));
    assert!(matches!(
        four.add(i64::from(i32::MAX)).await,
        Err(Error::Number { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_counts_are_not_lost() {
    let server = server();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let client = connect(&server.address()).await;
        let counter = Counter::new(&client, "/n").unwrap();
        tasks.push(tokio::spawn(async move {
            for _ in 0..40 {
                counter.add(1).await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon("a count", task).await.unwrap();
    }
    let client = connect(&server.address()).await;
    assert_eq!(
        Counter::new(&client, "/n").unwrap().get().await.unwrap(),
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_seeded_once_and_its_changes_are_seen() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let ours = SharedValue::new(&one, "/v/colour", "blue").unwrap();
    let theirs = SharedValue::new(&two, "/v/colour", "red").unwrap();
    let read = ours.get().await.unwrap();
    assert_eq!(theirs.get().await.unwrap(), read);
    assert_eq!(&*read.data, b"blue");
    let (seen, set) = tokio::join!(theirs.changed_from(&read), ours.try_set(&read, "green"));
    assert_eq!(seen.unwrap(), set.unwrap().unwrap());
    assert_eq!(theirs.try_set(&read, "late").await.unwrap(), None);
    // The znode is deleted and recreated, with the same version but another value.
    let read = ours.get().await.unwrap();
    let (seen, ()) = tokio::join!(theirs.changed_from(&read), async {
        two.delete("/v/colour", -1).await.unwrap();
        ours.set("white").await.unwrap();
    });
    assert_ne!(seen.unwrap().mzxid, read.mzxid);
    until("the last", async || {
        &*theirs.get().await.unwrap().data == b"white"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_node_survives_cuts() {
    at_every_request(3, &["/n"], async |through, direct, path| {
        let node = PersistentNode::start(through, &format!("{path}/n/me"), "one").unwrap();
        node.is_there().await.unwrap();
        direct.delete(node.path(), -1).await.unwrap();
        let is_there = async || direct.exists(node.path()).await.unwrap().is_some();
        until("the znode", is_there).await;
        node.set_data("two");
        let is_new = async || match direct.get_data(node.path()).await {
            Ok((data, _)) => data.as_deref() == Some(b"two"),
            Err(_) => false,
        };
        until("its data", is_new).await;
        node.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_node_is_recreated_in_the_next_session() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let node = PersistentNode::start(&client, "/n", "mine").unwrap();
    node.is_there().await.unwrap();
    let old = client.session();
    expire(&server.address(), old.clone()).await;
    let owner = async || {
        let stat = other.exists("/n").await.unwrap();
        stat.map(|stat| SessionId(stat.ephemeral_owner))
    };
    until("a new owner", async || {
        owner().await.is_some_and(|now| now != old.id)
    })
    .await;
    node.close().await;
    until("nothing", async || owner().await.is_none()).await;

    // The node waits for a znode of another session and does not write to it.
    other
        .create("/n", "theirs", &Create::ephemeral())
        .await
        .unwrap();
    let node = PersistentNode::start(&client, "/n", "mine").unwrap();
    until_watches(&server, 1).await;
    let (data, _) = other.get_data("/n").await.unwrap();
    assert_eq!(data.as_deref(), Some(&b"theirs"[..]));
    other.delete("/n", -1).await.unwrap();
    soon("its turn", node.is_there()).await.unwrap();
}

#[tokio::test]
async fn a_persistent_node_is_there_with_its_most_recent_data() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let node = PersistentNode::start(&client, "/n", "0").unwrap();
    for number in 1..20 {
        let data = number.to_string();
        node.set_data(data.clone());
        soon("the znode", node.is_there()).await.unwrap();
        let (read, _) = other.get_data("/n").await.unwrap();
        assert_eq!(read.as_deref(), Some(data.as_bytes()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_see_each_other() {
    let server = server();
    let (one, two) = two_clients(&server).await;
    let first = GroupMember::start(&one, "/g", "a", "1").unwrap();
    let second = GroupMember::start(&two, "/g", "b", "2").unwrap();
    first.is_there().await.unwrap();
    second.is_there().await.unwrap();
    let ids = async |member: &GroupMember| {
        let members = member.members().await.unwrap();
        let shown = members
            .iter()
            .map(|member| (member.id.clone(), member.payload.to_vec()));
        shown.collect::<Vec<_>>()
    };
    let both = [
        ("a".to_owned(), b"1".to_vec()),
        ("b".to_owned(), b"2".to_vec()),
    ];
    until("both", async || {
        ids(&first).await == both && ids(&second).await == both
    })
    .await;
    two.close().await.unwrap();
    until("one", async || ids(&first).await == both[..1]).await;
    until("the end", async || second.is_there().await.is_err()).await;
    assert!(GroupMember::start(&one, "/g", "a/b", "").is_err());
    first.close().await;
    until_children(&one, "/g", 0).await;
}
