//! `localSessionsEnabled` and `localSessionsUpgradingEnabled`.

use client::Error;
use proto::request::{Request, WriteRequest, flags};
use proto::response::GetDataResponse;
use proto::{Acl, ErrorCode, OpCode};
use tests::ensemble::{Ensemble, EnsembleBuilder, Role};
use tests::requests::{create, create_with, get_data, multi};
use tests::{Flavour, RawSession, or_skip, wait_for};

use crate::sessions::{LIMIT, codes, open, try_open, write};

/// Shortest session timeout here, ms.
const SHORT_MS: i32 = 2000;

/// Starts follower 1, leader 2 and observer 3 with local sessions.
fn ensemble(leader: Flavour, learner: Flavour, upgrading: bool) -> Option<Ensemble> {
    let builder = EnsembleBuilder::new(&[learner, leader])
        .observers(&[learner])
        .setting("localSessionsEnabled", "true")
        .setting("localSessionsUpgradingEnabled", &upgrading.to_string())
        .setting("minSessionTimeout", "600");
    let ensemble = or_skip("local sessions", builder.start_led_by_last_voter())?;
    assert_eq!(ensemble.member(2).role(), Some(Role::Leader));
    // Before the first transaction of an epoch, the members' zxids differ.
    let mut session = open(&ensemble, 2);
    let created = write(&mut session, create("/start", "", flags::PERSISTENT));
    assert_eq!(created.err, 0);
    session.close().expect("the end of the session");
    Some(ensemble)
}

/// Returns the flavour of every server.
fn ours() -> Flavour {
    Flavour::under_test()
}

/// Returns the last transaction, once all members have it.
fn zxid(ensemble: &Ensemble) -> u64 {
    ensemble.wait_for_equal_zxids(&ensemble.ids())
}

fn local_sessions(ensemble: &Ensemble, id: u64) -> Option<u64> {
    ensemble.member(id).metric("local_sessions")?.parse().ok()
}

fn wait_for_local_sessions(ensemble: &Ensemble, id: u64, count: u64) {
    wait_for("number of local sessions", LIMIT, || {
        (local_sessions(ensemble, id) == Some(count)).then_some(())
    });
}

/// Returns whether `dump` of a member lists the session among the local sessions, and among the
/// global ones.
fn shown(ensemble: &Ensemble, id: u64, session: &RawSession) -> (bool, bool) {
    let dump = ensemble.member(id).word("dump").expect("a dump");
    let sessions = dump.split("ephemeral nodes dump:").next().unwrap_or(&dump);
    let (local, global) = sessions.split_once("Global Session").expect("both kinds");
    let name = format!("{:#x}", session.session().id.0);
    (local.contains(&name), global.contains(&name))
}

fn ephemeral(path: &str) -> WriteRequest {
    create(path, "", flags::EPHEMERAL)
}

fn owner_of(session: &mut RawSession, path: &str) -> Option<i64> {
    assert_eq!(session.sync().expect("an answer").err, 0);
    let answer = session.call(&get_data(path)).expect("an answer");
    (answer.err != ErrorCode::NoNode.code())
        .then(|| answer.record::<GetDataResponse>().stat.ephemeral_owner)
}

#[test]
fn a_local_session_has_no_transaction_and_is_unknown_to_others() {
    let Some(ensemble) = ensemble(ours(), ours(), true) else {
        return;
    };
    let root = || get_data("/");
    for id in ensemble.ids() {
        let before = zxid(&ensemble);
        let mut session = open(&ensemble, id);
        assert_eq!(session.call(&root()).expect("an answer").err, 0);
        for other in ensemble.ids() {
            let expected = (other == id, false);
            assert_eq!(
                shown(&ensemble, other, &session),
                expected,
                "{id} at {other}"
            );
            let count = u64::from(other == id);
            assert_eq!(local_sessions(&ensemble, other), Some(count));
        }
        let mut again = try_open(&ensemble, id, Some(&session), 30_000).expect("the session again");
        assert_eq!(again.session(), session.session());
        assert!(
            session.call(&root()).is_err(),
            "one connection has a session"
        );
        assert_eq!(again.call(&root()).expect("an answer").err, 0);
        let elsewhere = ensemble.ids().into_iter().find(|other| *other != id);
        let moved = try_open(&ensemble, elsewhere.expect("others"), Some(&again), 30_000);
        assert!(
            matches!(moved, Err(Error::SessionExpired { .. })),
            "{moved:?}"
        );
        assert_eq!(again.call(&root()).expect("still an answer").err, 0);
        let known = again.session().clone();
        let closed = again.close().expect("the end of the session");
        assert_eq!((closed.err, closed.zxid.0), (0, before.cast_signed()));
        wait_for_local_sessions(&ensemble, id, 0);
        let address = ensemble.member(id).client_address().to_string();
        let over = RawSession::open(&address, Some(&known), 30_000);
        assert!(
            matches!(over, Err(Error::SessionExpired { .. })),
            "{over:?}"
        );
        assert_eq!(zxid(&ensemble), before);
    }
}

