//! What a member begins with.

use recovery::OwnHistory;
use replica::members::MemberLists;
use replica::{Epochs, MemberStart};
use storage::{DataDirs, Disk, Recovered, StorageError};

/// What a member begins with, whose start is [complete](recovery::complete_start).
///
/// # Errors
/// As [`OwnHistory::load`].
pub fn member_start<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    recovered: &Recovered,
    lists: MemberLists,
) -> Result<MemberStart, StorageError> {
    let OwnHistory {
        epochs,
        last_logged,
        log_whole_from,
        is_trusted,
    } = OwnHistory::load(disk, dirs, recovered)?;
    Ok(MemberStart {
        lists,
        epochs: Epochs {
            accepted: epochs.accepted,
            current: epochs.current,
        },
        last_logged,
        log_whole_from,
        is_trusted,
    })
}
