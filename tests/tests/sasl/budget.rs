//! The limit for failed logins of an address (`auth.maxFailuresPerMinute`).

use std::net::Ipv4Addr;
use std::time::Duration;

use proto::request::Request;
use tests::requests::create;
use tests::secrets::{SASL_BOB, WRONG};
use tests::{Flavour, HttpRequest, Port, RawSession, handshake, or_skip, wait_for};

use crate::clients::log_in;
use crate::files::{Files, builder};

const LIMIT: Duration = Duration::from_secs(30);
const MAX: usize = 5;

/// An address that guesses passwords is refused. Another address and existing connections continue.
#[test]
fn password_guessing_is_refused_without_effect_on_others() {
    let files = Files::new();
    let admin = Port::take();
    let builder = builder(Flavour::Zoarium, &files)
        .setting("auth.maxFailuresPerMinute", &MAX.to_string())
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .setting("admin.serverPort", &admin.number().to_string());
    let Some(server) = or_skip("SASL", builder.start()) else {
        return;
    };
    let guesser = Ipv4Addr::new(127, 0, 0, 7);
    let open = |from| RawSession::open_from(from, &server.address(), &handshake(30_000));
    let mut before = open(guesser).expect("a session");
    let mut bystander = open(Ipv4Addr::new(127, 0, 0, 8)).expect("a session");
    for number in 0..MAX {
        let mut session = open(guesser).expect("a session");
        log_in(&mut session, "bob", WRONG).expect_err("no login");
        let request = Request::Write(create(&format!("/bystander-{number}"), "", 0));
        assert_eq!(bystander.call(&request).expect("an answer").err, 0);
    }
    wait_for("the end of the budget", LIMIT, || {
        let log = server.log();
        let mut lines = log.lines();
        let line = lines.find(|line| line.contains("refusing connections from this address"))?;
        line.contains("peer=127.0.0.7:").then_some(())
    });
    // Even the right password is refused.
    assert!(open(guesser).is_err());
    let mut other = open(Ipv4Addr::new(127, 0, 0, 9)).expect("a session of another address");
    assert_eq!(log_in(&mut other, "bob", SASL_BOB), Ok(()));
    for session in [&mut before, &mut bystander] {
        assert_eq!(session.sync().expect("an answer").err, 0);
    }
    wait_for("the refusal in the log", LIMIT, || {
        let log = server.log();
        let mut lines = log.lines();
        let line = lines.find(|line| line.contains("connection refused: too many failed"))?;
        line.contains("peer=127.0.0.7:").then_some(())
    });
    // The harness, on 127.0.0.1, guesses at the admin port.
    let ask = |scheme: &str| {
        let headers = [("Authorization", scheme)];
        let request = HttpRequest {
            method: "POST",
            target: "/commands/restore",
            headers: &headers,
            body: Some(b""),
        };
        request.send(admin.number()).expect("an answer").status
    };
    let statuses: Vec<u16> = (0..MAX + 2).map(|_| ask("nobody knows")).collect();
    let expected: Vec<u16> = (0..MAX + 2)
        .map(|n| if n < MAX { 401 } else { 429 })
        .collect();
    assert_eq!(statuses, expected);
    assert_eq!(bystander.sync().expect("an answer").err, 0);
}

/// As in Java, the default is without a limit.
#[test]
fn without_the_setting_no_address_is_refused() {
    let files = Files::new();
    let Some(server) = or_skip("SASL", builder(Flavour::Zoarium, &files).start()) else {
        return;
    };
    for _ in 0..3 * MAX {
        let mut session = RawSession::open(&server.address(), None, 30_000).expect("a session");
        log_in(&mut session, "bob", WRONG).expect_err("no login");
    }
    RawSession::open(&server.address(), None, 30_000).expect("a session");
}
