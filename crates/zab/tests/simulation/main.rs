//! Whole ensembles of cores, joined by queues, over disks that lose what was not synced.
//!
//! One seed decides everything: which message arrives next, which disk is done, who crashes, who is
//! elected (often not the one who should be), which connection breaks. After every step the
//! promises of Zab hold; after a while everything heals, and then the ensemble must serve again.
//!
//! * `cluster` moves messages and faults, `node` is the host of one server, `disk` its disk,
//!   `promises` what must hold.

#![allow(clippy::unwrap_used)]

mod cluster;
mod disk;
mod node;
mod promises;
mod rng;

use cluster::{Cluster, Faults};

fn run(seed: u64, faults: Faults) -> Result<usize, String> {
    let mut cluster = Cluster::new(seed, faults);
    let result = cluster.storm(3000).and_then(|()| cluster.heal(40_000));
    result.map_err(|broken| format!("seed {seed}: {broken}"))
}

#[test]
fn every_promise_holds_in_every_ensemble() {
    let mut committed = 0;
    for seed in 0..600 {
        match run(seed, Faults::default()) {
            Ok(count) => committed += count,
            Err(broken) => panic!("{broken}"),
        }
    }
    assert!(
        committed > 10_000,
        "only {committed} transactions were committed"
    );
}

/// The mutants: each breaks one duty of the host or of the disk, and some seed must see it.
fn is_caught(faults: &Faults) -> bool {
    let breaks =
        |seed| matches!(run(seed, faults.clone()), Err(broken) if !broken.contains("heal"));
    (0..1000).any(breaks)
}

#[test]
fn a_disk_that_reports_what_it_has_not_synced_is_caught() {
    let faults = Faults {
        lies_about_sync: true,
        ..Faults::default()
    };
    assert!(is_caught(&faults));
}

#[test]
fn an_epoch_file_that_is_not_written_is_caught() {
    let faults = Faults {
        loses_accepted_epoch: true,
        ..Faults::default()
    };
    assert!(is_caught(&faults));
}

#[test]
fn a_truncate_that_does_nothing_is_caught() {
    let faults = Faults {
        skips_truncate: true,
        ..Faults::default()
    };
    assert!(is_caught(&faults));
}

#[test]
fn a_snapshot_that_leaves_the_old_log_behind_it_is_caught() {
    let faults = Faults {
        keeps_log_behind_snapshot: true,
        ..Faults::default()
    };
    assert!(is_caught(&faults));
}
