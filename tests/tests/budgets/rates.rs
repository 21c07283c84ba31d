//! Budgets of requests and bytes per second.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::requests::get_data;
use tests::secrets::{SUPER, SUPER_DIGEST};
use tests::{HttpRequest, Port, RawSession, Server, or_skip, wait_for};

use super::{
    AT_ONCE, LIMIT, SHORT_TIMEOUT, TIMEOUT, builder, bystander, greedy, is_served, metric, start,
    write,
};

/// Waits until some requests wait.
fn wait_for_delay(server: &Server) {
    wait_for("requests that wait for a budget", LIMIT, || {
        (metric(server, "zoarium_budget_requests_delayed") > 0).then_some(())
    });
}

/// Receives an answer to each request.
fn take_all(session: &mut RawSession) {
    while session.unanswered() > 0 {
        assert_eq!(session.take().expect("an answer").err, 0);
    }
}

#[test]
fn a_limited_address_waits_and_others_do_not() {
    const RATE: usize = 50;
    let settings = [
        ("budget.greedy.who", "ip:127.0.0.2/32"),
        ("budget.greedy.requestsPerSecond", "50"),
    ];
    let Some(server) = start(&settings) else {
        return;
    };
    let (mut one, mut other) = (greedy(&server, SHORT_TIMEOUT), greedy(&server, TIMEOUT));
    let mut bystander = bystander(&server);
    is_served(&mut bystander, &write("/a", 10));

    let begun = Instant::now();
    for session in [&mut one, &mut other] {
        for _ in 0..2 * RATE {
            session.put(&get_data("/a"));
        }
        session.flush().expect("sent");
    }
    wait_for_delay(&server);
    for _ in 0..20 {
        is_served(&mut bystander, &get_data("/a"));
    }
    take_all(&mut one);
    take_all(&mut other);
    // The first of four seconds' budget is saved up, and a tenth is on credit.
    assert!(
        begun.elapsed() > Duration::from_millis(2800),
        "{:?}",
        begun.elapsed()
    );
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    // Not `one`: it is undefined which of the two receives its answers first, and `one` may have
    // been silent for its timeout.
    is_served(&mut other, &get_data("/a"));

    let log = server.log();
    let mut lines = log.lines().filter(|line| line.contains("over a budget"));
    let line = lines.next().expect("a line in the log");
    for part in [
        "WARN",
        "budget=greedy",
        "who=ip:127.0.0.2",
        "bound=\"requestsPerSecond\"",
        "value=50",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(lines.next(), None, "it is told once a minute");
    let delays = metric(&server, "cnt_zoarium_budget_delay_ms");
    let delayed = metric(&server, "zoarium_budget_requests_delayed");
    assert!(
        delayed > 0 && (delays..=delays + RATE as u64).contains(&delayed),
        "{delays} {delayed}"
    );
    assert!(metric(&server, "max_zoarium_budget_delay_ms") > 0);
}

#[test]
fn a_session_survives_a_wait_longer_than_its_timeout() {
    let settings = [
        ("budget.greedy.who", "ip:127.0.0.2"),
        ("budget.greedy.bytesPerSecond", "1000"),
    ];
    let Some(server) = start(&settings) else {
        return;
    };
    let mut greedy = greedy(&server, SHORT_TIMEOUT);
    let session = greedy.session().clone();
    let begun = Instant::now();
    // More than one second's budget is consumed immediately, and the following requests wait. Some
    // of them do not fit into the read-ahead buffer.
    greedy.put(&write("/long", 5000));
    greedy.put(&get_data("/long"));
    greedy.put(&write("/longer", 40_000));
    greedy.flush().expect("sent");
    assert_eq!(greedy.take().expect("an answer").err, 0);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    take_all(&mut greedy);
    // The request's frame has some more bytes, and one second's budget was saved up.
    assert!(
        begun.elapsed() > Duration::from_millis(3900),
        "{:?}",
        begun.elapsed()
    );
    drop(greedy);
    let again = RawSession::open(&server.address(), Some(&session), SHORT_TIMEOUT);
    let mut again = again.expect("the session is alive");
    // From another address it continues immediately.
    is_served(&mut again, &get_data("/long"));
    assert!(server.log().contains("bound=\"bytesPerSecond\""));
}

#[test]
fn connections_of_an_identity_share_its_budget_from_authentication_on() {
    let settings = [
        ("budget.users.who", "digest:*"),
        ("budget.users.bytesPerSecond", "1000"),
    ];
    let Some(server) = start(&settings) else {
        return;
    };
    let mut bob = bystander(&server);
    let mut ann = [bystander(&server), bystander(&server)];
    // The limit does not apply yet, because the client has not authenticated.
    is_served(&mut ann[0], &write("/a", 20_000));
    is_served(&mut ann[0], &get_data("/a"));
    for ann in &mut ann {
        ann.authenticate("digest", "ann:pass").expect("an answer");
    }
    bob.authenticate("digest", "bob:pass").expect("an answer");
    let begun = Instant::now();
    is_served(&mut ann[0], &write("/b", 5000));
    ann[1].put(&get_data("/a"));
    ann[1].flush().expect("sent");
    wait_for_delay(&server);
    is_served(&mut bob, &get_data("/a"));
    is_served(&mut bystander(&server), &get_data("/a"));
    take_all(&mut ann[1]);
    assert!(
        begun.elapsed() > Duration::from_millis(3900),
        "{:?}",
        begun.elapsed()
    );
    assert!(server.log().contains("who=digest:ann "));
    assert!(!server.log().contains("who=digest:bob"));
}

/// Returns a session whose requests have to wait for longer than any test.
fn indebted(server: &Server) -> RawSession {
    let mut greedy = greedy(server, TIMEOUT);
    is_served(&mut greedy, &write("/debt", 100_000));
    greedy.set_patience(LIMIT);
    greedy
}

const SMALL: [(&str, &str); 2] = [
    ("budget.greedy.who", "ip:127.0.0.2"),
    ("budget.greedy.bytesPerSecond", "100"),
];

#[test]
fn pings_and_close_session_are_not_limited() {
    let Some(server) = start(&SMALL) else {
        return;
    };
    let mut greedy = indebted(&server);
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(greedy.ping().expect("an answer").err, 0);
    }
    assert_eq!(greedy.close().expect("an answer").err, 0);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert_eq!(metric(&server, "zoarium_budget_requests_delayed"), 0);
}

