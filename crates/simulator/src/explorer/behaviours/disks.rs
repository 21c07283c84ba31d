//! Work of the log thread and of the snapshot thread.

use super::compare::Compared;
use super::driver::{Driver, TRIES, done};
use super::value::Value;
use crate::explorer::waiting::number;

impl Driver {
    /// Completes work of the log thread until this order is done.
    pub(super) fn complete_order(&mut self, at: usize, order: &str) -> Compared {
        done(self.is_pending(at, order), order)?;
        while self.is_pending(at, order) {
            done(self.complete(at, false), order)?;
        }
        Ok(())
    }

    /// Returns the work for the log that is not done yet, oldest first.
    fn pending(&self, at: usize) -> impl Iterator<Item = String> {
        let server = self.stage.ensemble.process(at).into_iter();
        server.flat_map(|server| server.host.disk.pending())
    }

    pub(super) fn is_pending(&self, at: usize, order: &str) -> bool {
        self.pending(at).any(|work| work.starts_with(order))
    }

    /// Completes the work of the log thread that is pending now.
    pub(super) fn complete_pending(&mut self, at: usize) -> Compared {
        let pending = self.pending(at).filter(|work| work != "0 records");
        for _ in 0..pending.count() {
            done(self.complete(at, false), "the disk does not finish")?;
        }
        Ok(())
    }

    /// Completes the work for which the end of a role waits.
    pub(super) fn finish_role(&mut self, at: usize) -> Compared {
        while self.is_looking(at) {
            done(self.complete(at, false), "the role does not end")?;
        }
        Ok(())
    }

    pub(super) fn complete(&mut self, at: usize, is_snapshot: bool) -> bool {
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
            if self.newest_snapshot(at) == wanted && self.is_pending(at, "SaveCurrentEpoch") {
                return Ok(());
            }
            done(self.complete(at, true), "a snapshot does not end")?;
        }
        Err("a snapshot does not end".to_owned())
    }
}
