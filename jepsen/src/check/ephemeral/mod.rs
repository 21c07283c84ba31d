//! The checker of ephemerals: they live as long as their sessions, and a session that has ended
//! does not come back.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `take` | null | `{"session", "zxid"}`: it has created the ephemeral that is the key |
//! | `touch` | null | `{"session", "zxid"}` of a write of the session |
//! | `look`, `final-look` | null | `{"as_of", "owner", "created"}`: zxid of a write of the viewer before the look, and the session and the czxid of the key, both null if the znode does not exist |
//! | `close` | null | `{"session"}` |
//!
//! No client deletes an ephemeral. Therefore a session has ended as soon as another session has
//! created the znode again, a look no longer finds it, or the session's close is acknowledged. From
//! then on the session must not write, and none of its ephemerals may be visible. At the end no
//! ephemeral may be left.
//!
//! Source: ZooKeeper Programmer's Guide, Ephemeral Nodes.

pub mod first;

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::ops::{Op, Outcome, calls};
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// The operation of the last looks at each key. The very last look must find nothing.
pub const FINAL_LOOK: &str = "final-look";

/// Judges a history.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

/// Evidence that a session is alive.
struct Sign<'a> {
    session: &'a str,
    /// A zxid at which the session is alive.
    zxid: i64,
    op: Op<'a>,
    what: &'static str,
}

/// Known ends of sessions.
#[derive(Default)]
struct Ends<'a> {
    /// Ends by zxid: the first zxid of a successor.
    successors: HashMap<&'a str, (i64, Op<'a>)>,
    /// Ends by the order of events: a call that observed the end.
    told: HashMap<&'a str, Op<'a>>,
}

impl<'a> Ends<'a> {
    fn tell(&mut self, session: &'a str, op: Op<'a>) {
        let known = self.told.entry(session).or_insert(op);
        if op.last() < known.last() {
            *known = op;
        }
    }

    fn judge(&self, sign: &Sign<'_>, gathered: &mut Gathered) {
        let Sign {
            session,
            zxid,
            op,
            what,
        } = sign;
        if let Some((end, by)) = self.successors.get(session)
            && zxid >= end
        {
            let text = format!(
                "session {session} {what} at zxid {zxid:#x}, although another session created its \
                 znode again at zxid {end:#x}"
            );
            gathered.find(text, by.events().chain(op.events()));
        }
        if let Some(by) = self.told.get(session)
            && op.first() > by.last()
        {
            let end = match by.f() {
                "close" => "it was closed",
                _ => "a client saw its end",
            };
            let text = format!("session {session} {what} at zxid {zxid:#x}, although {end} before");
            gathered.find(text, by.events().chain(op.events()));
        }
    }
}

/// Creations of each key by zxid, with the session of each.
type Owners<'a> = BTreeMap<&'a str, BTreeMap<i64, (&'a str, Op<'a>)>>;

#[derive(Default)]
struct Seen<'a> {
    signs: Vec<Sign<'a>>,
    owners: Owners<'a>,
    /// Looks that found nothing, with their zxids.
    gone: Vec<(i64, Op<'a>)>,
    /// The last look at each key.
    last: BTreeMap<&'a str, Op<'a>>,
    ends: Ends<'a>,
}

impl<'a> Seen<'a> {
    fn take_in(&mut self, op: Op<'a>, gathered: &mut Gathered) -> Result<(), Broken> {
        let (session, zxid, what) = match op.f() {
            "take" => (op.text("session")?, op.number("zxid")?, "creates a znode"),
            "touch" => (op.text("session")?, op.number("zxid")?, "writes"),
            "close" => {
                self.ends.tell(op.text("session")?, op);
                return Ok(());
            }
            "look" | FINAL_LOOK => {
                let as_of = op.number("as_of")?;
                if op.f() == FINAL_LOOK {
                    self.last.insert(op.key(), op);
                }
                if is_gone(&op) {
                    self.gone.push((as_of, op));
                    return Ok(());
                }
                let (session, created) = (op.text("owner")?, op.number("created")?);
                own(&mut self.owners, op, created, session, gathered);
                (session, as_of.max(created), "owns a znode")
            }
            other => return Err(op.broken(format!("unknown operation {other:?}"))),
        };
        if op.f() == "take" {
            own(&mut self.owners, op, zxid, session, gathered);
        }
        self.signs.push(Sign {
            session,
            zxid,
            op,
            what,
        });
        Ok(())
    }
}

fn is_gone(look: &Op<'_>) -> bool {
    look.answer()
        .is_some_and(|answer| answer["owner"] == Value::Null)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut seen = Seen::default();
    for op in calls(events)? {
        if op.outcome() == Outcome::Ok {
            gathered.count(op.f(), 1);
            seen.take_in(op, &mut gathered)?;
        } else {
            gathered.count("refused_or_unknown", 1);
        }
    }
    let Seen {
        signs,
        owners,
        gone,
        last,
        mut ends,
    } = seen;
    succeed(&owners, &mut ends, &mut gathered);
    for (as_of, op) in gone {
        let before = owners.get(op.key()).map(|owners| owners.range(..=as_of));
        if let Some((_, (session, _))) = before.and_then(|mut before| before.next_back()) {
            ends.tell(session, op);
        }
    }
    for sign in &signs {
        ends.judge(sign, &mut gathered);
    }
    for op in last.values().filter(|op| !is_gone(op)) {
        let text = format!("{} still exists after the end of all sessions", op.key());
        gathered.find(text, op.events());
    }
    if last.is_empty() {
        gathered.doubt("the history does not contain a final look", []);
    }
    gathered.count(
        "ends_seen",
        (ends.told.len() + ends.successors.len()) as u64,
    );
    Ok(gathered.verdict())
}

