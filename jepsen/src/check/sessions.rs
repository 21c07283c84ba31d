//! The checker of sessions: a session never sees an older state after a newer one, on any server.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `read` | null | `{"session", "zxid", "version"}` of the znode that is the key |
//! | `write` | anything | `{"session", "zxid", "version"}` after the write |
//!
//! `session` is a text, `zxid` the znode's mzxid. A session that has seen a transaction has seen
//! all earlier ones. It cannot read an old version of a znode if the zxid of the newer version is
//! below a zxid that it saw elsewhere. This covers monotonic reads, the session's own writes, and
//! the order over several znodes. Its writes get zxids above all that it has seen.
//!
//! Source: ZooKeeper Programmer's Guide, Consistency Guarantees (single system image).

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use super::ops::{Op, Outcome, calls};
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Every observed version of a znode, by zxid.
type Known<'a> = BTreeMap<i64, (i64, Op<'a>)>;

/// Judges a history.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut known: BTreeMap<&str, Known<'_>> = BTreeMap::new();
    let mut done: Vec<Op<'_>> = Vec::new();
    for op in calls(events)? {
        if !matches!(op.f(), "read" | "write") {
            return Err(op.broken(format!("unknown operation {:?}", op.f())));
        }
        if op.outcome() != Outcome::Ok {
            continue;
        }
        let (zxid, version) = (op.number("zxid")?, op.number("version")?);
        let versions = known.entry(op.key()).or_default();
        let first = versions.entry(zxid).or_insert((version, op));
        if first.0 != version {
            let what = format!(
                "zxid {zxid:#x} created two versions: {version} and {}",
                first.0
            );
            gathered.find(what, first.1.events().chain(op.events()));
        }
        done.push(op);
    }
    for versions in known.values() {
        ascending(versions, &mut gathered);
    }
    done.sort_by_key(Op::last);
    let mut sessions: HashMap<&str, (i64, Op<'_>)> = HashMap::new();
    for op in &done {
        let zxid = op.number("zxid")?;
        let session = op.text("session")?;
        gathered.count(op.f(), 1);
        let Some(seen) = sessions.get_mut(session) else {
            sessions.insert(session, (zxid, *op));
            continue;
        };
        if let Some(versions) = known.get(op.key()) {
            one(op, zxid, seen, versions, &mut gathered);
        }
        if zxid > seen.0 {
            *seen = (zxid, *op);
        }
    }
    gathered.count("sessions", sessions.len() as u64);
    Ok(gathered.verdict())
}

fn one(
    op: &Op<'_>,
    zxid: i64,
    (seen, by): &(i64, Op<'_>),
    versions: &Known<'_>,
    gathered: &mut Gathered,
) {
    let shown = op.events().chain(by.events());
    if op.f() == "write" && zxid <= *seen {
        let what =
            format!("a write has zxid {zxid:#x}, but its session had already seen {seen:#x}");
        gathered.find(what, shown);
        return;
    }
    if zxid >= *seen {
        return;
    }
    let missed = versions
        .range((Bound::Excluded(zxid), Bound::Included(*seen)))
        .next_back();
    if let Some((newer, (_, writer))) = missed {
        let what = format!(
            "a read of {} shows zxid {zxid:#x}, but its session had already seen {seen:#x}, and \
             {newer:#x} changed the znode",
            op.key()
        );
        gathered.find(what, shown.chain(writer.events()));
    }
}

fn ascending(versions: &Known<'_>, gathered: &mut Gathered) {
    let mut before: Option<(&i64, &(i64, Op<'_>))> = None;
    for (zxid, version) in versions {
        if let Some((earlier, other)) = before
            && other.0 >= version.0
        {
            let what = format!(
                "version {} at zxid {earlier:#x} is followed by version {} at zxid {zxid:#x}",
                other.0, version.0
            );
            gathered.find(what, other.1.events().chain(version.1.events()));
        }
        before = Some((zxid, version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use serde_json::{Value, json};

    fn good() -> History {
        let mut history = History::default();
        let seen = |session: &str, zxid: i64, version: i64| json!({"session": session, "zxid": zxid, "version": version});
        history.call(1, "write", "a", json!(1), seen("s1", 10, 1));
        history.call(1, "write", "b", json!(1), seen("s1", 12, 1));
        // Another session reads older states, but in order.
        history.call(2, "read", "b", Value::Null, seen("s2", 2, 0));
        history.call(2, "read", "a", Value::Null, seen("s2", 10, 1));
        history.call(2, "read", "b", Value::Null, seen("s2", 2, 0));
        history.call(2, "read", "b", Value::Null, seen("s2", 12, 1));
        history.call(1, "read", "a", Value::Null, seen("s1", 10, 1));
        history
    }

    fn changed(at: usize, name: &str, value: Value) -> Verdict {
        let mut history = good();
        history.events[at].value[name] = value;
        check(&history.events)
    }

    #[test]
    fn a_session_may_be_behind() {
        let verdict = check(&good().events);
        assert_valid(&verdict);
        assert_eq!(verdict.figures["sessions"], 2);
    }

    #[test]
    fn a_read_that_goes_back_is_found() {
        let mut history = good();
        let old = json!({"session": "s2", "zxid": 2, "version": 0});
        history.call(2, "read", "b", Value::Null, old);
        assert_found(&check(&history.events), "a read of b shows zxid 0x2");
    }

    #[test]
    fn an_own_write_that_is_not_read_is_found() {
        let mut history = good();
        history.events[13].value = json!({"session": "s1", "zxid": 1, "version": 0});
        assert_found(&check(&history.events), "0xa changed the znode");
    }

    #[test]
    fn a_znode_older_than_what_was_seen_elsewhere_is_found() {
        // The first read of a follows the newer version of b.
        let mut history = good();
        history.call(
            3,
            "read",
            "b",
            Value::Null,
            json!({"session": "s3", "zxid": 12, "version": 1}),
        );
        history.call(
            3,
            "read",
            "a",
            Value::Null,
            json!({"session": "s3", "zxid": 1, "version": 0}),
        );
        assert_found(
            &check(&history.events),
            "a read of a shows zxid 0x1, but its session had already seen 0xc",
        );
    }

    #[test]
    fn versions_and_zxids_that_do_not_fit_are_found() {
        assert_found(&changed(7, "version", json!(2)), "created two versions");
        assert_found(&changed(3, "zxid", json!(10)), "a write has zxid 0xa");
        assert_found(&changed(5, "version", json!(3)), "is followed by");
    }
}
