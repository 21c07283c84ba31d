//! Failed logins: the log names the client, the reason and the address. No other client is
//! affected.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::tls::Connector;
use jute::Encode;
use proto::OpCode;
use proto::connect::SaslToken;
use tests::{Answer, Bystander, Lost, RawSession, Server, or_skip, wait_for};

use crate::realm::{Realm, SERVICE};

const LIMIT: Duration = Duration::from_secs(60);

fn open(server: &Server) -> RawSession {
    RawSession::open(&server.address(), None, 10_000).expect("a session")
}

fn send(session: &mut RawSession, token: &[u8]) -> Result<Answer, Lost> {
    let token = SaslToken {
        token: Some(Bytes::copy_from_slice(token)).into(),
    };
    session.put_bytes(OpCode::Sasl, &token.to_bytes());
    session.take()
}

fn token(answer: &Answer) -> Option<Bytes> {
    answer.record::<SaslToken>().token.into_exposed()
}

/// Returns the log lines of refused logins, which name the address and the reason.
fn refusals(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log
        .lines()
        .filter(|line| line.contains("SASL login failed"));
    lines.map(str::to_owned).collect()
}

/// Checks that the last of these tokens is refused, for this reason.
fn is_refused(server: &Server, tokens: &[&[u8]], reason: &str) {
    let before = refusals(server).len();
    let mut session = open(server);
    let (last, first) = tokens.split_last().expect("a token");
    for token in first {
        let answer = send(&mut session, token).expect("a challenge");
        assert_eq!(answer.err, 0, "{}", server.log());
    }
    let answer = send(&mut session, last).expect("an answer");
    assert_eq!(answer.err, -115, "{reason}: {}", server.log());
    assert!(session.sync().is_err(), "the connection is closed");
    let line = wait_for(reason, LIMIT, || refusals(server).get(before).cloned());
    assert!(line.contains(reason), "{reason}: {line}");
    assert!(line.contains("peer=127.0.0.1:"), "{line}");
}

#[test]
#[ignore = "runs other people's programs"]
fn bad_tokens_are_refused_without_effect_on_others() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let Some(server) = realm.server() else {
        return;
    };
    let bystander = Bystander::start(&server.address(), Connector::plain());
    let ann = realm.kdc.key_tab("ann");
    let cache = realm.kdc.ticket("ann", &ann, "10m");
    let good = || realm.token(&cache);
    is_refused(&server, &[b""], "the token is empty");
    is_refused(&server, &[b"x"], "cannot accept the ticket: ");
    is_refused(
        &server,
        &[&[0; 65537]],
        "the token has 65537 bytes, the limit is 65536",
    );
    is_refused(&server, &[&[0x60; 65536]], "cannot accept the ticket: ");
    let whole = good();
    for bytes in [whole.len() - 1, whole.len() / 2, 20] {
        is_refused(&server, &[&whole[..bytes]], "cannot accept the ticket: ");
    }
    let mut changed = good();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    is_refused(&server, &[&changed], "cannot accept the ticket: ");
    is_refused(&server, &[&good(), b"more"], "an unexpected token");
    is_refused(
        &server,
        &[&good(), b"", b"\x01\0\0\0"],
        "cannot read the token: ",
    );
    // A server logs at most ten such lines per minute.
    let Some(other) = realm.server() else {
        return;
    };
    is_refused(&other, &[&good(), b"", b""], "cannot read the token: ");
    bystander.finish();
}

/// The authenticator of a token is valid once.
#[test]
#[ignore = "runs other people's programs"]
fn a_replayed_token_is_refused() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let Some(server) = realm.server() else {
        return;
    };
    let ann = realm.kdc.key_tab("ann");
    let token_of_ann = realm.token(&realm.kdc.ticket("ann", &ann, "10m"));
    let mut session = open(&server);
    let answer = send(&mut session, &token_of_ann).expect("an answer");
    assert!(token(&answer).is_some(), "{}", server.log());
    is_refused(&server, &[&token_of_ann], "replay");
}

#[test]
#[ignore = "runs other people's programs"]
fn expired_tickets_and_old_keys_are_refused() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let Some(server) = realm.server() else {
        return;
    };
    let ann = realm.kdc.key_tab("ann");
    // The Zoarium client does not send an expired ticket.
    let short = realm.kdc.ticket("ann", &ann, "1s");
    let told = wait_for("a ticket that is over", LIMIT, || {
        let arguments = ["login", &server.address(), SERVICE, "/over"];
        realm.ours(&short, &arguments).expect("our client").err()
    });
    assert!(told.contains("expired"), "{told}");
    // The tickets are for the service's new key, and its key tab still contains the old one.
    realm.kdc.change_key(SERVICE);
    let cache = realm.kdc.ticket("ann", &ann, "9m");
    is_refused(
        &server,
        &[&realm.token(&cache)],
        "cannot accept the ticket: ",
    );
}