fn own<'a>(
    owners: &mut Owners<'a>,
    op: Op<'a>,
    created: i64,
    session: &'a str,
    gathered: &mut Gathered,
) {
    let owners = owners.entry(op.key()).or_default();
    let (known, by) = *owners.entry(created).or_insert((session, op));
    if known != session {
        let text = format!(
            "{}, created at zxid {created:#x}, has two owners: sessions {known} and {session}",
            op.key()
        );
        gathered.find(text, by.events().chain(op.events()));
    }
}

/// Records that a session with a successor at some key has ended by the successor's zxid.
fn succeed<'a>(owners: &Owners<'a>, ends: &mut Ends<'a>, gathered: &mut Gathered) {
    for (key, owners) in owners {
        for (before, after) in owners.iter().zip(owners.iter().skip(1)) {
            let ((_, (session, first)), (&zxid, &(next, op))) = (before, after);
            if *session == next {
                let text = format!(
                    "session {session} creates {key} again at zxid {zxid:#x}, but no client deleted it"
                );
                gathered.find(text, first.events().chain(op.events()));
                continue;
            }
            let end = ends.successors.entry(*session).or_insert((zxid, op));
            if zxid < end.0 {
                *end = (zxid, op);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::Kind;
    use crate::verdict::Validity;
    use serde_json::json;

    fn by(session: &str, zxid: i64) -> Value {
        json!({"session": session, "zxid": zxid})
    }

    fn seen(as_of: i64, owner: &str, created: i64) -> Value {
        json!({"as_of": as_of, "owner": owner, "created": created})
    }

    fn gone(as_of: i64) -> Value {
        json!({"as_of": as_of, "owner": null, "created": null})
    }

    fn good() -> History {
        let mut history = History::default();
        history.call(1, "take", "e", Value::Null, by("s1", 10));
        history.call(2, "look", "e", Value::Null, seen(11, "s1", 10));
        history.call(1, "touch", "", Value::Null, by("s1", 12));
        history.invoke(1, "take", "e", Value::Null);
        history.end(Kind::Fail, 1, Value::Null);
        history.call(2, "look", "e", Value::Null, gone(14));
        history.call(2, "take", "e", Value::Null, by("s2", 15));
        history.call(3, "look", "e", Value::Null, seen(16, "s2", 15));
        history.call(2, "close", "", Value::Null, json!({"session": "s2"}));
        history.call(3, "take", "f", Value::Null, by("s3", 19));
        history
    }

    fn ended(mut history: History) -> Verdict {
        history.call(9, FINAL_LOOK, "e", Value::Null, gone(90));
        check(&history.events)
    }

    #[test]
    fn sessions_that_follow_each_other_are_right() {
        let verdict = ended(good());
        assert_valid(&verdict);
        assert_eq!(verdict.figures["ends_seen"], 3);
    }

    #[test]
    fn a_write_after_a_successor_is_found() {
        let mut history = good();
        history.call(1, "touch", "", Value::Null, by("s1", 17));
        let verdict = ended(history);
        assert_found(
            &verdict,
            "session s1 writes at zxid 0x11, although another session created its znode again at \
             zxid 0xf",
        );
        assert_found(
            &verdict,
            "session s1 writes at zxid 0x11, although a client saw its end",
        );
    }

    #[test]
    fn a_write_after_the_znode_was_seen_gone_is_found() {
        let mut history = good();
        history.events.truncate(10);
        history.call(1, "touch", "", Value::Null, by("s1", 14));
        assert_found(&ended(history), "a client saw its end before");
    }

    #[test]
    fn an_ephemeral_that_is_lost_is_found_at_its_next_sign_of_life() {
        let mut history = good();
        // The look found nothing although the session continued.
        history.events[3].value = gone(11);
        assert_found(&ended(history), "session s1 writes at zxid 0xc");
    }

    #[test]
    fn an_owner_of_old_that_is_seen_is_found() {
        let mut history = good();
        history.events[13].value = seen(16, "s1", 10);
        assert_found(&ended(history), "s1 owns a znode at zxid 0x10");
    }

    #[test]
    fn an_ephemeral_behind_a_close_is_found() {
        let mut history = good();
        history.call(3, "look", "e", Value::Null, seen(18, "s2", 15));
        assert_found(
            &ended(history),
            "s2 owns a znode at zxid 0x12, although it was closed",
        );
    }

    #[test]
    fn two_owners_of_one_creation_are_found() {
        let mut history = good();
        history.events[3].value = seen(11, "s9", 10);
        assert_found(&ended(history), "sessions s1 and s9");
    }

    #[test]
    fn a_session_that_creates_its_own_again_is_found() {
        let mut history = good();
        history.events[11].value = by("s1", 15);
        history.events[13].value = seen(16, "s1", 15);
        assert_found(&ended(history), "session s1 creates e again at zxid 0xf");
    }

    #[test]
    fn what_stays_is_found_and_without_a_last_look_nobody_knows() {
        let mut history = good();
        assert_eq!(check(&history.events).validity, Validity::Unknown);
        history.call(9, FINAL_LOOK, "f", Value::Null, seen(20, "s3", 19));
        assert_found(&check(&history.events), "f still exists");
    }
}