#[test]
fn a_local_session_expires_at_its_server() {
    let Some(ensemble) = ensemble(ours(), ours(), true) else {
        return;
    };
    let before = zxid(&ensemble);
    for id in ensemble.ids() {
        let mut session = try_open(&ensemble, id, None, SHORT_MS).expect("a session");
        assert_eq!(local_sessions(&ensemble, id), Some(1));
        wait_for_local_sessions(&ensemble, id, 0);
        assert!(
            session.call(&get_data("/")).is_err(),
            "closed with its session"
        );
        let back = try_open(&ensemble, id, Some(&session), SHORT_MS);
        assert!(
            matches!(back, Err(Error::SessionExpired { .. })),
            "{back:?}"
        );
    }
    assert_eq!(zxid(&ensemble), before);
}

/// Checks, through every member, the permitted operations of a local session and the operations
/// that make it global.
fn upgrades(ensemble: &Ensemble) {
    let mut other = open(ensemble, 2);
    for id in ensemble.ids() {
        let mut session = open(ensemble, id);
        let path = |name: &str| format!("/{name}{id}");
        let before = zxid(ensemble);
        let ttl = create_with(
            OpCode::CreateTtl,
            &path("t"),
            None,
            flags::TTL,
            &[Acl::open()],
            60_000,
        );
        let container = create_with(
            OpCode::CreateContainer,
            &path("c"),
            None,
            flags::CONTAINER,
            &[Acl::open()],
            -1,
        );
        for request in [create(&path("p"), "", flags::PERSISTENT), ttl, container] {
            assert_eq!(write(&mut session, request).err, 0);
        }
        let both = multi(vec![create(&path("m"), "", 0), create(&path("n"), "", 0)]);
        assert_eq!(codes(&write(&mut session, both)), [0, 0]);
        assert_eq!(session.sync().expect("an answer").err, 0);
        assert_eq!(zxid(ensemble), before + 4);
        assert_eq!(shown(ensemble, id, &session), (true, false));
        let created = write(&mut session, ephemeral(&path("e")));
        assert_eq!(created.err, 0);
        assert_eq!(
            created.zxid.0,
            (before + 6).cast_signed(),
            "behind a createSession"
        );
        assert_eq!(write(&mut session, ephemeral(&path("f"))).err, 0);
        assert_eq!(zxid(ensemble), before + 7);
        for everywhere in ensemble.ids() {
            assert_eq!(shown(ensemble, everywhere, &session), (false, true));
        }
        let owner = session.session().id.0;
        assert_eq!(owner_of(&mut other, &path("e")), Some(owner));
        let next = id % 3 + 1;
        let mut moved = try_open(ensemble, next, Some(&session), 30_000).expect("it moves");
        assert_eq!(write(&mut moved, ephemeral(&path("g"))).err, 0);
        moved.close().expect("the end of the session");
        // Java's leader may answer a sync before a pending commit is in its tree.
        ensemble.wait_for_equal_zxids(&ensemble.ids());
        for name in ["e", "f", "g"] {
            assert_eq!(owner_of(&mut other, &path(name)), None);
        }
    }
    other.close().expect("the end of the session");
}

#[test]
fn the_first_ephemeral_makes_a_local_session_global() {
    if let Some(ensemble) = ensemble(ours(), ours(), true) {
        upgrades(&ensemble);
    }
}

#[test]
#[ignore = "runs other people's programs"]
fn sessions_become_global_in_a_mixed_ensemble() {
    for (leader, learner) in [(ours(), Flavour::Apache), (Flavour::Apache, ours())] {
        if let Some(ensemble) = ensemble(leader, learner, true) {
            upgrades(&ensemble);
        }
    }
}

