//! The change history of a server, and the commands that use it.

mod history_tool;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Client, Create, Options};
use config::{Config, NoSurroundings, RawConfig, SystemProperties};
use history::record::Operation;
use history::{HistoryQuery, Moment, Reader, Viewer};
use proto::{Acl, Zxid};
use server::Server;

use crate::support::secrets::ANN;

pub(crate) const OWNER: Viewer<'static> = Viewer::FileOwner {
    shows_secrets: true,
};

/// Starts a server with a change history in this process.
pub(crate) async fn start(data: &Path, extra: &str) -> (Server, Client) {
    let text = format!(
        "dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
         history.enabled=true\nhistory.minFreeMegabytes=0\n{extra}",
        data.display()
    );
    let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).unwrap();
    let config = Config::parse(raw, SystemProperties::new(), &mut NoSurroundings).unwrap();
    let server = Server::start(Arc::new(config)).await.unwrap();
    let address = server.started().client_address.unwrap().to_string();
    let client = Client::connect(Options::new(&address)).await.unwrap();
    (server, client)
}

/// Returns the reader, once everything up to `zxid` is recorded.
pub(crate) async fn recorded(server: &Server, zxid: i64) -> Reader {
    let begun = Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    loop {
        looks.tick().await;
        if let Some(reader) = server.history()
            && reader.extent().head.0 >= zxid
        {
            return reader;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{zxid:#x} is not recorded"
        );
    }
}

fn changes_of(reader: &Reader, path: &str) -> Vec<(Operation, String)> {
    let mut query = HistoryQuery::of(path);
    query.recursive = true;
    let page = reader.history(&query, &OWNER).unwrap();
    let changes = page
        .results
        .into_iter()
        .map(|result| result.change.unwrap());
    changes
        .map(|change| (change.operation(), change.path))
        .collect()
}

fn wanted(list: &[(Operation, &str)]) -> Vec<(Operation, String)> {
    list.iter()
        .map(|(operation, path)| (*operation, (*path).to_owned()))
        .collect()
}

fn data_at(reader: &Reader, path: &str, zxid: i64) -> Option<Vec<u8>> {
    let znode = reader
        .znode_at(path, Moment::Zxid(Zxid(zxid)), &OWNER)
        .unwrap()?;
    znode.data.map(|data| data.inline.unwrap().to_vec())
}

#[tokio::test]
async fn committed_changes_are_recorded_with_their_clients() {
    let data = tempfile::tempdir().unwrap();
    let (server, client) = start(data.path(), "").await;
    client.add_auth("digest", ANN).await.unwrap();
    client
        .create("/a", "1", &Create::persistent())
        .await
        .unwrap();
    let first = client.set_data("/a", "2", 0).await.unwrap();
    let acl = vec![Acl::new(31, "digest", "ann:aGFzaA==")];
    client
        .create("/a/b", "x", &Create::persistent())
        .await
        .unwrap();
    client.set_acl("/a/b", acl, -1).await.unwrap();
    assert!(client.set_data("/a", "no", 77).await.is_err());
    client.delete("/a/b", -1).await.unwrap();
    let last = client.set_data("/a", "3", 1).await.unwrap();
    let reader = recorded(&server, last.mzxid).await;
    let mut query = HistoryQuery::of("/a");
    query.with_states = true;
    let page = reader.history(&query, &OWNER).unwrap();
    let change = page.results[1].change.clone().unwrap();
    assert_eq!((change.zxid, change.version), (first.mzxid, 1));
    assert_eq!(change.identities, ["digest:ann"]);
    assert!(change.client.starts_with("127.0.0.1:"), "{}", change.client);
    let before = page.results[1].before.clone().unwrap();
    assert_eq!(before.data.unwrap().inline.unwrap(), "1");
    assert_eq!(
        changes_of(&reader, "/a"),
        wanted(&[
            (Operation::Create, "/a"),
            (Operation::SetData, "/a"),
            (Operation::Create, "/a/b"),
            (Operation::SetAcl, "/a/b"),
            (Operation::Delete, "/a/b"),
            (Operation::SetData, "/a"),
        ])
    );
    let mut by = HistoryQuery::of("/");
    (by.recursive, by.by) = (true, Some("digest:ann".to_owned()));
    assert_eq!(reader.history(&by, &OWNER).unwrap().results.len(), 6);
    assert_eq!(
        data_at(&reader, "/a", first.mzxid).as_deref(),
        Some(&b"2"[..])
    );
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn missed_changes_are_read_from_the_log_also_after_damage() {
    let data = tempfile::tempdir().unwrap();
    let (server, client) = start(data.path(), "").await;
    client
        .create("/a", "0", &Create::persistent())
        .await
        .unwrap();
    for n in 1..50 {
        client.set_data("/a", n.to_string(), -1).await.unwrap();
    }
    let last = client.set_data("/a", "50", -1).await.unwrap();
    let before = changes_of(&recorded(&server, last.mzxid).await, "/a");
    drop(client);
    server.stop().await;
    let dir = data.path().join("history");
    for round in 0..2 {
        match round {
            0 => std::fs::remove_dir_all(&dir).unwrap(),
            _ => {
                let name = std::fs::read_dir(&dir)
                    .unwrap()
                    .flatten()
                    .map(|entry| entry.path());
                let mut base = name.filter(|path| path.to_string_lossy().contains("base."));
                std::fs::write(base.next().unwrap(), b"rubbish").unwrap();
            }
        }
        let (server, client) = start(data.path(), "").await;
        let end = client
            .set_data("/a", format!("round {round}"), -1)
            .await
            .unwrap();
        let reader = recorded(&server, end.mzxid).await;
        let found = changes_of(&reader, "/a");
        assert_eq!(found[..before.len()], before, "round {round}");
        assert_eq!(found.len(), before.len() + round + 1);
        assert_eq!(
            data_at(&reader, "/a", last.mzxid).as_deref(),
            Some(&b"50"[..])
        );
        drop(client);
        server.stop().await;
        assert_eq!(data.path().join("history.aside").exists(), round >= 1);
    }
}

#[tokio::test]
async fn a_history_that_is_removed_during_service_is_rebuilt() {
    let data = tempfile::tempdir().unwrap();
    let (server, client) = start(data.path(), "").await;
    let made = client
        .create2("/a", "0", &Create::persistent())
        .await
        .unwrap();
    recorded(&server, made.1.czxid).await;
    std::fs::remove_dir_all(data.path().join("history")).unwrap();
    // This is enough for a new file, which cannot be created.
    let begun = Instant::now();
    let mut count = 0;
    let reader = loop {
        for _ in 0..200 {
            client.set_data("/a", vec![7; 2000], -1).await.unwrap();
        }
        count += 200;
        let last = client.exists("/a").await.unwrap().unwrap();
        let reader = recorded(&server, last.mzxid).await;
        if data.path().join("history/index").is_dir() {
            break reader;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is not made again"
        );
    };
    let mut query = HistoryQuery::of("/a");
    query.newest_first = true;
    assert!(!reader.history(&query, &OWNER).unwrap().results.is_empty());
    let version = client.exists("/a").await.unwrap().unwrap().version;
    assert_eq!(version, count);
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn a_full_disk_stops_the_history_and_not_the_server() {
    let data = tempfile::tempdir().unwrap();
    let (server, client) = start(data.path(), "").await;
    let made = client
        .create2("/a", "0", &Create::persistent())
        .await
        .unwrap();
    recorded(&server, made.1.czxid).await;
    drop(client);
    server.stop().await;
    // No disk has this much free space, so the history is removed.
    let (server, client) = start(data.path(), "history.minFreeMegabytes=2000000000\n").await;
    let begun = Instant::now();
    while data.path().join("history").exists() {
        client.set_data("/a", "1", -1).await.unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is still there"
        );
    }
    assert!(server.history().is_none());
    drop(client);
    server.stop().await;
}
