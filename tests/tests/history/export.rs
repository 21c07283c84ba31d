//! An export, read by Python's protobuf from the `.proto` file.

use std::process::Command;
use std::time::Duration;

use client::{Create, MultiOp};
use serde_json::Value;
use tests::{or_skip, python_with_protobuf, run, source_dir};

use crate::site::{SUPER, Site, lines, stderr, zoarium};

/// Time limit for Python on a busy machine.
const PYTHON_LIMIT: Duration = Duration::from_secs(120);

/// Returns the name of an operation in `Operation`.
fn operation(name: &Value) -> &'static str {
    match name.as_str().expect("a name") {
        "create" => "OPERATION_CREATE",
        "set" => "OPERATION_SET_DATA",
        "setAcl" => "OPERATION_SET_ACL",
        "delete" => "OPERATION_DELETE",
        "closeSession" => "OPERATION_CLOSE_SESSION",
        other => panic!("{other}"),
    }
}

/// Makes changes of every kind that a client can make: nine changes.
async fn write(site: &Site) -> Vec<Value> {
    let client = site.super_client().await;
    let other = site.client().await;
    other
        .create("/gone", "", &Create::ephemeral())
        .await
        .expect("create");
    other.close().await.expect("close");
    client
        .create("/a", vec![0xff; 3000], &Create::persistent())
        .await
        .expect("create");
    client
        .create_without_data("/a/null", &Create::ttl(Duration::from_secs(60)))
        .await
        .expect("create");
    let ops = [
        MultiOp::set_data("/a", "1", 0),
        MultiOp::create("/a/\u{e9}", "", &Create::container()),
        MultiOp::delete("/a/null", 0),
    ];
    client.multi(&ops).await.expect("a multi");
    let acl = vec![proto::Acl::new(
        31,
        "digest",
        "ann:RYbu6l5aZwqon8VWmkcGvezdzfc=",
    )];
    client.set_acl("/a", acl, 0).await.expect("set ACL");
    let last = client.set_data("/", "end", -1).await.expect("set");
    site.wait_until_recorded(last.mzxid);
    let words = [
        "history",
        "/",
        "-r",
        "--reverse",
        "--diff",
        "--output",
        "json",
    ];
    let wanted = lines(&site.tool(&[&words[..], &["--auth", SUPER]].concat()));
    assert_eq!(wanted.len(), 9, "{wanted:#?}");
    wanted
}

/// Returns all pages, of two changes each, from the admin port.
fn over_http(site: &Site, who: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut after = String::new();
    loop {
        let answer = site.get(&format!("history/export?limit=2{after}"), who);
        assert_eq!(answer.status, 200, "{}", answer.text());
        bytes.extend_from_slice(&answer.body);
        let mut headers = answer.headers.iter();
        match headers.find(|(name, _)| name == "x-history-next") {
            Some((_, next)) => after = format!("&after={next}"),
            None => return bytes,
        }
    }
}

/// `zoarium history export --server` writes the same data. An incomplete export does not get its
/// final name.
fn by_tool(site: &Site, wanted: &[u8]) {
    let place = tempfile::tempdir().expect("a directory");
    let asked = place.path().join("asked");
    let to = asked.display().to_string();
    let words = ["history", "export", "--to", &to];
    let made = site.tool(&[&words[..], &["--auth", SUPER]].concat());
    assert!(made.status.success(), "{}", stderr(&made));
    let found = std::fs::read(&asked).expect("an export");
    assert_eq!(found, wanted, "the tool exports something else");
    let refused = site.tool(&[
        "history",
        "export",
        "/a",
        "--to",
        &format!("{to}-2"),
        "--auth",
        "no",
    ]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(!place.path().join("asked-2").exists());
}

#[tokio::test]
#[ignore = "runs other people's programs"]
async fn python_reads_the_same_changes() {
    let Some(python) = or_skip("protobuf of Python", python_with_protobuf()) else {
        return;
    };
    let Some(site) = Site::start(&[]) else { return };
    let wanted = write(&site).await;
    let exported = over_http(&site, Some(SUPER));
    // Only `ann` sees the changes that only she may read.
    let of_nobody = over_http(&site, None);
    assert!(exported.windows(5).any(|window| window == b"ann:R"));
    assert!(!of_nobody.windows(4).any(|window| window == b"ann:"));
    assert!(of_nobody.len() < exported.len());
    let refused = site.get("history/export?diff=true", Some(SUPER));
    assert_eq!(refused.status, 400, "{}", refused.text());
    by_tool(&site, &exported);
    let place = tempfile::tempdir().expect("a directory");
    let mut server = site.server;
    server.terminate();
    let (definition, export) = (
        place.path().join("history.proto"),
        place.path().join("export"),
    );
    let dir = server.data_dir().display().to_string();
    let words = ["history", "export", "--show-secrets", "--data-dir", &dir];
    let made = zoarium(&[&words[..], &["--to", &export.display().to_string()]].concat());
    assert!(made.status.success(), "{}", stderr(&made));
    let in_file = std::fs::read(&export).expect("an export");
    assert_eq!(in_file, exported, "the admin port exports something else");
    let printed = zoarium(&[&words[..], &["--definition"]].concat());
    std::fs::write(&definition, &printed.stdout).expect("write the definition");

    let mut command = Command::new(python);
    command
        .arg(source_dir("python").join("read_export.py"))
        .args([&definition, &export]);
    let output = run(&mut command, PYTHON_LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
    let found: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(found.len(), wanted.len(), "{output}");
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found["format"], 1);
        assert_eq!(found["operation"], operation(&wanted["operation"]));
        for name in [
            "zxid",
            "index",
            "time_ms",
            "session",
            "cxid",
            "client",
            "identities",
            "path",
            "kind",
            "version",
            "aversion",
            "data",
            "acl",
        ] {
            assert_eq!(found[name], wanted[name], "{name} of {wanted}");
        }
        for state in ["before", "after"] {
            assert_eq!(
                found[state], wanted[state]["version"],
                "{state} of {wanted}"
            );
        }
    }
}
