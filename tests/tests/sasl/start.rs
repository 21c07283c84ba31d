//! Which servers start without any SASL user, and the answers of such a server.

use std::process::Command;
use std::time::Duration;

use tests::requests::create;
use tests::{Flavour, ServerBuilder, or_skip, run, secrets};

use crate::clients::{log_in, open};
use crate::files::{Files, PROVIDER, USERS, server};

/// With a provider and a JAAS file that does not exist, an anonymous create once succeeded.
#[test]
fn a_missing_jaas_file_prevents_the_start() {
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("authProvider.sasl", PROVIDER)
        .property("java.security.auth.login.config", "/no/such/jaas.conf");
    let Some(refused) = or_skip("SASL", builder.try_start()) else {
        return;
    };
    let refused = refused.expect_err("a server that lets everybody in");
    assert_eq!(refused.status.and_then(|status| status.code()), Some(2));
    for part in [
        "the command line: -Djava.security.auth.login.config",
        "the JAAS file /no/such/jaas.conf cannot be read",
        "name a file that this server may read",
    ] {
        assert!(refused.log.contains(part), "{part}: {}", refused.log);
    }
}

/// kazoo's own test harness sets the provider and an empty JAAS file. Without this rule, none of
/// its 489 tests ran.
#[test]
fn an_empty_jaas_file_lets_clients_in_without_a_login() {
    let files = tempfile::tempdir().expect("a directory");
    let jaas = files.path().join("jaas.conf");
    std::fs::write(&jaas, "").expect("an empty file");
    let builder = ServerBuilder::new(Flavour::under_test())
        .setting("authProvider.1", PROVIDER)
        .property(
            "java.security.auth.login.config",
            &jaas.display().to_string(),
        );
    let Some(server) = or_skip("SASL", builder.start()) else {
        return;
    };
    let mut session = open(&server.address());
    let create = proto::request::Request::Write(create("/anonymous", "", 0));
    let answer = session.call(&create).expect("an answer");
    assert_eq!(answer.err, 0);
}

/// `test_auth_failed` in the tests of zookeeper-client 0.11.1 configures a server in this way.
#[test]
fn a_server_that_requires_sasl_and_has_no_jaas_file_starts_and_refuses_every_session() {
    let builder = ServerBuilder::new(Flavour::under_test())
        .setting("authProvider.1", PROVIDER)
        .setting("enforce.auth.enabled", "true")
        .setting("enforce.auth.schemes", "sasl")
        .setting("sessionRequireClientSASLAuth", "true");
    let Some(server) = or_skip("SASL", builder.start()) else {
        return;
    };
    let mut session = open(&server.address());
    let create = proto::request::Request::Write(create("/anonymous", "", 0));
    let answer = session.call(&create).expect("an answer");
    assert_eq!(
        answer.err,
        proto::ErrorCode::SessionClosedRequireSaslAuth.code()
    );
    session.call(&create).expect_err("the connection is closed");
}

/// The harness searches the server's output and answers. In this test the server prints much, and
/// the names of its process and threads are also checked.
#[test]
fn no_secret_is_printed_or_shown() {
    let files = Files::new();
    let Some(mut server) = server(Flavour::Zoarium, &files) else {
        return;
    };
    for (user, password) in USERS {
        let mut session = open(&server.address());
        log_in(&mut session, user, password).expect("a login");
        session
            .authenticate("digest", secrets::CAROL)
            .expect("an answer");
        session
            .call(&proto::request::Request::Write(create(
                &format!("/{}", user.len()),
                "",
                0,
            )))
            .expect("an answer");
        let mut session = open(&server.address());
        log_in(&mut session, user, secrets::WRONG).expect_err("no login");
    }
    for word in [
        "conf", "envi", "cons", "dump", "stat", "mntr", "srvr", "wchs",
    ] {
        server.word(word);
    }
    let id = server.process_id().expect("it runs").to_string();
    let mut names = Command::new("ps");
    names.args(["-L", "-o", "comm,args", "-p", &id]);
    if let Ok(names) = run(&mut names, Duration::from_secs(60)) {
        secrets::search("the names of its threads", names.as_bytes());
    }
    server.terminate();
    let log = server.log();
    assert!(log.contains("client logged in with SASL"), "{log}");
    assert!(log.contains("SASL login failed"), "{log}");
}
