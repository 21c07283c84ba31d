//! The activity of clients: `clients` and `slow_requests`.

use std::time::{Duration, Instant};

use proto::request::{Request, flags};
use serde_json::Value;
use tests::requests::{create, get_data, set_data};
use tests::{Faults, HttpRequest, Port, RawSession, or_skip, wait_for};

use crate::site::{Site, builder, populate};

const LIMIT: Duration = Duration::from_secs(60);
const SUPER: (&str, &str) = ("Authorization", "digest super:secret");

/// Returns the answer of the command to a caller with these headers.
fn ask_as(port: u16, command: &str, headers: &[(&str, &str)]) -> Value {
    let target = format!("/commands/{command}");
    let request = HttpRequest {
        method: "GET",
        target: &target,
        headers,
        body: None,
    };
    let answer = request.send(port).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn ask(site: &Site, command: &str) -> Value {
    ask_as(site.port, command, &[SUPER])
}

/// Returns the row with this value of `key`.
fn row<'a>(answer: &'a Value, key: &str, is: &str) -> &'a Value {
    let rows = answer["clients"].as_array().expect("rows");
    let found = rows.iter().find(|row| row[key] == is);
    found.unwrap_or_else(|| panic!("no {key} {is}: {answer:#}"))
}

fn figure(row: &Value, name: &str) -> u64 {
    row[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name}: {row:#}"))
}

#[test]
fn usage_is_reported_by_address_identity_and_connection() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let address = site.server.address();
    let mut ann = RawSession::open(&address, None, 30_000).expect("a session");
    ann.authenticate("digest", "ann:secret-of-ann")
        .expect("an answer");
    let data = vec![b'x'; 50_000];
    let created = ann.call(&Request::Write(create("/big", data, flags::PERSISTENT)));
    created.expect("an answer");
    for _ in 0..4 {
        ann.call(&get_data("/big")).expect("an answer");
    }
    let anyone = populate(&address, "one");

    let by_name = ask(&site, "clients?by=identity");
    let of_ann = row(&by_name, "identity", "digest:ann");
    let count = |name: &str| figure(of_ann, name);
    assert_eq!(
        (count("reads"), count("writes"), count("requests")),
        (4, 1, 5)
    );
    assert_eq!((count("connections"), count("outstanding")), (1, 0));
    assert!(
        (50_000..51_000).contains(&count("received_bytes")),
        "{of_ann}"
    );
    assert!(
        (200_000..202_000).contains(&count("sent_bytes")),
        "{of_ann}"
    );
    let of_anyone = row(&by_name, "identity", "anyone");
    // Data and existence of two znodes. `populate` does eight reads.
    let held = |name: &str| figure(of_anyone, name);
    assert_eq!(
        (held("watches"), held("ephemerals"), held("reads")),
        (2, 1, 8)
    );
    assert!(!by_name.to_string().contains("secret"), "{by_name}");

    let by_connection = ask(&site, "clients?by=connection&sort=sent_bytes&limit=1");
    let first = &by_connection["clients"][0];
    assert_eq!(
        first["remote_socket_address"],
        ann.local_address().to_string()
    );
    assert_eq!(first["session_id"], ann.session().id.0);
    assert_eq!(first["identities"][0], "digest:ann");
    assert_eq!(by_connection["left_out"], 1);

    // After a connection has ended, its requests remain counted, but its resources do not.
    ann.close().expect("an answer");
    drop(anyone);
    let by_address = wait_for("the end of both connections", LIMIT, || {
        let answer = ask(&site, "clients");
        let connections = figure(row(&answer, "address", "127.0.0.1"), "connections");
        (connections == 0).then_some(answer)
    });
    let here = row(&by_address, "address", "127.0.0.1");
    // The end of the session is a write as well.
    assert_eq!((figure(here, "reads"), figure(here, "watches")), (12, 0));
    assert!(
        figure(here, "writes") >= 2 && figure(here, "sent_bytes") > 200_000,
        "{here}"
    );
    assert_eq!(by_address["total"]["reads"], 12);
    assert_eq!(ask(&site, "connection_stat_reset")["error"], Value::Null);
    assert_eq!(ask(&site, "clients")["total"]["requests"], 0);
}

