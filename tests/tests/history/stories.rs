//! The stories of docs/HISTORY.md, executed as the page shows them.

use std::process::Command;
use std::time::Duration;

use client::{Client, Create};
use proto::Acl;
use tests::{wait_until, workspace_root, zoarium_binary};

use crate::site::{SUPER, Site, stderr, stdout};

/// Returns the commands of the stories and their output.
fn stories() -> Vec<(String, Vec<String>)> {
    let page = workspace_root().join("docs/HISTORY.md");
    let page = std::fs::read_to_string(page).expect("the document");
    let start = page.find("## Typical questions").expect("the stories");
    let end = page.find("## Restore a subtree").expect("their end");
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut is_block = false;
    for line in page[start..end].lines() {
        if line.starts_with("```") {
            is_block = line == "```text";
        } else if is_block && line.starts_with("zoarium ") {
            found.push((line.to_owned(), Vec::new()));
        } else if is_block && !line.is_empty() {
            let (_, printed) = found.last_mut().expect("a command");
            printed.push(line.to_owned());
        }
    }
    found
}

/// Waits until the server's clock has advanced, so that the next change has a different time.
async fn tick(client: &Client, ms: i64) -> i64 {
    loop {
        let stat = client.set_data("/clock", "", -1).await.expect("set");
        if stat.mtime > ms + 1 {
            return stat.mtime;
        }
        wait_until(Duration::from_millis(2), || None::<()>);
    }
}

/// Makes the changes of the stories. Returns the times of the document with their actual values.
async fn tell(client: &Client) -> Vec<(&'static str, i64)> {
    let persistent = Create::persistent();
    for (path, data) in [("/kafka", "v1"), ("/kafka/b-1", "up"), ("/kafka/b-2", "up")] {
        client
            .create(path, data, &persistent)
            .await
            .expect("create");
    }
    client
        .create("/clock", "", &persistent)
        .await
        .expect("create");
    let acl = vec![Acl::new(31, "digest", "ops:w4PIv8/Wzcq4qj4/MfEQ8pvUSS4=")];
    client
        .set_acl("/kafka/b-1", acl, -1)
        .await
        .expect("set ACL");
    let friday = client.set_data("/kafka", "v2", 0).await.expect("set");
    tick(client, friday.mtime).await;
    let before = client.set_data("/kafka", "v3", 1).await.expect("set").mtime;
    tick(client, before).await;
    for path in ["/kafka/b-1", "/kafka/b-2", "/kafka"] {
        client.delete(path, -1).await.expect("delete");
    }
    let after = client.set_data("/clock", "", -1).await.expect("set").mtime;
    vec![
        ("2026-11-20T18:00:00Z", friday.mtime),
        ("2026-11-23T14:01:59Z", before),
        ("2026-11-23T14:03:00Z", after),
    ]
}

/// Returns whether a word differs in each run.
fn is_of_the_moment(word: &str) -> bool {
    let is_time = word.contains('T') && word.ends_with('Z');
    let is_address = word
        .split_once(':')
        .is_some_and(|(host, port)| host.split('.').count() == 4 && port.parse::<u16>().is_ok());
    word.starts_with("0x") || is_time || is_address
}

fn is_as_written(printed: &str, written: &str) -> bool {
    let (printed, written) = (printed.split_whitespace(), written.split_whitespace());
    printed.clone().count() == written.clone().count()
        && printed
            .zip(written)
            .all(|(p, w)| p == w || (is_of_the_moment(p) && is_of_the_moment(w)))
}

#[tokio::test]
async fn the_stories_of_the_document() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.client().await;
    client
        .add_auth("digest", "ops:secret")
        .await
        .expect("an identity");
    let times = tell(&client).await;
    let end = client.set_data("/clock", "", -1).await.expect("set");
    site.wait_until_recorded(end.mzxid);
    let stories = stories();
    assert!(stories.len() >= 6, "{stories:#?}");
    for (command, written) in &stories {
        let mut line = command
            .replace("localhost:8080", &site.admin_address())
            .replace("localhost:2181", &site.server.address());
        for (time, ms) in &times {
            let then = jiff::Timestamp::from_millisecond(*ms).expect("a time");
            line = line.replace(time, &then.to_string());
        }
        let output = Command::new(zoarium_binary())
            .args(line.split(' ').skip(1))
            .env("ZOARIUM_AUTH", SUPER)
            .output()
            .expect("zoarium runs");
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        let printed = stdout(&output);
        let printed: Vec<&str> = printed.lines().collect();
        assert_eq!(printed.len(), written.len(), "{line}: {printed:#?}");
        for (printed, written) in printed.iter().zip(written) {
            assert!(
                is_as_written(printed, written),
                "{line}: {printed}, not {written}"
            );
        }
    }
    // The value was restored.
    let data = client.get_data("/kafka").await.expect("data").0;
    assert_eq!(data.as_deref(), Some(&b"v3"[..]));
}