#[test]
fn a_waiting_client_that_disconnects_is_noticed_and_does_not_delay_a_stop() {
    let Some(mut server) = start(&SMALL) else {
        return;
    };
    let mut leaving = indebted(&server);
    leaving.put(&write("/left", 1));
    leaving.flush().expect("sent");
    wait_for_delay(&server);
    drop(leaving);
    wait_for("the end of the connection", LIMIT, || {
        // The remaining connection sends this word.
        (metric(&server, "num_alive_connections") == 1).then_some(())
    });
    let mut greedy = greedy(&server, TIMEOUT);
    greedy.put(&get_data("/debt"));
    greedy.flush().expect("sent");
    wait_for("another that waits", LIMIT, || {
        (metric(&server, "zoarium_budget_requests_delayed") == 2).then_some(())
    });
    assert_eq!(
        bystander(&server)
            .call(&get_data("/left"))
            .expect("an answer")
            .err,
        -101
    );
    // This panics if it takes too long.
    assert!(server.terminate().success());
    assert!(greedy.take().is_err());
}

#[test]
fn the_admin_command_clients_shows_throttled_clients_and_their_budget() {
    let port = Port::take();
    let admin = [
        ("admin.enableServer", "true"),
        ("admin.serverAddress", "127.0.0.1"),
    ];
    let builder = builder(&[&SMALL[..], &admin[..]].concat());
    let builder = builder.setting("admin.serverPort", &port.number().to_string());
    let super_digest = "zookeeper.DigestAuthenticationProvider.superDigest";
    let builder = builder.property(super_digest, SUPER_DIGEST);
    let authorization = format!("digest {SUPER}");
    let Some(server) = or_skip("a server with budgets", builder.start()) else {
        return;
    };
    let mut greedy = indebted(&server);
    greedy.put(&get_data("/debt"));
    greedy.flush().expect("sent");
    wait_for_delay(&server);
    let mut bystander = bystander(&server);
    is_served(&mut bystander, &get_data("/debt"));
    let ask = |by: &str| -> Value {
        let target = format!("/commands/clients?by={by}&sort=throttled");
        let request = HttpRequest {
            method: "GET",
            target: &target,
            headers: &[("Authorization", &authorization)],
            body: None,
        };
        let answer = request.send(port.number()).expect("an answer");
        serde_json::from_slice(&answer.body).expect("JSON")
    };
    let rows = ask("connection")["clients"].clone();
    assert_eq!(rows[0]["budgets"], serde_json::json!(["greedy"]));
    assert_eq!(
        (rows[0]["throttled"].as_u64(), rows[1]["throttled"].as_u64()),
        (Some(1), Some(0))
    );
    assert_eq!(rows[1]["budgets"], serde_json::json!([]));
    let rows = ask("address")["clients"].clone();
    assert_eq!(
        (&rows[0]["address"], &rows[0]["throttled"]),
        (&"127.0.0.2".into(), &1.into())
    );
}

#[test]
fn an_invalid_budget_prevents_the_start() {
    let wrong = [("budget.a.who", "ip:*"), ("budget.a.requestPerSecond", "5")];
    let Some(started) = or_skip("a server with budgets", builder(&wrong).try_start()) else {
        return;
    };
    let failure = started.expect_err("it does not start");
    assert_eq!(failure.status.and_then(|status| status.code()), Some(2));
    let log = failure.log;
    assert!(
        log.contains("budget.a.requestPerSecond: this is not a setting of a budget"),
        "{log}"
    );
    assert!(log.contains("budget.<name>.requestsPerSecond"), "{log}");
}
