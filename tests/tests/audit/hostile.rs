//! Attempts to evade the audit log, and the protection against them.

use std::fs;

use proto::request::{Request, SetAclRequest, WriteRequest, flags};
use proto::{Acl, OpCode};
use tests::ensemble::{EnsembleBuilder, Role};
use tests::requests::{create, multi, set_acl, set_data};
use tests::{Flavour, RawSession, Server, ServerBuilder, or_skip, wait_for};

use crate::log::{Ask, AuditLog};
use crate::roles::session_at;

fn audited() -> ServerBuilder {
    ServerBuilder::new(Flavour::under_test()).setting("audit.enable", "true")
}

fn log_of(server: &Server) -> AuditLog {
    AuditLog::of(server.config_file().parent().expect("a directory"))
}

/// Counts the lines of the log with this end.
fn count(log: &AuditLog, end: &str) -> usize {
    log.all().iter().filter(|line| line.ends_with(end)).count()
}

/// Clients that send requests and disconnect immediately. The requests are executed and audited.
#[test]
fn a_request_is_audited_if_its_client_disconnects() {
    let Some(mut server) = or_skip("audit", audited().start()) else {
        return;
    };
    for number in 0..20 {
        let mut session = RawSession::open(&server.address(), None, 10_000).expect("a session");
        let path = format!("/left-{number}");
        session.put(&create(&path, "", 0).request());
        session.flush().expect("the request goes out");
    }
    wait_for("one of them", std::time::Duration::from_secs(20), || {
        (left(&server) > 0).then_some(())
    });
    server.terminate();
    let lines = count(&log_of(&server), "znode_type=persistent\tresult=success");
    server.launch().expect("the server starts again");
    assert_eq!(lines, left(&server));
}

/// Returns the number of znodes of clients that have disconnected.
fn left(server: &Server) -> usize {
    let mut session = RawSession::open(&server.address(), None, 10_000).expect("a session");
    let answer = session.call(&tests::requests::get_children("/"));
    let children: Vec<jute::Str> = answer.expect("an answer").record();
    let left = children.iter().filter(|name| name.starts_with("left-"));
    left.count()
}

/// A multi and a reconfig that do not decode are audited, as in Java, although other malformed
/// requests are not. The requests after them are audited as well.
#[test]
fn undecodable_requests_are_audited_as_in_java() {
    let Some(mut server) = or_skip("audit", audited().start()) else {
        return;
    };
    let mut session = RawSession::open(&server.address(), None, 10_000).expect("a session");
    for op in [
        OpCode::Multi,
        OpCode::Reconfig,
        OpCode::Create,
        OpCode::SetAcl,
    ] {
        session.put_bytes(op, &[0, 0]);
        assert_eq!(session.take().expect("an answer").err, -5, "{op:?}");
    }
    session
        .call(&create("/a", "", 0).request())
        .expect("an answer");
    server.terminate();
    let log = log_of(&server);
    assert_eq!(count(&log, "\toperation=multiOperation\tresult=failure"), 1);
    assert_eq!(count(&log, "\toperation=reconfig\tresult=failure"), 1);
    assert_eq!(log.all().len(), 5, "{:#?}", log.all());
}

/// A refused request without a line must not cause the line of a later request. Java does not write
/// a line for unknown flags or for a missing ACL either.
#[test]
fn a_change_is_audited_if_a_refused_request_has_the_same_xid() {
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3]).setting("audit.enable", "true");
    let Some(ensemble) = or_skip("audit", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    for id in [leader, ensemble.in_role(Role::Follower)[0]] {
        let path = format!("/of-{id}");
        let no_list = WriteRequest::SetAcl(SetAclRequest {
            path: Some((*path).into()),
            acl: None,
            version: -1,
        });
        let requests = [
            create(&path, "", 99),
            create(&path, "", flags::PERSISTENT),
            no_list,
            set_acl(&path, &[Acl::open()], -1),
        ];
        let mut session = session_at(&ensemble, id);
        for request in requests {
            session.put_with_xid(7, &request.request());
        }
        let errors = [(); 4].map(|()| session.take().expect("an answer").err);
        assert_eq!(errors, [-8, 0, -114, 0]);
        let line = |end| {
            format!(
                "<TIME> INFO o.a.z.a.Slf4jAuditLogger: session=<SESSION>\tuser=127.0.0.1\t\
                 ip=127.0.0.1\t{end}"
            )
        };
        let created =
            format!("operation=create\tznode={path}\tznode_type=persistent\tresult=success");
        let list_set =
            format!("operation=setAcl\tznode={path}\tacl=world:anyone:cdrwa\tresult=success");
        let mut log = AuditLog::of(ensemble.member(id).home());
        log.skip(1);
        log.expect(&path, &[line(created), line(list_set)]);
    }
}

