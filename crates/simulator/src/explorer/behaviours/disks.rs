//! Work of the log thread and of the snapshot thread.

use super::compare::Compared;
use super::driver::{Driver, TRIES, done};
use super::value::Value;
use crate::explorer::waiting::number;

impl Driver {
    /// Completes work of the log thread until this order is done.
    pub(super) fn complete_order(&mut self, at: usize, order: &str) -> Compared {
        let is_pending = |driver: &Self| {
            let server = driver.stage.ensemble.process(at);
            let mut pending = server
                .into_iter()
                .flat_map(|server| server.host.disk.pending());
            pending.any(|work| work.starts_with(order))
        };
        done(is_pending(self), order)?;
        while is_pending(self) {
            done(self.complete(at, false), order)?;
        }
        Ok(())
    }

    fn complete(&mut self, at: usize, is_snapshot: bool) -> bool {
        let is_done = self.stage.complete(number(at), is_snapshot);
        self.settle();
        is_done
    }

    /// Completes all work of the log thread, for example at the end of a role.
    pub(super) fn finish_log_work(&mut self, at: usize) -> Compared {
        for _ in 0..TRIES {
            if !self.complete(at, false) {
                return Ok(());
            }
        }
        Err("the disk does not finish".to_owned())
    }

    /// Syncs the log up to the state of a disk in the model.
    pub(super) fn sync_log(&mut self, at: usize, disk: &Value) -> Compared {
        let synced = usize::try_from(disk.field("synced").number()).unwrap_or(0);
        let base = disk.field("base").number();
        for _ in 0..TRIES {
            if self.durable(at, base).len() >= synced {
                return Ok(());
            }
            done(self.complete(at, false), "the log is not synced")?;
        }
        Err("the log is not synced".to_owned())
    }

    pub(super) fn start_snapshot(&mut self, at: usize) -> Compared {
        // An earlier snapshot has been abandoned.
        self.finish_snapshot(at)?;
        for _ in 0..TRIES {
            let server = self.stage.ensemble.process(at);
            let server = server.map(|server| (server.host.process, &server.host.disk.snapshots));
            if let Some((process, snapshots)) = server
                && snapshots.next().is_none()
            {
                self.stage.ensemble.with(process, |server| {
                    server.host.request_snapshot(host::SnapshotReason::Operator);
                });
            }
            done(self.complete(at, true), "a snapshot begins")?;
            if self.is_writing(at) {
                return Ok(());
            }
        }
        Err("a snapshot does not begin".to_owned())
    }

    fn is_writing(&self, at: usize) -> bool {
        let server = self.stage.ensemble.process(at);
        server.is_some_and(|server| server.host.disk.snapshots.writing().is_some())
    }

    pub(super) fn finish_snapshot(&mut self, at: usize) -> Compared {
        for _ in 0..TRIES {
            if !self.is_writing(at) {
                return Ok(());
            }
            done(self.complete(at, true), "a snapshot does not end")?;
        }
        Err("a snapshot does not end".to_owned())
    }

    /// Writes the snapshot that completes a synchronisation.
    pub(super) fn write_snapshot(&mut self, at: usize, disk: &Value) -> Compared {
        let wanted = Some(disk.field("snapshot").field("zxid").number());
        for _ in 0..TRIES {
            if self.newest_snapshot(at) == wanted && self.is_saving_epoch(at) {
                return Ok(());
            }
            done(self.complete(at, true), "a snapshot does not end")?;
        }
        Err("a snapshot does not end".to_owned())
    }

    fn is_saving_epoch(&self, at: usize) -> bool {
        let server = self.stage.ensemble.process(at);
        let mut pending = server
            .into_iter()
            .flat_map(|server| server.host.disk.pending());
        pending.any(|work| work.starts_with("SaveCurrentEpoch"))
    }
}
