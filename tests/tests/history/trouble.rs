//! Damage to the files of a history: the server continues, and rebuilds what it can.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use client::Create;
use serde_json::Value;
use tests::{Faults, or_skip, wait_for};

use crate::site::{LIMIT, SUPER, Site};

/// Creates `count` znodes below `top`, and waits until this is recorded.
async fn write(site: &Site, top: &str, count: u32) -> i64 {
    let client = site.client().await;
    let persistent = Create::persistent();
    client.create(top, "", &persistent).await.expect("create");
    for number in 0..count {
        // Long enough to be stored separately.
        let data = format!("{number}").repeat(300);
        let path = format!("{top}/{number:03}");
        client
            .create(&path, data, &persistent)
            .await
            .expect("create");
    }
    let last = client.set_data(top, "end", 0).await.expect("set");
    site.wait_until_recorded(last.mzxid);
    last.mzxid
}

/// Returns all changes below a path as one text.
fn told(site: &Site, top: &str) -> String {
    let target = format!("history/changes?path={top}&recursive=true&limit=1000&diff=true");
    let mut page = site.all_pages(&target, Some(SUPER));
    // Changes that were read from the log do not contain the client.
    for change in page["results"].as_array_mut().expect("results") {
        change["client"].take();
        change["identities"].take();
    }
    page["results"].to_string()
}

fn history_of(site: &Site) -> PathBuf {
    site.server.data_dir().join("history")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let target = to.join(entry.file_name());
        match entry.path() {
            path if path.is_dir() => copy(&path, &target),
            path => drop(fs::copy(path, target).expect("copy")),
        }
    }
}

#[tokio::test]
async fn a_corrupt_history_is_moved_aside_and_rebuilt() {
    let Some(mut site) = Site::start(&[]) else {
        return;
    };
    write(&site, "/t", 200).await;
    let wanted = told(&site, "/t");
    site.server.terminate();
    let dir = history_of(&site);
    for file in files(&dir) {
        let mut bytes = fs::read(&file).expect("read");
        for at in (0..bytes.len()).step_by(64) {
            bytes[at] ^= 0x55;
        }
        fs::write(&file, bytes).expect("write");
    }
    site.server.launch().expect("it starts all the same");
    let client = site.client().await;
    let again = client.set_data("/t", "again", -1).await.expect("set");
    site.wait_until_recorded(again.mzxid);
    let aside = dir.with_extension("aside");
    assert!(aside.is_dir(), "nothing was moved aside");
    assert!(
        site.server
            .log()
            .contains("moving it aside and rebuilding it")
    );
    let found = told(&site, "/t");
    let found: Vec<Value> = serde_json::from_str(&found).expect("JSON");
    let wanted: Vec<Value> = serde_json::from_str(&wanted).expect("JSON");
    // The newest change is first.
    assert_eq!(found[1..], wanted);
}

#[tokio::test]
async fn a_history_removed_at_runtime_is_rebuilt() {
    let Some(site) = Site::start(&[]) else { return };
    write(&site, "/t", 60).await;
    let wanted = told(&site, "/t");
    fs::remove_dir_all(history_of(&site)).expect("remove");
    write(&site, "/other", 60).await;
    wait_for("history of before", LIMIT, || {
        let answer = site.get("history/changes?path=/t&recursive=true", Some(SUPER));
        (answer.status == 200).then_some(())
    });
    assert_eq!(told(&site, "/t"), wanted);
    // The history is on disk, and not only in memory.
    wait_for("directory of the history", LIMIT, || {
        history_of(&site).join("index").is_dir().then_some(())
    });
}

#[tokio::test]
async fn the_history_of_another_server_is_not_used() {
    let (Some(mut one), Some(mut other)) = (Site::start(&[]), Site::start(&[])) else {
        return;
    };
    write(&one, "/mine", 20).await;
    let last = write(&other, "/theirs", 30).await;
    let wanted = told(&one, "/mine");
    one.server.terminate();
    other.server.terminate();
    let dir = history_of(&one);
    fs::remove_dir_all(&dir).expect("remove");
    copy(&history_of(&other), &dir);
    one.server.launch().expect("it starts all the same");
    let client = one.client().await;
    let mut zxid = 0;
    while zxid <= last {
        zxid = client.set_data("/", "", -1).await.expect("set").mzxid;
    }
    one.wait_until_recorded(zxid);
    wait_for("own history", LIMIT, || {
        (told(&one, "/mine") == wanted).then_some(())
    });
    assert_eq!(told(&one, "/theirs"), "[]");
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_drops_the_history_first() {
    let Some(mut site) = Site::start(&[]) else {
        return;
    };
    write(&site, "/t", 5).await;
    site.server.terminate();
    // More than any disk has.
    let config = site.server.config_file();
    let text = fs::read_to_string(&config).expect("zoo.cfg");
    let full = text.replace(
        "history.minFreeMegabytes=0",
        "history.minFreeMegabytes=1000000000",
    );
    assert_ne!(full, text);
    fs::write(&config, full).expect("write zoo.cfg");
    site.server.launch().expect("it starts all the same");
    let client = site.client().await;
    client.set_data("/t", "goes on", -1).await.expect("set");
    // This line is logged last.
    let is_said = || {
        site.server
            .log()
            .contains("no space for the change history")
    };
    wait_for("removal", LIMIT, || is_said().then_some(()));
    assert!(!history_of(&site).exists());
    let answer = site.get("history/changes?path=/t", Some(SUPER));
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("not available"), "{}", answer.text());
    assert_eq!(site.get("history/feed", Some(SUPER)).status, 503);
    // With enough free space, it is rebuilt from the files.
    site.server.terminate();
    fs::write(&config, text).expect("write zoo.cfg");
    site.server.launch().expect("a start");
    let client = site.client().await;
    let last = client.set_data("/t", "end", -1).await.expect("set");
    site.wait_until_recorded(last.mzxid);
    let target = "history/changes?path=/t&op=set&oldest_first=true";
    let page = site.all_pages(target, Some(SUPER));
    assert_eq!(page["results"].as_array().expect("results").len(), 3);
}

