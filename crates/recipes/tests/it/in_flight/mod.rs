//! Events while a request is in flight: its znode is deleted, its call is cancelled, its session
//! ends, or its result is dropped.

mod dropped;

use client::{Client, Create};
use proto::SessionId;
use tests::Server;
use zoarium_recipes::{LeaderLatch, Mutex, UnfairElection};

use crate::proxy::{Cut, Proxy};
use crate::support::{
    both_ways, children, expire, server, soon, until, until_children, until_cut_off, until_watches,
};

/// Server, a proxy before it, a client with a direct connection and one through the proxy, and an
/// empty directory `/d`.
struct Scene {
    server: Server,
    proxy: Proxy,
    direct: Client,
    through: Client,
}

impl Scene {
    async fn new() -> Self {
        let server = server();
        let (proxy, direct, through) = both_ways(&server).await;
        let kind = Create::persistent();
        direct.create("/d", "", &kind).await.unwrap();
        Self {
            server,
            proxy,
            direct,
            through,
        }
    }

    async fn is_holding(&self) {
        until("the request", async || self.proxy.is_holding()).await;
    }

    /// Waits until the children of `/d` have changed this many times, all of them are deleted, and
    /// no watches remain.
    async fn left_nothing_of(&self, changes: i32) {
        until("nothing left", async || {
            let stat = self.direct.exists("/d").await.unwrap().unwrap();
            stat.cversion >= 2 * changes && stat.num_children == 0
        })
        .await;
        until_watches(&self.server, 0).await;
    }
}

