//! Reads and changes of a visitor, with an identity and without one.

use std::path::Path;
use std::time::Duration;

use proto::Acl;
use proto::data::perms;
use proto::request::{Request, flags};
use serde_json::{Value, json};
use tests::RawSession;
use tests::requests::{create, set_acl};

use super::{Visit, found, is};
use crate::site::Site;

/// Creates `/open` for everyone, and `/near` for an address that no client has.
fn open_and_near(session: &mut RawSession) {
    let mut write = |write| session.call(&Request::Write(write)).expect("an answer").err;
    assert_eq!(write(create("/open", b"1".to_vec(), flags::PERSISTENT)), 0);
    assert_eq!(write(create("/near", b"2".to_vec(), flags::PERSISTENT)), 0);
    assert_eq!(
        write(set_acl(
            "/near",
            &[Acl::new(perms::READ, "ip", "10.0.0.1")],
            -1
        )),
        0
    );
}

/// The ACL decides in all cases. A visitor without an identity cannot change anything.
#[test]
fn the_console_has_the_permissions_of_its_visitor() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    open_and_near(&mut session);
    let nobody = Visit::begin(site.port);
    let node = found(&nobody.ask("GET", "/console/node?path=/open", None));
    assert_eq!(
        (&node["data"], &node["may_read"]),
        (&json!("MQ=="), &json!(true))
    );
    let near = nobody.ask("GET", "/console/node?path=/near", None);
    is(&near, 403, "NoAuth");
    let root = found(&nobody.ask("GET", "/console/children?path=/", None));
    assert_eq!(root["children"][0]["name"], "near");
    is(
        &nobody.ask("GET", "/console/data?path=/near", None),
        403,
        "NoAuth",
    );
    is(
        &nobody.ask("GET", "/console/children?path=/near", None),
        403,
        "NoAuth",
    );
    is(&nobody.ask("GET", "/console/log", None), 403, "ReadOnly");
    is(
        &nobody.ask("GET", "/console/node?path=/gone", None),
        404,
        "NoNode",
    );
    is(
        &nobody.ask("GET", "/console/node?path=no", None),
        404,
        "NoNode",
    );
    let open = "/console/data?path=/open&version=0";
    is(&nobody.ask("PUT", open, Some(b"x")), 403, "ReadOnly");
    is(
        &nobody.ask("POST", "/console/node?path=/x", Some(b"")),
        403,
        "ReadOnly",
    );
    is(
        &nobody.ask("DELETE", "/console/node?path=/open&version=0", None),
        403,
        "ReadOnly",
    );
}

/// A client that knows the id of a session may know its password.
#[test]
fn only_administrators_see_whole_ids_of_sessions() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    let write = create("/e", "", flags::EPHEMERAL);
    assert_eq!(
        session.call(&Request::Write(write)).expect("an answer").err,
        0
    );
    let whole = format!("0x{:x}", session.session().id.0);
    let begin = format!("{}…", &whole[..10]);
    let sees = |visit: &Visit, like: &str, id: &str| {
        let node = found(&visit.ask("GET", "/console/node?path=/e", None));
        assert_eq!(node["stat"]["ephemeral_owner"], id);
        assert_eq!(node["stat"]["is_ephemeral"], true);
        let target = format!("/console/sessions?like={like}");
        let answer = found(&visit.ask("GET", &target, None));
        let sessions = answer["sessions"].as_array().expect("sessions");
        let of_owner = sessions.iter().find(|one| one["ephemerals"]["total"] == 1);
        assert_eq!(of_owner.expect("the owner")["id"], id);
        sessions.clone()
    };
    let nobody = Visit::begin(site.port);
    let shown = sees(&nobody, &whole[..10], &begin);
    let is_cut = |one: &Value| one["id"].as_str().is_some_and(|id| id.ends_with('…'));
    assert!(shown.iter().all(is_cut), "{shown:?}");
    // The filter does not reveal the rest, digit by digit.
    let target = format!("/console/sessions?like={}", &whole[..11]);
    let guessed = found(&nobody.ask("GET", &target, None));
    assert_eq!(guessed["sessions"], json!([]));
    let ann = Visit::begin(site.port);
    found(&ann.log_in("ann", "pw"));
    sees(&ann, "", &begin);
    let operator = Visit::begin(site.port);
    found(&operator.log_in("super", "secret"));
    sees(&operator, &whole, &whole);
    let skipped = found(&operator.ask("GET", "/console/sessions?skip=99", None));
    assert_eq!(skipped["sessions"], json!([]));
}

/// Returns the line of a file that contains this text, once it exists.
fn line_of(file: &Path, what: &str) -> String {
    let found = tests::wait_until(Duration::from_secs(30), || {
        let text = std::fs::read_to_string(file).ok()?;
        text.lines()
            .find(|line| line.contains(what))
            .map(str::to_owned)
    });
    found.expect("a line")
}

