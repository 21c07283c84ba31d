//! `zoarium history`, `cat`, `tree` and `diff`: the examples of docs/HISTORY.md.

use std::process::Output;

use client::Create;
use proto::Acl;
use serde_json::Value;

use crate::history::{recorded, start};
use crate::support::secrets::OPS;
use crate::support::{stderr, stdout, zoarium};

/// Recorded changes of a server, with its directory.
struct Story {
    data: tempfile::TempDir,
    /// Transactions by their effect.
    created: i64,
    locked: i64,
    friday: i64,
    deleted: i64,
}

impl Story {
    fn run(&self, line: &str) -> Output {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--data-dir", self.data.path().to_str().unwrap()]);
        zoarium(words)
    }

    fn json(&self, line: &str) -> Vec<Value> {
        let output = self.run(&format!("{line} --output json"));
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

async fn tell() -> Story {
    let data = tempfile::tempdir().unwrap();
    let (server, client) = start(data.path(), "").await;
    client.add_auth("digest", OPS).await.unwrap();
    let persistent = Create::persistent();
    let created = client.create2("/kafka", "v1", &persistent).await.unwrap().1;
    for broker in ["/kafka/b-1", "/kafka/b-2"] {
        client.create(broker, "up", &persistent).await.unwrap();
    }
    let acl = vec![Acl::new(31, "digest", "ops:aGFzaA==")];
    let locked = client.set_acl("/kafka/b-1", acl, -1).await.unwrap();
    assert_eq!(locked.aversion, 1);
    let friday = client.set_data("/kafka", "v2", 0).await.unwrap();
    client.set_data("/kafka", "v3", 1).await.unwrap();
    client.delete("/kafka/b-2", -1).await.unwrap();
    client.create("/end", "", &persistent).await.unwrap();
    let end = client.exists("/end").await.unwrap().unwrap();
    recorded(&server, end.czxid).await;
    drop(client);
    server.stop().await;
    Story {
        data,
        created: created.czxid,
        locked: friday.mzxid - 1,
        friday: friday.mzxid,
        deleted: end.czxid - 1,
    }
}

#[tokio::test]
async fn the_stories_of_the_document() {
    let story = tell().await;
    // Who removed this ACL?
    let changes = story.json("history /kafka/b-1 --op setAcl --diff");
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0]["zxid"], format!("{:#x}", story.locked));
    assert_eq!(changes[0]["identities"][0], "digest:ops");
    assert_eq!(changes[0]["before"]["acl"][0]["scheme"], "world");
    assert_eq!(changes[0]["after"]["acl"][0]["id"], "ops:***");
    let shown = story.json("history /kafka/b-1 --op setAcl --diff --show-secrets");
    assert_eq!(shown[0]["after"]["acl"][0]["id"], "ops:aGFzaA==");
    // Which data did this znode have on Friday?
    let cat = story.run(&format!("cat /kafka --at {:#x}", story.friday));
    assert_eq!(stdout(&cat), "v2");
    // Which znodes are missing since then?
    let diff = story.run(&format!(
        "diff /kafka --from {:#x} --to {:#x}",
        story.friday, story.deleted
    ));
    let text = stdout(&diff);
    assert!(text.contains("deleted /kafka/b-2"), "{text}");
    assert!(
        text.contains("changed /kafka\n  - version 1 \"v2\""),
        "{text}"
    );
}

#[tokio::test]
async fn every_command_answers_and_refuses() {
    let story = tell().await;
    let all = story.json("history /kafka --recursive --reverse");
    let operations: Vec<&str> = all
        .iter()
        .map(|c| c["operation"].as_str().unwrap())
        .collect();
    let wanted = [
        "create", "create", "create", "setAcl", "set", "set", "delete",
    ];
    assert_eq!(operations, wanted);
    assert_eq!(story.json("history /kafka --recursive --limit 2").len(), 2);
    let since = format!("history /kafka --recursive --since {:#x}", story.friday);
    assert_eq!(story.json(&since).len(), 3);
    let until = format!("history /kafka --recursive --until {:#x}", story.created);
    assert_eq!(story.json(&until).len(), 1);
    assert_eq!(story.json("history / --recursive --by digest:ops").len(), 8);
    assert_eq!(
        story.json("history / --recursive --by digest:none").len(),
        0
    );
    let blame = stdout(&story.run("history blame /kafka"));
    assert!(blame.contains("gone     b-2"), "{blame}");
    assert!(blame.contains("child    b-1"), "{blame}");
    let tree = stdout(&story.run(&format!("tree /kafka --at {:#x}", story.locked)));
    assert_eq!(tree, "/kafka\n/kafka/b-1\n/kafka/b-2\n");
    for (line, code, reason) in [
        ("cat /nothing --at 0x1", 4, "/nothing did not exist"),
        ("cat /kafka --at 0x7fffffffffff", 1, "not recorded yet"),
        ("cat kafka --at 0x1", 2, "must start with /"),
        ("cat /kafka --at soon", 2, "not a zxid"),
        (
            "tree --at 1970-01-02T00:00:00Z",
            1,
            "the history begins after the requested time",
        ),
        ("history /kafka --op nonsense", 2, "not an operation"),
    ] {
        let output = story.run(line);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(reason),
            "{line}: {}",
            stderr(&output)
        );
    }
    let empty = tempfile::tempdir().unwrap();
    let output = zoarium([
        "tree",
        "--at",
        "1",
        "--data-dir",
        empty.path().to_str().unwrap(),
    ]);
    assert!(
        stderr(&output).contains("does not contain a change history"),
        "{}",
        stderr(&output)
    );
}