/// The token was created while the ticket was valid, and arrives after the ticket has expired.
#[test]
#[ignore = "runs other people's programs"]
fn a_token_of_an_expired_ticket_is_refused() {
    const LIVES: Duration = Duration::from_secs(20);
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    // The default is five minutes.
    let text = std::fs::read_to_string(realm.kdc.krb5_conf()).expect("a krb5.conf");
    let exact = realm.kdc.path("exact.conf");
    let changed = text.replacen("[libdefaults]", "[libdefaults]\nclockskew = 1", 1);
    std::fs::write(&exact, changed).expect("a krb5.conf");
    let builder = Realm::builder_in(&realm.of_servers(), &exact);
    let Some(server) = or_skip("Kerberos", builder.start()) else {
        return;
    };
    let ann = realm.kdc.key_tab("ann");
    let cache = realm.kdc.ticket("ann", &ann, "20s");
    let has_ticket = Instant::now();
    let token_of_ann = realm.token(&cache);
    let bystander = Bystander::start(&server.address(), Connector::plain());
    wait_for("the end of the ticket", LIMIT, || {
        (has_ticket.elapsed() > LIVES + Duration::from_secs(3)).then_some(())
    });
    is_refused(&server, &[&token_of_ann], "Ticket expired");
    bystander.finish();
}

/// A client that selects a security layer relies on signed or encrypted messages.
#[test]
#[ignore = "runs other people's programs"]
fn a_client_with_a_security_layer_is_refused() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let Some(server) = realm.server() else {
        return;
    };
    let ann = realm.kdc.key_tab("ann");
    let cache = realm.kdc.ticket("ann", &ann, "10m");
    let port = server.port().to_string();
    let login = |layers: &str| {
        let printed = realm.python(&cache, "layer.py", &[&port, layers]);
        or_skip("Kerberos by Python", printed)
    };
    let Some(printed) = login("1") else {
        return;
    };
    assert_eq!(printed, ["offered 1", "login 0"], "{}", server.log());
    let bystander = Bystander::start(&server.address(), Connector::plain());
    for (at, layers) in ["2", "4", "6", "0"].into_iter().enumerate() {
        let printed = login(layers).expect("Python was there before");
        assert_eq!(printed, ["offered 1", "login -115"], "{}", server.log());
        let line = wait_for("a refusal", LIMIT, || refusals(&server).get(at).cloned());
        let reason = format!("the client selected the security layer bits 0x0{layers}");
        assert!(line.contains(&reason), "{reason}: {line}");
        assert!(line.contains("peer=127.0.0.1:"), "{line}");
    }
    bystander.finish();
}

#[test]
#[ignore = "runs other people's programs"]
fn a_ticket_for_another_service_is_refused() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let Some(server) = realm.server() else {
        return;
    };
    realm.kdc.key_tab("other/localhost");
    let ann = realm.kdc.key_tab("ann");
    let cache = realm.kdc.ticket("ann", &ann, "10m");
    let arguments = ["login", &server.address(), "other/localhost", "/a"];
    let told = realm.ours(&cache, &arguments).expect("our client");
    let told = told.expect_err("the server has no such key");
    assert!(
        told.contains("the server refused the Kerberos ticket"),
        "{told}"
    );
    // The KDC does not issue a ticket for an unknown service.
    let arguments = ["login", &server.address(), "nobody/localhost", "/a"];
    let told = realm.ours(&cache, &arguments).expect("our client");
    assert!(told.expect_err("no such service").contains("not found"));
}

#[test]
#[ignore = "runs other people's programs"]
fn a_server_does_not_start_without_its_key() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let refused = |key_tab: &Path, principal: &str, reason: &str| {
        let section = realm.section("Server", key_tab, principal);
        let builder = realm.builder_with(&realm.jaas("wrong.conf", &section));
        let started = or_skip("Kerberos", builder.try_start())?;
        let failure = started.expect_err("it does not start");
        assert_eq!(failure.status.and_then(|status| status.code()), Some(2));
        assert!(failure.log.contains(reason), "{reason}: {}", failure.log);
        assert!(
            failure.log.contains("check keyTab and principal"),
            "{}",
            failure.log
        );
        Some(())
    };
    let garbage = realm.kdc.path("garbage.keytab");
    std::fs::write(&garbage, "no key tab").expect("a file");
    let cut = realm.kdc.path("cut.keytab");
    let whole = std::fs::read(&realm.of_server).expect("a key tab");
    std::fs::write(&cut, &whole[..whole.len() / 4]).expect("a file");
    for (key_tab, principal, reason) in [
        (realm.kdc.path("none.keytab"), SERVICE, "none.keytab"),
        (garbage, SERVICE, "garbage.keytab"),
        (cut, SERVICE, "cut.keytab"),
        (
            realm.of_server.clone(),
            "zookeeper/elsewhere",
            "zookeeper/elsewhere",
        ),
    ] {
        if refused(&key_tab, principal, reason).is_none() {
            return;
        }
    }
}
