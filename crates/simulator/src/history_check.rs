//! The change history of every member, fed by the code that ships, and compared with what was committed.
//!
//! What a history is fed with, what is read from log and snapshots, and where it has a hole, is
//! [`hosting::Recorder`]'s; where it lies is the memory of this simulation (`store`). What happens to it
//! besides is drawn from numbers of its own, so that the rest of a seed is the same without it: its
//! thread comes late, its queue is short, it is switched off for a life, its directory is lost.

mod judge;
mod store;

use std::collections::VecDeque;
use std::sync::Arc;

use history::{HistoryError, Origin};
use hosting::{FillError, Recorder};
use proto::txn::TxnRecord;
use proto::{Sid, Zxid};
use recovery::LogEnd;
use storage::DataDirs;
use testkit::{Random, SimDisk};

use crate::configured::sid_of;
use crate::history::History;
use crate::invariants::Held;
use store::{Memory, Recorded};

/// What is broken if this check fails.
pub(crate) const NAME: &str = "the change history is what was committed";
/// Transactions that wait for the thread; what does not fit is read from the log.
const QUEUE_MAX: usize = 12;
/// Turns after which a history has everything.
const TURNS_AT_THE_END: usize = 20;

/// Those of all members.
#[derive(Debug)]
pub(crate) struct Histories {
    members: Vec<Member>,
    random: Random,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Transactions that histories hold.
    pub(crate) recorded: usize,
    /// Those of their holes.
    pub(crate) missed: usize,
}

#[derive(Debug, Default)]
struct Member {
    /// What lies there while it is not open.
    memory: Memory,
    open: Option<Recorded>,
    life: Option<Life>,
    /// Nothing happens to it before everything is mended.
    stands_still: bool,
}

/// That of a process.
#[derive(Debug)]
struct Life {
    recorder: Recorder<SimDisk>,
    log_end: Arc<LogEnd>,
    /// The last transaction that was applied as committed, 0 before the first.
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

    /// A process starts with these files; what was not durable of the last one is gone.
    pub(crate) fn begin(
        &mut self,
        server: usize,
        (disk, dirs): (Arc<SimDisk>, DataDirs),
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

    /// Everything up to here is committed, and in the files or on the way there.
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

    /// A transaction was applied, as a committed one.
    pub(crate) fn applied(&mut self, sid: Sid, record: &TxnRecord) {
        if let Some(life) = self.life(sid) {
            life.committed = record.header.zxid;
            if !life.is_off && life.queue.len() < QUEUE_MAX {
                life.queue.push_back(record.clone());
            }
        }
    }

    /// Its thread may have a turn.
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

    /// It takes what there is, and then nothing before everything is mended.
    pub(crate) fn stand_still(&mut self, server: usize) {
        if let Some(member) = self.members.get_mut(server) {
            member.life.iter_mut().for_each(|life| life.is_off = false);
            member.turn(true, true);
            member.life.iter_mut().for_each(|life| life.is_off = true);
            member.stands_still = true;
        }
    }

    /// Everything is well and nothing is under way: each of those that run has what was committed, but
    /// for its holes. A log that may be damaged is not read to its end.
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
    /// What is not durable is lost.
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
            // As the server does: it is moved aside, and made again from the files.
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
            let upto = (life.committed, life.log_end.get());
            life.recorder.catch_up(open, memory, upto)?;
        }
        if is_checkpoint {
            open.make_durable();
        }
        Ok(())
    }

    /// Nothing but a hole may be missing, and no hole is at the end.
    fn is_up_to_date(&self, committed: &History) -> Held {
        let applied = self.life.as_ref().map_or(Zxid::ZERO, |life| life.committed);
        let head = self.open.as_ref().map(Recorded::last);
        // What came with its leader's snapshot at the very end, nobody has told it to be committed.
        match applied < committed.end() || head == Some(applied) {
            true => Ok(()),
            false => Err(format!(
                "its history ends at {head:?}, and {applied} was applied"
            )),
        }
    }
}

/// For what lies nowhere.
fn missing() -> HistoryError {
    HistoryError::Missing {
        path: "memory".into(),
    }
}
