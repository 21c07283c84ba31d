//! Memory use of znodes and watches. The budget is 250 bytes in all for a znode of 100 bytes. The
//! allocator's own overhead, which is not counted here, is at most 16 bytes, for the data.

#![allow(clippy::unwrap_used)] // a test's helpers fail as the test does

// This test has its own allocator, so it is a separate program.
#[path = "it/common/mod.rs"]
mod common;

use std::alloc::System;
use std::sync::Arc;

use cap::Cap;
use common::host::{Host, get, set, settings};
use proto::{Acl, StatPersisted, Zxid};
use zoarium_tree::{TreeLoader, WatcherId};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// With their groups, the znodes fill nearly thirteen chunks of slots. Unused slots are counted,
/// although they do not occupy memory.
const ZNODES: usize = 105_000;
const GROUPS: usize = 1000;
const WATCHES: usize = 50_000;

fn path(n: usize) -> String {
    format!("/bench/group-{:04}/node-{n:08}", n % GROUPS)
}

fn loaded() -> Host {
    let mut loader = TreeLoader::new(Arc::new(settings()));
    let stat = StatPersisted::default();
    let data = [b'x'; 100];
    loader.acl(1, &[Acl::open()]);
    loader.znode("", Some(&[]), -1, stat).unwrap();
    loader.znode("/bench", Some(&data), 1, stat).unwrap();
    for group in 0..GROUPS {
        let group_path = format!("/bench/group-{group:04}");
        loader.znode(&group_path, Some(&data), 1, stat).unwrap();
        for n in (group..ZNODES).step_by(GROUPS) {
            loader.znode(&path(n), Some(&data), 1, stat).unwrap();
        }
    }
    Host::of(loader.finish(Zxid(1)).unwrap())
}

// A single test, because the allocator counts for the whole process.
#[test]
fn memory_is_within_budget() {
    let before = ALLOCATOR.allocated();
    let mut host = loaded();
    let per_znode = (ALLOCATOR.allocated() - before) / ZNODES;
    assert!(per_znode < 240, "{per_znode} bytes for a znode");

    let before = ALLOCATOR.allocated();
    for n in 0..WATCHES {
        host.watcher = WatcherId((n % 100) as u64);
        host.read(get(&path(n), true)).unwrap();
    }
    let per_watch = (ALLOCATOR.allocated() - before) / WATCHES;
    assert!(
        per_watch < 160,
        "{per_watch} bytes for a watch and its path"
    );

    // After all watches are removed, only capacity for new ones remains.
    for watcher in 0..100 {
        host.watches.lock().remove_watcher(WatcherId(watcher));
    }
    assert!(host.watches.lock().is_empty());

    let before = ALLOCATOR.allocated();
    for n in 0..10_000 {
        host.write(set(&path(n), &"y".repeat(100)));
    }
    let grown = ALLOCATOR.allocated().saturating_sub(before);
    assert!(
        grown < 64 << 10,
        "{grown} bytes more after writes of the same length"
    );
    println!("{per_znode} bytes for a znode, {per_watch} for a watch");
}