/// A page can create every kind of znode except ephemerals, which are refused with a reason.
#[test]
fn a_visitor_creates_znodes_of_all_kinds() {
    let Some(site) = Site::start(&[("extendedTypesEnabled", "true")]) else {
        return;
    };
    let ann = Visit::begin(site.port);
    found(&ann.log_in("ann", "pw"));
    let create = |query: &str| {
        let target = format!("/console/node?path=/kind-&{query}");
        ann.ask("POST", &target, Some(b"x"))
    };
    for (query, path) in [
        ("kind=ttl&ttl=60000", "/kind-"),
        ("kind=ttl-sequential&ttl=60000", "/kind-00000"),
        ("kind=sequential", "/kind-00000"),
    ] {
        let made = found(&create(query));
        let made = made["path"].as_str().expect("a path");
        assert!(made.starts_with(path), "{query}: {made}");
    }
    let ephemeral = create("kind=ephemeral");
    is(&ephemeral, 400, "BadArguments");
    assert!(ephemeral.text().contains("session"), "{}", ephemeral.text());
    for wrong in [
        "kind=ttl",
        "kind=persistent&ttl=5",
        "kind=ttl&ttl=x",
        "acl=[1]",
    ] {
        is(&create(wrong), 400, "BadArguments");
    }
    let acl =
        "%5B%7B%22scheme%22%3A%22world%22%2C%22id%22%3A%22anyone%22%2C%22perms%22%3A%22rw%22%7D%5D";
    let target = format!("/console/node?path=/exact&acl={acl}&data=null");
    found(&ann.ask("POST", &target, Some(b"")));
    let exact = found(&ann.ask("GET", "/console/node?path=/exact", None));
    assert_eq!(exact["acl"][0]["perms"], "rw");
    assert!(exact["data"].is_null(), "{exact}");
}

/// The audit log contains the identity.
#[test]
fn a_visitor_with_an_identity_changes_permitted_znodes() {
    let Some(site) = Site::start(&[("audit.enable", "true")]) else {
        return;
    };
    let audit = site
        .server
        .config_file()
        .with_file_name("zookeeper_audit.log");
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    open_and_near(&mut session);
    let nobody = Visit::begin(site.port);
    let open = "/console/data?path=/open&version=0";
    let ann = Visit::begin(site.port);
    let who = found(&ann.log_in("ann", "pw"));
    assert_eq!(
        who["identities"][0],
        json!({ "scheme": "digest", "id": "ann" })
    );
    is(&ann.log_in("", "pw"), 400, "BadArguments");
    assert_eq!(
        found(&ann.ask("PUT", open, Some(b"new")))["stat"]["version"],
        1
    );
    is(&ann.ask("PUT", open, Some(b"late")), 409, "BadVersion");
    is(
        &ann.ask("PUT", "/console/data?path=/near&version=0", Some(b"x")),
        403,
        "NoAuth",
    );
    found(&ann.ask(
        "POST",
        "/console/node?path=/mine&acl=creator",
        Some(b"secret"),
    ));
    let mine = "/console/node?path=/mine";
    is(&nobody.ask("GET", mine, None), 403, "NoAuth");
    let node = found(&ann.ask("GET", mine, None));
    assert_eq!(node["acl"][0]["perms"], "cdrwa");
    let acl = json!([{ "scheme": "world", "id": "anyone", "perms": "r" }]).to_string();
    let target = "/console/acl?path=/mine&version=0";
    is(
        &nobody.ask("PUT", target, Some(acl.as_bytes())),
        403,
        "ReadOnly",
    );
    found(&ann.ask("PUT", target, Some(acl.as_bytes())));
    assert_eq!(found(&nobody.ask("GET", mine, None))["data"], "c2VjcmV0");
    found(&ann.ask("DELETE", "/console/node?path=/open&version=1", None));
    // An invented identity does not make a visitor an administrator.
    let refused = ann.ask("GET", "/console/log", None);
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("admin-token"), "{}", refused.text());
    let operator = Visit::begin(site.port);
    found(&operator.log_in("super", "secret"));
    let lines = found(&operator.ask("GET", "/console/log", None));
    assert!(
        lines["lines"]
            .as_array()
            .is_some_and(|lines| !lines.is_empty())
    );

    found(&ann.ask("POST", "/console/logout", Some(b"")));
    is(
        &ann.ask("DELETE", "/console/node?path=/mine&version=0", None),
        403,
        "ReadOnly",
    );

    let deleted = line_of(&audit, "operation=delete");
    assert!(
        deleted.contains("ip=127.0.0.1") && deleted.contains("ann"),
        "{deleted}"
    );
}