/// Number of the request in which a contender reads its predecessor. It follows create and
/// getChildren.
const READS_AHEAD: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_released_before_it_is_watched_is_taken() {
    let scene = Scene::new().await;
    let held = Mutex::new(&scene.direct, "/d").unwrap();
    let held = held.acquire().await.unwrap();
    scene.proxy.hold_at(READS_AHEAD);
    let mutex = Mutex::new(&scene.through, "/d").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    scene.is_holding().await;
    held.release().await.unwrap();
    scene.proxy.let_pass();
    let guard = soon("the lock", waiting).await.unwrap();
    guard.release().await.unwrap();
    scene.left_nothing_of(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_resigns_before_it_is_watched_is_succeeded() {
    let scene = Scene::new().await;
    let first = LeaderLatch::start(&scene.direct, "/d", "first").unwrap();
    first.leads().await.unwrap();
    scene.proxy.hold_at(READS_AHEAD);
    let second = LeaderLatch::start(&scene.through, "/d", "second").unwrap();
    scene.is_holding().await;
    first.close().await;
    scene.proxy.let_pass();
    soon("the leadership", second.leads()).await.unwrap();
    second.close().await;
    scene.left_nothing_of(2).await;
}

/// Two reads follow a creation that fails with NodeExists: one for the owner, and one for the
/// watch.
#[tokio::test(flavor = "multi_thread")]
async fn an_unfair_leader_that_resigns_in_between_is_succeeded() {
    let scene = Scene::new().await;
    for request in [2, 3] {
        let first = UnfairElection::start(&scene.direct, "/d/leader", "first").unwrap();
        first.leads().await.unwrap();
        scene.proxy.hold_at(request);
        let second = UnfairElection::start(&scene.through, "/d/leader", "second").unwrap();
        scene.is_holding().await;
        first.close().await;
        scene.proxy.let_pass();
        soon("the leadership", second.leads()).await.unwrap();
        second.close().await;
    }
    scene.left_nothing_of(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_dropped_during_the_creation_leaves_no_znode() {
    let scene = Scene::new().await;
    scene.proxy.hold_at(1);
    let mutex = Mutex::new(&scene.through, "/d").unwrap();
    let acquiring = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    scene.is_holding().await;
    acquiring.abort();
    assert!(acquiring.await.is_err());
    scene.proxy.let_pass();
    scene.left_nothing_of(1).await;

    scene.proxy.hold_at(1);
    let latch = LeaderLatch::start(&scene.through, "/d", "").unwrap();
    scene.is_holding().await;
    let closing = tokio::spawn(latch.close());
    scene.proxy.let_pass();
    soon("the end", closing).await.unwrap();
    scene.left_nothing_of(2).await;

    scene.proxy.hold_at(1);
    let unfair = UnfairElection::start(&scene.through, "/d/leader", "").unwrap();
    scene.is_holding().await;
    let closing = tokio::spawn(unfair.close());
    scene.proxy.let_pass();
    soon("the end", closing).await.unwrap();
    scene.left_nothing_of(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_dropped_without_a_connection_leaves_no_znode() {
    let scene = Scene::new().await;
    let held = Mutex::new(&scene.direct, "/d").unwrap();
    let held = held.acquire().await.unwrap();
    for cut in Cut::ALL {
        for request in 1..=READS_AHEAD {
            scene.proxy.cut_for_good_at(request, cut);
            let mutex = Mutex::new(&scene.through, "/d").unwrap();
            let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
            until("the cut", async || scene.proxy.has_cut()).await;
            waiting.abort();
            assert!(waiting.await.is_err());
            scene.proxy.open();
            // Background work completes before this lock is released again.
            let mutex = Mutex::new(&scene.through, "/d").unwrap();
            let refused = soon("an answer", mutex.try_acquire()).await.unwrap();
            assert!(refused.is_none());
            until_children(&scene.direct, "/d", 1).await;
        }
    }
    assert!(held.is_certain());
    held.release().await.unwrap();
    scene.left_nothing_of(10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_znode_of_a_session_that_ended_before_the_answer_is_not_held() {
    let scene = Scene::new().await;
    scene.proxy.cut_for_good_at(1, Cut::BeforeReply);
    let old = scene.through.session();
    let mutex = Mutex::new(&scene.through, "/d").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    // The znode was created, but its creator does not know that.
    until_children(&scene.direct, "/d", 1).await;
    let lost = children(&scene.direct, "/d").await.remove(0);
    expire(&scene.server.address(), old.clone()).await;
    scene.proxy.open();
    let guard = soon("the lock", waiting).await.unwrap();
    assert_ne!(guard.path(), format!("/d/{lost}"));
    let stat = scene.direct.exists(guard.path()).await.unwrap().unwrap();
    let owner = SessionId(stat.ephemeral_owner);
    assert!(owner != old.id && owner == scene.through.session_id());
    assert_eq!(children(&scene.direct, "/d").await.len(), 1);
    guard.release().await.unwrap();
    scene.left_nothing_of(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_without_a_connection_takes_effect_on_the_next_one() {
    let scene = Scene::new().await;
    let theirs = Mutex::new(&scene.direct, "/d").unwrap();
    let ours = Mutex::new(&scene.through, "/d").unwrap();
    for is_dropped in [false, true] {
        let guard = ours.acquire().await.unwrap();
        let token = guard.token();
        scene.proxy.close();
        until_cut_off(&scene.through).await;
        if is_dropped {
            drop(guard);
        } else {
            // The work continues in the background if it cannot complete immediately.
            tokio::spawn(guard.release());
        }
        let waiting = tokio::spawn({
            let theirs = theirs.clone();
            async move { theirs.acquire().await.unwrap() }
        });
        until_children(&scene.direct, "/d", 2).await;
        assert!(!waiting.is_finished(), "its session holds it");
        scene.proxy.open();
        let next = soon("the lock", waiting).await.unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
        // The session that released the lock acquires it again.
        let again = soon("the lock", ours.acquire()).await.unwrap();
        again.release().await.unwrap();
    }
    scene.left_nothing_of(6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_rejoins_if_its_directory_is_deleted_during_a_cut() {
    let scene = Scene::new().await;
    let latch = LeaderLatch::start(&scene.through, "/d/latch", "one").unwrap();
    let before = latch.leads().await.unwrap();
    scene.proxy.close();
    until_cut_off(&scene.through).await;
    scene.direct.delete(before.path(), -1).await.unwrap();
    scene.direct.delete("/d/latch", -1).await.unwrap();
    scene.proxy.open();
    until("another znode", async || {
        let now = latch.leadership();
        now.is_some_and(|now| now.token() > before.token())
    })
    .await;
    assert_eq!(children(&scene.direct, "/d/latch").await.len(), 1);
    latch.close().await;
    until_children(&scene.direct, "/d/latch", 0).await;
}
