//! Who held what, by the transaction log alone.
//!
//! A contender is a znode in the directory of a queue. Its turn has come when no contender with a
//! smaller number lives. Whoever holds says so in a record: a znode with the holder's path as its
//! data. The judge reads transactions in their order, knows at each of them who lives, and so knows
//! of each record whether it may be there. Nothing here is shared with the recipes, which would make
//! their own mistakes again.

use std::collections::BTreeMap;

use proto::SessionId;
use proto::txn::{CreateTxn, Txn};

use super::{KINDS, QUEUES, RECORDS};

/// What all queues have seen.
#[derive(Debug, Default)]
pub(super) struct Judge {
    queues: BTreeMap<&'static str, Queue>,
    /// Writes that came too late: their holder was gone.
    pub(super) refused: usize,
    /// Records of Curator's under a later session than the holder's, see [`may_change_session`].
    pub(super) given_up: usize,
}

/// One queue, and what it has come to so far.
#[derive(Debug, Default)]
pub(super) struct Queue {
    living: BTreeMap<u32, Contender>,
    newest: Option<u32>,
    holder: Option<u32>,
    pub(super) records: usize,
    /// Of one holder by another, also of the same program with another znode.
    pub(super) changes: usize,
    /// How often each kind of contender held.
    pub(super) held: BTreeMap<&'static str, usize>,
}

#[derive(Debug)]
struct Contender {
    name: String,
    session: SessionId,
    has_held: bool,
}

impl Judge {
    /// Takes the next transaction, or says what is wrong with it.
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

    /// The queues by name.
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

    /// Whether it is written under the session of the holder itself.
    fn record(
        &mut self,
        (number, name): (u32, &str),
        session: SessionId,
        kind: &'static str,
    ) -> Result<bool, String> {
        match self.living.first_key_value() {
            Some((first, other)) if *first < number && other.has_held => {
                return Err(format!("{name} and {} hold at once", other.name));
            }
            Some((first, other)) if *first < number => {
                return Err(format!("{name} goes before {}, which waits", other.name));
            }
            _ => {}
        }
        let contender = self.living.get_mut(&number);
        let Some(contender) = contender.filter(|one| one.name == name) else {
            return Err(format!("{name} holds and is gone"));
        };
        let is_own = contender.session == session;
        if !is_own && !may_change_session(kind) {
            return Err(format!("{name} belongs to another session"));
        }
        // Follows from the above as long as numbers grow; said once more of the holders alone.
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

    /// Whoever stands in it still.
    pub(super) fn left(&self) -> Vec<&str> {
        self.living.values().map(|one| one.name.as_str()).collect()
    }
}

/// Curator takes a session that got no answer for its timeout for over and opens another one, which the
/// servers know nothing of (`ConnectionStateManager` and `injectSessionExpiration`). They have the old
/// session and its znodes for some time yet, longer after a change of the leader. A program that does not
/// ask after the state of the connection goes on as holder until then, and is the only one.
fn may_change_session(kind: &str) -> bool {
    kind == "Curator"
}

/// The queue whose directory holds this path, the word of its contenders, and the last name.
fn contender_at(path: &str) -> Option<(&'static str, &'static str, &str)> {
    let mut queues = QUEUES.iter();
    queues.find_map(|queue| {
        let name = path.strip_prefix(queue.directory)?.strip_prefix('/')?;
        Some((queue.name, queue.word, name))
    })
}

/// The queue that a record is about, its word, and the kind of contender that wrote it.
fn record_at(path: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let mut names = path.strip_prefix(RECORDS)?.strip_prefix('/')?.split('/');
    let (queue, kind, _record) = (names.next()?, names.next()?, names.next()?);
    let queue = QUEUES.iter().find(|one| one.name == queue)?;
    let kind = KINDS.iter().find(|one| **one == kind)?;
    Some((queue.name, queue.word, kind))
}

/// The ten digits behind the word.
fn number_of(name: &str, word: &str) -> Result<u32, String> {
    let number = name.rsplit_once(word).map(|(_, number)| number);
    let digits = number.filter(|number| number.len() == 10);
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("{name} is no contender in a queue of {word}"))
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

    /// As a holder writes it: its check, then the record.
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

    /// The judge after these, or what it finds wrong.
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
        assert!(refusal(&log).contains("hold at once"));
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
            assert!(refusal(&log).contains("is gone"));
        }
        let log = [(ONE, record(FIRST))];
        assert!(refusal(&log).contains("is gone"));
        // One that others have held after.
        let log = [
            (ONE, join(FIRST)),
            (TWO, join(SECOND)),
            (ONE, record(FIRST)),
            (ONE, END),
            (TWO, record(SECOND)),
            (ONE, record(FIRST)),
        ];
        assert!(refusal(&log).contains("is gone"));
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
        assert!(refusal(&log).contains("is gone"));
        let other = create(
            "/records/mutex/ours/r-0000000001",
            "/queues/latch/_c_a-latch-0000000000",
        );
        assert!(refusal(&[(ONE, other)]).contains("another queue"));
    }

    #[test]
    fn contenders_that_push_in_and_strangers_are_found() {
        let log = [(TWO, join(SECOND)), (ONE, join(FIRST))];
        assert!(refusal(&log).contains("end of its queue"));
        let log = [(ONE, join("/queues/mutex/a__lock__0000000003"))];
        assert!(refusal(&log).contains("no contender"));
    }
}
