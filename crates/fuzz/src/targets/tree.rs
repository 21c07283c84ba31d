//! Requests from clients to a tree, and transactions that are applied to a tree.

use jute::{Decode, Encode, Reader};
use parking_lot::Mutex;
use proto::connect::RequestHeader;
use proto::request::{ReadRequest, Request, WriteRequest};
use proto::txn::TxnRecord;
use proto::{OpCode, Zxid};
use tree::{Caller, Overlay, PrepareContext, SessionKind, Tree, WatcherId, Watches};

use crate::restore::settings;
use crate::seeds::history::{self, SESSION, START_MS};
use crate::seeds::requests;
use crate::{Memory, Target};

/// Memory limit for a tree and for replies that list its znodes. A tree is much larger than the
/// requests that create its znodes.
const TREE: Memory = Memory {
    per_byte: 1024,
    fixed: 16 << 20,
};

pub(super) const REQUESTS: Target = Target {
    name: "tree_requests",
    run: ask,
    seeds: requests::streams,
    words: &[
        "/",
        "/a",
        "/zookeeper/quota/a/zookeeper_limits",
        "count=1,bytes=1",
    ],
    repair: None,
    memory: TREE,
};

pub(super) const TRANSACTIONS: Target = Target {
    name: "tree_transactions",
    run: replay,
    seeds: transaction_seeds,
    words: &[
        "/",
        "/a",
        "/zookeeper/quota/a/zookeeper_limits",
        "/zookeeper",
    ],
    repair: None,
    memory: TREE,
};

/// Splits the bytes into length-prefixed pieces, up to the first invalid length.
fn pieces(data: &[u8]) -> impl Iterator<Item = Reader> {
    let mut input = Reader::new(data.to_vec());
    std::iter::from_fn(move || input.buffer().ok().flatten().map(Reader::new))
}

/// Executes the requests of one connection, each before the next one is decoded.
fn ask(data: &[u8]) {
    let mut tree = Tree::new(settings());
    let mut overlay = Overlay::new(&tree);
    let watches = Mutex::new(Watches::new());
    for (number, mut frame) in (1..).zip(pieces(data)) {
        let Ok(header) = RequestHeader::decode(&mut frame) else {
            return;
        };
        let Some(op) = OpCode::from_i32(header.op) else {
            return;
        };
        match Request::decode(op, &mut frame) {
            Ok(Request::Write(request)) => {
                write(&mut tree, &mut overlay, &watches, &request, op, number);
            }
            Ok(Request::Read(request)) => read(&tree, &watches, &request),
            Ok(Request::Sync(_)) | Err(_) => {}
        }
    }
}

fn write(
    tree: &mut Tree,
    overlay: &mut Overlay,
    watches: &Mutex<Watches>,
    request: &WriteRequest,
    op: OpCode,
    number: i32,
) {
    let context = PrepareContext {
        session: SESSION,
        cxid: number,
        zxid: Zxid(number.into()),
        time_ms: START_MS + i64::from(number),
        identities: &[],
        session_check: Ok(SessionKind::Global),
    };
    let record = overlay.prepare(tree, request, &context);
    assert_eq!(record.header.zxid, context.zxid);
    let outcome = tree.apply(&record, &mut watches.lock(), &mut Vec::new());
    overlay.applied(record.header.zxid);
    if let Some(digest) = record.digest {
        assert_eq!(digest.digest, tree.digest().cast_signed(), "{record:?}");
    }
    let mut out = Vec::new();
    outcome.encode_body(op, &mut out);
}

fn read(tree: &Tree, watches: &Mutex<Watches>, request: &ReadRequest) {
    let caller = Caller {
        session: SESSION,
        watcher: WatcherId(1),
        identities: &[],
    };
    // An error code is a valid result.
    let _ = match request {
        ReadRequest::SetWatches(request) => {
            tree.set_watches(request, caller.watcher, watches, &mut Vec::new())
        }
        request => tree.read(request, &caller, watches, &mut Vec::new()),
    };
}

/// Applies arbitrary transactions in any order, as if a log contained them.
fn replay(data: &[u8]) {
    let mut tree = Tree::new(settings());
    let mut watches = Watches::new();
    for mut payload in pieces(data) {
        let Ok(record) = TxnRecord::decode(&mut payload) else {
            return;
        };
        let outcome = tree.apply(&record, &mut watches, &mut Vec::new());
        let op = OpCode::from_i32(record.header.op).unwrap_or(OpCode::Error);
        outcome.encode_body(op, &mut Vec::new());
    }
}

fn transaction_seeds() -> Vec<Vec<u8>> {
    let (mut records, _) = history::history();
    records.extend(history::of_old_releases());
    let join = |records: &[TxnRecord]| {
        let mut out = Vec::new();
        for record in records {
            jute::put_buffer(Some(&record.to_bytes()), &mut out);
        }
        out
    };
    let mut seeds = vec![join(&records)];
    seeds.extend(records.chunks(5).map(join));
    records.reverse();
    seeds.push(join(&records));
    seeds
}
