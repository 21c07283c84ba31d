//! Runs of each recipe with the connection cut at each request, in three ways. There must never be
//! two holders, endless waits, or orphans.

use std::sync::atomic::{AtomicUsize, Ordering};

use client::Client;
use zoarium_recipes::{
    LeaderLatch, LeaderSelector, Mutex, ReadWriteLock, Semaphore, UnfairElection,
};

use crate::proxy::{Cut, Proxy};
use crate::support::{both_ways, connect, server, soon, until, until_children, until_watches};

/// Maximum number of requests in a scenario.
const REQUESTS_MAX: usize = 60;

/// Runs a scenario once for each request and each kind of cut. The scenario receives a client whose
/// connection is cut, a client with a direct connection, and a path below which it must leave no
/// znodes.
pub(crate) async fn at_every_request(
    least: usize,
    leftovers: &[&str],
    scenario: impl AsyncFn(&Client, &Client, &str),
) {
    let server = server();
    let proxy = Proxy::start(&server.address()).await;
    let direct = connect(&server.address()).await;
    for cut in Cut::ALL {
        let mut number = 1;
        loop {
            let path = format!("/{cut:?}-{number}");
            let through = connect(&proxy.address.to_string()).await;
            proxy.cut_at(number, cut);
            let what = format!("{cut:?} of request {number}");
            soon(&what, scenario(&through, &direct, &path)).await;
            // Both sessions still exist, so any remaining znode is an orphan.
            for leftover in leftovers {
                until_children(&direct, &format!("{path}{leftover}"), 0).await;
            }
            if !proxy.has_cut() {
                break;
            }
            soon("the end", async {
                while through.close().await.is_err() && !through.state().borrow().is_end() {}
            })
            .await;
            number += 1;
            assert!(number < REQUESTS_MAX, "a scenario has no end");
        }
        assert!(number > least, "only {number} requests were cut");
    }
    // All watches must have been removed, too.
    until_watches(&server, 0).await;
}

/// Counter of the holders inside. There must never be two.
#[derive(Default)]
struct Inside(AtomicUsize);

