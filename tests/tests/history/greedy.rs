//! Queries whose clients disconnect, over changes that they may not see.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, Create};
use proto::Acl;
use serde_json::Value;
use tests::{http_get, wait_for};

use crate::site::{LIMIT, SUPER, Site};

/// Changes that only their owner may see.
const HIDDEN: usize = 2500;

/// Clients that query and disconnect.
const CROWD: usize = 150;

fn threads(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    tasks.map_or(0, Iterator::count)
}

/// Writes `/hidden` and waits until its changes are recorded.
async fn write_hidden(site: &Site) -> Client {
    let client = site.super_client().await;
    let hers = vec![Acl::new(31, "digest", "ann:hash")];
    let hidden = Create::persistent().with_acl(hers);
    client
        .create("/hidden", "0", &hidden)
        .await
        .expect("create");
    let mut last = 0;
    for number in 0..HIDDEN {
        last = client
            .set_data("/hidden", number.to_string(), -1)
            .await
            .expect("set")
            .mzxid;
    }
    site.wait_until_recorded(last);
    client
}

/// The work of a query ends with its client. A crowd of queries does not use more threads than the
/// limit for queries.
#[tokio::test]
async fn disconnected_clients_leave_no_work() {
    let Some(site) = Site::start(&[]) else { return };
    drop(write_hidden(&site).await);
    let pid = site.server.process_id().expect("it runs");
    let before = threads(pid);
    let target = "history/changes?path=/&recursive=true&limit=1000";
    let request = format!("GET /commands/{target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let mut most = before;
    for _ in 0..CROWD {
        let mut stream = TcpStream::connect(site.admin_address()).expect("connect");
        stream.write_all(request.as_bytes()).expect("write");
        drop(stream);
        most = most.max(threads(pid));
    }
    // A client that stays gets an answer: each page contains the next position, even if most
    // changes are hidden.
    let (mut after, mut seen, mut pages) = (String::new(), 0, 0);
    loop {
        let page: Value = site.json(&format!("{target}{after}"), None);
        seen += page["hidden"].as_u64().expect("a number");
        pages += 1;
        most = most.max(threads(pid));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert!(
        usize::try_from(seen).is_ok_and(|seen| seen > HIDDEN) && pages >= 3,
        "{seen} hidden on {pages} pages"
    );
    assert!(most <= before + 4, "{before} threads, then {most}");
    assert_eq!(
        site.get("history/changes?path=/hidden", Some(SUPER)).status,
        200
    );
}

/// Requested feeds, more than the limit.
const FEEDS: usize = 40;

/// Clients that query meanwhile.
const QUERYING: usize = 24;

/// Sends queries on one connection and reads the answers as they arrive. Counts the pieces that it
/// reads.
fn query_over_one_connection(address: &str, is_over: &AtomicBool, answered: &AtomicUsize) {
    let mut stream = TcpStream::connect(address).expect("connect");
    let timeout = Some(Duration::from_millis(100));
    stream.set_read_timeout(timeout).expect("a timeout");
    let target = "/commands/history/changes?path=/&recursive=true&limit=1000";
    let request = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let mut piece = vec![0; 1 << 20];
    while !is_over.load(Ordering::Relaxed) && stream.write_all(request.as_bytes()).is_ok() {
        let has_read = stream.read(&mut piece).is_ok_and(|bytes| bytes > 0);
        answered.fetch_add(usize::from(has_read), Ordering::Relaxed);
    }
}

/// Probes and clients are served during any load of the history.
#[tokio::test]
async fn unread_feeds_do_not_block_others() {
    let Some(site) = Site::start(&[]) else { return };
    let client = write_hidden(&site).await;
    let target = "history/feed?path=/&recursive=true&after=0x1";
    let request = format!(
        "GET /commands/{target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {SUPER}\r\n\r\n"
    );
    let feeds: Vec<_> = (0..FEEDS)
        .map(|_| {
            let mut stream = TcpStream::connect(site.admin_address()).expect("connect");
            stream.write_all(request.as_bytes()).expect("write");
            stream
        })
        .collect();
    let (address, is_over) = (site.admin_address(), Arc::new(AtomicBool::new(false)));
    let answered = Arc::new(AtomicUsize::new(0));
    let port: u16 = site.admin.number();
    let querying = (0..QUERYING).map(|_| {
        let (address, is_over, answered) = (address.clone(), is_over.clone(), answered.clone());
        std::thread::spawn(move || query_over_one_connection(&address, &is_over, &answered))
    });
    let querying: Vec<_> = querying.collect();
    for _ in 0..8 {
        assert_eq!(http_get(port, "/health/live").status, 200);
        client.get_data("/hidden").await.expect("an answer");
    }
    wait_for("an answer to a query", LIMIT, || {
        (answered.load(Ordering::Relaxed) > 0).then_some(())
    });
    is_over.store(true, Ordering::Relaxed);
    querying
        .into_iter()
        .for_each(|one| one.join().expect("it ends"));
    drop(feeds);
}
