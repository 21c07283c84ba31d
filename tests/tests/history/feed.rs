//! The feed: every change arrives once and in order. This includes pages, multis, slow readers, and
//! changes that have been deleted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::admin::AdminError;
use client::changes::{ChangeOptions, Changes, ChangesEvent, Start};
use client::{Create, MultiOp, Position, Zxid};
use serde_json::Value;
use tests::{wait_until, zoarium_binary};

use crate::site::{LIMIT, SUPER, Site, lines, stderr, zoarium};

/// A running `zoarium watch`, killed when this value is dropped.
struct Watching {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watching {
    fn start(site: &Site, words: &[&str]) -> Self {
        let mut process = Command::new(zoarium_binary())
            .args([
                "watch",
                "--output",
                "json",
                "--server",
                &site.admin_address(),
            ])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("zoarium runs");
        let out = process.stdout.take().expect("its output");
        Self {
            process,
            lines: BufReader::new(out).lines(),
        }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_returns_past_and_new_changes() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.client().await;
    let persistent = Create::persistent();
    for path in ["/a", "/a/b", "/other", "/a-not"] {
        client.create(path, "1", &persistent).await.expect("create");
    }
    let mut all = Watching::start(&site, &["/a", "--from", "0x1"]);
    let mut sets = Watching::start(&site, &["/", "--from", "0x1", "--op", "set", "--diff"]);
    assert_eq!(all.next()["path"], "/a");
    assert_eq!(all.next()["path"], "/a/b");
    // Without a start position, the first line confirms that the feed has begun.
    let mut new = Watching::start(&site, &["/", "--progress"]);
    assert!(new.next()["progress"].is_string());
    client.set_data("/other", "2", 0).await.expect("set");
    let last = client.set_data("/a/b", "2", 0).await.expect("set");
    let change = all.next();
    assert_eq!(change["zxid"], format!("{:#x}", last.mzxid));
    assert_eq!(
        (&change["operation"], &change["path"]),
        (&"set".into(), &"/a/b".into())
    );
    assert_eq!(sets.next()["path"], "/other");
    let change = sets.next();
    assert_eq!(change["before"]["version"], 0);
    assert_eq!(change["after"]["version"], 1);
    let is_change = |line: &Value| line["progress"].is_null();
    let mut next = || std::iter::repeat_with(|| new.next()).find(is_change);
    assert_eq!(next().expect("a change")["path"], "/other");
    assert_eq!(next().expect("a change")["path"], "/a/b");
}

#[tokio::test]
async fn a_returning_reader_misses_no_change_of_a_multi() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.client().await;
    let persistent = Create::persistent();
    client.create("/m", "", &persistent).await.expect("create");
    let ops = (0..300).map(|n| MultiOp::create(&format!("/m/{n:03}"), vec![7; 1500], &persistent));
    client
        .multi(&ops.collect::<Vec<_>>())
        .await
        .expect("a multi");
    let mut position = "0x0".to_owned();
    let mut found = Vec::new();
    while found.len() < 301 {
        let limit = (301 - found.len()).min(70).to_string();
        let words = [
            "watch", "/m", "--output", "json", "--limit", &limit, "--after", &position,
        ];
        let page = lines(&site.tool(&words));
        let last = page.last().expect("changes");
        position = last["position"].as_str().expect("a position").to_owned();
        found.extend(page.iter().map(|change| change["path"].clone()));
    }
    let mut wanted: Vec<Value> = vec!["/m".into()];
    wanted.extend((0..300).map(|n| Value::from(format!("/m/{n:03}"))));
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn removed_changes_are_reported_with_the_next_position() {
    let Some(site) = Site::start(&[("history.maxMegabytes", "1")]) else {
        return;
    };
    let client = site.client().await;
    client
        .create("/a", "", &Create::persistent())
        .await
        .expect("create");
    let mut random = fastrand::Rng::with_seed(5);
    let refused = loop {
        for _ in 0..20 {
            let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
                .take(20_000)
                .collect();
            client.set_data("/a", data, -1).await.expect("set");
        }
        let request = "history/feed?path=/a&from=0x1";
        // A feed does not end: only a refusal is read to the end.
        let head = head_of(&site, request);
        if head.starts_with("HTTP/1.1 410") {
            break site.get(request, None);
        }
    };
    assert_eq!(refused.status, 410, "{}", refused.text());
    let found: Value = serde_json::from_slice(&refused.body).expect("JSON");
    let next = found["resume_after"]
        .as_str()
        .expect("where to go on")
        .to_owned();
    // The history removes older changes until it has recorded the last write. A position may
    // therefore be gone when it is used.
    let (next, changes) = loop {
        let watch = site.tool(&["watch", "/a", "--from", "0x1"]);
        assert_eq!(watch.status.code(), Some(1));
        let text = stderr(&watch);
        let (_, later) = text.rsplit_once("--after ").expect("where to go on");
        let later = later.trim_end().trim_end_matches(')');
        assert!(
            (later.len(), later) >= (next.len(), next.as_str()),
            "{text}"
        );
        let words = [
            "watch", "/a", "--limit", "3", "--output", "json", "--after", later,
        ];
        let found = site.tool(&words);
        if found.status.success() {
            break (later.to_owned(), lines(&found));
        }
        let text = stderr(&found);
        assert!(text.contains("--after "), "{text}");
    };
    let first = i64::from_str_radix(&changes[0]["zxid"].as_str().expect("hex")[2..], 16);
    let next = i64::from_str_radix(&next[2..], 16).expect("hex");
    // Every transaction of this server sets this znode.
    assert_eq!(first.expect("hex"), next + 1);
}

fn ask(site: &Site, target: &str, who: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", site.admin.number())).expect("connect");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let who = who
        .map(|who| format!("Authorization: {who}\r\n"))
        .unwrap_or_default();
    write!(
        stream,
        "GET /commands/{target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{who}\r\n"
    )
    .expect("ask");
    stream
}

fn head_of(site: &Site, target: &str) -> String {
    let mut line = String::new();
    let mut stream = BufReader::new(ask(site, target, None));
    stream.read_line(&mut line).expect("a status line");
    line
}

/// Returns the complete lines of a chunked body.
fn lines_of_chunks(bytes: &[u8]) -> Vec<Value> {
    let start = bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("a head")
        + 4;
    let (mut rest, mut body) = (&bytes[start..], Vec::new());
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).expect("ASCII");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let chunk = &rest[end + 2..];
        body.extend_from_slice(&chunk[..size.min(chunk.len())]);
        rest = chunk.get(size + 2..).unwrap_or_default();
    }
    let lines = body.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|line| line.ends_with(b"\n"))
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect()
}

