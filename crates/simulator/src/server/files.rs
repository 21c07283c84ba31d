//! Epoch files, TRUNC, log files for learners: what the roles ask of the disk besides the log.

use proto::{Epoch, Zxid};
use storage::{
    Disk, DiskFile, Epochs, StorageError, list_logs, list_snapshots, read_txns_from, truncate,
};
use zab::Record;
use zab::leader::{EpochConfig, LinkId};

use super::{Job, Role, Server};
use crate::Mutant;
use crate::disk::SimDisk;
use crate::world::World;

impl Server {
    pub(super) fn save_accepted(&mut self, epoch: Epoch, world: &mut World) {
        let delay = self.sync_delay(world);
        self.start_job(Job::SaveAccepted(epoch), delay, world);
    }

    pub(super) fn finish_accepted(&mut self, epoch: Epoch, world: &mut World) {
        if !world.is(Mutant::AcceptedEpochNotSaved) {
            let saved = Epochs::store_accepted(&*self.disk, &self.dirs, epoch);
            if let Err(error) = saved {
                return self.exit(error.to_string());
            }
        }
        self.epochs.accepted = epoch;
        match &self.role {
            Role::Learning(_) => {
                self.learn(world, |core, _, out| core.handle_accepted_epoch_saved(out));
            }
            Role::Leading(_) => self.lead(world, |core, now_ms, out| {
                let config = EpochConfig {
                    text: "version=0".into(),
                    version: 0,
                };
                core.handle_accepted_epoch_saved(config, now_ms, out);
            }),
            _ => {}
        }
    }

    pub(super) fn save_current(&mut self, epoch: Epoch, world: &mut World) {
        let delay = self.sync_delay(world);
        self.start_job(Job::SaveCurrent(epoch), delay, world);
    }

    pub(super) fn finish_current(&mut self, epoch: Epoch, world: &mut World) {
        if !world.is(Mutant::CurrentEpochNotSaved) {
            let saved = Epochs::store_current(&*self.disk, &self.dirs, epoch);
            if let Err(error) = saved {
                return self.exit(error.to_string());
            }
        }
        self.epochs.current = epoch;
        match &self.role {
            Role::Learning(_) => {
                self.learn(world, |core, _, out| core.handle_current_epoch_saved(out));
            }
            Role::Leading(_) => self.lead(world, |core, now_ms, out| {
                core.handle_current_epoch_saved(now_ms, out);
            }),
            _ => {}
        }
    }

    /// ZOOKEEPER-4643's order: the epoch first.
    pub(super) fn save_current_too_early(&mut self, epoch: Epoch) {
        if let Err(error) = Epochs::store_current(&*self.disk, &self.dirs, epoch) {
            self.exit(error.to_string());
        }
    }

    pub(super) fn start_truncate(&mut self, zxid: Zxid, world: &mut World) {
        let delay = self.sync_delay(world);
        self.start_job(Job::Truncate(zxid), delay, world);
    }

    pub(super) fn finish_truncate(&mut self, wanted: Zxid, world: &mut World) {
        let mut end = self.last_logged();
        if world.is(Mutant::SkipTruncate) {
            end = wanted;
        } else if world.is(Mutant::OldLogWriterLives) || self.holds(wanted) {
            match truncate(&*self.disk, &self.dirs, wanted, jute::Limits::default()) {
                Ok(_) => {
                    self.reopen_log(world);
                    self.undelivered.clear();
                    if world.is(Mutant::TruncateKeepsTree) {
                        end = wanted;
                    } else {
                        self.reload(world);
                        end = self.tree.last_zxid();
                    }
                }
                Err(StorageError::Truncate { .. } | StorageError::LogDamaged { .. }) => {}
                Err(error) => return self.exit(error.to_string()),
            }
        }
        world.say(self.sid, || {
            format!("log is cut at {wanted}, ends at {end}")
        });
        self.learn(world, |core, now_ms, out| {
            core.handle_truncated(end, now_ms, out)
        });
        self.resume_reading(world);
    }

    /// Whether the history on disk has a transaction with this zxid, or ends with it.
    pub(super) fn holds(&self, zxid: Zxid) -> bool {
        if zxid == Zxid::ZERO || zxid == self.last_logged() {
            return true;
        }
        let in_snapshot = || {
            let snapshots = list_snapshots(&*self.disk, &self.dirs.snap).unwrap_or_default();
            snapshots.iter().any(|snapshot| snapshot.zxid == zxid)
        };
        let txns = read_txns_from(&*self.disk, &self.dirs, zxid, jute::Limits::default());
        let in_log = || {
            let first = txns.ok().and_then(|mut txns| txns.next()?.ok());
            first.is_some_and(|txn| txn.record.header.zxid == zxid)
        };
        in_log() || in_snapshot()
    }

    pub(super) fn start_reading_log(
        &mut self,
        to: LinkId,
        from: Zxid,
        upto: Zxid,
        world: &mut World,
    ) {
        let delay = self.sync_delay(world);
        let to = to.0;
        self.start_job(Job::ReadLog { to, from, upto }, delay, world);
    }

    /// A few records for the leader's core, the first being the last one not behind `from`.
    pub(super) fn read_log(&mut self, to: u64, from: Zxid, upto: Zxid, world: &mut World) {
        // Few or many at once.
        let records_max = if world.random.percent(50) { 3 } else { 1000 };
        let records = self.records_around(from, upto, records_max);
        world.say(self.sid, || match &records {
            Some(records) => format!("has read {} records from {from} to {upto}", records.len()),
            None => format!("cannot read its log from {from}"),
        });
        let to = LinkId(to);
        self.lead(world, |core, now_ms, out| match records {
            Some(records) => core.handle_log_records(to, &records, now_ms, out),
            None => core.handle_log_unusable(to, now_ms, out),
        });
    }

    fn records_around(&self, from: Zxid, upto: Zxid, records_max: usize) -> Option<Vec<Record>> {
        let limits = jute::Limits::default();
        let logs = list_logs(&*self.disk, &self.dirs.log).ok()?;
        // The file that may hold the one before.
        let first = logs.iter().rfind(|log| log.zxid <= from)?.zxid;
        let txns = read_txns_from(&*self.disk, &self.dirs, first, limits).ok()?;
        let mut records: Vec<Record> = Vec::new();
        for txn in txns {
            let txn = txn.ok()?;
            let zxid = txn.record.header.zxid;
            if zxid <= from {
                records.clear();
            }
            records.push(Record::new(zxid, txn.payload));
            if records.len() > records_max || zxid > upto {
                break;
            }
        }
        let is_around = records.first().is_some_and(|first| first.zxid <= from);
        is_around.then_some(records)
    }

    /// What an earlier process wrote may not be on disk yet.
    pub(super) fn sync_what_is_there(
        disk: &SimDisk,
        dirs: &storage::DataDirs,
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        let logs = list_logs(disk, &dirs.log).map_err(|error| error.to_string())?;
        for log in logs {
            let file = disk.open_for_change(&log.path).map_err(failed)?;
            file.sync_data().map_err(failed)?;
        }
        disk.sync_dir(&dirs.log).map_err(failed)?;
        disk.sync_dir(&dirs.snap).map_err(failed)
    }
}
