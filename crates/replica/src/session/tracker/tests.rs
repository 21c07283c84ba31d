use proptest::prelude::*;

use super::*;

const TICK: i64 = 2000;
const A: SessionId = SessionId(0x0100_0000_0000_0000);
const B: SessionId = SessionId(0x0100_0000_0000_0001);
const HERE: Owner = Owner::THIS_SERVER;
const LEARNER: Owner = Owner(7);

fn standalone() -> SessionTracker {
    SessionTracker::new(TICK, Role::Standalone)
}

fn leader(local_sessions: bool) -> SessionTracker {
    let role = Role::Leader {
        server_id: 1,
        local_sessions,
    };
    SessionTracker::new(TICK, role)
}

#[test]
fn an_untouched_session_expires_once_and_stays_closing() {
    let mut sessions = standalone();
    assert!(sessions.add(A, 4000, 500));
    assert_eq!(sessions.next_deadline(), Some(6000));
    assert_eq!(sessions.expire(5999), []);
    assert_eq!(sessions.expire(6000), [A]);
    assert!(sessions.is_closing(A) && sessions.contains(A));
    assert_eq!(sessions.next_deadline(), None);
    assert_eq!(sessions.expire(i64::MAX), []);
    assert!(sessions.remove(A).is_some());
    assert!(!sessions.contains(A) && sessions.is_empty());
}

#[test]
fn a_closing_or_unknown_session_cannot_be_touched_owned_or_revived() {
    let mut sessions = standalone();
    assert!(!sessions.touch(A, 4000, 0));
    assert!(!sessions.set_owner(A, HERE));
    assert!(!sessions.set_closing(A));
    sessions.add(A, 4000, 0);
    assert!(sessions.set_closing(A));
    assert!(!sessions.set_closing(A));
    assert!(!sessions.touch(A, 4000, 1));
    assert!(!sessions.set_owner(A, HERE));
    assert!(!sessions.add(A, 4000, 1), "already known");
    assert!(sessions.is_closing(A));
    assert_eq!(sessions.expire(i64::MAX), [], "its end is decided already");
}

#[test]
fn a_renewal_with_a_shorter_timeout_brings_the_deadline_forward() {
    let mut sessions = standalone();
    sessions.add(A, 40_000, 0);
    sessions.add(B, 40_000, 0);
    assert!(sessions.touch(A, 4000, 100));
    assert_eq!(sessions.timeout(A), Some(4000));
    assert_eq!(sessions.next_deadline(), Some(6000));
    assert_eq!(sessions.expire(6000), [A]);
    assert_eq!(sessions.expire(42_000), [B]);
}

#[test]
fn sessions_expire_in_order_of_deadline_then_id() {
    let mut sessions = standalone();
    for id in (1..=6).rev() {
        sessions.add(SessionId(id), if id % 2 == 0 { 4000 } else { 9000 }, 0);
    }
    let expired: Vec<i64> = sessions.expire(20_000).iter().map(|id| id.0).collect();
    assert_eq!(expired, [2, 4, 6, 1, 3, 5]);
}

#[test]
fn the_first_owner_keeps_a_session_until_it_is_set_again() {
    let mut sessions = standalone();
    sessions.add(A, 4000, 0);
    assert_eq!(sessions.owner(A), None);
    assert_eq!(sessions.check(A, LEARNER), Ok(Some(SessionScope::Global)));
    assert_eq!(sessions.owner(A), Some(LEARNER));
    assert_eq!(sessions.check(A, HERE), Err(ErrorCode::SessionMoved));
    assert!(sessions.set_owner(A, HERE));
    assert_eq!(sessions.check(A, HERE), Ok(Some(SessionScope::Global)));
    assert_eq!(sessions.check(A, LEARNER), Err(ErrorCode::SessionMoved));
}

#[test]
fn a_closing_session_counts_as_expired() {
    for mut sessions in [standalone(), leader(false), leader(true)] {
        sessions.add(A, 4000, 0);
        sessions.set_owner(A, LEARNER);
        sessions.set_closing(A);
        for owner in [HERE, LEARNER] {
            assert_eq!(sessions.check(A, owner), Err(ErrorCode::SessionExpired));
        }
    }
}

#[test]
fn an_unknown_session_is_judged_by_the_servers_role() {
    let elsewhere = SessionId(0x0200_0000_0000_0000);
    assert_eq!(standalone().check(A, HERE), Err(ErrorCode::UnknownSession));
    for id in [A, elsewhere] {
        assert_eq!(
            leader(false).check(id, LEARNER),
            Err(ErrorCode::SessionExpired)
        );
    }
    assert_eq!(leader(true).check(elsewhere, LEARNER), Ok(None));
    assert_eq!(
        leader(true).check(A, LEARNER),
        Err(ErrorCode::SessionExpired),
        "made here, so not another server's local session"
    );
}

/// Models a request that waited on a slow path while its client moved and closed the session.
#[test]
fn a_late_request_of_an_ended_global_session_is_refused() {
    let elsewhere = SessionId(0x0200_0000_0000_0000);
    let mut sessions = leader(true);
    sessions.add(elsewhere, 4000, 0);
    sessions.remove(elsewhere);
    let late = sessions.check(elsewhere, LEARNER);
    assert_eq!(late, Err(ErrorCode::SessionExpired));
}