/// Reads the rest up to the last line. Returns `None` if everything up to `last` arrived and the
/// feed continues.
fn until_dropped(mut stream: TcpStream, last: i64) -> Option<Vec<u8>> {
    let caught_up = format!("\"progress\":\"{last:#x}");
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    // The server closes the connection after the last line, or later.
    while !bytes.ends_with(b"0\r\n\r\n") {
        let count = stream.read(&mut buffer).expect("what is left");
        assert!(count > 0, "it broke off without a last line");
        bytes.extend_from_slice(&buffer[..count]);
        let tail = &bytes[bytes.len().saturating_sub(200)..];
        if String::from_utf8_lossy(tail).contains(&caught_up) {
            return None;
        }
    }
    Some(bytes)
}

#[tokio::test]
async fn a_stalled_reader_is_dropped_with_the_position_to_resume() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.client().await;
    client
        .create("/a", "", &Create::persistent())
        .await
        .expect("create");
    let mut random = fastrand::Rng::with_seed(6);
    let mut last = 0;
    // More than any socket buffers.
    for _ in 0..40 {
        let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
            .take(900_000)
            .collect();
        last = client.set_data("/a", data, -1).await.expect("set").mzxid;
    }
    site.wait_until_recorded(last);
    // The reader pauses longer than the limit for a slow reader, and less than the limit for a
    // silent connection. On a busy machine, it takes longer until the server cannot send anything.
    let dropped = [9, 18, 27].into_iter().find_map(|seconds| {
        let stream = ask(&site, "history/feed?path=/a&from=0x1", None);
        assert!(wait_until(Duration::from_secs(seconds), || None::<()>).is_none());
        until_dropped(stream, last)
    });
    let lines = lines_of_chunks(&dropped.expect("a reader that took nothing was not dropped"));
    let end = &lines.last().expect("lines")["end"];
    assert_eq!(end["reason"], "slow", "{} lines, {end}", lines.len());
    let changes = lines.iter().filter(|line| line["path"] == "/a");
    let before: Vec<&str> = changes.filter_map(|c| c["zxid"].as_str()).collect();
    assert!(!before.is_empty() && before.len() < 41, "{}", before.len());
    let position = end["resume_after"].as_str().expect("where to resume");
    let left = (41 - before.len()).to_string();
    let words = [
        "watch", "/a", "--limit", &left, "--output", "json", "--after", position,
    ];
    let rest = crate::site::lines(&site.tool(&words));
    let rest = rest.iter().filter_map(|c| c["zxid"].as_str());
    let mut all: Vec<&str> = before.clone();
    all.extend(rest);
    let zxid = |text: &&str| i64::from_str_radix(&text[2..], 16).expect("hex");
    let zxids: Vec<i64> = all.iter().map(zxid).collect();
    assert_eq!(zxids, (last - 40..=last).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_position_after_the_last_transaction_is_not_followed() {
    let Some(site) = Site::start(&[]) else { return };
    let set = site.client().await.set_data("/", "", -1).await;
    let last = set.expect("set").mzxid;
    site.wait_until_recorded(last);
    for (zxid, is_refused) in [(last + 1000, true), (last, false)] {
        let start = Start::After(Position::after(Zxid(zxid)));
        let options = ChangeOptions::new(&site.admin_address(), "/").with_start(start);
        let mut changes = Changes::new(options);
        let event = tokio::time::timeout(LIMIT, changes.next_event()).await;
        let event = event.expect("an event").expect("no end");
        match &event {
            ChangesEvent::Lost(AdminError::Lagging { head, .. }) if is_refused => {
                assert!(head.0 >= last, "{head}");
            }
            ChangesEvent::Progress(_) if !is_refused => {}
            _ => panic!("{event:?}"),
        }
    }
}

#[tokio::test]
async fn feeds_are_bounded_and_leave_the_admin_server_free() {
    let Some(site) = Site::start(&[]) else { return };
    // A history begins with the first transaction.
    let set = site.client().await.set_data("/", "", -1).await;
    site.wait_until_recorded(set.expect("set").mzxid);
    let first = "history/feed";
    let mut feeds = Vec::new();
    let refused = loop {
        let mut stream = BufReader::new(ask(&site, first, Some(SUPER)));
        let mut line = String::new();
        stream.read_line(&mut line).expect("a status line");
        if !line.starts_with("HTTP/1.1 200") {
            break line;
        }
        feeds.push(stream);
        assert!(feeds.len() < 64, "feeds are not bounded");
    };
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert_eq!(feeds.len(), 32);
    assert_eq!(site.get("ruok", None).status, 200);
    // The end of a feed frees its slot.
    feeds.pop();
    let served = wait_until(LIMIT, || {
        head_of(&site, first)
            .starts_with("HTTP/1.1 200")
            .then_some(())
    });
    assert!(served.is_some(), "no room");
}

#[test]
fn a_watch_without_a_server_names_it() {
    let refused = zoarium(&["watch", "/", "--server", "127.0.0.1:1"]);
    assert_eq!(refused.status.code(), Some(7), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("127.0.0.1:1"),
        "{}",
        stderr(&refused)
    );
}
