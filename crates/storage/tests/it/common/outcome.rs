//! Results of recovery, in the format in which Java's results are recorded.

use std::path::Path;

use zoarium_storage::{DataDirs, RealDisk, Recovered, RecoverySettings, StorageError, recover};

use super::db::Db;

/// A loaded database or a refusal.
pub type Outcome = Result<(Recovered, Db), StorageError>;

pub fn load(dir: &Path) -> Outcome {
    load_dirs(
        &DataDirs::unlocked(dir, dir),
        &RecoverySettings::new(testkit::LIMITS),
    )
}

pub fn load_dirs(dirs: &DataDirs, settings: &RecoverySettings) -> Outcome {
    let mut db = Db::default();
    let recovered = recover(&RealDisk, dirs, settings, &mut db)?;
    Ok((recovered, db))
}

/// Formats a result as `zxid=0x8 snapshot=0x5 nodes=10 sessions=2 digest=0x32a780506`, as
/// JavaRead.java prints it.
pub fn text(outcome: &Outcome) -> String {
    match outcome {
        Err(error) => format!("refused: {error}"),
        Ok((recovered, db)) => format!(
            "zxid={:#x} snapshot={} nodes={} sessions={} digest={:#x}",
            recovered.last_zxid.0,
            recovered
                .snapshot
                .as_ref()
                .map_or("none".to_string(), |file| format!("{:#x}", file.zxid.0)),
            db.node_count(),
            db.sessions.len(),
            db.digest()
        ),
    }
}
