//! Micro-benchmarks of one thread's work for each write and each read.
//!
//! Each iteration is a batch of [`BATCH`] operations, scattered over a tree of 100,000 znodes of
//! 100 bytes. The items column gives operations per second.

#![allow(clippy::unwrap_used)] // a benchmark may fail like a test

#[path = "../tests/it/common/mod.rs"]
#[expect(clippy::unwrap_used, reason = "helpers shared with the tests")]
mod common;

use std::cell::RefCell;

use bytes::Bytes;
use common::host::{self, Host};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use proto::request::{ReadRequest, SetDataRequest, WriteRequest, flags};
use proto::txn::TxnDigest;
use zoarium_tree::{Caller, TreeSettings, WatcherId};

const NODES: usize = 100_000;
const BATCH: usize = 1000;

fn main() {
    divan::main();
}

fn path(n: usize) -> String {
    format!("/bench/group-{:04}/node-{n:08}", n % 1000)
}

fn filled() -> Host {
    let mut host = Host::with(TreeSettings::new(testkit::LIMITS));
    host.write(host::create("/bench"));
    for group in 0..1000 {
        host.write(host::create(&format!("/bench/group-{group:04}")));
    }
    for n in 0..NODES {
        host.write(create(n));
    }
    host
}

fn create(n: usize) -> WriteRequest {
    let mut request = host::create_request(&path(n), flags::PERSISTENT);
    request.data = Some(Bytes::from(vec![b'x'; 100]));
    host::create_as(proto::OpCode::Create, request)
}

fn set(n: usize) -> WriteRequest {
    WriteRequest::SetData(SetDataRequest {
        path: Some(path(n).into()),
        data: Some(Bytes::from(vec![b'y'; 100])),
        version: -1,
    })
}

/// Returns numbers that are scattered over all znodes.
fn scattered() -> impl FnMut() -> usize {
    let mut counter = 0usize;
    move || {
        counter = counter.wrapping_add(1);
        counter.wrapping_mul(7919) % NODES
    }
}

fn batch<T>(mut make: impl FnMut() -> T) -> Vec<T> {
    (0..BATCH).map(|_| make()).collect()
}

/// Prepares and applies writes, with one batch in flight at a time.
fn bench_writes(bencher: Bencher<'_, '_>, mut make: impl FnMut() -> WriteRequest) {
    let host = RefCell::new(filled());
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| batch(&mut make))
        .bench_local_refs(|requests| {
            let mut host = host.borrow_mut();
            for request in requests {
                host.propose(request);
            }
            host.commit().0
        });
}

#[divan::bench]
fn set_100_bytes(bencher: Bencher<'_, '_>) {
    let mut next = scattered();
    bench_writes(bencher, || set(next()));
}

#[divan::bench]
fn create_100_bytes(bencher: Bencher<'_, '_>) {
    let mut next = NODES;
    bench_writes(bencher, || {
        next += 1;
        create(next)
    });
}

/// Cost of comparing the tree's digest with the digest in each committed transaction, in addition
/// to [`set_100_bytes`].
#[divan::bench]
fn compare_digests(bencher: Bencher<'_, '_>) {
    let mut host = filled();
    let mut record = host.propose(&set(0));
    host.commit();
    record.digest = Some(TxnDigest::new(host.tree.digest()));
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let compare = |_| black_box(&host.tree).digest_mismatch(black_box(&record));
        assert!((0..BATCH).find_map(compare).is_none());
    });
}

fn bench_reads(bencher: Bencher<'_, '_>, make: impl Fn(&str) -> ReadRequest) {
    let (host, mut next) = (filled(), scattered());
    let caller = Caller {
        session: host.session,
        watcher: host.watcher,
        identities: &host.identities,
    };
    let mut out = Vec::with_capacity(1 << 20);
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| batch(|| make(&path(next()))))
        .bench_local_refs(|requests| {
            out.clear();
            for request in requests {
                let _ = host.tree.read(request, &caller, &host.watches, &mut out);
            }
            black_box(out.len())
        });
}

#[divan::bench]
fn read_get_data(bencher: Bencher<'_, '_>) {
    bench_reads(bencher, |path| host::get(path, false));
}

#[divan::bench]
fn read_exists(bencher: Bencher<'_, '_>) {
    bench_reads(bencher, |path| host::exists(path, false));
}

/// A lookup of a missing znode.
#[divan::bench]
fn read_missing(bencher: Bencher<'_, '_>) {
    bench_reads(bencher, |path| host::exists(&format!("{path}-not"), false));
}

/// Listing the names in groups of a hundred.
#[divan::bench]
fn read_children(bencher: Bencher<'_, '_>) {
    bench_reads(bencher, |path| host::children(&path[..17], false));
}

/// Setting a one-shot watch and firing it by a write.
#[divan::bench]
fn watch_and_trigger(bencher: Bencher<'_, '_>) {
    let (host, mut next) = (RefCell::new(filled()), scattered());
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| {
            batch(|| {
                let n = next();
                (host::get(&path(n), true), set(n))
            })
        })
        .bench_local_refs(|requests| {
            let mut host = host.borrow_mut();
            for (read, write) in requests {
                let _ = host.read_raw(read);
                host.propose(write);
            }
            host.commit().1.len()
        });
}

/// A write that notifies a thousand connections. The items column gives connections per second.
#[divan::bench]
fn trigger_a_thousand(bencher: Bencher<'_, '_>) {
    let host = RefCell::new(filled());
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| {
            let mut host = host.borrow_mut();
            for watcher in 0..BATCH as u64 {
                host.watcher = WatcherId(watcher);
                let _ = host.read(host::get(&path(0), true));
            }
            set(0)
        })
        .bench_local_values(|request| host.borrow_mut().write(request).1);
}