/// Makes writes fail although the free space is sufficient, for example because of a quota of the
/// file system. Fills the disk for the history's files whose paths contain this text.
async fn a_full_disk_takes_the_history(of: &str) {
    let Some(faults) = or_skip("a full disk", Faults::new()) else {
        return;
    };
    let Some(site) = Site::start_after(&[], Some(&faults.commands(1))) else {
        return;
    };
    write(&site, "/t", 20).await;
    let dir = history_of(&site);
    faults.fill_disk(1, of);
    let client = site.client().await;
    let mut number = 0_u32;
    let deadline = Instant::now() + LIMIT;
    while !site
        .server
        .log()
        .contains("no space for the change history")
    {
        assert!(Instant::now() < deadline, "{}", site.server.log());
        // All of these writes are acknowledged.
        let path = format!("/t/more-{number}");
        let data = format!("{number:04}").repeat(500);
        let created = client.create(&path, data, &Create::persistent()).await;
        created.expect("create");
        number += 1;
    }
    faults.end_full_disk(1);
    let last = client.set_data("/t", "end", -1).await.expect("set");
    // It is rebuilt from the files.
    site.wait_until_recorded(last.mzxid);
    assert!(dir.is_dir());
    let target = "history/changes?path=/t&recursive=true&op=create&limit=1000";
    let page = site.all_pages(target, Some(SUPER));
    let found = page["results"].as_array().expect("results").len();
    assert_eq!(found, 21 + usize::try_from(number).expect("few"));
}

#[tokio::test]
async fn a_full_disk_stops_only_the_history() {
    a_full_disk_takes_the_history("/history/").await;
}

/// The index rows are written once per second, and the changes immediately. The disk may fill up
/// between the two.
#[tokio::test]
async fn a_disk_full_only_for_the_index_stops_only_the_history() {
    a_full_disk_takes_the_history("/history/index/").await;
}

#[tokio::test]
async fn rows_of_the_index_that_cannot_be_synced_stop_the_history_until_they_can() {
    let Some(faults) = or_skip("a disk that fails", Faults::new()) else {
        return;
    };
    let Some(site) = Site::start_after(&[], Some(&faults.commands(1))) else {
        return;
    };
    write(&site, "/t", 60).await;
    faults.fail_syncs(1, "/history/index/");
    let client = site.client().await;
    let mut last = client.set_data("/t", "one", -1).await.expect("set");
    wait_for("word of the failure", LIMIT, || {
        let log = site.server.log();
        log.contains("the change history failed").then_some(())
    });
    faults.end_sync_faults(1);
    last = client
        .set_data("/t", "two", last.version)
        .await
        .expect("set");
    site.wait_until_recorded(last.mzxid);
    let told = told(&site, "/t");
    let told: Vec<Value> = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told.len(), 64, "sixty children, a create and three writes");
    let opened = site
        .server
        .log()
        .matches("the change history is open")
        .count();
    assert!(opened > 1, "the same history was opened again");
    assert!(!site.server.log().contains("rebuilding it"));
    let aside = history_of(&site).with_extension("aside");
    assert!(!aside.exists() && !history_of(&site).join("index.left").exists());
}

#[tokio::test]
async fn patterns_that_leave_out_everything_record_nothing() {
    let Some(site) = Site::start(&[("history.exclude", "/")]) else {
        return;
    };
    let client = site.client().await;
    let last = client.create2("/t", "", &Create::persistent()).await;
    let last = last.expect("create").1.czxid;
    let all = wait_for("word of the last transaction", LIMIT, || {
        let target = "history/changes?path=/&recursive=true";
        let answer = site.get(target, Some(SUPER));
        let found: Value = serde_json::from_slice(&answer.body).ok()?;
        let head = found["extent"]["head"].as_str()?.strip_prefix("0x")?;
        (i64::from_str_radix(head, 16).ok()? >= last).then_some(found)
    });
    assert_eq!(all["results"].as_array().expect("results").len(), 0);
    let answer = site.get("history/changes?path=/t", Some(SUPER));
    assert_eq!(answer.status, 404);
    assert!(
        answer.text().contains("history.exclude"),
        "{}",
        answer.text()
    );
}
