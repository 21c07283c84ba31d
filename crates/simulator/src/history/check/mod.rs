//! The change history of every member, recorded by the shipped code and compared with the committed
//! transactions.
//!
//! [`host::Recorder`] decides which records a history receives, which parts are read from the log
//! and the snapshots, and where the history has a hole. The history is stored in the memory of this
//! simulation (`store`). The simulated faults are a late thread, a short queue, a process without a
//! history, and a lost directory. They are drawn from a separate random sequence, so the rest of a
//! seed does not depend on them.

mod both;
mod compare;
mod files;
mod judge;
mod store;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use history::{HistoryError, HistoryStorage, Origin};
use host::{FillError, Recorder};
use proto::txn::TxnRecord;
use proto::{SessionId, Sid, Zxid};
use recovery::LogEnd;
use simulation::configured::sid_of;
use storage::DataDirs;
use testkit::{Random, SimDisk};

use crate::history::History;
use crate::invariants::CheckResult;
use crate::invariants::access::Identity;
use both::{Both, Storage};
pub(crate) use compare::Model;
pub use files::FileCounts;

/// Name of this check in violations.
pub(crate) const NAME: &str = "the change history contains the committed transactions";
/// Maximum number of transactions queued for the recorder's thread. Transactions that do not fit
/// are read from the log.
const QUEUE_MAX: usize = 12;
/// Number of viewers in a comparison, and of queries for each of them.
const ROUNDS: usize = 4;
/// Maximum number of members whose histories are also in files.
const FILED_MEMBERS: usize = 2;
/// Number of turns after which a history must be complete.
const TURNS_AT_THE_END: usize = 20;

