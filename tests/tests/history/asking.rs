//! Queries to a running server: HTTP and the commands return the same results.

use client::Create;
use serde_json::Value;

use crate::site::{SUPER, Site, lines, stderr, stdout};

/// Makes some changes, and returns the last zxid.
async fn write(site: &Site, count: u32) -> i64 {
    let client = site.client().await;
    let persistent = Create::persistent();
    client.create("/a", "0", &persistent).await.expect("create");
    for number in 0..count {
        let path = format!("/a/{number:04}");
        let made = client.create(&path, number.to_string(), &persistent).await;
        made.expect("create");
    }
    let last = client.set_data("/a", "end", 0).await.expect("set");
    site.wait_until_recorded(last.mzxid);
    last.mzxid
}

#[tokio::test]
async fn pages_of_an_answer_are_complete() {
    let Some(site) = Site::start(&[]) else { return };
    let last = write(&site, 250).await;
    let mut cursor = String::new();
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let target =
            format!("history/changes?path=/a&recursive=true&oldest_first=true&limit=40{cursor}");
        let page = site.json(&target, None);
        let results = page["results"].as_array().expect("results");
        assert!(results.len() <= 40);
        found.extend(results.iter().map(|change| change["path"].clone()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&after={next}"),
            None => break,
        }
    }
    assert!(pages >= 7, "only {pages} pages");
    // The size of a page is limited, whatever limit the query has.
    let target = "history/changes?path=/&recursive=true&limit=18446744073709551615";
    let page = site.json(target, None);
    assert!(page["results"].as_array().expect("results").len() <= 1000);
    let mut wanted: Vec<Value> = vec!["/a".into()];
    wanted.extend((0..250).map(|number| Value::from(format!("/a/{number:04}"))));
    wanted.push("/a".into());
    assert_eq!(found, wanted);
    // An old version of a subtree. All pages show the same moment.
    let zxid = format!("{:#x}", last - 1);
    let (mut after, mut paths) = (String::new(), 0);
    loop {
        let target = format!("history/tree?path=/a&at={zxid}&limit=60{after}");
        let page = site.json(&target, None);
        assert_eq!(page["at"], *zxid);
        paths += page["results"].as_array().expect("results").len();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(paths, 251);
}

#[tokio::test]
async fn the_commands_print_what_the_server_answers() {
    let Some(site) = Site::start(&[]) else { return };
    let last = format!("{:#x}", write(&site, 20).await);
    let before = format!(
        "{:#x}",
        i64::from_str_radix(&last[2..], 16).expect("hex") - 1
    );
    for (target, words) in [
        (
            "history/changes?path=/a&recursive=true&limit=1000".to_owned(),
            vec!["history", "/a", "--recursive", "--limit", "1000"],
        ),
        (
            "history/changes?path=/a&op=set&diff=true".to_owned(),
            vec!["history", "/a", "--op", "set", "--diff"],
        ),
        (
            format!("history/changes?path=/&recursive=true&since={last}"),
            vec!["history", "/", "-r", "--since", &last],
        ),
        (
            "history/blame?path=/a".to_owned(),
            vec!["history", "blame", "/a"],
        ),
        (
            format!("history/cat?path=/a&at={before}"),
            vec!["cat", "/a", "--at", &before],
        ),
        (
            format!("history/tree?path=/a&at={last}"),
            vec!["tree", "/a", "--at", &last],
        ),
        (
            format!("history/diff?path=/a&from={before}&to={last}"),
            vec!["diff", "/a", "--from", &before, "--to", &last],
        ),
    ] {
        let answered = site.all_pages(&target, Some(SUPER));
        let words = [&words[..], &["--output", "json", "--auth", SUPER]].concat();
        let mut printed = lines(&site.tool(&words));
        assert!(!printed.is_empty(), "{target}");
        printed.iter_mut().for_each(remove_missing);
        assert_eq!(answered["results"], Value::Array(printed), "{target}");
    }
    let text = stdout(&site.tool(&["cat", "/a", "--at", &before]));
    assert_eq!(text, "0");
    // The files contain the same changes after the server has stopped.
    let words = ["history", "/a", "-r", "--output", "json", "--limit", "1000"];
    let running = stdout(&site.tool(&[&words[..], &["--auth", SUPER]].concat()));
    let mut server = site.server;
    server.terminate();
    let dir = server.data_dir().display().to_string();
    let files = crate::site::zoarium(&[&words[..], &["--data-dir", &dir]].concat());
    assert_eq!(stdout(&files), running, "{}", stderr(&files));
}

#[tokio::test]
async fn invalid_queries_are_refused_with_a_reason() {
    let Some(site) = Site::start(&[("history.exclude", "/private")]) else {
        return;
    };
    write(&site, 3).await;
    for (target, status, reason) in [
        ("history/changes", 400, "path: this parameter is required"),
        ("history/changes?path=a", 400, "does not begin with /"),
        ("history/changes?path=/a&limit=0", 400, "limit: "),
        ("history/changes?path=/a&limit=x", 400, "limit: "),
        (
            "history/changes?path=/a&recursive=yes",
            400,
            "is not true or false",
        ),
        (
            "history/changes?path=/a&recursve=true",
            400,
            "recursve: unknown parameter",
        ),
        ("history/changes?path=/a&op=look", 400, "not an operation"),
        ("history/changes?path=/a&after=x", 400, "after: "),
        ("history/changes?path=/a&session=zz", 400, "not a session"),
        (
            "history/tree?path=/a",
            400,
            "at: this parameter is required",
        ),
        ("history/tree?path=/a&at=yesterday", 400, "not a zxid"),
        ("history/cat?path=/none&at=0x3", 404, "/none did not exist"),
        (
            "history/cat?path=/a&at=0x7fffffffffff",
            404,
            "not recorded yet",
        ),
        ("history/cat?path=/private/x&at=0x3", 404, "history.exclude"),
        (
            "history/tree?path=/a&at=1970-01-02T00:00:00Z",
            410,
            "the history begins after the requested time",
        ),
        (
            "history/diff?path=/a&from=0x1",
            400,
            "to: this parameter is required",
        ),
        ("history/feed?after=0x1.x", 400, "index of a change"),
        ("history/feed?path=/a/", 400, "empty component"),
    ] {
        let answer = site.get(target, None);
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
        let found: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let error = found["error"].as_str().expect("an error");
        assert!(error.contains(reason), "{target}: {error}");
    }
    // The tools print the reason.
    let refused = site.tool(&["cat", "/none", "--at", "0x3"]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(
        stderr(&refused).contains("/none did not exist"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_server_without_a_history_says_so() {
    let Some(site) = Site::start(&[("history.enabled", "false")]) else {
        return;
    };
    let refused = site.tool(&["tree", "--at", "0x1"]);
    assert_eq!(refused.status.code(), Some(1));
    let text = stderr(&refused);
    assert!(text.contains("change history is off"), "{text}");
    let refused = site.tool(&["watch", "/", "--from", "0x1"]);
    assert_eq!(refused.status.code(), Some(1));
    let text = stderr(&refused);
    assert!(text.contains("no member keeps a change history"), "{text}");
    assert!(!site.get("", None).text().contains("history"));
}

/// Removes the fields that the commands add to the answer of a server.
fn remove_missing(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["client_missing", "members_missing"] {
                assert!(fields.remove(name).is_none_or(|reason| {
                    reason.is_null() || reason == Value::Array(Vec::new())
                }));
            }
            fields.values_mut().for_each(remove_missing);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_missing),
        _ => {}
    }
}
