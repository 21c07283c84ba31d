//! Local sessions in a recording of Apache ZooKeeper 3.9.5 servers
//! (`vectors/ensemble/local-sessions.jsonl`): a follower, an observer and their leader. Zoarium's
//! session tables must agree with theirs at every step.

use serde_json::Value;

use super::*;

const TICK: i64 = 200;
/// Timeout of every recorded session.
const TIMEOUT_MS: i32 = 4000;

struct Replay {
    leader: Sessions,
    /// Learners by their connection to the leader.
    learners: HashMap<u64, Sessions>,
    revalidated: Option<bool>,
}

fn session_of(record: &Value) -> SessionId {
    let text = record.as_str().expect("a session");
    let digits = text.strip_prefix("0x").expect("in hexadecimal");
    SessionId(u64::from_str_radix(digits, 16).unwrap().cast_signed())
}

fn number(value: &Value) -> i32 {
    i32::try_from(value.as_i64().expect("a number")).unwrap()
}

impl Replay {
    fn new() -> Self {
        let role = Role::Leader {
            server_id: 3,
            local_sessions: true,
        };
        Self {
            leader: Sessions::Deciding(SessionTracker::new(TICK, role)),
            learners: HashMap::new(),
            revalidated: None,
        }
    }

    fn take(&mut self, record: &Value) {
        let Some(connection) = record["conn"].as_u64() else {
            return;
        };
        let of_learner = record["dir"] == "F>L";
        let leader = Owner(connection);
        let now_ms = record["t"].as_i64().expect("a time");
        let fresh = || Sessions::reporting(TICK);
        let learner = self.learners.entry(connection).or_insert_with(fresh);
        match record["type"].as_str() {
            Some("REQUEST") => {
                let session = session_of(&record["session"]);
                Self::learner_asks(learner, session, record, now_ms);
                self.leader_judges(session, leader, record, now_ms);
            }
            Some("PING") if of_learner => {
                let touched: Vec<Touch> = touches(&record["touches"]);
                assert_eq!(learner.take_touched(), touched, "at {now_ms} ms");
                for touch in touched {
                    let lives = self.leader.touch(touch.session, touch.timeout_ms, now_ms);
                    assert!(lives);
                }
            }
            Some("REVALIDATE") if of_learner => {
                let [touch] = touches(&Value::Array(vec![record.clone()]))[..] else {
                    unreachable!()
                };
                assert!(!learner.is_local(touch.session), "it would not ask");
                self.revalidated = Some(self.leader.move_to(touch, leader, now_ms));
            }
            Some("REVALIDATE") => {
                assert_eq!(self.revalidated.take(), record["valid"].as_bool());
            }
            Some("PROPOSAL" | "INFORM") => {
                let session = session_of(&record["header"]["session"]);
                match record["op"].as_str() {
                    Some("createSession") => {
                        learner.add(session, number(&record["txn"]["timeOut"]), now_ms);
                    }
                    Some("closeSession") => {
                        learner.remove(session);
                        self.leader.remove(session);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Passes a client's request through the learner.
    fn learner_asks(learner: &mut Sessions, session: SessionId, record: &Value, now_ms: i64) {
        if record["opname"] == "createSession" {
            let timeout_ms = number(&record["request"]["timeout"]);
            assert_eq!(learner.upgrade(session), Some(timeout_ms));
            return;
        }
        if record["cxid"].as_i64() < Some(3) {
            // This is the client's first write. Its handshake with this server is not in the
            // recording.
            learner.add_local(session, TIMEOUT_MS, now_ms);
        }
        if record["request"]["flags"] == 1 {
            assert!(!learner.is_local(session), "a createSession is in front");
        }
        assert!(learner.touch(session, TIMEOUT_MS, now_ms));
    }

    fn leader_judges(&mut self, session: SessionId, from: Owner, record: &Value, now_ms: i64) {
        match record["opname"].as_str() {
            Some("createSession") => {
                self.leader.add(session, TIMEOUT_MS, now_ms);
                assert!(self.leader.set_owner(session, from));
            }
            Some("closeSession") => self.leader.set_closing(session),
            _ => {
                let kind = match record["request"]["flags"].as_i64() {
                    Some(1) => SessionKind::Global,
                    _ => SessionKind::Elsewhere,
                };
                assert_eq!(self.leader.check(session, from), Ok(kind));
            }
        }
    }
}

fn touches(list: &Value) -> Vec<Touch> {
    let touch = |record: &Value| Touch {
        session: session_of(&record["session"]),
        timeout_ms: number(&record["timeout"]),
    };
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(touch).collect()
}

#[test]
fn sessions_behave_as_in_the_recordings() {
    let Some(file) = testkit::recordings::find("vectors/ensemble/local-sessions.jsonl") else {
        return;
    };
    let text = std::fs::read_to_string(file).unwrap();
    let mut replay = Replay::new();
    for line in text.lines() {
        replay.take(&serde_json::from_str(line).unwrap());
    }
    let known = replay.learners.values().map(Sessions::local_count);
    let left: usize = known.sum();
    assert_eq!(left, 1, "the last one's end is not on the wire");
    assert_eq!(replay.leader.by_deadline(false), BTreeMap::new());
}
