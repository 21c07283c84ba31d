//! Tree cache with znodes that it may not read, without a connection, and at its end.

use client::{Acl, Client, Create, Options, digest_id, perms};
use zoarium_recipes::{CacheEvent, CacheScope, Error, Node, TreeCache};

use crate::caches::{put, shows};
use crate::support::{both_ways, expire, server, soon, two_clients, until, until_cut_off};

/// Creates a znode that only clients with the identity of [`identify`] may use.
async fn hide(client: &Client, path: &str) {
    let acl = Acl {
        perms: perms::ALL,
        id: digest_id("owner", "secret"),
    };
    let create = Create::persistent().with_acl(vec![acl]);
    client.create(path, "hidden", &create).await.unwrap();
}

async fn identify(client: &Client) {
    client.add_auth("digest", "owner:secret").await.unwrap();
}

async fn reveal(client: &Client, path: &str) {
    client.set_acl(path, vec![Acl::open()], -1).await.unwrap();
}

async fn hides(cache: &TreeCache, expected: &[&str]) {
    let what = format!("{expected:?} hidden");
    until(&what, async || cache.hidden() == expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_survives_znodes_that_it_may_not_read() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    identify(&direct).await;
    put(&direct, "/t", "0").await;
    put(&direct, "/t/x", "1").await;
    let cache = TreeCache::start(&through, "/t").unwrap();
    cache.is_complete().await.unwrap();
    hide(&direct, "/t/secret").await;
    proxy.close();
    until_cut_off(&through).await;
    proxy.open();
    hides(&cache, &["/t/secret"]).await;
    put(&direct, "/t/x", "2").await;
    shows(&cache, &[("/t", "0"), ("/t/x", "2")]).await;
    cache.is_complete().await.unwrap();

    // A new cache finds the same znodes, even when it holds only a part of the tree.
    let scopes = [CacheScope::Subtree, CacheScope::Children];
    for scope in scopes {
        let new = TreeCache::start_with(&through, "/t", scope, |path| path != "/t").unwrap();
        new.is_complete().await.unwrap();
        assert_eq!(new.hidden(), ["/t/secret"]);
        shows(&new, &[("/t/x", "2")]).await;
    }
    let new = TreeCache::start(&through, "/t/secret").unwrap();
    new.is_complete().await.unwrap();
    assert_eq!(new.hidden(), ["/t/secret"]);
    assert_eq!(new.paths(), [""; 0]);

    // An event about a revealed znode also adds its descendants.
    put(&direct, "/t/secret/a", "a").await;
    reveal(&direct, "/t/secret").await;
    direct.set_data("/t/secret", "s", -1).await.unwrap();
    let all = [
        ("/t", "0"),
        ("/t/secret", "s"),
        ("/t/secret/a", "a"),
        ("/t/x", "2"),
    ];
    shows(&cache, &all).await;
    assert_eq!(cache.hidden(), [""; 0]);
    shows(&new, &all[1..3]).await;
    direct.delete("/t/secret/a", -1).await.unwrap();
    direct.delete("/t/secret", -1).await.unwrap();
    shows(&cache, &[("/t", "0"), ("/t/x", "2")]).await;
}

/// The server reports a readable znode below a hidden one. A list of children would not contain it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_holds_nothing_below_a_hidden_znode() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    identify(&other).await;
    put(&other, "/t", "0").await;
    hide(&other, "/t/old").await;
    let cache = TreeCache::start(&client, "/t").unwrap();
    cache.is_complete().await.unwrap();
    hide(&other, "/t/new").await;
    for parent in ["/t/old", "/t/new"] {
        put(&other, &format!("{parent}/open"), "1").await;
        put(&other, &format!("{parent}/open/a"), "2").await;
    }
    put(&other, "/t/z", "3").await;
    shows(&cache, &[("/t", "0"), ("/t/z", "3")]).await;
    assert_eq!(cache.hidden(), ["/t/new", "/t/old"]);
}

