//! `zoarium restore`: past states of directories, also of directories that Apache ZooKeeper wrote.

use std::path::Path;
use std::process::Output;

use client::Create;
use config::{Config, NoSurroundings, RawConfig, SystemProperties};
use proto::Zxid;
use storage::{DataDirs, RealDisk, read_txns_from};

use crate::history::start;
use crate::support::{stderr, vector, zoarium};

fn restore(from: &Path, to: &Path, at: &str) -> Output {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    zoarium(["restore", "--data-dir", from, "--to", to, "--at", at])
}

#[tokio::test]
async fn a_directory_is_as_it_was_at_any_transaction() {
    let data = tempfile::tempdir().unwrap();
    let (server, client) = start(data.path(), "").await;
    let persistent = Create::persistent();
    client.create("/a", "0", &persistent).await.unwrap();
    let mut states = Vec::new();
    for n in 1..20 {
        let stat = client.set_data("/a", n.to_string(), -1).await.unwrap();
        states.push((stat.mzxid, n.to_string()));
    }
    client.create("/gone", "x", &persistent).await.unwrap();
    drop(client);
    server.stop().await;
    for (zxid, value) in states.iter().step_by(6) {
        let to = tempfile::tempdir().unwrap();
        let output = restore(data.path(), to.path(), &format!("{zxid:#x}"));
        assert!(output.status.success(), "{}", stderr(&output));
        let (server, client) = start(to.path(), "").await;
        let (found, stat) = client.get_data("/a").await.unwrap();
        assert_eq!(found.unwrap(), value.as_bytes());
        assert_eq!(stat.mzxid, *zxid);
        assert_eq!(client.exists("/gone").await.unwrap(), None);
        drop(client);
        server.stop().await;
    }
}

/// Returns the tree of a directory, recovered by the rules of a server.
fn tree_of(dir: &Path) -> server::RecoveredTree {
    let text = format!("dataDir={}\n", dir.display());
    let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).unwrap();
    let config = Config::parse(raw, SystemProperties::new(), &mut NoSurroundings).unwrap();
    server::recover_tree(&config, &DataDirs::unlocked(dir, dir)).unwrap()
}

/// Each logged transaction has the digest that Java's tree had after it.
#[test]
fn directories_of_java_are_restored_to_every_transaction() {
    for (name, least) in [("txns-all", 20), ("rolled", 50), ("log-and-snapshot", 20)] {
        let Some(vector) = vector(name) else {
            continue;
        };
        let from = vector.dir.join("data");
        let source = DataDirs::unlocked(&from, &from);
        let txns = read_txns_from(&RealDisk, &source, Zxid(0), testkit::LIMITS).unwrap();
        let mut restored = 0;
        for record in txns.map(|txn| txn.unwrap().record) {
            let (to, zxid) = (tempfile::tempdir().unwrap(), record.header.zxid);
            let output = restore(&from, to.path(), &zxid.to_string());
            assert!(output.status.success(), "{name} {}", stderr(&output));
            let found = tree_of(to.path());
            assert_eq!(
                (found.recovered.last_zxid, found.digest_mismatches),
                (zxid, 0)
            );
            let digest = record.digest.map(|digest| digest.digest);
            if let Some(digest) = digest {
                assert_eq!(found.tree.digest().cast_signed(), digest, "{name} {zxid}");
                restored += 1;
            }
        }
        assert!(restored > least, "{name}: only {restored}");
    }
}

#[test]
fn an_impossible_restore_is_refused() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    std::fs::create_dir(from.path().join("version-2")).unwrap();
    let output = restore(from.path(), &to.path().join("x"), "0x5");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("the log does not contain transaction 0x5"));
    std::fs::write(to.path().join("mine"), "x").unwrap();
    let output = restore(from.path(), to.path(), "0x5");
    assert!(
        stderr(&output).contains("is not empty"),
        "{}",
        stderr(&output)
    );
}