impl Inside {
    fn enter(&self) {
        assert_eq!(self.0.fetch_add(1, Ordering::SeqCst), 0, "two holders");
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutex() {
    at_every_request(5, &[""], async |through, direct, path| {
        let inside = Inside::default();
        let (ours, theirs) = (
            Mutex::new(through, path).unwrap(),
            Mutex::new(direct, path).unwrap(),
        );
        let first = theirs.acquire().await.unwrap();
        inside.enter();
        let token = first.token();
        let waiting = async {
            let guard = ours.acquire().await.unwrap();
            inside.enter();
            guard
        };
        let letting_go = async {
            until_children(direct, path, 2).await;
            inside.leave();
            first.release().await.unwrap();
        };
        let (second, ()) = tokio::join!(waiting, letting_go);
        assert!(second.token() > token);
        // The holder is the only contender, and excludes others even if its connection is lost.
        until_children(direct, path, 1).await;
        assert!(theirs.try_acquire().await.unwrap().is_none());
        inside.leave();
        assert!(second.release().await.unwrap());
        let third = theirs.acquire().await.unwrap();
        inside.enter();
        third.release().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_whose_holders_take_turns() {
    at_every_request(8, &[""], async |through, direct, path| {
        let inside = Inside::default();
        let turns = async |client: &Client| {
            let mutex = Mutex::new(client, path).unwrap();
            let mut guard = mutex.acquire().await.unwrap();
            for _ in 0..3 {
                inside.enter();
                inside.leave();
                let token = guard.token();
                guard = mutex.requeue(guard).await.unwrap();
                assert!(guard.token() > token);
            }
            guard.release().await.unwrap();
        };
        tokio::join!(turns(through), turns(direct));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_runs_on() {
    at_every_request(8, &[""], async |through, direct, path| {
        let inside = Inside::default();
        let runs = async |client: &Client| {
            let selector = LeaderSelector::new(client, path).unwrap();
            let (told, mut turns) = tokio::sync::mpsc::channel(1);
            let run = selector.run(|_| async {
                inside.enter();
                inside.leave();
                told.send(()).await.unwrap();
            });
            let thrice = async {
                for _ in 0..3 {
                    turns.recv().await.unwrap();
                }
            };
            tokio::select! {
                ended = run => ended.unwrap(),
                () = thrice => {}
            }
        };
        tokio::join!(runs(through), runs(direct));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_write_lock() {
    at_every_request(8, &[""], async |through, direct, path| {
        let ours = ReadWriteLock::new(through, path).unwrap();
        let theirs = ReadWriteLock::new(direct, path).unwrap();
        let writing = theirs.write().await.unwrap();
        let letting_go = async {
            until_children(direct, path, 2).await;
            writing.release().await.unwrap();
        };
        let (reading, ()) = tokio::join!(ours.read(), letting_go);
        let reading = reading.unwrap();
        let also = theirs.read().await.unwrap();
        reading.release().await.unwrap();
        let letting_go = async {
            until_children(direct, path, 2).await;
            also.release().await.unwrap();
        };
        let (writing, ()) = tokio::join!(ours.write(), letting_go);
        let reading = writing.unwrap().downgrade().await.unwrap();
        let also = theirs.read().await.unwrap();
        reading.release().await.unwrap();
        also.release().await.unwrap();
        theirs.write().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore() {
    at_every_request(8, &["/leases", "/locks"], async |through, direct, path| {
        let ours = Semaphore::new(through, path, 2).unwrap();
        let theirs = Semaphore::new(direct, path, 2).unwrap();
        let mut leases = theirs.acquire_many(2).await.unwrap().into_vec();
        let letting_go = async {
            until_children(direct, &format!("{path}/leases"), 3).await;
            leases.pop().unwrap().release().await.unwrap();
        };
        let (lease, ()) = tokio::join!(ours.acquire(), letting_go);
        let lease = lease.unwrap();
        assert_ne!(lease.token(), leases[0].token());
        lease.release().await.unwrap();
        theirs.acquire().await.unwrap().release().await.unwrap();
        leases.pop().unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch() {
    at_every_request(4, &[""], async |through, direct, path| {
        let first = LeaderLatch::start(direct, path, "first").unwrap();
        let token = first.leads().await.unwrap().token();
        let second = LeaderLatch::start(through, path, "second").unwrap();
        until_children(direct, path, 2).await;
        assert!(!second.has_leadership());
        first.close().await;
        let leadership = second.leads().await.unwrap();
        assert!(leadership.token() > token);
        until_children(direct, path, 1).await;
        second.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector() {
    at_every_request(5, &[""], async |through, direct, path| {
        let inside = Inside::default();
        let ours = LeaderSelector::new(through, path).unwrap();
        let theirs = LeaderSelector::new(direct, path).unwrap();
        let letting_go = theirs.lead(|_| async {
            inside.enter();
            until_children(direct, path, 2).await;
            inside.leave();
        });
        let leading = async {
            until_children(direct, path, 1).await;
            // A lost connection ends the leadership. The candidate then starts again.
            loop {
                let led = ours
                    .lead(|_| async {
                        inside.enter();
                        inside.leave();
                    })
                    .await;
                if led.unwrap().is_some() {
                    return;
                }
            }
        };
        let (led, ()) = tokio::join!(letting_go, leading);
        assert_eq!(led.unwrap(), Some(()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfair_election() {
    at_every_request(3, &[], async |through, direct, path| {
        let path = format!("{path}-leader");
        let first = UnfairElection::start(direct, &path, "first").unwrap();
        let token = first.leads().await.unwrap().token();
        let second = UnfairElection::start(through, &path, "second").unwrap();
        assert_eq!(first.leader().await.unwrap().as_deref(), Some("first"));
        first.close().await;
        let leadership = second.leads().await.unwrap();
        assert!(leadership.token() > token);
        second.close().await;
        let what = "an empty place";
        until(what, async || direct.exists(&path).await.unwrap().is_none()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_resignation_does_not_delete_the_next_leader() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    let first = UnfairElection::start(&through, "/leader", "first").unwrap();
    let token = soon("the first leader", first.leads())
        .await
        .unwrap()
        .token();
    let second = UnfairElection::start(&direct, "/leader", "second").unwrap();
    // Both candidates watch the znode.
    until_watches(&server, 2).await;
    proxy.cut_for_good_at(1, Cut::BeforeReply);
    drop(first);
    let leadership = soon("the next leader", second.leads()).await.unwrap();
    assert!(leadership.token() > token);
    proxy.open();
    // Any remaining work of the candidate has enough time here.
    soon("a new connection", async {
        let mut answers = 0;
        while answers < 100 {
            answers += usize::from(through.sync("/leader").await.is_ok());
        }
    })
    .await;
    let stat = direct.exists("/leader").await.unwrap().unwrap();
    assert_eq!(stat.czxid, leadership.token().0);
    assert!(second.leadership().is_some());
}
