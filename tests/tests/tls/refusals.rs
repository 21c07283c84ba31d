//! Unwanted bytes at a port, and unusable stores.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use proto::request::Request;
use tests::certificates::Certificates;
use tests::requests::create;
use tests::secrets::WRONG;
use tests::{Flavour, RawSession, ServerBuilder, or_skip, wait_for};

use crate::{session, started, unified};

const LIMIT: Duration = Duration::from_secs(30);

/// The beginning of a TLS 1.2 handshake.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

#[test]
fn tls_on_a_plain_port_is_closed_with_a_line_that_names_the_peer() {
    let server = started(&ServerBuilder::new(Flavour::Zoarium));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let own = stream.local_addr().unwrap().to_string();
    stream.write_all(CLIENT_HELLO).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut answer = Vec::new();
    // A close with unread bytes may be a reset.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty());
    wait_for("the refusal in the log", LIMIT, || {
        let log = server.log();
        let line = log
            .lines()
            .find(|line| line.contains("the client uses TLS"))?;
        line.contains(&own).then_some(())
    });
}

#[test]
fn a_stranger_is_refused_by_name_and_counted() {
    let certificates = Certificates::new();
    certificates.sign("server");
    let server = started(&unified(&certificates, "pem"));
    let strangers = Certificates::new();
    strangers.sign("mallory");
    std::fs::copy(
        certificates.path("authority.pem"),
        strangers.path("authority.pem"),
    )
    .unwrap();
    assert!(session(&server, strangers.connector(Some("mallory"))).is_err());
    assert!(session(&server, certificates.connector(None)).is_err());
    for reason in ["invalid peer certificate", "no certificate"] {
        wait_for("the refusals in the log", LIMIT, || {
            let log = server.log();
            let line = log.lines().find(|line| line.contains(reason))?;
            line.contains("peer=127.0.0.1:").then_some(())
        });
    }
    assert_eq!(
        server.metric("unsuccessful_handshake").as_deref(),
        Some("2")
    );
    assert_eq!(server.metric("auth_failed_count").as_deref(), Some("2"));
}

/// An old session ticket does not help the client either. Existing connections stay.
#[test]
fn revocation_takes_effect_with_the_new_list() {
    let certificates = Certificates::new();
    for name in ["server", "ann", "bob"] {
        certificates.sign(name);
    }
    let lists = certificates.revoke(&["somebody"], "revoked.pem");
    let builder = unified(&certificates, "pem")
        .setting("ssl.crl.location", &lists.display().to_string())
        .setting("client.certReload", "true");
    let server = started(&builder);
    let (ann, bob) = (
        certificates.connector(Some("ann")),
        certificates.connector(Some("bob")),
    );
    let mut before = session(&server, ann.clone()).unwrap();
    session(&server, bob.clone()).unwrap();
    let new = certificates.revoke(&["ann"], "new.pem");
    std::fs::rename(new, &lists).unwrap();
    wait_for("the list", LIMIT, || session(&server, ann.clone()).err());
    wait_for("the refusal in the log", LIMIT, || {
        let log = server.log();
        let line = log.lines().find(|line| line.contains("Revoked"))?;
        line.contains("peer=127.0.0.1:").then_some(())
    });
    session(&server, bob).unwrap();
    assert_eq!(before.sync().unwrap().err, 0);
    // Garbage does not change anything.
    std::fs::write(&lists, "garbage").unwrap();
    wait_for("the complaint in the log", LIMIT, || {
        let log = server.log();
        log.contains("the file is not a valid list of revoked certificates")
            .then_some(())
    });
    assert!(session(&server, ann).is_err());
}

#[test]
fn many_stalled_handshakes_do_not_block_others() {
    let certificates = Certificates::new();
    certificates.sign("server");
    certificates.sign("ann");
    let server = started(&unified(&certificates, "pem"));
    let mut ann = session(&server, certificates.connector(Some("ann"))).unwrap();
    let mut plain = RawSession::open(&server.address(), None, 10_000).unwrap();
    let mut stuck = Vec::new();
    let mut longest = Duration::ZERO;
    for number in 0..2000 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(CLIENT_HELLO).unwrap();
        stuck.push(stream);
        if number % 100 == 0 {
            let begun = Instant::now();
            for session in [&mut ann, &mut plain] {
                let path = format!("/a{number}-{}", session.session().id.0);
                assert_eq!(
                    session
                        .call(&Request::Write(create(&path, "", 0)))
                        .unwrap()
                        .err,
                    0
                );
            }
            session(&server, certificates.connector(Some("ann"))).unwrap();
            longest = longest.max(begun.elapsed());
        }
    }
    // A generous limit, because other tests run at the same time.
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    // The oldest have been replaced, and the others are dropped at their time limit.
    wait_for("the end of all handshakes", LIMIT, || {
        (server.metric("outstanding_tls_handshake").as_deref() == Some("0")).then_some(())
    });
}

