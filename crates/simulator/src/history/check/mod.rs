//! The change history of every member, recorded by the shipped code and compared with the committed
//! transactions.
//!
//! [`host::Recorder`] decides which records a history receives, which parts are read from the log
//! and the snapshots, and where the history has a hole. The history is stored in the memory of this
//! simulation (`store`). The simulated faults are a late thread, a short queue, a process without a
//! history, and a lost directory. They are drawn from a separate random sequence, so the rest of a
//! seed does not depend on them.

mod judge;
mod store;

use std::collections::VecDeque;
use std::sync::Arc;

use history::{HistoryError, Origin};
use host::{FillError, Recorder};
use proto::txn::TxnRecord;
use proto::{Sid, Zxid};
use recovery::LogEnd;
use simulation::configured::sid_of;
use storage::DataDirs;
use testkit::{Random, SimDisk};

use crate::history::History;
use crate::invariants::CheckResult;
use store::{Memory, Recorded};

/// Name of this check in violations.
pub(crate) const NAME: &str = "the change history contains the committed transactions";
/// Maximum number of transactions queued for the recorder's thread. Transactions that do not fit
/// are read from the log.
const QUEUE_MAX: usize = 12;
/// Number of turns after which a history must be complete.
const TURNS_AT_THE_END: usize = 20;

/// Histories of all members.
#[derive(Debug)]
pub(crate) struct Histories {
    members: Vec<Member>,
    random: Random,
}

/// Numbers of compared transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Number of transactions that histories contain.
    pub(crate) recorded: usize,
    /// Number of transactions in the holes of histories.
    pub(crate) missed: usize,
}

#[derive(Debug, Default)]
struct Member {
    /// The stored history, which may lack the latest records while `open` is set.
    memory: Memory,
    open: Option<Recorded>,
    life: Option<Life>,
    /// Whether the history stays unchanged until the faults end.
    stands_still: bool,
}

/// State of the recorder during one life of a process.
#[derive(Debug)]
struct Life {
    recorder: Recorder<SimDisk>,
    log_end: Arc<LogEnd>,
    /// Last transaction that was applied as committed; 0 before the first one.
    committed: Zxid,
    queue: VecDeque<TxnRecord>,
    is_off: bool,
}

impl Histories {
    pub(crate) fn new(seed: u64, servers: usize) -> Self {
        Self {
            members: (0..servers).map(|_| Member::default()).collect(),
            random: Random::new(seed ^ 0x6869_7374_6f72_7931),
        }
    }

    /// Starts the recorder of a process with these files. Data from the last life that was not
    /// durable is lost.
    pub(crate) fn begin(
        &mut self,
        server: usize,
        disk: Arc<SimDisk>,
        dirs: DataDirs,
        log_end: &Arc<LogEnd>,
    ) {
        let Some(member) = self.members.get_mut(server) else {
            return;
        };
        member.close();
        if self.random.percent(4) && !member.stands_still {
            member.memory = Memory::default();
        }
        member.life = Some(Life {
            recorder: Recorder::new(disk, dirs, testkit::LIMITS),
            log_end: log_end.clone(),
            committed: Zxid::ZERO,
            queue: VecDeque::new(),
            is_off: self.random.percent(15) || member.stands_still,
        });
    }

    /// Records that everything up to `last` is committed and is in the files, or will be written
    /// there.
    pub(crate) fn committed(&mut self, sid: Sid, last: Zxid) {
        if let Some(life) = self.life(sid) {
            life.committed = last;
        }
    }

    fn life(&mut self, sid: Sid) -> Option<&mut Life> {
        let mut members = self.members.iter_mut().enumerate();
        let (_, member) = members.find(|(server, _)| sid_of(*server) == sid)?;
        member.life.as_mut()
    }

    /// Records a transaction that was applied as committed.
    pub(crate) fn applied(&mut self, sid: Sid, record: &TxnRecord) {
        if let Some(life) = self.life(sid) {
            life.committed = record.header.zxid;
            if !life.is_off && life.queue.len() < QUEUE_MAX {
                life.queue.push_back(record.clone());
            }
        }
    }

