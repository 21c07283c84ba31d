//! A greedy client against three servers: nobody else is hurt.
//!
//! Each test is one row of docs/LIMITS.md. While a client asks for as much as it can, bystanders on
//! every member go on reading and writing: the longest of their calls takes less than a second,
//! none of them is cut off, the leader stays, and no member's memory grows by more than
//! [`GROWTH_MAX`], or what the test says.

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

use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::{Flavour, Missing, or_skip};

use bystanders::Bystanders;

/// What a member's memory may grow by, unless a test says otherwise.
const GROWTH_MAX: u64 = 64 << 20;
/// How long one call of a bystander may take.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The member that leads.
const LEADER: u64 = 3;
/// One that follows.
const FOLLOWER: u64 = 1;

/// Servers and memory are measured one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Three voters, the last of which leads, after `prepare` has written what the attack needs.
/// Then the attack, with bystanders at work.
fn withstands(what: &str, prepare: impl FnOnce(&Ensemble), attack: impl FnOnce(&Ensemble)) {
    let start = || three().start_led_by_last_voter();
    started_withstands(what, start, prepare, attack);
}

/// Three voters with the usual settings.
fn three() -> EnsembleBuilder {
    EnsembleBuilder::new(&[Flavour::Zoarium; 3])
}

/// The same for an ensemble that is started in a way of its own; member 3 has to lead.
fn started_withstands(
    what: &str,
    start: impl FnOnce() -> Result<Ensemble, Missing>,
    prepare: impl FnOnce(&Ensemble),
    attack: impl FnOnce(&Ensemble),
) {
    started_withstands_within(GROWTH_MAX, what, start, prepare, attack);
}

/// The same where a member's memory may grow by so much.
fn started_withstands_within(
    growth_max: u64,
    what: &str,
    start: impl FnOnce() -> Result<Ensemble, Missing>,
    prepare: impl FnOnce(&Ensemble),
    attack: impl FnOnce(&Ensemble),
) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(ensemble) = or_skip(what, start()) else {
        return;
    };
    attacker::create_znode(&ensemble, "/short", "");
    prepare(&ensemble);
    let ids = ensemble.ids();
    ensemble.wait_for_equal_zxids(&ids);
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