#[test]
fn only_administrators_see_identities_and_paths() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    let is_refused = |command: &str, headers: &[(&str, &str)]| {
        let answer = ask_as(site.port, command, headers);
        answer["error"]
            .as_str()
            .is_some_and(|error| error.contains("only administrators may see identities"))
    };
    let private = [
        "clients?by=identity",
        "clients?by=connection",
        "slow_requests",
    ];
    // Everyone may do everything with /, but this does not make anyone an administrator.
    let made_up = ("Authorization", "digest a:b");
    assert!(private.iter().all(|command| is_refused(command, &[])));
    assert!(
        private
            .iter()
            .all(|command| is_refused(command, &[made_up]))
    );
    let acl = [proto::Acl {
        perms: proto::data::perms::READ,
        id: proto::Id {
            scheme: "world".into(),
            id: "anyone".into(),
        },
    }];
    let set = tests::requests::set_acl("/", &acl, -1);
    session.call(&Request::Write(set)).expect("an answer");
    assert!(private.iter().all(|command| is_refused(command, &[])));
    assert!(private.iter().all(|command| !is_refused(command, &[SUPER])));
    assert!(!is_refused("clients", &[]));
    for wrong in ["by=name", "sort=size", "limit=x", "limit=1000000"] {
        let answer = ask(&site, &format!("clients?{wrong}"));
        assert!(answer["error"].is_string(), "{wrong}: {answer}");
    }
}

#[test]
fn slow_requests_are_listed_and_logged() {
    let Some(faults) = or_skip("a slow disk", Faults::new()) else {
        return;
    };
    let port = Port::take();
    let builder = builder(&port).setting("zoarium.slowRequestThresholdMs", "40");
    let Some(server) = or_skip("a slow disk", builder.after(&faults.commands(1)).start()) else {
        return;
    };
    let mut session = RawSession::open(&server.address(), None, 30_000).expect("a session");
    let created = session.call(&Request::Write(create("/slow", "x", flags::PERSISTENT)));
    created.expect("an answer");
    let all = |count: u64| {
        wait_for("slow requests", LIMIT, || {
            let answer = ask_as(port.number(), "slow_requests", &[SUPER]);
            (answer["count"].as_u64()? >= count).then_some(answer)
        })
    };
    let before = all(0)["count"].as_u64().expect("a count");

    faults.hold_syncs(1, "log.");
    session.put(&Request::Write(set_data("/slow", "y", -1)));
    // It waits for the write.
    session.put(&get_data("/slow"));
    session.flush().expect("sent");
    let sent = Instant::now();
    wait_for("a sync that waits, for longer than is slow", LIMIT, || {
        (faults.has_held(1) && sent.elapsed() > Duration::from_millis(80)).then_some(())
    });
    faults.release(1);
    for _ in 0..2 {
        assert_eq!(session.take().expect("an answer").err, 0);
    }
    let answer = all(before + 2);
    assert_eq!(answer["threshold"], 40);
    let newest = answer["requests"].as_array().expect("requests");
    // Both were answered simultaneously.
    let mut operations = [&newest[0], &newest[1]].map(|one| one["operation"].as_str());
    operations.sort_unstable();
    assert_eq!(operations, [Some("getData"), Some("setData")]);
    for one in &newest[..2] {
        assert_eq!(
            (&one["path"], one["took"].as_u64() >= Some(40)),
            (&Value::from("/slow"), true)
        );
        assert_eq!(one["session_id"], session.session().id.0);
    }
    let line = wait_for("its line", LIMIT, || {
        let log = server.log();
        let mut lines = log.lines().filter(|line| line.contains("slow request"));
        lines
            .find(|line| line.contains("op=\"setData\""))
            .map(str::to_owned)
    });
    assert!(
        line.contains("path=\"/slow\"") && line.contains("took_ms="),
        "{line}"
    );
}
