//! A greedy client against three servers: no other client is affected.
//!
//! Each test is one row of docs/LIMITS.md. While a client requests as much as it can, bystanders on
//! every member continue to read and write. None of their calls outlasts the interval of pings, and
//! none of them is disconnected. The leader remains the leader. No member's memory grows by more than
//! [`GROWTH_MAX`], or by more than the limit that the test states.

mod attacker;
mod audit;
mod bystanders;
mod crowd;
mod crowds;
mod forwarded;
mod learner;
mod links;
mod ports;
mod replies;
mod slow_disks;
mod transactions;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, SESSION_TIMEOUT_MS};
use tests::{Flavour, Missing, or_skip};

use bystanders::Bystanders;

/// Maximum growth of a member's memory, unless a test states another limit.
const GROWTH_MAX: u64 = 64 << 20;
/// Maximum duration of a bystander's call: the interval at which a client pings. A client that
/// waits longer can lose its session. The usual duration is printed, because it depends on the
/// machine.
const PAUSE_MAX: Duration = Duration::from_millis(SESSION_TIMEOUT_MS.unsigned_abs() as u64 / 3);
/// The leader.
const LEADER: u64 = 3;
/// A follower.
const FOLLOWER: u64 = 1;

/// One attack runs at a time, because the tests measure servers and memory.
static ATTACKING: Mutex<()> = Mutex::new(());
/// Meanwhile, the ensemble of one other test starts. This affects neither the memory of the attacked
/// members nor, by seconds, their bystanders.
static PREPARING: Mutex<()> = Mutex::new(());

/// Starts three voters, the last of which leads. After `prepare` has written the data that the
/// attack needs, runs the attack while bystanders work.
fn withstands(what: &str, prepare: impl FnOnce(&Ensemble), attack: impl FnOnce(&Ensemble)) {
    let start = || three().start_led_by_last_voter();
    started_withstands(what, start, prepare, attack);
}

/// Returns three voters with the usual settings.
fn three() -> EnsembleBuilder {
    EnsembleBuilder::new(&[Flavour::Zoarium; 3])
}

/// Does the same for an ensemble that `start` starts. Member 3 must lead.
fn started_withstands(
    what: &str,
    start: impl FnOnce() -> Result<Ensemble, Missing>,
    prepare: impl FnOnce(&Ensemble),
    attack: impl FnOnce(&Ensemble),
) {
    started_withstands_within(GROWTH_MAX, what, start, prepare, attack);
}

/// Does the same with this limit for the growth of a member's memory.
fn started_withstands_within(
    growth_max: u64,
    what: &str,
    start: impl FnOnce() -> Result<Ensemble, Missing>,
    prepare: impl FnOnce(&Ensemble),
    attack: impl FnOnce(&Ensemble),
) {
    let preparing = PREPARING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(ensemble) = or_skip(what, start()) else {
        return;
    };
    attacker::create_znode(&ensemble, "/short", "");
    prepare(&ensemble);
    let ids = ensemble.ids();
    ensemble.wait_for_equal_zxids(&ids);
    drop(preparing);
    let _attacking = ATTACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let bystanders = Bystanders::start(&ensemble);
    let before: Vec<u64> = ids
        .iter()
        .map(|&id| ensemble.member(id).process().reset_peak_memory())
        .collect();
    attack(&ensemble);
    bystanders.wait_for_more();
    let grown: Vec<u64> = ids
        .iter()
        .zip(before)
        .map(|(&id, before)| {
            ensemble
                .member(id)
                .process()
                .peak_memory()
                .saturating_sub(before)
        })
        .collect();
    let longest = bystanders.finish();
    eprintln!(
        "{what}: longest call of a bystander {longest:?}, members grew by {:?} MiB",
        grown.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>()
    );
    assert_eq!(ensemble.leaders(), [LEADER], "the leader has changed");
    assert!(longest < PAUSE_MAX, "a bystander waited {longest:?}");
    for (id, grown) in ids.iter().zip(grown) {
        assert!(grown < growth_max, "member {id} grew by {grown} bytes");
    }
}
