//! Deliberate bugs. Each breaks one rule of the shipped code (`proto::mutant`) and must be
//! caught.
//!
//! [`CAUGHT_BY`] lists a seed that catches each of them, except for those that a script catches
//! ([`crate::scenarios`]). `tests/mutants.rs` runs them.

pub use proto::mutant::Mutant;

use crate::contenders::Recipe;

/// Mutants without a script, each with a seed that catches it. Most of these seeds are the first
/// ones from 1000 on, so that seed 1003 means that four seeds were needed.
pub const CAUGHT_BY: &[(Mutant, u64)] = &[
    (Mutant::QuorumOffByOne, 1003),
    (Mutant::CommitsOutOfOrder, 1028),
    (Mutant::EphemeralsStay, 1003),
    (Mutant::VotesByApplied, 1001),
    (Mutant::AckBeforeSync, 1000),
    (Mutant::FailedSyncIgnored, 1006),
    (Mutant::AcceptedEpochNotSaved, 1000),
    (Mutant::CurrentEpochNotSaved, 1000),
    (Mutant::SnapshotNamedTooLate, 1000),
    (Mutant::SnapshotOutlivesRole, 1010),
    (Mutant::SnapshotOverSync, 1003),
    (Mutant::GenerationRaisedLate, 1010),
    (Mutant::UnestablishedMadeDurable, 1003),
    (Mutant::SkipTruncate, 1024),
    (Mutant::TruncateKeepsTree, 1024),
    (Mutant::AppliesProposals, 1000),
    (Mutant::NewLeaderQuorumSkipped, 1240),
    (Mutant::DiffFromWrongPoint, 1000),
    (Mutant::TouchLost, 1001),
    (Mutant::WatchAfterReply, 1000),
    (Mutant::ReadsOvertakeWrites, 1000),
    (Mutant::ReplyBeforeCommit, 1006),
    (Mutant::TouchForgotten, 1000),
    (Mutant::ClosingSessionUsed, 1042),
    (Mutant::PendingIgnored, 1000),
    (Mutant::FailedMultiKept, 1001),
    (Mutant::VersionIgnored, 1001),
    (Mutant::AclIgnored, 1001),
    (Mutant::ReadAclIgnored, 1002),
    (Mutant::QuotaIgnored, 1002),
    (Mutant::PersistentWatchFiresOnce, 1000),
    (Mutant::RecursiveWatchIsShallow, 1000),
    (Mutant::MissedEventsUntold, 1006),
    (Mutant::ContainersStay, 1058),
    (Mutant::TtlIgnored, 1001),
    (Mutant::LongTransactionTaken, 1006),
    (Mutant::EpochNotRaised, 1000),
    (Mutant::TailNotTruncated, 1024),
    (Mutant::ReconfigByOldQuorum, 1091),
    (Mutant::ObserversNotInformed, 1000),
    (Mutant::ProposalsNotSent, 1000),
    (Mutant::SyncAnsweredHere, 1015),
    (Mutant::RenewalsRefused, 1000),
    (Mutant::UpgradeForgotten, 1000),
    (Mutant::OverlayOutlivesRole, 1006),
    (Mutant::ConnectionsOutliveRole, 1001),
    (Mutant::RepliesMixedUp, 1000),
    (Mutant::VotesIgnoreZxid, 1044),
    (Mutant::CacheTrusted, 1001),
    (Mutant::SnapshotNotSynced, 1000),
    (Mutant::LogNameNotSynced, 1000),
    (Mutant::SeamIgnored, 1003),
    (Mutant::ChangeLeftOut, 1006),
    (Mutant::FlushOfTurnLost, 1012),
    (Mutant::FlushOfStepLost, 1001),
    (Mutant::InPlaceSyncReportedEarly, 1004),
    (Mutant::CoreRunTwice, 1001),
    // Only one seed in several thousand catches each of these bugs.
    (Mutant::LostChecksumIsDamage, 117_696_007_578_648_631),
    (Mutant::EndedSessionsForgotten, 117_694_213_077_336_133),
];

/// Mutants in the recipes and their client, each with a recipe that shows it and a seed that
/// catches it, as above.
pub const RECIPES_CAUGHT_BY: &[(Mutant, Recipe, u64)] = &[
    (Mutant::LostCreationNotSought, Recipe::Queue, 1006),
    (Mutant::WatchesNotSetAgain, Recipe::Mutex, 1000),
    (Mutant::ChoresForgotten, Recipe::Mutex, 1000),
    (Mutant::NotLookedAgain, Recipe::Mutex, 1000),
    (Mutant::DroppedPlaceStays, Recipe::Mutex, 1000),
    (Mutant::HeldWithoutConnection, Recipe::LeaderLatch, 1000),
    (Mutant::OrderedByName, Recipe::LeaderSelector, 1000),
    (Mutant::ReadersIgnoreWriters, Recipe::ReadWriteLock, 1000),
    (Mutant::DowngradeUnchecked, Recipe::ReadWriteLock, 1008),
    (Mutant::OneLeaseTooMany, Recipe::Semaphore, 1000),
    (Mutant::SentInAnySession, Recipe::UnfairElection, 1163),
    (Mutant::NextLeaderDeleted, Recipe::UnfairElection, 1003),
    (Mutant::RepeatedUnconditionally, Recipe::Queue, 1000),
    (Mutant::SyncOvertakesWrites, Recipe::UnfairElection, 1066),
];

/// Returns all deliberate bugs that the simulator must catch. This excludes the one that can break
/// only liveness, and the ones that tables of rules catch.
pub fn mutants() -> impl Iterator<Item = Mutant> {
    let all = Mutant::ALL.iter().copied();
    let all = all.filter(|mutant| !Mutant::CAUGHT_BY_TABLES.contains(mutant));
    all.filter(|mutant| *mutant != Mutant::ElectsAnybody)
}

/// Returns the mutant with this name on the command line.
pub fn mutant_by_name(name: &str) -> Option<Mutant> {
    let mut all = Mutant::ALL.iter().copied();
    all.find(|mutant| format!("{mutant:?}").eq_ignore_ascii_case(name))
}