/// Histories of all members.
#[derive(Debug)]
pub(crate) struct Histories {
    members: Vec<Member>,
    random: Random,
    /// Committed changes, for the comparison with histories in files.
    model: Model,
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
    server: usize,
    /// The stored history, which may lack the latest records while `open` is set.
    storage: Storage,
    open: Option<Both>,
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
            members: (0..servers).map(Member::new).collect(),
            model: Model::default(),
            random: Random::new(seed ^ 0x6869_7374_6f72_7931),
        }
    }

    /// Records the histories of some members also in files below `dir`, with the shipped index.
    pub(crate) fn record_files(&mut self, dir: &Path, seed: u64) {
        let mut random = Random::new(seed ^ 0x6669_6c65_735f_3031);
        let count = self.members.len();
        for _ in 0..FILED_MEMBERS {
            let server = random.below(count);
            if let Some(member) = self.members.get_mut(server) {
                let dir = dir.join(server.to_string()).join("history");
                member.storage = Storage::with_files(&dir, random.any(), Identity::User.id());
            }
        }
    }

    /// Returns the numbers of events in the files.
    pub(crate) fn file_counts(&self) -> FileCounts {
        let mut sum = FileCounts::default();
        for files in self
            .members
            .iter()
            .filter_map(|member| member.storage.files())
        {
            sum += files.counts();
        }
        sum
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
            member.storage.lose();
        }
        if let Some(files) = member.storage.files() {
            files.may_damage();
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
    pub(crate) fn may_turn(&mut self, server: usize, is_healed: bool, committed: &History) {
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
            let files = member.storage.files();
            let is_checkpoint = is_checkpoint && files.is_none_or(|files| files.percent(30));
            member.turn(is_idle, is_checkpoint);
            member.may_compare(&mut self.model, committed);
            member.may_end();
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
            let held = member.compare_files(&mut self.model, committed);
            held.map_err(|how| format!("server {}: {how}", server + 1))?;
            member.close();
            if let Some(recorded) = member.storage.get() {
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
    fn new(server: usize) -> Self {
        Self {
            server,
            ..Self::default()
        }
    }

    /// Closes the history. Data that is not durable is lost.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.storage.close(open);
        }
    }

    fn turn(&mut self, is_idle: bool, is_checkpoint: bool) {
        let done = self.work(is_idle, is_checkpoint);
        let Err(error) = done else { return };
        self.close();
        if let FillError::History(error) = &error {
            self.storage.must_expect(error);
            if error.is_unusable() {
                // The server would move the unusable history aside and rebuild it from the files.
                self.storage.set_aside();
            }
        }
    }

    fn work(&mut self, is_idle: bool, is_checkpoint: bool) -> Result<(), FillError> {
        let Self {
            server,
            storage,
            open,
            life,
            ..
        } = self;
        let Some(life) = life
            .as_mut()
            .filter(|life| !life.is_off && life.committed > Zxid::ZERO)
        else {
            return Ok(());
        };
        if open.is_none() {
            *open = life.recorder.open(storage, life.committed)?;
        }
        let Some(open) = open else { return Ok(()) };
        let queue = life.queue.drain(..);
        let origins = storage.files().map(|_| *server);
        let queue = queue.map(|record| {
            let session = record.header.session;
            let origin = origins.map(|server| origin_of(server, session));
            (record, origin.unwrap_or_default())
        });
        life.recorder.take(open, queue)?;
        if is_idle || life.recorder.is_behind() {
            let (committed, end) = (life.committed, life.log_end.get());
            life.recorder.catch_up(open, storage, committed, end)?;
        }
        open.maintain(is_idle)?;
        if is_checkpoint {
            open.make_durable()?;
        }
        Ok(())
    }

    /// Ends the writer of the history in files in some calls, as if its process were killed.
    fn may_end(&mut self) {
        if let Some(files) = self.storage.files().cloned()
            && files.percent(3)
        {
            self.close();
            files.may_damage();
        }
    }

    /// Compares the history in files with the committed transactions in some calls.
    fn may_compare(&mut self, model: &mut Model, committed: &History) {
        let (Some(files), Some(open)) = (self.storage.files(), &mut self.open) else {
            return;
        };
        if !files.percent(2) || open.recorded.last() > committed.end() {
            return;
        }
        committed.add_to(model);
        if let Err(text) = open.compare(model, 1) {
            files.fail(text);
        }
    }

    /// Compares the history in files with the committed transactions, before and after the files
    /// are closed and opened.
    fn compare_files(&mut self, model: &mut Model, committed: &History) -> CheckResult {
        let Some(files) = self.storage.files().cloned() else {
            return Ok(());
        };
        committed.add_to(model);
        if let Some(open) = &mut self.open {
            open.compare(model, ROUNDS)?;
        }
        self.close();
        match self.storage.open() {
            Ok(mut open) => {
                let compared = open.compare(model, ROUNDS);
                self.open = Some(open);
                compared?;
            }
            Err(HistoryError::Missing { .. }) => {}
            Err(error) => self.storage.must_expect(&error),
        }
        files.fault().map_or(Ok(()), Err)
    }

    /// Checks that the history ends with the last transaction that the member has applied. The begin
    /// of an epoch is not a transaction.
    fn is_up_to_date(&self, committed: &History) -> CheckResult {
        let applied = self.life.as_ref().map_or(Zxid::ZERO, |life| life.committed);
        let head = self.open.as_ref().map(|open| open.recorded.last());
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

/// Returns the origin of the transactions of a session, if the server knows it. Each server knows
/// a third of the sessions.
fn origin_of(server: usize, session: SessionId) -> Origin {
    let number = session.0.unsigned_abs();
    if session == SessionId::NONE || number % 3 != server as u64 % 3 {
        return Origin::default();
    }
    Origin {
        client: format!("10.0.{server}.{}:2181", number % 5),
        identities: vec![format!("digest:user{}", number % 2)],
    }
}

/// Returns the error for a history that does not exist.
fn missing() -> HistoryError {
    HistoryError::Missing {
        path: "memory".into(),
    }
}
