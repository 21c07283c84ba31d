//! The checker of session owners: a session belongs to one connection at a time.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `claim` | anything | `{"session", "connection"}`: the connection of this number owns the session now |
//! | `write` | `{"session", "connection"}` | `{"zxid"}` |
//!
//! Connection numbers grow within a session. After the answer to a claim, or a write on a newer
//! connection, no write on an older connection may be executed.
//!
//! Source: ZooKeeperServer.checkSession, SessionMovedException.

use std::collections::{BTreeMap, HashMap};

use super::ops::{Op, Outcome, calls};
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Judges a history.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

#[derive(Default)]
struct Session<'a> {
    claims: Vec<(i64, Op<'a>)>,
    /// Writes by zxid.
    writes: BTreeMap<i64, (i64, Op<'a>)>,
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut sessions: HashMap<&str, Session<'_>> = HashMap::new();
    for op in calls(events)? {
        if op.outcome() != Outcome::Ok {
            gathered.count("refused_or_unknown", 1);
            continue;
        }
        gathered.count(op.f(), 1);
        match op.f() {
            "claim" => {
                let session = sessions.entry(op.text("session")?).or_default();
                session.claims.push((op.number("connection")?, op));
            }
            "write" => {
                let name = op.call.value["session"].as_str();
                let connection = op.call.value["connection"].as_i64();
                let (Some(name), Some(connection)) = (name, connection) else {
                    return Err(op.broken("the write does not name its session and connection"));
                };
                let session = sessions.entry(name).or_default();
                session.writes.insert(op.number("zxid")?, (connection, op));
            }
            other => return Err(op.broken(format!("unknown operation {other:?}"))),
        }
    }
    let moves = sessions.values().map(|session| session.claims.len());
    let moves: usize = moves.map(|claims| claims.saturating_sub(1)).sum();
    gathered.count("moves", moves as u64);
    for (name, session) in &sessions {
        one(name, session, &mut gathered);
    }
    Ok(gathered.verdict())
}

fn one(name: &str, session: &Session<'_>, gathered: &mut Gathered) {
    let mut newest: Option<(i64, Op<'_>)> = None;
    for (zxid, &(connection, op)) in &session.writes {
        if let Some((newer, by)) = newest.filter(|(newer, _)| *newer > connection) {
            let what = format!(
                "session {name} wrote over connection {connection} at zxid {zxid:#x}, after a write over \
                 the newer connection {newer}"
            );
            gathered.find(what, by.events().chain(op.events()));
        } else {
            newest = Some((connection, op));
        }
        let later = session.claims.iter();
        let later =
            later.filter(|(number, claim)| *number > connection && claim.last() < op.first());
        if let Some((number, claim)) = later.min_by_key(|(_, claim)| claim.last()) {
            let what = format!(
                "session {name} wrote over connection {connection} at zxid {zxid:#x}, after it had moved \
                 to connection {number}"
            );
            gathered.find(what, claim.events().chain(op.events()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::Kind;
    use serde_json::{Value, json};

    fn over(connection: i64) -> Value {
        json!({"session": "s", "connection": connection})
    }

    fn good() -> History {
        let mut history = History::default();
        history.call(1, "claim", "", Value::Null, over(0));
        history.call(1, "write", "", over(0), json!({"zxid": 10}));
        // A write while the session moves.
        history.invoke(2, "write", "", over(0));
        history.call(1, "claim", "", Value::Null, over(1));
        history.end(Kind::Ok, 2, json!({"zxid": 11}));
        history.call(1, "write", "", over(1), json!({"zxid": 12}));
        history.invoke(2, "write", "", over(0));
        history.end(Kind::Info, 2, Value::Null);
        history
    }

    #[test]
    fn one_owner_follows_the_other() {
        let verdict = check(&good().events);
        assert_valid(&verdict);
        assert_eq!((verdict.figures["moves"], verdict.figures["write"]), (1, 3));
    }

    #[test]
    fn a_write_after_the_session_moved_is_found() {
        let mut history = good();
        history.events[11].kind = Kind::Ok;
        history.events[11].value = json!({"zxid": 13});
        let verdict = check(&history.events);
        assert_found(
            &verdict,
            "over connection 0 at zxid 0xd, after it had moved to connection 1",
        );
        assert_found(
            &verdict,
            "over connection 0 at zxid 0xd, after a write over the newer connection 1",
        );
    }

    #[test]
    fn the_order_of_transactions_counts_where_calls_overlap() {
        let mut history = good();
        history.events[7].value = json!({"zxid": 14});
        let verdict = check(&history.events);
        assert_found(
            &verdict,
            "over connection 0 at zxid 0xe, after a write over the newer connection 1",
        );
        assert_eq!(verdict.figures["findings"], 1);
    }
}