#[test]
fn a_local_session_is_upgraded_by_one_request_only() {
    let mut sessions = leader(true);
    sessions.add_local(A, 5000, 0);
    assert_eq!(sessions.check(A, HERE), Ok(Some(SessionScope::Local)));
    assert_eq!(sessions.upgrade(A), Some(5000));
    assert_eq!(sessions.check(A, HERE), Ok(Some(SessionScope::Upgrading)));
    assert_eq!(sessions.upgrade(A), None);
    assert!(sessions.touch(A, 5000, 100), "still alive meanwhile");
    assert!(!sessions.add(A, 5000, 200));
    assert_eq!(sessions.get(A).map(|s| s.kind), Some(SessionScope::Global));
    assert_eq!(sessions.check(A, HERE), Ok(Some(SessionScope::Global)));
    assert_eq!(sessions.upgrade(A), None);
    assert!(
        !sessions.add_local(A, 5000, 300),
        "does not become local again"
    );
    assert_eq!(sessions.get(A).map(|s| s.kind), Some(SessionScope::Global));
}

#[test]
fn only_an_open_local_session_is_upgraded() {
    let mut sessions = leader(true);
    assert_eq!(sessions.upgrade(A), None);
    sessions.add(A, 5000, 0);
    assert_eq!(sessions.upgrade(A), None);
    sessions.add_local(B, 5000, 0);
    sessions.set_closing(B);
    assert_eq!(sessions.upgrade(B), None);
}

#[test]
fn the_dump_shows_live_sessions_under_their_true_deadlines() {
    let mut sessions = standalone();
    for (id, timeout) in [(3, 4000), (1, 4000), (2, 9000), (4, 4000)] {
        sessions.add(SessionId(id), timeout, 0);
    }
    sessions.touch(SessionId(3), 4000, 2500);
    sessions.set_closing(SessionId(4));
    sessions.add_local(SessionId(5), 4000, 0);
    let local = [(6000, vec![SessionId(5)])];
    assert_eq!(sessions.by_deadline(true), BTreeMap::from(local));
    let sets = sessions.by_deadline(false);
    let expected = [
        (6000, vec![SessionId(1)]),
        (8000, vec![SessionId(3)]),
        (10_000, vec![SessionId(2)]),
    ];
    assert_eq!(sets, BTreeMap::from(expected));
    assert_eq!((sessions.len(), sessions.iter().count()), (5, 5));
}

/// Slow reference implementation of the tracker.
#[derive(Default)]
struct Model {
    /// Id, last touch, timeout, and whether it is closing.
    sessions: BTreeMap<i64, (i64, i32, bool)>,
}

#[derive(Debug, Clone)]
enum Step {
    Add(i64, i32),
    Touch(i64, i32),
    Close(i64),
    Remove(i64),
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..12i64;
    let timeout = 1..9000i32;
    prop_oneof![
        (id.clone(), timeout.clone()).prop_map(|(id, timeout)| Step::Add(id, timeout)),
        (id.clone(), timeout).prop_map(|(id, timeout)| Step::Touch(id, timeout)),
        id.clone().prop_map(Step::Close),
        id.prop_map(Step::Remove),
        (0..3000i64).prop_map(Step::Pass),
    ]
}

impl Model {
    fn touch(&mut self, id: i64, timeout_ms: i32, now: i64) -> bool {
        match self.sessions.get_mut(&id) {
            Some(session) if !session.2 => {
                *session = (now, timeout_ms, false);
                true
            }
            _ => false,
        }
    }
}

proptest! {
    /// However a session is touched, it expires between its timeout after the last touch and one
    /// tick later. Calling `expire` at every tick finds every session.
    #[test]
    fn expiry_stays_in_its_window(steps in proptest::collection::vec(step(), 0..200)) {
        let mut sessions = standalone();
        let mut model = Model::default();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Add(id, timeout) => {
                    sessions.add(SessionId(id), timeout, now);
                    if !model.touch(id, timeout, now) {
                        model.sessions.entry(id).or_insert((now, timeout, false));
                    }
                }
                Step::Touch(id, timeout) => prop_assert_eq!(
                    sessions.touch(SessionId(id), timeout, now),
                    model.touch(id, timeout, now)
                ),
                Step::Close(id) => {
                    let closes = model.sessions.get(&id).is_some_and(|s| !s.2);
                    prop_assert_eq!(sessions.set_closing(SessionId(id)), closes);
                    if let Some(session) = model.sessions.get_mut(&id) {
                        session.2 = true;
                    }
                }
                Step::Remove(id) => prop_assert_eq!(
                    sessions.remove(SessionId(id)).is_some(),
                    model.sessions.remove(&id).is_some()
                ),
                Step::Pass(ms) => now += ms,
            }
            let deadline = sessions.next_deadline();
            let expired = sessions.expire(now);
            prop_assert!(expired.is_empty() || deadline.is_some_and(|at| at <= now));
            for (id, session) in &mut model.sessions {
                let (touched, timeout, closing) = *session;
                let due = touched + i64::from(timeout);
                if expired.contains(&SessionId(*id)) {
                    prop_assert!(!closing && now > due, "{id} expired early");
                    session.2 = true;
                } else if !closing {
                    prop_assert!(now < due + TICK, "{id} expired late");
                }
            }
            for (id, session) in &model.sessions {
                prop_assert_eq!(sessions.is_closing(SessionId(*id)), session.2);
            }
            prop_assert_eq!(sessions.len(), model.sessions.len());
            let live = model.sessions.values().filter(|s| !s.2).count();
            prop_assert_eq!(sessions.by_deadline(false).values().map(Vec::len).sum::<usize>(), live);
        }
    }
}
