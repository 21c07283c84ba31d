//! Lookups of clients for a feed. The feed continues to arrive while a lookup is in flight.

use std::pin::Pin;

use bytes::Bytes;
use history::ORIGINS_MAX;
use serde_json::Value;

use super::origins::Origins;

/// Maximum number of items that wait for the next lookup.
const CHANGES_MAX: usize = 5 * ORIGINS_MAX;

/// Total size of the waiting items above which no more items are added, bytes.
const BYTES_MAX: usize = 16 << 20;

/// Element of the output.
#[derive(Debug)]
pub(crate) enum Item {
    /// A change.
    Change(Value),
    /// A line about the progress of the feed.
    Progress(Bytes),
}

/// Lookup in flight, which returns the members and the completed items.
type InFlight = Pin<Box<dyn Future<Output = (Box<Origins>, Vec<Item>)>>>;

/// Items of a feed that are not written yet, in the order of arrival.
///
/// One lookup is in flight at a time. All items that arrive meanwhile belong to the next lookup.
/// The number of queries therefore depends on the speed of the members and not on the number of
/// changes.
pub(crate) struct OriginLookups {
    /// Members that can be queried; `None` while a lookup is in flight.
    origins: Option<Box<Origins>>,
    in_flight: Option<InFlight>,
    waiting: Vec<Item>,
    waiting_bytes: usize,
    /// Number of changes that wait or are in flight.
    changes: u64,
}

/// Items with the results of their lookups.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) items: Vec<Item>,
    /// Members that could not be queried, as JSON.
    pub(crate) missing_members: Value,
    /// Failures of members that have not been reported yet.
    pub(crate) new_failures: Vec<String>,
}

impl OriginLookups {
    pub(crate) fn new(origins: Origins) -> Self {
        Self {
            origins: Some(Box::new(origins)),
            in_flight: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            changes: 0,
        }
    }

    /// Returns whether more items may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < CHANGES_MAX && self.waiting_bytes < BYTES_MAX
    }

    /// Returns the number of changes that are not completed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_none()
    }

    /// Adds a change of this size.
    pub(crate) fn push_change(&mut self, change: Value, bytes: usize) {
        self.changes += 1;
        self.waiting_bytes += bytes;
        self.waiting.push(Item::Change(change));
    }

    /// Adds a line about the progress of the feed.
    pub(crate) fn push_progress(&mut self, line: &[u8]) {
        self.waiting_bytes += line.len();
        self.waiting
            .push(Item::Progress(Bytes::copy_from_slice(line)));
    }

    /// Returns the items of the next lookup that completes. If no lookup is in flight, first begins
    /// a lookup for the items that wait.
    ///
    /// The future may be dropped while it waits. Another call continues the same lookup.
    pub(crate) async fn next(&mut self) -> Option<Batch> {
        if let Some(origins) = self.origins.take() {
            self.waiting_bytes = 0;
            let items = std::mem::take(&mut self.waiting);
            self.in_flight = Some(Box::pin(query_origins(origins, items)));
        }
        let (mut origins, items) = self.in_flight.as_mut()?.await;
        self.in_flight = None;
        let changes = items.iter().filter(|item| matches!(item, Item::Change(_)));
        self.changes -= changes.count() as u64;
        let batch = Batch {
            items,
            missing_members: origins.missing_members(),
            new_failures: origins.new_failures(),
        };
        self.origins = Some(origins);
        Some(batch)
    }
}

async fn query_origins(
    mut origins: Box<Origins>,
    mut items: Vec<Item>,
) -> (Box<Origins>, Vec<Item>) {
    let changes = items.iter_mut().filter_map(|item| match item {
        Item::Change(change) => Some(change),
        Item::Progress(_) => None,
    });
    origins.complete(&mut changes.collect::<Vec<_>>()).await;
    (origins, items)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    use client::admin::AdminClient;
    use serde_json::json;

    use super::*;

    /// Answers queries for clients until a connection ends without a request. Holds the first
    /// answer until it is released. Returns the numbers of transactions in the queries.
    fn answer(
        listener: &TcpListener,
        arrived: &mpsc::Sender<()>,
        released: &mpsc::Receiver<()>,
    ) -> Vec<usize> {
        let mut numbers = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut part = [0; 4096];
                match stream.read(&mut part).unwrap() {
                    0 => return numbers,
                    read => request.extend_from_slice(&part[..read]),
                }
            }
            let request = String::from_utf8(request).unwrap();
            let zxids: Vec<&str> = request.split(['?', '&', ' ']).collect();
            let zxids = zxids.iter().filter_map(|part| part.strip_prefix("zxid="));
            let known: Vec<Value> = zxids
                .map(|zxid| json!({ "zxid": zxid, "client": format!("host:{zxid}") }))
                .collect();
            if numbers.is_empty() {
                arrived.send(()).unwrap();
                released.recv().unwrap();
            }
            numbers.push(known.len());
            let answer = json!({
                "member": 1, "others": [], "results": known, "next": null, "extent": { "head": "0xffff" },
            });
            let answer = answer.to_string();
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
            let answer = format!("{head} {}\r\n\r\n{answer}", answer.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    }

    #[tokio::test]
    async fn changes_that_arrive_during_a_look_up_share_the_next_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (arrived, first) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let member = thread::spawn(move || answer(&listener, &arrived, &released));
        let mut origin_lookups =
            OriginLookups::new(Origins::new(AdminClient::new([address.clone()])));
        let change =
            |zxid: u64| json!({ "zxid": format!("{zxid:#x}"), "session": "0x5", "client": "" });
        origin_lookups.push_change(change(1), 100);
        while first.try_recv().is_err() {
            tokio::select! {
                biased;
                _ = origin_lookups.next() => panic!("the answer is held"),
                () = tokio::task::yield_now() => {}
            }
        }
        let burst = CHANGES_MAX as u64;
        for zxid in 2..burst + 2 {
            assert!(origin_lookups.has_room());
            origin_lookups.push_change(change(zxid), 100);
        }
        assert!(!origin_lookups.has_room(), "the memory is bounded");
        assert_eq!(origin_lookups.changes(), burst + 1);
        release.send(()).unwrap();
        let mut completed = Vec::new();
        while !origin_lookups.is_empty() {
            let batch = origin_lookups.next().await.unwrap();
            assert_eq!(batch.new_failures, Vec::<String>::new());
            completed.extend(batch.items);
        }
        for (item, zxid) in completed.iter().zip(1_u64..) {
            let Item::Change(change) = item else {
                panic!("{item:?}");
            };
            assert_eq!(change["zxid"], format!("{zxid:#x}"));
            assert_eq!(change["client"], format!("host:{zxid:#x}"));
        }
        assert_eq!(completed.len() as u64, burst + 1);
        drop(std::net::TcpStream::connect(address).unwrap());
        let requests = [vec![1], vec![ORIGINS_MAX; CHANGES_MAX / ORIGINS_MAX]].concat();
        assert_eq!(member.join().unwrap(), requests);
    }
}