#[test]
fn unusable_stores_prevent_the_start_and_are_named() {
    let certificates = Certificates::new();
    certificates.sign("server");
    let missing = certificates.path("nowhere.pem").display().to_string();
    std::fs::write(certificates.path("garbage.jks"), "garbage").unwrap();
    let garbage = certificates.path("garbage.jks").display().to_string();
    let authority = certificates.path("authority.pem").display().to_string();
    for (key, value, reason) in [
        (
            "ssl.keyStore.location",
            "",
            "ssl.keyStore.location is missing",
        ),
        ("ssl.keyStore.location", &missing, "nowhere.pem"),
        ("ssl.keyStore.location", &garbage, "not a JKS store"),
        (
            "ssl.keyStore.location",
            &authority,
            "a private key with a certificate",
        ),
        ("ssl.trustStore.location", &missing, "nowhere.pem"),
        ("ssl.enabledProtocols", "TLSv1.9", "TLSv1.9"),
        ("ssl.ciphersuites", "TLS_NONE", "TLS_NONE"),
    ] {
        let builder = unified(&certificates, "pem").setting(key, value);
        let started = or_skip("a server of ours", builder.try_start()).unwrap();
        let failure = started.expect_err(key);
        let code = failure.status.and_then(|status| status.code());
        assert_eq!(code, Some(2), "{}", failure.log);
        assert!(
            failure.log.contains(reason),
            "{key}={value}: {}",
            failure.log
        );
    }
}

/// The message names the kind of the store, and never contains a password.
#[test]
fn flawed_stores_of_keytool_are_refused_each_with_its_reason() {
    let certificates = Certificates::new();
    certificates.sign("server");
    if or_skip("stores of keytool", certificates.convert("server")).is_none() {
        return;
    }
    for kind in ["p12", "jks"] {
        let whole = std::fs::read(certificates.path(&format!("server.{kind}"))).unwrap();
        let cut = certificates.path(&format!("cut.{kind}"));
        std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
        let directory = certificates.path(&format!("directory.{kind}"));
        std::fs::create_dir(&directory).unwrap();
        let (cut, directory) = (cut.display().to_string(), directory.display().to_string());
        // Without a password, neither Java nor Zoarium checks the integrity of a JKS store.
        let empty = match kind {
            "jks" => "the private key cannot be decrypted",
            _ => "password is wrong",
        };
        for (key, value, reason) in [
            ("ssl.keyStore.password", WRONG, "password is wrong"),
            ("ssl.keyStore.password", "", empty),
            ("ssl.trustStore.password", WRONG, "password is wrong"),
            ("ssl.keyStore.location", &cut, "or is damaged"),
            ("ssl.keyStore.location", &directory, "cannot read"),
            ("ssl.trustStore.location", &cut, "or is damaged"),
        ] {
            let builder = unified(&certificates, kind).setting(key, value);
            let started = or_skip("a server of ours", builder.try_start()).unwrap();
            let failure = started.expect_err(key);
            let code = failure.status.and_then(|status| status.code());
            assert_eq!(code, Some(2), "{}", failure.log);
            let log = failure.log;
            assert!(log.contains(reason), "{kind} {key}={value}: {log}");
        }
    }
}

#[test]
fn a_changed_store_is_loaded_and_invalid_ones_are_not() {
    let certificates = Certificates::new();
    certificates.sign("server");
    certificates.sign("ann");
    let server = started(&unified(&certificates, "pem").setting("client.certReload", "true"));
    let mut kept = session(&server, certificates.connector(Some("ann"))).unwrap();
    std::fs::write(certificates.path("server.pem"), "garbage").unwrap();
    wait_for("the refusal in the log", LIMIT, || {
        let log = server.log();
        log.contains("continuing with the previous stores")
            .then_some(())
    });
    session(&server, certificates.connector(Some("ann"))).unwrap();
    certificates.sign("server");
    wait_for("the new store in the log", LIMIT, || {
        server
            .log()
            .contains("new connections use the new files")
            .then_some(())
    });
    session(&server, certificates.connector(Some("ann"))).unwrap();
    assert_eq!(
        kept.call(&Request::Write(create("/kept", "", 0)))
            .unwrap()
            .err,
        0
    );
}