    /// Lets the recorder's thread run for a turn in about one of ten calls. After the faults, a
    /// stopped recorder continues.
    pub(crate) fn may_turn(&mut self, server: usize, is_healed: bool) {
        let Some(member) = self.members.get_mut(server) else {
            return;
        };
        if is_healed {
            member.stands_still = false;
            member.life.iter_mut().for_each(|life| life.is_off = false);
        }
        if self.random.percent(10) {
            let is_idle = self.random.percent(30);
            let is_checkpoint = self.random.percent(30);
            member.turn(is_idle, is_checkpoint);
        }
    }

    /// Records everything that is available, then nothing more until the faults end.
    pub(crate) fn stand_still(&mut self, server: usize) {
        if let Some(member) = self.members.get_mut(server) {
            member.life.iter_mut().for_each(|life| life.is_off = false);
            member.turn(true, true);
            member.life.iter_mut().for_each(|life| life.is_off = true);
            member.stands_still = true;
        }
    }

    /// Checks, in a quiet ensemble, that the history of each running server has all committed
    /// transactions except those in its holes. `running` contains each server, and whether its disk
    /// is damaged. For a damaged disk, the end of the history is not checked, because a damaged log
    /// is not read to its end.
    pub(crate) fn judge(
        &mut self,
        running: &[(usize, bool)],
        committed: &History,
    ) -> Result<Counts, String> {
        let mut counts = Counts::default();
        for (server, is_damaged) in running {
            let Some(member) = self.members.get_mut(*server) else {
                continue;
            };
            for _ in 0..TURNS_AT_THE_END {
                member.turn(true, true);
            }
            if !is_damaged {
                let held = member.is_up_to_date(committed);
                held.map_err(|how| format!("server {}: {how}", server + 1))?;
            }
            member.close();
            if let Some(recorded) = member.memory.get() {
                let found = judge::judge(sid_of(*server), &recorded, committed);
                let found = found.map_err(|how| format!("server {}: {how}", server + 1))?;
                counts.recorded += found.recorded;
                counts.missed += found.missed;
            }
        }
        Ok(counts)
    }
}

impl Member {
    /// Closes the history. Data that is not durable is lost.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.memory.put(open.at_checkpoint());
        }
    }

    fn turn(&mut self, is_idle: bool, is_checkpoint: bool) {
        let done = self.work(is_idle, is_checkpoint);
        let Err(error) = done else { return };
        self.close();
        if matches!(&error, FillError::History(error) if error.is_unusable()) {
            // The server would move the unusable history aside and rebuild it from the files.
            self.memory = Memory::default();
        }
    }

    fn work(&mut self, is_idle: bool, is_checkpoint: bool) -> Result<(), FillError> {
        let Self {
            memory, open, life, ..
        } = self;
        let Some(life) = life
            .as_mut()
            .filter(|life| !life.is_off && life.committed > Zxid::ZERO)
        else {
            return Ok(());
        };
        if open.is_none() {
            *open = life.recorder.open(memory, life.committed)?;
        }
        let Some(open) = open else { return Ok(()) };
        let queue = life.queue.drain(..);
        life.recorder
            .take(open, queue.map(|record| (record, Origin::default())))?;
        if is_idle || life.recorder.is_behind() {
            let (committed, end) = (life.committed, life.log_end.get());
            life.recorder.catch_up(open, memory, committed, end)?;
        }
        if is_checkpoint {
            open.make_durable();
        }
        Ok(())
    }

    /// Checks that the history ends with the last transaction that the member has applied. The begin
    /// of an epoch is not a transaction.
    fn is_up_to_date(&self, committed: &History) -> CheckResult {
        let applied = self.life.as_ref().map_or(Zxid::ZERO, |life| life.committed);
        let head = self.open.as_ref().map(Recorded::last);
        // Transactions that arrived in the leader's snapshot at the very end were never reported as
        // committed.
        let is_last = |head| head <= applied && committed.between(head, applied).is_empty();
        if applied < committed.end() || head.is_some_and(is_last) {
            Ok(())
        } else {
            Err(format!(
                "the change history ends at {head:?}, although {applied} was applied"
            ))
        }
    }
}

/// Returns the error for a history that does not exist.
fn missing() -> HistoryError {
    HistoryError::Missing {
        path: "memory".into(),
    }
}