/// Children arrive in pages, and data in pieces.
#[test]
fn long_answers_come_in_parts() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    let data: Vec<u8> = (0..200_000u32).map(|at| (at % 251) as u8).collect();
    session.put(&Request::Write(create(
        "/many",
        data.clone(),
        flags::PERSISTENT,
    )));
    for number in 0..450 {
        let child = create(&format!("/many/{number:04}"), Vec::new(), flags::PERSISTENT);
        session.put(&Request::Write(child));
    }
    session.flush().expect("sent");
    for _ in 0..451 {
        assert_eq!(session.take().expect("an answer").err, 0);
    }
    let visit = Visit::begin(site.port);
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let target = format!("/console/children?path=/many&after={after}");
        let page = found(&visit.ask("GET", &target, None));
        assert_eq!(page["total"], 450);
        let children = page["children"].as_array().expect("children");
        assert!(children.len() <= 200);
        let some = children
            .iter()
            .map(|child| child["name"].as_str().expect("a name").to_owned());
        names.extend(some);
        after = names.last().expect("a name").clone();
        if page["has_more"] == false {
            break;
        }
    }
    let all: Vec<String> = (0..450).map(|number| format!("{number:04}")).collect();
    assert_eq!(names, all);
    // A page begins at a number of children, or contains a name.
    let page = |place: &str| {
        let target = format!("/console/children?path=/many&{place}");
        let page = found(&visit.ask("GET", &target, None));
        let names = page["children"].as_array().expect("children");
        (page["skip"].clone(), names.len(), names[0]["name"].clone())
    };
    assert_eq!(page("skip=400"), (json!(400), 50, json!("0400")));
    assert_eq!(page("at=0399"), (json!(200), 200, json!("0200")));
    assert_eq!(page("like=44&skip=8"), (json!(8), 6, json!("0444")));
    for wrong in ["skip=x", "skip=1&at=0399"] {
        let target = format!("/console/children?path=/many&{wrong}");
        is(&visit.ask("GET", &target, None), 400, "BadArguments");
    }
    let node = found(&visit.ask("GET", "/console/node?path=/many", None));
    assert_eq!(
        (&node["data_is_cut"], &node["stat"]["data_length"]),
        (&json!(true), &json!(200_000))
    );
    let piece = visit.ask("GET", "/console/data?path=/many&offset=1000", None);
    assert_eq!(piece.header("x-znode-length"), Some("200000"));
    assert_eq!(piece.body, data[1000..]);
    assert!(
        visit
            .ask("GET", "/console/data?path=/many&offset=99999999", None)
            .body
            .is_empty()
    );
    kept_list_follows_changes(&mut session, &visit);
}

/// The list that a session keeps is not shown after a change, or after the permission has ended.
fn kept_list_follows_changes(session: &mut RawSession, visit: &Visit) {
    let child = create("/many/0000a", Vec::new(), flags::PERSISTENT);
    let answer = session.call(&Request::Write(child)).expect("an answer");
    assert_eq!(answer.err, 0);
    let target = "/console/children?path=/many&at=0000a";
    let page = found(&visit.ask("GET", target, None));
    assert_eq!((&page["skip"], &page["total"]), (&json!(0), &json!(451)));
    assert_eq!(page["children"][1]["name"], "0000a");
    let nobody = [Acl::new(perms::READ, "ip", "10.0.0.1")];
    let answer = session.call(&Request::Write(set_acl("/many", &nobody, -1)));
    assert_eq!(answer.expect("an answer").err, 0);
    let target = "/console/children?path=/many&skip=200";
    is(&visit.ask("GET", target, None), 403, "NoAuth");
}

/// The history shows to a visitor the same data as the commands show to the same identity.
#[test]
fn the_history_is_shown_as_far_as_the_visitor_may_read() {
    let Some(site) = Site::start(&[("history.enabled", "true")]) else {
        return;
    };
    let (nobody, ann) = (Visit::begin(site.port), Visit::begin(site.port));
    found(&ann.log_in("ann", "pw"));
    found(&ann.ask(
        "POST",
        "/console/node?path=/mine&acl=creator",
        Some(b"secret"),
    ));
    let target = "/console/history/changes?path=/mine";
    let seen = tests::wait_until(Duration::from_secs(30), || {
        let answer = ann.ask("GET", target, None);
        let seen: Value = serde_json::from_slice(&answer.body).ok()?;
        let data = seen["results"][0]["data"]["base64"].as_str()?;
        let zxid = seen["results"][0]["zxid"].as_str()?;
        Some((data.to_owned(), zxid.to_owned(), answer))
    });
    let (data, zxid, answer) = seen.expect("a change");
    assert_eq!(data, "c2VjcmV0");
    assert!(answer.header("content-security-policy").is_some());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let tree = format!("tree?at={zxid}&");
    let diff = format!("diff?from=0x0&to={zxid}&");
    for what in ["changes?", &tree, &diff] {
        let target = format!("/console/history/{what}path=/mine");
        let told = ann.ask("GET", &target, None).text();
        assert!(told.contains("c2VjcmV0"), "{told}");
        let untold = nobody.ask("GET", &target, None).text();
        assert!(!untold.contains("c2VjcmV0"), "{untold}");
    }
    is(
        &nobody.ask("GET", "/console/history/export?path=/", None),
        404,
        "NotFound",
    );
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let without = Visit::begin(site.port).ask("GET", target, None);
    assert_eq!(without.status, 404);
}
