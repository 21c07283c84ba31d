//! Check of the holders that uses only the transaction log.
//!
//! A contender is a znode in the directory of a queue. A contender holds the lock when all
//! contenders with smaller numbers are deleted. A holder reports itself in a record: a znode whose
//! data is the holder's path. The judge reads transactions in order, and tracks the contenders that
//! exist. It therefore knows for each record whether its writer was the holder. The judge shares no
//! code with the recipes, because it could otherwise repeat their mistakes.

use std::collections::BTreeMap;

use proto::SessionId;
use proto::txn::{CreateTxn, Txn};

use super::{KINDS, QUEUES, RECORDS};

/// Result over all queues.
#[derive(Debug, Default)]
pub(super) struct Judge {
    queues: BTreeMap<&'static str, Queue>,
    /// Number of writes that were too late, because their holder was deleted.
    pub(super) refused: usize,
    /// Number of Curator's records under a later session than the holder's. See
    /// [`may_change_session`].
    pub(super) given_up: usize,
}

/// State of one queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    living: BTreeMap<u32, Contender>,
    newest: Option<u32>,
    holder: Option<u32>,
    pub(super) records: usize,
    /// Number of changes of holder, including changes to another znode of the same program.
    pub(super) changes: usize,
    /// Number of turns of each kind of contender.
    pub(super) held: BTreeMap<&'static str, usize>,
}

#[derive(Debug)]
struct Contender {
    name: String,
    session: SessionId,
    has_held: bool,
}

impl Judge {
    /// Checks and applies the next transaction. Returns a description of any fault.
    pub(super) fn see(&mut self, session: SessionId, txn: &Txn) -> Result<(), String> {
        match txn {
            Txn::Create(create) | Txn::Create2(create) => self.created(session, create),
            Txn::Delete { path } => self.deleted(path),
            Txn::CloseSession { .. } => {
                for queue in self.queues.values_mut() {
                    queue.living.retain(|_, one| one.session != session);
                }
                Ok(())
            }
            Txn::Multi(parts) if parts.iter().any(|part| matches!(part, Txn::Error { .. })) => {
                self.refused += 1;
                Ok(())
            }
            Txn::Multi(parts) => parts.iter().try_for_each(|part| self.see(session, part)),
            _ => Ok(()),
        }
    }

    /// Returns the queues with their names.
    pub(super) fn queues(&self) -> impl Iterator<Item = (&'static str, &Queue)> {
        self.queues.iter().map(|(name, queue)| (*name, queue))
    }

    fn created(&mut self, session: SessionId, create: &CreateTxn) -> Result<(), String> {
        if let Some((queue, word, name)) = contender_at(&create.path) {
            let number = number_of(name, word)?;
            return self
                .queues
                .entry(queue)
                .or_default()
                .join(number, name, session);
        }
        let Some((queue, word, kind)) = record_at(&create.path) else {
            return Ok(());
        };
        let data = create.data.as_deref().unwrap_or_default();
        let holder = String::from_utf8_lossy(data);
        let named = match contender_at(&holder) {
            Some((its, _, name)) if its == queue => (number_of(name, word)?, name),
            _ => return Err(format!("{}: {holder:?} holds another queue", create.path)),
        };
        let queue = self.queues.entry(queue).or_default();
        let same = queue
            .record(named, session, kind)
            .map_err(|fault| format!("{}: {fault}", create.path))?;
        self.given_up += usize::from(!same);
        Ok(())
    }

    fn deleted(&mut self, path: &str) -> Result<(), String> {
        if let Some((queue, word, name)) = contender_at(path) {
            let number = number_of(name, word)?;
            self.queues.entry(queue).or_default().living.remove(&number);
        }
        Ok(())
    }
}

impl Queue {
    fn join(&mut self, number: u32, name: &str, session: SessionId) -> Result<(), String> {
        if self.newest >= Some(number) {
            return Err(format!("{name} does not stand at the end of its queue"));
        }
        self.newest = Some(number);
        let contender = Contender {
            name: name.to_owned(),
            session,
            has_held: false,
        };
        self.living.insert(number, contender);
        Ok(())
    }

