//! The channel from the core to the history thread.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use crossbeam_channel::Sender;
use executor::sync::{AtomicI64, AtomicUsize};
use jute::{Decode, Encode, Reader};
use proto::txn::{Txn, TxnRecord};
use proto::{Id, Zxid};

use crate::limits;

/// Client of this server that requested a transaction: its address and identities.
pub(crate) type Client = (SocketAddr, Arc<[Id]>);

/// Transactions that were applied together.
///
/// Records are contiguous, as in a log. The core's memory remains private to the core, and the
/// history thread reads sequentially instead of following pointers into the core's cache.
#[derive(Default)]
pub(super) struct TxnGroup {
    records: Vec<u8>,
    txns: Vec<QueuedTxn>,
    /// Clients that requested some of the transactions.
    pub(super) clients: Vec<Client>,
    pub(super) bytes: usize,
}

/// A committed transaction in the queue.
struct QueuedTxn {
    /// End of its record, which begins at the end of the previous one.
    end: usize,
    /// Index of the client that requested the transaction; `None` if the client is not known here.
    client: Option<usize>,
    /// The transaction itself, if sharing it is cheaper than copying it.
    large: Option<Box<TxnRecord>>,
}

impl TxnGroup {
    fn push(&mut self, record: &TxnRecord, client: Option<Client>) {
        let client = client.map(|client| self.place(client));
        let body = body_bytes(&record.txn);
        self.bytes += FIXED_BYTES;
        let large = if body > limits::HISTORY_COPIED_MAX {
            self.bytes += body;
            Some(Box::new(record.clone()))
        } else {
            let start = self.records.len();
            record.encode(&mut self.records);
            self.bytes += self.records.len() - start;
            None
        };
        let end = self.records.len();
        self.txns.push(QueuedTxn { end, client, large });
    }

    /// Returns the index of a client in this group, to which it is added if necessary. The
    /// transactions in a group usually come from few different clients.
    fn place(&mut self, client: Client) -> usize {
        let is_it = |(address, ids): &Client| *address == client.0 && Arc::ptr_eq(ids, &client.1);
        let known = self.clients.iter().rposition(is_it);
        known.unwrap_or_else(|| {
            self.clients.push(client);
            self.clients.len() - 1
        })
    }

    /// Returns the transactions, each with the index of its client.
    pub(super) fn txns(&mut self) -> impl Iterator<Item = (Cow<'_, TxnRecord>, Option<usize>)> {
        let records = Bytes::from(std::mem::take(&mut self.records));
        let mut start = 0;
        self.txns.iter().map_while(move |txn| {
            let record = records.slice(start..txn.end);
            start = txn.end;
            if let Some(large) = &txn.large {
                return Some((Cow::Borrowed(&**large), txn.client));
            }
            match TxnRecord::decode(&mut Reader::new(record)) {
                Ok(record) => Some((Cow::Owned(record), txn.client)),
                // This transaction and the following ones are skipped and will be read from the log
                // later.
                Err(error) => {
                    tracing::error!(err = %error, "cannot decode a transaction for the change history");
                    None
                }
            }
        })
    }
}

/// State shared by the core and the history thread.
#[derive(Default)]
pub(super) struct Progress {
    /// Last transaction that is known to be committed; 0 before the first one.
    committed: AtomicI64,
    /// Number of bytes in the queue.
    queued: AtomicUsize,
}

impl Progress {
    pub(super) fn committed(&self) -> Zxid {
        Zxid(self.committed.load(Ordering::Acquire))
    }

    /// Returns whether the queue is less than a quarter full, so that the history thread may wait.
    pub(super) fn has_room(&self) -> bool {
        self.queued.load(Ordering::Relaxed) < limits::HISTORY_QUEUE_BYTES / 4
    }

    /// Yields the processor if the queue is less than a quarter full.
    pub(super) fn yield_if_queue_has_space(&self) {
        if self.has_room() {
            std::thread::yield_now();
        }
    }

