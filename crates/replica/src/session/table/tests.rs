//! Tests of the session tables of leaders and learners.

use super::*;

const TICK: i64 = 2000;
const A: SessionId = SessionId(0x0100_0000_0000_0001);
const B: SessionId = SessionId(0x0100_0000_0000_0002);
const ELSEWHERE: SessionId = SessionId(0x0200_0000_0000_0001);
const LEARNER: Owner = Owner(7);

fn learner() -> Sessions {
    Sessions::reporting(TICK)
}

fn leader(local_sessions: bool) -> Sessions {
    let role = Role::Leader {
        server_id: 1,
        local_sessions,
    };
    Sessions::Deciding(SessionTracker::new(TICK, role))
}

fn touch_of(session: SessionId, timeout_ms: i32) -> Touch {
    Touch {
        session,
        timeout_ms,
    }
}

#[test]
fn a_learner_reports_each_session_once() {
    let mut sessions = learner();
    assert!(sessions.touch(A, 4000, 10));
    assert!(sessions.touch(A, 4000, 20));
    sessions.add(B, 6000, 20);
    sessions.remove(B);
    assert_eq!(sessions.take_touched(), [touch_of(A, 4000)]);
    assert_eq!(sessions.take_touched(), []);
    assert_eq!(sessions.expire(i64::MAX), Expired::default());
}

#[test]
fn a_local_session_is_never_reported_and_expires_locally() {
    for mut sessions in [learner(), leader(true)] {
        sessions.add_local(A, 4000, 0);
        sessions.add_local(B, 4000, 0);
        assert!(sessions.is_local(A));
        assert_eq!(sessions.local_count(), 2);
        assert!(sessions.touch(A, 4000, 3000));
        assert_eq!(sessions.take_touched(), []);
        assert_eq!(sessions.next_deadline(), Some(6000));
        let over = |id| Expired {
            local: vec![id],
            ..Expired::default()
        };
        assert_eq!(sessions.expire(6000), over(B));
        assert!(!sessions.is_local(B));
        assert_eq!(sessions.expire(8000), over(A));
        assert_eq!(
            (sessions.local_count(), sessions.next_deadline()),
            (0, None)
        );
    }
}

#[test]
fn a_leader_distinguishes_expired_local_and_global_sessions() {
    let mut sessions = leader(true);
    sessions.add(A, 4000, 0);
    sessions.add_local(B, 4000, 0);
    assert_eq!(
        sessions.by_deadline(false),
        BTreeMap::from([(6000, vec![A])])
    );
    assert_eq!(
        sessions.by_deadline(true),
        BTreeMap::from([(6000, vec![B])])
    );
    let expired = Expired {
        global: vec![A],
        local: vec![B],
    };
    assert_eq!(sessions.expire(6000), expired);
    let here = Owner::THIS_SERVER;
    assert_eq!(sessions.check(A, here), Err(ErrorCode::SessionExpired));
    assert_eq!(sessions.check(B, here), Err(ErrorCode::SessionExpired));
}

#[test]
fn an_upgrading_session_of_a_learner_is_reported_and_not_expired_any_more() {
    let mut sessions = learner();
    sessions.add_local(A, 4000, 0);
    assert_eq!(sessions.upgrade(A), Some(4000));
    assert_eq!(sessions.upgrade(A), None, "one createSession is enough");
    assert!(!sessions.is_local(A));
    assert_eq!(sessions.expire(i64::MAX), Expired::default());
    assert_eq!(sessions.take_touched(), [touch_of(A, 4000)]);
    sessions.add(A, 4000, 10);
    assert!(sessions.touch(A, 4000, 10));
    assert_eq!(sessions.take_touched(), [touch_of(A, 4000)]);
}

#[test]
fn a_leader_treats_an_upgrading_session_as_global() {
    let mut sessions = leader(true);
    let here = Owner::THIS_SERVER;
    sessions.add_local(A, 4000, 0);
    assert_eq!(sessions.check(A, here), Ok(SessionKind::Local));
    assert_eq!(sessions.upgrade(A), Some(4000));
    assert_eq!(sessions.check(A, here), Ok(SessionKind::Global));
    sessions.add(A, 4000, 0);
    assert_eq!(sessions.check(A, here), Ok(SessionKind::Global));
    let expired = Expired {
        global: vec![A],
        ..Expired::default()
    };
    assert_eq!(sessions.expire(6000), expired);
}

#[test]
fn a_leader_knows_nothing_of_other_servers_local_sessions() {
    let kind = leader(true).check(ELSEWHERE, LEARNER);
    assert_eq!(kind, Ok(SessionKind::Elsewhere));
    let refused = leader(false).check(ELSEWHERE, LEARNER);
    assert_eq!(refused, Err(ErrorCode::SessionExpired));
}

#[test]
fn a_local_session_cannot_move_to_another_server() {
    let mut sessions = leader(true);
    sessions.add_local(A, 4000, 0);
    sessions.add(B, 4000, 0);
    assert!(!sessions.move_to(touch_of(A, 4000), LEARNER, 10));
    assert!(!sessions.move_to(touch_of(ELSEWHERE, 4000), LEARNER, 10));
    assert!(sessions.move_to(touch_of(B, 9000), LEARNER, 10));
    assert_eq!(sessions.check(B, LEARNER), Ok(SessionKind::Global));
    let moved = sessions.check(B, Owner::THIS_SERVER);
    assert_eq!(moved, Err(ErrorCode::SessionMoved));
    assert_eq!(
        sessions.by_deadline(false),
        BTreeMap::from([(10_000, vec![B])])
    );
    let here = Owner::THIS_SERVER;
    assert_eq!(sessions.check(A, here), Ok(SessionKind::Local), "untouched");
}

#[test]
fn a_connection_of_this_server_does_not_keep_a_moved_session_alive() {
    let mut sessions = leader(false);
    sessions.add(A, 4000, 0);
    assert!(sessions.touch_here(A, 4000, 10), "nobody holds it yet");
    assert!(sessions.renew(A, 4000, 10) && sessions.touch_here(A, 4000, 20));
    assert!(sessions.move_to(touch_of(A, 4000), LEARNER, 30));
    let before = sessions.by_deadline(false);
    assert!(!sessions.touch_here(A, 4000, 9000));
    assert_eq!(sessions.by_deadline(false), before, "untouched");
    assert!(sessions.renew(A, 4000, 40) && sessions.touch_here(A, 4000, 50));
    sessions.set_closing(A);
    assert!(!sessions.touch_here(A, 4000, 60));
    assert!(learner().touch_here(A, 4000, 10), "its leader decides");
}
