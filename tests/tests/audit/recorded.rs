//! The recorded steps in their original environments: a standalone server, and an ensemble.

use proto::request::{WriteRequest, flags};
use proto::{Acl, OpCode};
use tests::ensemble::{Duty, EnsembleBuilder, Role};
use tests::requests::{create, create_with};
use tests::secrets::SUPER_DIGEST;
use tests::{Flavour, RawSession, Server, ServerBuilder, or_skip, wait_until};

use crate::log::{Ask, AuditLog, LIMIT};
use crate::play::{Player, changes_of_members, operations};
use crate::roles::{session_at, start_line};

fn open(server: &Server, timeout_ms: i32) -> RawSession {
    RawSession::open(&server.address(), None, timeout_ms).expect("a session")
}

#[test]
fn a_standalone_server_audits_as_java_does() {
    let builder = ServerBuilder::new(Flavour::under_test())
        .setting("audit.enable", "true")
        .setting("maxSessionTimeout", "60000")
        .setting("minSessionTimeout", "1000")
        .setting("DigestAuthenticationProvider.superDigest", SUPER_DIGEST);
    let Some(mut server) = or_skip("audit", builder.start()) else {
        return;
    };
    let home = server.config_file();
    let Some(mut player) = Player::new("standalone", home.parent().expect("a directory")) else {
        return;
    };
    player.expect("server start");
    operations(&mut player, &|timeout_ms| open(&server, timeout_ms), true);
    server.terminate();
    player.expect("server stop");
    assert!(player.is_over());
}

#[test]
fn a_request_refused_by_enforced_authentication_is_not_audited() {
    let builder = ServerBuilder::new(Flavour::under_test())
        .setting("audit.enable", "true")
        .setting("enforce.auth.enabled", "true")
        .setting("enforce.auth.schemes", "digest");
    let Some(mut server) = or_skip("audit", builder.start()) else {
        return;
    };
    let home = server.config_file();
    let mut session = open(&server, 30_000);
    let answer = session
        .call(&create("/n", "", 0).request())
        .expect("an answer");
    assert_eq!(answer.err, -124);
    server.terminate();
    let log = AuditLog::of(home.parent().expect("a directory"));
    let shown: Vec<String> = log.all();
    assert_eq!(shown.len(), 2, "start and stop: {shown:#?}");
}

/// Apache ZooKeeper writes the lines of a delete, too, but deletes any znode without children.
#[test]
fn delete_container_from_a_client_is_audited() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let builder = ServerBuilder::new(Flavour::Zoarium).setting("audit.enable", "true");
    let Some(server) = or_skip("audit", builder.start()) else {
        return;
    };
    let mut session = open(&server, 30_000);
    let container = create_with(
        OpCode::CreateContainer,
        "/c",
        None,
        flags::CONTAINER,
        &[Acl::open()],
        -1,
    );
    for write in [container, create("/n", "", 0)] {
        let answer = session.call(&write.request()).expect("an answer");
        assert_eq!(answer.err, 0);
    }
    let home = server.config_file();
    let mut log = AuditLog::of(home.parent().expect("a directory"));
    let before = wait_until(LIMIT, || Some(log.all()).filter(|lines| lines.len() == 3));
    log.skip(before.expect("the lines of the creates").len());
    for (path, error, level, result) in [
        ("/n", -103, "ERROR", "failure"),
        ("/c", 0, "INFO", "success"),
    ] {
        let write = WriteRequest::DeleteContainer { path: path.into() };
        let answer = session.call(&write.request()).expect("an answer");
        assert_eq!(answer.err, error, "{path}");
        let line = format!(
            "<TIME> {level} o.a.z.a.Slf4jAuditLogger: session=<SESSION>\tuser=127.0.0.1\t\
             ip=127.0.0.1\toperation=delete\tznode={path}\tresult={result}"
        );
        log.expect(path, &[line]);
    }
}

/// Every member audits the end of a session. Only the member to which the client is connected
/// audits all other operations.
#[test]
fn members_audit_as_java_does_in_every_role() {
    let ours = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[ours; 3])
        .observers(&[ours])
        .dynamic()
        .setting("audit.enable", "true");
    let Some(ensemble) = or_skip("audit", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let follower = ensemble.in_role(Role::Follower)[0];
    let observer = ensemble.in_role(Role::Observer)[0];
    let player = |role: &str, id: u64| Player::new(role, ensemble.member(id).home());
    let (Some(mut at_follower), Some(mut at_leader), Some(mut at_observer)) = (
        player("follower", follower),
        player("leader", leader),
        player("observer", observer),
    ) else {
        return;
    };
    at_follower.expect("server start");
    at_leader.expect("server start");
    at_observer.log().expect("server start", &start_line());
    let mut session = session_at(&ensemble, follower);
    at_follower.call("create through", &mut session, create("/q", "", 0));
    // The leader's log contains the same lines as before.
    at_leader.skip("the same write");
    let line = ensemble.member(observer).line_as(Duty::Observer, true);
    changes_of_members(&mut at_follower, &mut session, observer, &line);
    let ephemeral = create("/q/e", "", flags::EPHEMERAL);
    at_follower.call("create ephemeral", &mut session, ephemeral);
    session.close().expect("the end of a session");
    at_follower.expect("close");
    at_leader.expect("close");
    at_observer.expect("close");
    assert!(at_follower.is_over() && at_leader.is_over() && at_observer.is_over());
}