#[test]
fn pipelined_requests_of_a_local_session_are_judged_in_order() {
    let Some(ensemble) = ensemble(ours(), ours(), true) else {
        return;
    };
    let mut other = open(&ensemble, 2);
    for id in ensemble.ids() {
        let before = zxid(&ensemble);
        let path = |name: &str| format!("/{name}{id}");
        // The second request makes it global, so that its end is a transaction.
        let mut session = open(&ensemble, id);
        let both = multi(vec![create(&path("b"), "", 0), ephemeral(&path("c"))]);
        let requests = [create(&path("a"), "", 0), both, WriteRequest::CloseSession];
        for request in requests {
            session.put(&Request::Write(request));
        }
        for _ in 0..3 {
            assert_eq!(session.take().expect("an answer").err, 0);
        }
        assert_eq!(owner_of(&mut other, &path("b")), Some(0));
        assert_eq!(owner_of(&mut other, &path("c")), None);
        assert_eq!(zxid(&ensemble), before + 4);
        // It stays local to its end, which waits for the preceding write.
        let mut session = open(&ensemble, id);
        let mut requests = vec![create(&path("d"), "", 0), WriteRequest::CloseSession];
        if ours() == Flavour::Zoarium {
            // Apache ZooKeeper creates it, and makes the session that it has just ended a global
            // one.
            requests.push(ephemeral(&path("e")));
        }
        for request in requests {
            session.put(&Request::Write(request));
        }
        assert_eq!(session.take().expect("an answer").err, 0);
        assert_eq!(session.take().expect("an answer").err, 0);
        let behind = session.take();
        assert!(behind.is_err(), "{behind:?}");
        assert_eq!(owner_of(&mut other, &path("e")), None);
        wait_for_local_sessions(&ensemble, id, u64::from(id == 2));
        assert_eq!(owner_of(&mut other, &path("d")), Some(0));
    }
    other.close().expect("the end of the session");
}

/// Checks that without upgrading no ephemeral can be created, and all other operations succeed.
fn refuses_ephemerals(ensemble: &Ensemble) {
    for id in ensemble.ids() {
        let mut session = open(ensemble, id);
        let before = zxid(ensemble);
        let path = |name: &str| format!("/{name}{id}");
        let refused = ErrorCode::EphemeralOnLocalSession.code();
        let answer = write(&mut session, ephemeral(&path("e")));
        assert_eq!((answer.err, answer.body.len()), (refused, 0));
        assert_eq!(
            answer.zxid.0,
            (before + 1).cast_signed(),
            "a refusal is a transaction"
        );
        let plain = || create(&path("m"), "", 0);
        let answer = write(&mut session, multi(vec![plain(), ephemeral(&path("e"))]));
        // A leader checks the sessions of other servers without knowing them.
        let second = match id {
            2 => refused,
            _ => ErrorCode::SessionExpired.code(),
        };
        assert_eq!(codes(&answer), [0, second]);
        assert_eq!(
            write(&mut session, plain()).err,
            0,
            "the multi left nothing"
        );
        assert_eq!(shown(ensemble, id, &session), (true, false));
        session.close().expect("the end of the session");
        assert_eq!(zxid(ensemble), before + 3);
    }
}

#[test]
fn without_upgrading_a_local_session_creates_no_ephemeral() {
    if let Some(ensemble) = ensemble(ours(), ours(), false) {
        refuses_ephemerals(&ensemble);
    }
}

#[test]
#[ignore = "runs other people's programs"]
fn ephemerals_of_local_sessions_are_refused_in_a_mixed_ensemble() {
    for (leader, learner) in [(ours(), Flavour::Apache), (Flavour::Apache, ours())] {
        if let Some(ensemble) = ensemble(leader, learner, false) {
            refuses_ephemerals(&ensemble);
        }
    }
}

#[test]
fn local_sessions_end_with_the_role_of_their_server() {
    let Some(mut ensemble) = ensemble(ours(), ours(), true) else {
        return;
    };
    let mut at_follower = open(&ensemble, 1);
    let mut upgraded = open(&ensemble, 1);
    assert_eq!(write(&mut upgraded, ephemeral("/e")).err, 0);
    ensemble.member_mut(2).kill();
    ensemble.wait_until_none_serves(&[1, 3]);
    assert!(at_follower.call(&get_data("/")).is_err(), "cut off");
    ensemble.start(2);
    ensemble.wait_until_all_serve();
    let back = try_open(&ensemble, 1, Some(&at_follower), 30_000);
    assert!(
        matches!(back, Err(Error::SessionExpired { .. })),
        "{back:?}"
    );
    let mut back = try_open(&ensemble, 1, Some(&upgraded), 30_000).expect("a global session");
    let owner = back.session().id.0;
    assert_eq!(owner_of(&mut back, "/e"), Some(owner));
    back.close().expect("the end of the session");
}
