//! Names in the layouts of other libraries, foreign znodes in a directory, and closed ancestors of a
//! directory.

use client::{Acl, Create, perms};
use zoarium_recipes::{Layout, LeaderLatch, Mutex, ReadWriteLock, Semaphore};

use crate::support::{children, connect, server, soon, two_clients, until_children};

#[tokio::test(flavor = "multi_thread")]
async fn names_are_those_of_curator_and_kazoo() {
    let server = server();
    let client = connect(&server.address()).await;
    let is_uuid = |text: &str| text.len() == 36 && text == text.to_lowercase();
    let curator = async |path: &str, word: &str| {
        let names = children(&client, path).await;
        let [name] = &names[..] else {
            panic!("{path}: {names:?}")
        };
        let rest = name.strip_prefix("_c_").unwrap();
        assert!(is_uuid(&rest[..36]), "{name}");
        assert_eq!(rest[36..], format!("-{word}0000000000"), "{name}");
    };
    let mutex = Mutex::new(&client, "/mutex").unwrap();
    let _guard = mutex.acquire().await.unwrap();
    curator("/mutex", "lock-").await;
    let lock = ReadWriteLock::new(&client, "/write").unwrap();
    let _writing = lock.write().await.unwrap();
    curator("/write", "__WRIT__").await;
    let lock = ReadWriteLock::new(&client, "/read").unwrap();
    let _reading = lock.read().await.unwrap();
    curator("/read", "__READ__").await;
    let semaphore = Semaphore::new(&client, "/semaphore", 1).unwrap();
    let _lease = semaphore.acquire().await.unwrap();
    curator("/semaphore/leases", "lease-").await;
    let latch = LeaderLatch::start(&client, "/latch", "me").unwrap();
    latch.leads().await.unwrap();
    curator("/latch", "latch-").await;

    let kazoo = Mutex::new(&client, "/kazoo").unwrap();
    let _kazoo = kazoo.with_layout(Layout::Kazoo).acquire().await.unwrap();
    let [name] = &children(&client, "/kazoo").await[..] else {
        panic!("one contender")
    };
    let (hex, rest) = name.split_at(32);
    assert!(hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    assert_eq!(rest, "__lock__0000000000");
}

#[tokio::test(flavor = "multi_thread")]
async fn contenders_of_all_libraries_share_one_queue() {
    let server = server();
    let client = connect(&server.address()).await;
    client.create("/m", "", &Create::container()).await.unwrap();
    let kind = Create::ephemeral().sequential();
    let hex = "1f9dc0a57f3c4a2e9f1a6f1e6d3b2a10";
    // Children before the contender: kazoo, Go, and foreign znodes that must be ignored.
    let mut ahead = Vec::new();
    for name in [format!("/m/{hex}__lock__"), format!("/m/_c_{hex}-lock-")] {
        ahead.push(client.create(&name, "", &kind).await.unwrap());
    }
    for name in ["/m/0", "/m/config"] {
        client
            .create(name, "", &Create::persistent())
            .await
            .unwrap();
    }
    let mutex = Mutex::new(&client, "/m").unwrap();
    assert_eq!(mutex.strangers().await.unwrap(), ["0"]);
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap() }
    });
    until_children(&client, "/m", 5).await;
    for path in ahead {
        assert!(!waiting.is_finished(), "granted ahead of {path}");
        client.delete(&path, -1).await.unwrap();
    }
    let guard = soon("the lock", waiting).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_paths_are_refused() {
    let server = server();
    let client = connect(&server.address()).await;
    for path in ["", "/", "a", "/a/", "/a//b", "/a/./b", "/..", "/a\0"] {
        let refused = Mutex::new(&client, path).unwrap_err().to_string();
        assert!(
            refused.contains("is not a valid path for a recipe"),
            "{refused}"
        );
    }
}

/// A guard that is dropped by mistake looks like a held lock although the lock is free. Types that
/// can be compared are plain data.
#[test]
fn handles_and_guards_must_be_used() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut folders = vec![std::path::PathBuf::from(sources)];
    let mut handles = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for (before, name) in text.match_indices("\npub struct ").map(|(at, _)| {
                let name = text[at..].lines().nth(1).unwrap();
                (text[..at].rsplit("\n\n").next().unwrap(), name)
            }) {
                let is_data = before.contains("PartialEq");
                let is_noted = before.contains("\n#[must_use = \"");
                assert!(is_data || is_noted, "{}: {name}", path.display());
                handles += usize::from(!is_data);
            }
        }
    }
    assert!(handles > 20, "{handles}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_below_a_closed_ancestor_is_created() {
    let server = server();
    let (admin, client) = two_clients(&server).await;
    let closed = Acl {
        perms: perms::READ,
        id: Acl::open().id,
    };
    admin.ensure_path("/closed/app").await.unwrap();
    admin.set_acl("/closed", vec![closed], -1).await.unwrap();
    let mutex = Mutex::new(&client, "/closed/app/team/lock").unwrap();
    let guard = soon("the lock", mutex.acquire()).await.unwrap();
    guard.release().await.unwrap();
}