    pub(super) fn release_bytes(&self, bytes: usize) {
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Sender of committed transactions to the history thread.
pub(crate) struct Feed {
    progress: Arc<Progress>,
    queue: Sender<TxnGroup>,
    gathered: TxnGroup,
    /// Last transaction that was applied.
    last: Zxid,
}

impl Feed {
    pub(super) fn new(progress: Arc<Progress>, queue: Sender<TxnGroup>) -> Self {
        Self {
            progress,
            queue,
            gathered: TxnGroup::default(),
            last: Zxid::ZERO,
        }
    }

    /// Adds a committed transaction that has been applied. The tree is locked.
    pub(crate) fn applied(&mut self, record: &TxnRecord, client: Option<Client>) {
        self.last = record.header.zxid;
        if self.gathered.txns.len() < limits::HISTORY_GROUP_MAX {
            self.gathered.push(record, client);
        }
    }

    /// Records that all transactions up to `zxid` are committed.
    pub(crate) fn committed(&self, zxid: Zxid) {
        self.progress.committed.store(zxid.0, Ordering::Release);
    }

    /// Sends the collected transactions after the tree has been unlocked, if the queue has space.
    /// Otherwise they are read from the log later.
    pub(crate) fn released(&mut self) {
        if self.gathered.txns.is_empty() {
            return;
        }
        self.committed(self.last);
        // The next group probably has a similar length.
        let usual = TxnGroup {
            records: Vec::with_capacity(self.gathered.records.len()),
            txns: Vec::with_capacity(self.gathered.txns.len()),
            ..TxnGroup::default()
        };
        let group = std::mem::replace(&mut self.gathered, usual);
        let bytes = group.bytes;
        let queued = self.progress.queued.load(Ordering::Relaxed);
        if queued + bytes > limits::HISTORY_QUEUE_BYTES {
            return;
        }
        self.progress.queued.fetch_add(bytes, Ordering::Relaxed);
        if self.queue.try_send(group).is_err() {
            self.progress.release_bytes(bytes);
        }
    }
}

/// Size of a transaction in the queue, without its record, bytes.
const FIXED_BYTES: usize = size_of::<QueuedTxn>() + 8;

/// Returns the approximate size of paths and data, bytes.
fn body_bytes(txn: &Txn) -> usize {
    let fields = txn.fields();
    let path = fields.path.map_or(0, |path| path.len());
    let paths = fields.paths.into_iter().flatten().map(|path| path.len());
    let parts = fields.parts.iter();
    let parts = parts.map(|part| PART_BYTES + body_bytes(part));
    path + fields.data.map_or(0, Bytes::len) + paths.sum::<usize>() + parts.sum::<usize>()
}

/// Size of an operation in a multi, without its body, bytes.
const PART_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use proto::txn::{SetDataTxn, TxnHeader};
    use proto::{Acl, SessionId};

    use super::*;

    fn record(zxid: i64, data: usize) -> TxnRecord {
        let set = SetDataTxn {
            path: "/a".into(),
            data: Some(vec![7; data].into()),
            version: 3,
        };
        let txn = match zxid % 3 {
            0 => Txn::SetData(set),
            1 => Txn::Multi(vec![Txn::SetData(set), Txn::Delete { path: "/b".into() }]),
            _ => Txn::SetAcl(proto::txn::SetAclTxn {
                path: "/a".into(),
                acl: vec![Acl::open()],
                version: 1,
            }),
        };
        TxnRecord {
            header: TxnHeader {
                session: SessionId(5),
                cxid: 1,
                zxid: Zxid(zxid),
                time_ms: 9,
                op: txn.op().number(),
            },
            txn,
            digest: None,
        }
    }

    #[test]
    fn transactions_arrive_as_they_were_with_their_clients() {
        let client = |port: u16, ids: &Arc<[Id]>| -> Client {
            (SocketAddr::from(([127, 0, 0, 1], port)), ids.clone())
        };
        let (ids, others): (Arc<[Id]>, Arc<[Id]>) = (Arc::new([]), Arc::new([]));
        let sent = [
            (record(1, 10), Some(client(1, &ids))),
            (record(2, 10), None),
            (
                record(3, limits::HISTORY_COPIED_MAX + 1),
                Some(client(2, &ids)),
            ),
            (record(4, 0), Some(client(1, &ids))),
            (record(5, 3), Some(client(1, &others))),
        ];
        let (queue, groups) = crossbeam_channel::bounded(1);
        let progress = Arc::<Progress>::default();
        let mut feed = Feed::new(progress.clone(), queue);
        for (record, client) in &sent {
            feed.applied(record, client.clone());
        }
        feed.released();
        assert_eq!(progress.committed(), Zxid(5));
        let mut group = groups.try_recv().unwrap();
        assert!(group.bytes > limits::HISTORY_COPIED_MAX);
        assert_eq!(group.clients.len(), 3);
        let clients = group.clients.clone();
        let got: Vec<_> = group
            .txns()
            .map(|(record, client)| (record.into_owned(), client.map(|at| clients[at].0)))
            .collect();
        let sent: Vec<_> = sent
            .map(|(record, client)| (record, client.map(|client| client.0)))
            .into();
        assert_eq!(got, sent);
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod model;
