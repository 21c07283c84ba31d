//! `readonlymode.enabled`.

use client::Error;
use proto::request::{Request, WriteRequest, flags};
use proto::{ErrorCode, Zxid};
use tests::ensemble::{Ensemble, EnsembleBuilder, Role};
use tests::requests::{create, get_data, multi, set_data};
use tests::{Flavour, RawSession, handshake, or_skip, wait_for};

use crate::sessions::{LIMIT, LONG_MS, open, try_open, write};

/// Higher than `globalOutstandingLimit`.
const REFUSALS: usize = 2500;

/// Starts two voters that serve reads without each other.
fn ensemble(with_local_sessions: bool) -> Option<Ensemble> {
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 2])
        .property("readonlymode.enabled", "true")
        .setting("localSessionsEnabled", &with_local_sessions.to_string())
        .setting("localSessionsUpgradingEnabled", "true");
    or_skip("read-only mode", builder.start())
}

fn wait_for_role(ensemble: &Ensemble, id: u64, role: Role) {
    wait_for("role", LIMIT, || {
        (ensemble.member(id).role() == Some(role)).then_some(())
    });
}

fn isro(ensemble: &Ensemble, id: u64) -> Option<String> {
    ensemble.member(id).word("isro")
}

/// Connects a client that requests a read-only session or not, or that is too old to know the
/// field.
fn connect(
    ensemble: &Ensemble,
    read_only: Option<bool>,
    continued: Option<&RawSession>,
    last_zxid_seen: u64,
) -> Result<RawSession, Error> {
    let handshake = handshake(LONG_MS)
        .with_session(continued.map(|session| session.session().clone()))
        .with_read_only(read_only)
        .with_last_zxid_seen(Zxid(last_zxid_seen.cast_signed()));
    let address = ensemble.member(1).client_address().to_string();
    RawSession::with_handshake(&address, &handshake)
}

fn is_cut(outcome: &Result<RawSession, Error>) -> bool {
    matches!(outcome, Err(Error::Handshake { .. }))
}

fn reads_and_nothing_else(session: &mut RawSession) {
    assert!(session.is_read_only());
    assert_eq!(session.call(&get_data("/a")).expect("an answer").err, 0);
    let refused = ErrorCode::NotReadOnly.code();
    let requests = [
        create("/b", "", flags::PERSISTENT),
        create("/b", "", flags::EPHEMERAL),
        set_data("/a", "", -1),
        multi(vec![set_data("/a", "", -1)]),
        multi(Vec::new()),
    ];
    for request in requests {
        let answer = write(session, request);
        assert_eq!((answer.err, answer.body.len()), (refused, 0));
    }
    assert_eq!(session.sync().expect("an answer").err, refused);
    // More than the limit of pending requests, because a refusal does not use a slot.
    for _ in 0..REFUSALS {
        session.put(&Request::Write(set_data("/a", "", -1)));
    }
    for _ in 0..REFUSALS {
        assert_eq!(session.take().expect("an answer").err, refused);
    }
    assert_eq!(session.call(&get_data("/b")).expect("an answer").err, -101);
}

/// Kills the leader, checks the remaining service, and restarts the leader.
fn serves_reads_without_a_leader(with_local_sessions: bool) {
    let Some(mut ensemble) = ensemble(with_local_sessions) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    assert_eq!(leader, 2);
    assert_eq!(isro(&ensemble, 1).as_deref(), Some("rw"));
    let mut global = open(&ensemble, 1);
    assert!(!global.is_read_only());
    assert_eq!(write(&mut global, create("/a", "", 0)).err, 0);
    assert_eq!(
        write(&mut global, create("/e", "", flags::EPHEMERAL)).err,
        0
    );
    let zxid = ensemble.wait_for_equal_zxids(&[1, 2]);
    ensemble.member_mut(2).kill();

    wait_for_role(&ensemble, 1, Role::ReadOnly);
    assert_eq!(isro(&ensemble, 1).as_deref(), Some("ro"));
    let srvr = ensemble.member(1).word("srvr").expect("an answer");
    assert!(
        srvr.contains("READ-ONLY mode; serving only read-only clients"),
        "{srvr}"
    );
    assert_eq!(
        ensemble.member(1).metric("server_state").as_deref(),
        Some("read-only")
    );
    assert_eq!(ensemble.member(1).metric("peer_state"), None);
    // The suite of zookeeper-client waits for this line.
    wait_for("its line", LIMIT, || {
        let log = ensemble.member(1).log();
        log.contains("Read-only server started").then_some(())
    });
    for unfit in [Some(false), None] {
        assert!(is_cut(&connect(&ensemble, unfit, None, 0)), "{unfit:?}");
    }
    assert!(
        is_cut(&connect(&ensemble, Some(true), None, zxid + 1)),
        "has seen more"
    );
    assert!(
        is_cut(&connect(&ensemble, Some(true), Some(&global), 0)),
        "not this server's to renew"
    );
    let mut first = connect(&ensemble, Some(true), None, zxid).expect("a read-only session");
    reads_and_nothing_else(&mut first);
    let mut second = connect(&ensemble, Some(true), Some(&first), 0).expect("the session again");
    assert_eq!(second.session(), first.session());
    assert!(
        first.call(&get_data("/a")).is_err(),
        "one connection has a session"
    );
    reads_and_nothing_else(&mut second);
    let closed = second.call(&Request::Write(WriteRequest::CloseSession));
    assert_eq!(closed.expect("an answer").err, 0);
    assert_eq!(ensemble.member(1).zxid(), Some(zxid), "nothing is written");

    let mut last = connect(&ensemble, Some(true), None, 0).expect("a read-only session");
    ensemble.start(2);
    ensemble.wait_until_all_serve();
    assert_eq!(isro(&ensemble, 1).as_deref(), Some("rw"));
    assert!(
        last.call(&get_data("/a")).is_err(),
        "disconnecting read-only clients"
    );
    let mut back = try_open(&ensemble, 1, Some(&global), LONG_MS).expect("the session lives");
    assert!(!back.is_read_only());
    assert_eq!(write(&mut back, set_data("/a", "b", -1)).err, 0);
    let capable = connect(&ensemble, Some(true), None, 0).expect("a session");
    assert!(!capable.is_read_only(), "it gets more than it asked for");
    capable.close().expect("the end of the session");
    back.close().expect("the end of the session");
}

#[test]
fn a_member_without_a_leader_serves_reads() {
    serves_reads_without_a_leader(true);
}

#[test]
fn read_only_sessions_need_no_other_setting() {
    // Apache ZooKeeper then answers the handshake with an error reply, which no client understands.
    if Flavour::under_test() == Flavour::Zoarium {
        serves_reads_without_a_leader(false);
    }
}

#[test]
fn without_read_only_mode_a_member_without_a_leader_does_not_serve() {
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 2]);
    let Some(mut ensemble) = or_skip("no read-only mode", builder.start()) else {
        return;
    };
    ensemble.member_mut(2).kill();
    ensemble.wait_until_none_serves(&[1]);
    let refused = connect(&ensemble, Some(true), None, 0);
    assert!(is_cut(&refused), "{refused:?}");
    assert_eq!(isro(&ensemble, 1).as_deref(), Some("null"));
}