/// Returns a short form of the next event.
async fn next(events: &mut zoarium_recipes::CacheEvents) -> String {
    let data = |node: Node| String::from_utf8(node.data.to_vec()).unwrap();
    match soon("an event", events.next()).await.unwrap() {
        CacheEvent::Added { path, node } => format!("+{path}={}", data(node)),
        CacheEvent::Changed { path, before, node } => {
            format!("{path}: {} -> {}", data(before), data(node))
        }
        CacheEvent::Removed { path, node } => format!("-{path}={}", data(node)),
        CacheEvent::Lost => "lost".to_owned(),
        CacheEvent::Back => "back".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_reports_changes_and_the_connection() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    put(&direct, "/t", "0").await;
    let cache = TreeCache::start(&through, "/t").unwrap();
    let mut early = cache.events();
    assert_eq!(next(&mut early).await, "+/t=0");
    cache.is_complete().await.unwrap();
    let mut events = cache.events();
    assert_eq!(next(&mut events).await, "+/t=0");
    put(&direct, "/t/a", "1").await;
    assert_eq!(next(&mut events).await, "+/t/a=1");
    put(&direct, "/t/a", "2").await;
    assert_eq!(next(&mut events).await, "/t/a: 1 -> 2");
    put(&direct, "/t/b", "3").await;
    assert_eq!(next(&mut events).await, "+/t/b=3");
    direct.delete("/t/a", -1).await.unwrap();
    assert_eq!(next(&mut events).await, "-/t/a=2");

    proxy.close();
    assert_eq!(next(&mut events).await, "lost");
    direct.delete("/t/b", -1).await.unwrap();
    put(&direct, "/t/b", "4").await;
    put(&direct, "/t/c", "5").await;
    proxy.open();
    assert_eq!(next(&mut events).await, "-/t/b=3");
    assert_eq!(next(&mut events).await, "+/t/b=4");
    assert_eq!(next(&mut events).await, "+/t/c=5");
    assert_eq!(next(&mut events).await, "back");

    // With renewal, the end of the session is a loss like any other.
    expire(&server.address(), through.session()).await;
    assert_eq!(next(&mut events).await, "lost");
    assert_eq!(next(&mut events).await, "back");
    put(&direct, "/t/d", "6").await;
    assert_eq!(next(&mut events).await, "+/t/d=6");

    // The first reader was not polled meanwhile, so it sees only the result.
    assert_eq!(next(&mut early).await, "lost");
    assert_eq!(next(&mut early).await, "+/t/b=4");
    assert_eq!(next(&mut early).await, "+/t/c=5");
    assert_eq!(next(&mut early).await, "+/t/d=6");
    assert_eq!(next(&mut early).await, "back");
    drop(early);
    cache.close().await;
    let end = soon("the end", events.next()).await;
    assert!(matches!(end, Err(Error::Closed { .. })), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_has_ended_is_not_complete() {
    let server = server();
    let address = server.address();
    // Without renewal.
    let client = Client::connect(Options::new(&address)).await.unwrap();
    let cache = TreeCache::start(&client, "/t").unwrap();
    cache.is_complete().await.unwrap();
    let mut events = cache.events();
    expire(&address, client.session()).await;
    let expired =
        |error: &Error| matches!(error, Error::Client(client::Error::SessionExpired { .. }));
    let end = soon("the end", cache.ended()).await;
    assert!(expired(&end), "{end}");
    let end = cache.is_complete().await.unwrap_err();
    assert!(expired(&end), "{end}");
    assert_eq!(next(&mut events).await, "lost");
    let end = soon("the end", events.next()).await.unwrap_err();
    assert!(expired(&end), "{end}");

    let client = crate::support::connect(&address).await;
    let cache = TreeCache::start(&client, "/t").unwrap();
    cache.is_complete().await.unwrap();
    client.close().await.unwrap();
    let end = soon("the end", cache.ended()).await;
    let is_closed = matches!(end, Error::Client(client::Error::Closed { .. }));
    assert!(is_closed, "{end}");
    assert!(cache.is_complete().await.is_err());
}

/// The client updates the listeners of its state one after another. While one of them delays the
/// others, the stream of the cache and new listeners already see the new connection.
#[test]
fn a_cache_returns_although_its_listener_is_late() {
    let server = server();
    let network = tokio::runtime::Runtime::new().unwrap();
    let (proxy, client) = network.block_on(async {
        let (proxy, direct, through) = both_ways(&server).await;
        put(&direct, "/t", "0").await;
        (proxy, through)
    });
    // The cache has its own thread, because the client's task waits for the delayed listener.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let earlier_listener = client.state();
        let cache = TreeCache::start(&client, "/t").unwrap();
        cache.is_complete().await.unwrap();
        let mut events = cache.events();
        assert_eq!(next(&mut events).await, "+/t=0");
        proxy.close();
        assert_eq!(next(&mut events).await, "lost");
        let delaying = earlier_listener.borrow();
        proxy.open();
        until("a connection", async || {
            client.state().borrow().connected_session().is_some()
        })
        .await;
        // Runs the woken task of the cache.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        drop(delaying);
        assert_eq!(next(&mut events).await, "back");
    });
}
