//! Names of guards that enumerations of the shipped crates describe.

use replica::DiskOrder;
use zab::leader::LinkFault;
use zab::learner::Fault;

/// Returns the name of the reason why a learner leaves its leader.
pub(super) fn of_fault(fault: &Fault) -> &'static str {
    match fault {
        Fault::Silence { .. } => "leader silent",
        Fault::Unexpected { .. } => "packet unexpected",
        Fault::EpochBehind { .. } => "epoch behind",
        Fault::CannotTruncate { .. } => "cannot truncate",
        Fault::LeaderBehind { .. } => "leader behind",
        Fault::SnapshotDamaged => "tree damaged",
        Fault::Gap { .. } => "gap",
        Fault::UnmatchedCommit { .. } => "commit unmatched",
        Fault::LeaveRequested => "leave requested",
        _ => "leader left",
    }
}

/// Returns the name of the reason why a leader drops a learner.
pub(super) fn of_link_fault(fault: &LinkFault) -> &'static str {
    match fault {
        LinkFault::Unexpected { .. } => "learner unexpected",
        LinkFault::ConfigAhead { .. } => "list ahead",
        LinkFault::HistoryAhead { .. } => "history ahead",
        LinkFault::NeverProposed(_) => "never proposed",
        LinkFault::Silence { .. } => "learner silent",
        LinkFault::AckLag { .. } => "learner lags",
        LinkFault::Throttled => "learner throttled",
        LinkFault::Replaced { .. } => "link replaced",
        LinkFault::LogUnusable => "log lost",
        _ => "link closed",
    }
}

/// Returns the name of a task for the disk.
pub(super) fn of_order(order: &DiskOrder) -> &'static str {
    match order {
        DiskOrder::SaveAcceptedEpoch(_) => "save accepted epoch",
        DiskOrder::SaveCurrentEpoch(_) => "save current epoch",
        DiskOrder::SaveMembers { .. } => "save members",
        DiskOrder::Reload { keep: Some(_) } => "cut log",
        DiskOrder::Reload { keep: None } => "load tree",
        DiskOrder::KeepTree => "keep tree",
        DiskOrder::TakeOver { .. } => "take over",
    }
}
