//! From the core to the history thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crossbeam_channel::Sender;
use proto::txn::{Txn, TxnRecord};
use proto::{Id, Zxid};

use crate::limits;

/// Whose transaction it is, if a client of this server has asked for it.
pub(crate) type Client = (SocketAddr, Arc<[Id]>);

/// A committed transaction on its way.
pub(super) struct Fed {
    pub(super) record: TxnRecord,
    pub(super) client: Option<Client>,
}

/// Transactions that were applied together.
pub(super) struct Group {
    pub(super) txns: Vec<Fed>,
    pub(super) bytes: usize,
}

/// What core and history thread both see.
#[derive(Default)]
pub(super) struct Progress {
    /// The last transaction that is known to be committed, 0 before the first.
    committed: AtomicI64,
    /// Bytes in the queue.
    queued: AtomicUsize,
}

impl Progress {
    pub(super) fn committed(&self) -> Zxid {
        Zxid(self.committed.load(Ordering::Acquire))
    }

    /// Whether more may come before something is taken.
    pub(super) fn has_room(&self) -> bool {
        self.queued.load(Ordering::Relaxed) < limits::HISTORY_QUEUE_BYTES / 4
    }

    pub(super) fn taken(&self, bytes: usize) {
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Hands committed transactions over.
pub(crate) struct Feed {
    pub(super) progress: Arc<Progress>,
    pub(super) queue: Sender<Group>,
    pub(super) gathered: Vec<Fed>,
    pub(super) bytes: usize,
    /// The last one that was applied.
    pub(super) last: Zxid,
}

impl Feed {
    /// A committed transaction was applied. The tree is held.
    pub(crate) fn applied(&mut self, record: &TxnRecord, client: impl FnOnce() -> Option<Client>) {
        self.last = record.header.zxid;
        if self.gathered.len() == limits::HISTORY_GROUP_MAX {
            return;
        }
        self.bytes += FIXED_BYTES + body_bytes(&record.txn);
        self.gathered.push(Fed {
            record: record.clone(),
            client: client(),
        });
    }

    /// Everything up to here is committed.
    pub(crate) fn committed(&self, zxid: Zxid) {
        self.progress.committed.store(zxid.0, Ordering::Release);
    }

    /// The tree was let go: what was gathered leaves, if there is room for it. What is left out is
    /// read from the log.
    pub(crate) fn released(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        self.committed(self.last);
        let bytes = std::mem::take(&mut self.bytes);
        let usual = Vec::with_capacity(self.gathered.len());
        let txns = std::mem::replace(&mut self.gathered, usual);
        let queued = self.progress.queued.load(Ordering::Relaxed);
        if queued + bytes > limits::HISTORY_QUEUE_BYTES {
            return;
        }
        self.progress.queued.fetch_add(bytes, Ordering::Relaxed);
        if self.queue.try_send(Group { txns, bytes }).is_err() {
            self.progress.taken(bytes);
        }
    }
}

/// A record without its body, as it lies in the queue.
const FIXED_BYTES: usize = 256;

fn body_bytes(txn: &Txn) -> usize {
    match txn {
        Txn::Create(txn) | Txn::CreateV0(txn) | Txn::Create2(txn) => {
            txn.path.len() + txn.data.as_ref().map_or(0, bytes::Bytes::len)
        }
        Txn::CreateContainer(txn) => txn.data.as_ref().map_or(0, bytes::Bytes::len),
        Txn::CreateTtl(txn) => txn.data.as_ref().map_or(0, bytes::Bytes::len),
        Txn::SetData(txn) | Txn::Reconfig(txn) => {
            txn.path.len() + txn.data.as_ref().map_or(0, bytes::Bytes::len)
        }
        Txn::Multi(txns) => txns.iter().map(|txn| FIXED_BYTES + body_bytes(txn)).sum(),
        Txn::CloseSession { paths: Some(paths) } => paths.iter().map(|path| path.len()).sum(),
        _ => 0,
    }
}
