//! Comparison of a tree cache with its subtree.

mod faults;
mod start;

use client::{Client, Create};
use zoarium_recipes::{CacheScope, TreeCache};

use crate::cuts::at_every_request;
use crate::proxy::Proxy;
use crate::support::{connect, expire, server, two_clients, until, until_watches};

pub(crate) async fn put(client: &Client, path: &str, data: &'static str) {
    match client.create(path, data, &Create::persistent()).await {
        Ok(_) => {}
        Err(error) if error.code() == Some(proto::ErrorCode::NodeExists) => {
            client.set_data(path, data, -1).await.unwrap();
        }
        Err(error) => panic!("{path}: {error}"),
    }
}

/// Waits until the copy has exactly these contents.
pub(crate) async fn shows(cache: &TreeCache, expected: &[(&str, &str)]) {
    let is_same = async || {
        let paths = cache.paths();
        let data = |path: &str| cache.get(path).map(|node| node.data);
        let same = |(path, (other, wanted)): (&String, &(&str, &str))| {
            path == other && data(path).as_deref() == Some(wanted.as_bytes())
        };
        paths.len() == expected.len() && paths.iter().zip(expected).all(same)
    };
    until(&format!("{expected:?}"), is_same).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_follows_its_subtree() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let cache = TreeCache::start(&client, "/t").unwrap();
    cache.is_complete().await.unwrap();
    shows(&cache, &[]).await;
    let mut revisions = cache.revisions();
    put(&other, "/t", "0").await;
    put(&other, "/t/a", "1").await;
    put(&other, "/t/a/b", "2").await;
    put(&other, "/tt", "no part of it").await;
    shows(&cache, &[("/t", "0"), ("/t/a", "1"), ("/t/a/b", "2")]).await;
    assert!(revisions.has_changed().unwrap() || *revisions.borrow_and_update() > 0);
    put(&other, "/t/a", "3").await;
    put(&other, "/t/c", "4").await;
    other.delete("/t/a/b", -1).await.unwrap();
    shows(&cache, &[("/t", "0"), ("/t/a", "3"), ("/t/c", "4")]).await;
    assert_eq!(cache.children("/t"), ["a", "c"]);
    assert_eq!(cache.children("/t/a"), [""; 0]);

    // Repeats the test across the end of a session. A znode is recreated with the same version.
    let before = cache.get("/t/c").unwrap().stat;
    let proxied = Proxy::start(&server.address()).await;
    let through = connect(&proxied.address.to_string()).await;
    let second = TreeCache::start(&through, "/t").unwrap();
    second.is_complete().await.unwrap();
    proxied.close();
    other.delete("/t/a", -1).await.unwrap();
    other.delete("/t/c", -1).await.unwrap();
    put(&other, "/t/c", "4").await;
    proxied.open();
    shows(&second, &[("/t", "0"), ("/t/c", "4")]).await;
    let is_new = async || {
        second
            .get("/t/c")
            .is_some_and(|node| node.stat.czxid > before.czxid)
    };
    until("the new one", is_new).await;
    expire(&server.address(), through.session()).await;
    put(&other, "/t/d", "5").await;
    shows(&second, &[("/t", "0"), ("/t/c", "4"), ("/t/d", "5")]).await;
    second.close().await;
    cache.close().await;
    until_watches(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_is_complete_after_any_cut() {
    at_every_request(6, &[], async |through, direct, path| {
        put(direct, path, "0").await;
        put(direct, &format!("{path}/a"), "1").await;
        let cache = TreeCache::start(through, path).unwrap();
        cache.is_complete().await.unwrap();
        let (a, b) = (format!("{path}/a"), format!("{path}/b"));
        put(direct, &a, "2").await;
        put(direct, &b, "3").await;
        shows(&cache, &[(path, "0"), (&a, "2"), (&b, "3")]).await;
        direct.delete(&a, -1).await.unwrap();
        shows(&cache, &[(path, "0"), (&b, "3")]).await;
        cache.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_holds_only_its_scope() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let start = |scope, ignored: &'static str| {
        let filter = move |path: &str| !path.ends_with(ignored);
        TreeCache::start_with(&client, "/t", scope, filter).unwrap()
    };
    put(&other, "/t", "0").await;
    put(&other, "/t/a", "1").await;
    let node = start(CacheScope::Node, "?");
    let children = start(CacheScope::Children, "x");
    let filtered = start(CacheScope::Subtree, "/a");
    for cache in [&node, &children, &filtered] {
        cache.is_complete().await.unwrap();
    }
    put(&other, "/t/x", "not this").await;
    put(&other, "/t/b", "2").await;
    put(&other, "/t/a/b", "3").await;
    put(&other, "/t/a", "4").await;
    put(&other, "/t", "5").await;
    shows(&node, &[("/t", "5")]).await;
    shows(&children, &[("/t/a", "4"), ("/t/b", "2")]).await;
    let rest = [
        ("/t", "5"),
        ("/t/a/b", "3"),
        ("/t/b", "2"),
        ("/t/x", "not this"),
    ];
    shows(&filtered, &rest).await;
    // The first reads find the same znodes as the events.
    shows(&start(CacheScope::Node, "?"), &[("/t", "5")]).await;
    shows(
        &start(CacheScope::Children, "x"),
        &[("/t/a", "4"), ("/t/b", "2")],
    )
    .await;
    shows(&start(CacheScope::Subtree, "/a"), &rest).await;
    other.delete("/t/b", -1).await.unwrap();
    shows(&children, &[("/t/a", "4")]).await;
    for path in ["/t/a/b", "/t/a", "/t/x", "/t"] {
        other.delete(path, -1).await.unwrap();
    }
    for cache in [node, children, filtered] {
        shows(&cache, &[]).await;
        cache.close().await;
    }
    until_watches(&server, 0).await;
}
