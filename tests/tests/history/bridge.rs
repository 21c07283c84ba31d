//! The example bridge: if it is killed at any moment, it still delivers every change, in order.

// The tests use the code of the example.
#[allow(dead_code, reason = "the tests start it another way")]
#[path = "../../../crates/client/examples/bridge.rs"]
mod example;

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use client::Create;
use serde_json::Value;
use tests::{wait_for, wait_until};

use crate::site::{LIMIT, Site};

/// Variable that contains the task of the child.
const CHILD: &str = "HISTORY_BRIDGE_CHILD";

/// Not a test, but the process that the tests kill.
#[tokio::test]
async fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let words: Vec<&str> = task.split(' ').collect();
    let bridge = example::Bridge {
        servers: words[0].to_owned(),
        path: words[1].to_owned(),
        position: words[2].into(),
    };
    let out = OpenOptions::new().append(true).open(words[3]);
    let ended = bridge.run(out.expect("a file")).await;
    panic!("{ended:?}");
}

fn start(task: &str) -> Child {
    Command::new(std::env::current_exe().expect("a name"))
        .args(["--exact", "bridge::child", "--nocapture"])
        .env(CHILD, task)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the test runs")
}

/// Returns the paths of the complete lines, without duplicates.
fn handed_over(file: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let mut found: Vec<(String, String)> = Vec::new();
    for line in lines {
        // The kill may have truncated a line. The output after it is then on the same line.
        let Ok(change) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let text = |name: &str| change[name].as_str().expect("text").to_owned();
        let one = (text("position"), text("path"));
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_bridge_resumes_without_loss() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.client().await;
    let persistent = Create::persistent();
    client.create("/b", "", &persistent).await.expect("create");
    client
        .create("/other", "", &persistent)
        .await
        .expect("create");
    let place = tempfile::tempdir().expect("a directory");
    let (position, file) = (place.path().join("position"), place.path().join("lines"));
    File::create(&file).expect("a file");
    let address = site.admin_address();
    let task = format!("{address} /b {} {}", position.display(), file.display());
    let mut wanted = vec!["/b".to_owned()];
    let mut kept = Vec::new();
    for round in 0..4 {
        let mut bridge = start(&task);
        for number in 0..40 {
            let path = format!("/b/{round}-{number:02}");
            client
                .create(&path, "x", &persistent)
                .await
                .expect("create");
            wanted.push(path);
        }
        let half = wanted.len() - 20;
        wait_for("half of the changes", LIMIT, || {
            (handed_over(&file).len() >= half).then_some(())
        });
        if round == 1 {
            // The bridge eventually saves a position, from which the next process starts.
            wait_for("position", LIMIT, || {
                std::fs::read_to_string(&position).ok()
            });
        }
        bridge.kill().expect("kill a child of ours");
        bridge.wait().expect("its end");
        kept.push(std::fs::read_to_string(&position).unwrap_or_default());
    }
    let mut bridge = start(&task);
    let all = wait_until(LIMIT, || {
        (handed_over(&file).len() >= wanted.len()).then_some(())
    });
    bridge.kill().expect("kill a child of ours");
    bridge.wait().expect("its end");
    let found: Vec<String> = handed_over(&file)
        .into_iter()
        .map(|(_, path)| path)
        .collect();
    assert_eq!(found, wanted, "{all:?}");
    assert!(
        kept[1].starts_with("0x") && kept.last() >= kept.get(1),
        "{kept:?}"
    );
}
