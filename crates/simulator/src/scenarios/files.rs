//! Scripts with servers whose files change after they have stopped.

use std::io;
use std::path::{Path, PathBuf};

use simulation::configured::dirs_of;
use simulation::queue::{MS, SECOND};
use storage::{Disk, DiskFile};
use testkit::SimDisk;

use crate::ensemble::Ensemble;

/// Time for which servers without a quorum are observed, which covers several elections.
const WATCHED: i64 = 4 * SECOND;

/// Server 2 has acknowledged data that server 1 lacks, and a record in the middle of server 2's log
/// is corrupt. Servers 1 and 2 must not lead without server 3.
pub(super) fn log_rots(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 3);
    ensemble.kill(0);
    ensemble.write(2, 4);
    ensemble.kill(1);
    ensemble.kill(2);
    let disk = ensemble.servers.machines[1].disk.clone();
    let logs = files(ensemble, 1, "log.");
    let Some((path, mut log)) = logs.into_iter().next_back() else {
        return ensemble.wrong("server 2 should have a log".into());
    };
    // The middle of the used bytes is inside one of the records, after the header.
    let at = log.iter().rposition(|byte| *byte != 0).unwrap_or(0) / 2;
    log[at] ^= 1;
    disk.set_content(&path, &log);
    ensemble.damage[1].is_rotten = true;
    ensemble.start(0);
    ensemble.start(1);
    ensemble.run(WATCHED);
    ensemble.start(2);
    ensemble.served_by(&[0, 1, 2]);
}

/// Only server 3 has a proposal. It leads server 1, which receives its snapshot. After both stop,
/// that snapshot is corrupted and the older files of server 1 are restored, because Apache
/// ZooKeeper's server would still have them. The remaining files lead to an earlier history, with
/// which servers 1 and 2 must not continue.
pub(super) fn snapshot_rots(ensemble: &mut Ensemble) {
    ensemble.servers.world.settings.force_snapshot = true;
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 3);
    ensemble.cut_off(2);
    ensemble.propose(2, 2);
    ensemble.run(50 * MS);
    for server in 0..3 {
        ensemble.kill(server);
    }
    ensemble.mend();
    let older = [files(ensemble, 0, "snapshot."), files(ensemble, 0, "log.")].concat();
    ensemble.start(0);
    ensemble.start(2);
    ensemble.led_by(2);
    ensemble.served_by(&[0, 2]);
    ensemble.kill(0);
    ensemble.kill(2);
    let disk = ensemble.servers.machines[0].disk.clone();
    for (path, mut content) in files(ensemble, 0, "snapshot.") {
        let middle = content.len() / 2;
        content[middle] ^= 1;
        disk.set_content(&path, &content);
    }
    for (path, content) in older {
        if let Err(error) = put(&disk, &path, &content) {
            ensemble.wrong(error.to_string());
        }
    }
    ensemble.damage[0].is_rotten = true;
    ensemble.start(0);
    ensemble.start(1);
    ensemble.run(WATCHED);
    ensemble.start(2);
    ensemble.served_by(&[0, 1, 2]);
}

/// Server 1 has accepted an epoch whose leader was never established, and connects to the leader of
/// an earlier epoch.
pub(super) fn voter_is_ahead(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 1);
    ensemble.kill(0);
    let accepted = version_dir(ensemble).join("acceptedEpoch");
    ensemble.servers.machines[0]
        .disk
        .set_content(&accepted, b"9");
    ensemble.start(0);
    ensemble.served_by(&[0]);
}

/// Replaces a file durably.
fn put(disk: &SimDisk, path: &Path, content: &[u8]) -> io::Result<()> {
    let file = disk.create(path)?;
    file.write_all_at(0, content)?;
    file.sync_data()?;
    disk.sync_dir(path.parent().unwrap_or(path))
}

fn version_dir(ensemble: &Ensemble) -> PathBuf {
    let [data, _] = dirs_of(&ensemble.servers.world.settings);
    data.join("version-2")
}

/// Returns the files of a server with this name prefix and their contents, ordered by name.
fn files(ensemble: &Ensemble, server: usize, prefix: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let disk = &ensemble.servers.machines[server].disk;
    let dir = version_dir(ensemble);
    let mut names = disk.names();
    names.retain(|name| name.starts_with(prefix));
    names.sort_by_key(|name| (name.len(), name.clone()));
    let paths = names.into_iter().map(|name| dir.join(name));
    let held = paths.filter_map(|path| Some((path.clone(), disk.content(&path)?)));
    held.collect()
}