    /// Applies the record of a holder. Returns whether the holder's own session wrote it.
    fn record(
        &mut self,
        (number, name): (u32, &str),
        session: SessionId,
        kind: &'static str,
    ) -> Result<bool, String> {
        match self.living.first_key_value() {
            Some((first, other)) if *first < number && other.has_held => {
                return Err(format!("{name} and {} hold simultaneously", other.name));
            }
            Some((first, other)) if *first < number => {
                return Err(format!("{name} goes before {}, which waits", other.name));
            }
            _ => {}
        }
        let contender = self.living.get_mut(&number);
        let Some(contender) = contender.filter(|one| one.name == name) else {
            return Err(format!("{name} holds but no longer exists"));
        };
        let is_own = contender.session == session;
        if !is_own && !may_change_session(kind) {
            return Err(format!("{name} belongs to another session"));
        }
        // This result follows from the check above while numbers increase. This check uses only the
        // holders.
        if self.holder > Some(number) {
            return Err(format!("{name} holds after a later one"));
        }
        self.records += 1;
        if self.holder != Some(number) {
            self.changes += usize::from(self.holder.is_some());
            self.holder = Some(number);
            contender.has_held = true;
            *self.held.entry(kind).or_default() += 1;
        }
        Ok(is_own)
    }

    /// Returns the contenders that are still in the queue.
    pub(super) fn left(&self) -> Vec<&str> {
        self.living.values().map(|one| one.name.as_str()).collect()
    }
}

/// Returns whether contenders of this kind may change their session while they hold the lock.
///
/// Curator considers a session expired if it received no answer for the session timeout, and opens
/// another one (`ConnectionStateManager` and `injectSessionExpiration`). The servers do not know
/// this decision. They keep the old session and its znodes for some time, and longer after a change
/// of leader. A program that does not check the state of the connection continues as holder until
/// then, and is the only one.
fn may_change_session(kind: &str) -> bool {
    kind == "Curator"
}

/// Returns the queue of this path, the word of its contenders, and the last name of the path.
fn contender_at(path: &str) -> Option<(&'static str, &'static str, &str)> {
    let mut queues = QUEUES.iter();
    queues.find_map(|queue| {
        let name = path.strip_prefix(queue.directory)?.strip_prefix('/')?;
        Some((queue.name, queue.word, name))
    })
}

/// Returns the queue of a record, its word, and the kind of the contender that wrote the record.
fn record_at(path: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let mut names = path.strip_prefix(RECORDS)?.strip_prefix('/')?.split('/');
    let (queue, kind, _record) = (names.next()?, names.next()?, names.next()?);
    let queue = QUEUES.iter().find(|one| one.name == queue)?;
    let kind = KINDS.iter().find(|one| **one == kind)?;
    Some((queue.name, queue.word, kind))
}