/// Each line contains all identities of its client. The lines of a multi are about 50 MB, which the
/// queue must not hold.
#[test]
fn a_multi_of_a_client_with_long_identities_displaces_no_lines() {
    const CHANGES: usize = 3000;
    let builder = audited()
        .setting("auditlog.neverBlock", "false")
        .setting("auditlog.maxfilesize", "1GB");
    let Some(mut server) = or_skip("audit", builder.start()) else {
        return;
    };
    let open = || RawSession::open(&server.address(), None, 10_000).expect("a session");
    let (mut first, mut other) = (open(), open());
    let credentials = format!("{}:pw", "u".repeat(16_000));
    first
        .authenticate("digest", credentials.leak())
        .expect("an answer");
    first
        .call(&create("/a", "", 0).request())
        .expect("an answer");
    first.put(&multi(vec![set_data("/a", "", -1); CHANGES]).request());
    first.flush().expect("the request goes out");
    for number in 0..100 {
        let path = format!("/b-{number}");
        let answer = other.call(&create(&path, "", 0).request());
        assert_eq!(answer.expect("an answer").err, 0);
    }
    assert_eq!(first.take().expect("an answer").err, 0);
    server.terminate();
    let file = server.config_file().with_file_name("zookeeper_audit.log");
    let text = fs::read_to_string(file).expect("the audit log");
    let end = "\toperation=setData\tznode=/a\tresult=success\n";
    assert_eq!(text.matches(end).count(), CHANGES);
    assert_eq!(text.matches("\toperation=create\tznode=/b-").count(), 100);
}

/// The last line before the end is in the file, like all earlier ones.
#[test]
fn no_audit_line_is_lost_at_a_stop_or_a_roll() {
    let builder = audited()
        .setting("auditlog.file", "logs/audit.log")
        .setting("auditlog.maxfilesize", "16KB")
        .setting("auditlog.maxbackupindex", "100");
    let Some(mut server) = or_skip("audit", builder.start()) else {
        return;
    };
    let mut session = RawSession::open(&server.address(), None, 10_000).expect("a session");
    session
        .call(&create("/a", "", flags::PERSISTENT).request())
        .expect("an answer");
    let set = Request::Write(set_data("/a", "x", -1));
    for _ in 0..2000 {
        session.put(&set);
    }
    for _ in 0..2000 {
        assert_eq!(session.take().expect("an answer").err, 0);
    }
    server.terminate();
    let home = server.config_file();
    let dir = home.parent().expect("a directory").join("logs");
    let mut text = String::new();
    let files: Vec<_> = fs::read_dir(&dir).expect("the directory").collect();
    for file in &files {
        let file = file.as_ref().expect("a file");
        assert!(file.metadata().expect("a size").len() < 17 << 10);
        text.push_str(&fs::read_to_string(file.path()).expect("a text"));
    }
    assert!(files.len() > 10, "{}", files.len());
    assert_eq!(text.matches("operation=setData\t").count(), 2000);
    assert!(text.ends_with('\n'));
}

/// An operator must not rely on an audit log that cannot be opened.
#[test]
fn an_audit_log_that_cannot_be_opened_prevents_the_start() {
    let builder = audited().setting("auditlog.file", "/proc/no/such/audit.log");
    let Some(failure) = or_skip("audit", builder.try_start()) else {
        return;
    };
    let failure = failure.expect_err("a server without its audit log");
    assert_eq!(failure.status.and_then(|status| status.code()), Some(1));
    assert!(
        failure.log.contains("cannot open the audit log"),
        "{}",
        failure.log
    );
    assert!(failure.log.contains("auditlog.file"), "{}", failure.log);
}

/// Source: QuorumPeerMain, which adds the line for every failed start.
#[test]
fn a_failed_start_is_audited() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.log");
    let builder = audited()
        .setting("auditlog.file", &file.display().to_string())
        .setting("tickTime", "often");
    let Some(failure) = or_skip("audit", builder.try_start()) else {
        return;
    };
    failure.expect_err("a server with a bad tickTime");
    let text = fs::read_to_string(&file).expect("the audit log");
    assert!(
        text.contains("\toperation=serverStart\tresult=failure\n"),
        "{text}"
    );
}