/// Returns the ten digits after the word as a number.
fn number_of(name: &str, word: &str) -> Result<u32, String> {
    let number = name.rsplit_once(word).map(|(_, number)| number);
    let digits = number.filter(|number| number.len() == 10);
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("{name} is not a contender in a queue of {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionId = SessionId(1);
    const TWO: SessionId = SessionId(2);
    const FIRST: &str = "/queues/mutex/_c_a-lock-0000000003";
    const SECOND: &str = "/queues/mutex/_c_b-lock-0000000004";

    fn create(path: &str, data: &str) -> Txn {
        Txn::Create(CreateTxn {
            path: path.into(),
            data: Some(data.to_owned().into()),
            acl: Vec::new(),
            ephemeral: data.is_empty(),
            parent_cversion: 1,
        })
    }

    fn join(path: &str) -> Txn {
        create(path, "")
    }

    /// Returns the transaction of a holder: its check, and then the record.
    fn record(holder: &str) -> Txn {
        let check = proto::txn::CheckVersionTxn {
            path: holder.into(),
            version: 0,
        };
        let record = create("/records/mutex/ours/r-0000000000", holder);
        Txn::Multi(vec![Txn::Check(check), record])
    }

    fn delete(path: &str) -> Txn {
        Txn::Delete { path: path.into() }
    }

    const END: Txn = Txn::CloseSession { paths: None };

    /// Returns the judge's state after these transactions, or the fault that it finds.
    fn judged(log: &[(SessionId, Txn)]) -> Result<Judge, String> {
        let mut judge = Judge::default();
        for (session, txn) in log {
            judge.see(*session, txn)?;
        }
        Ok(judge)
    }

    fn refusal(log: &[(SessionId, Txn)]) -> String {
        judged(log).expect_err("a fault")
    }

    #[test]
    fn holders_one_after_the_other_are_fine() {
        let log = [
            (ONE, join(FIRST)),
            (TWO, join(SECOND)),
            (ONE, record(FIRST)),
            (ONE, record(FIRST)),
            (ONE, delete(FIRST)),
            (TWO, record(SECOND)),
            (ONE, Txn::Multi(vec![Txn::Error { code: -101 }])),
            (TWO, END),
        ];
        let judge = judged(&log).unwrap();
        assert_eq!(judge.refused, 1);
        let (name, queue) = judge.queues().next().unwrap();
        assert_eq!((name, queue.records, queue.changes), ("mutex", 3, 1));
        assert_eq!(queue.held, BTreeMap::from([("ours", 2)]));
        assert!(queue.left().is_empty());
        let judge = judged(&log[..7]).unwrap();
        let (_, queue) = judge.queues().next().unwrap();
        assert_eq!(queue.left(), ["_c_b-lock-0000000004"]);
    }

    #[test]
    fn two_holders_at_once_are_found() {
        let log = [
            (ONE, join(FIRST)),
            (TWO, join(SECOND)),
            (ONE, record(FIRST)),
            (TWO, record(SECOND)),
        ];
        assert!(refusal(&log).contains("hold simultaneously"));
    }

    #[test]
    fn a_holder_before_its_turn_is_found() {
        let log = [
            (ONE, join(FIRST)),
            (TWO, join(SECOND)),
            (TWO, record(SECOND)),
        ];
        assert!(refusal(&log).contains("goes before"));
    }

    #[test]
    fn a_dead_holder_is_found() {
        for end in [delete(FIRST), END] {
            let log = [(ONE, join(FIRST)), (ONE, end), (ONE, record(FIRST))];
            assert!(refusal(&log).contains("no longer exists"));
        }
        let log = [(ONE, record(FIRST))];
        assert!(refusal(&log).contains("no longer exists"));
        // The contender's record comes after a later contender has held the lock.
        let log = [
            (ONE, join(FIRST)),
            (TWO, join(SECOND)),
            (ONE, record(FIRST)),
            (ONE, END),
            (TWO, record(SECOND)),
            (ONE, record(FIRST)),
        ];
        assert!(refusal(&log).contains("no longer exists"));
    }

    #[test]
    fn a_record_by_somebody_else_is_found() {
        let log = [(ONE, join(FIRST)), (TWO, record(FIRST))];
        assert!(refusal(&log).contains("another session"));
        let by_curator = |session| {
            let record = create("/records/mutex/Curator/r-0000000000", FIRST);
            (session, record)
        };
        let judge = judged(&[(ONE, join(FIRST)), by_curator(TWO), by_curator(ONE)]).unwrap();
        assert_eq!(judge.given_up, 1);
        let log = [(ONE, join(FIRST)), (ONE, END), by_curator(TWO)];
        assert!(refusal(&log).contains("no longer exists"));
        let other = create(
            "/records/mutex/ours/r-0000000001",
            "/queues/latch/_c_a-latch-0000000000",
        );
        assert!(refusal(&[(ONE, other)]).contains("another queue"));
    }

    #[test]
    fn contenders_out_of_order_and_strangers_are_found() {
        let log = [(TWO, join(SECOND)), (ONE, join(FIRST))];
        assert!(refusal(&log).contains("end of its queue"));
        let log = [(ONE, join("/queues/mutex/a__lock__0000000003"))];
        assert!(refusal(&log).contains("is not a contender"));
    }
}
