//! Every command in every role.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tests::ensemble::{EnsembleBuilder, Role};
use tests::{Flavour, HttpRequest, http_get, or_skip, wait_for};

use crate::shape::Shape;
use crate::site::{Site, enable, ensemble, populate, recorded};

/// Returns whether other tests cover the command, because it has to wait or requires credentials.
fn is_of_others(target: &str) -> bool {
    target.contains("/snapshot") || target.contains("/restore")
}

/// Compares the answer to each recorded request with the recorded one.
fn compare(port: u16, records: &[Value]) {
    for record in records {
        let request = &record["request"];
        let target = request["target"].as_str().expect("a target");
        if request["method"] != "GET" || is_of_others(target) {
            continue;
        }
        let answer = http_get(port, target);
        assert_eq!(record["status"], answer.status, "{target}");
        let recorded_type = header(record, "content-type");
        assert_eq!(
            answer.header("content-type"),
            recorded_type.as_deref(),
            "{target}"
        );
        let body = record["body"].as_str().unwrap_or_default();
        match recorded_type.as_deref() {
            Some("application/json") => compare_json(target, &answer.text(), body),
            // Jetty's page about an exception.
            Some(_) => {}
            None => assert_eq!(answer.text(), body, "{target}"),
        }
    }
}

fn header(record: &Value, name: &str) -> Option<String> {
    let headers = record["headers"].as_array().expect("headers");
    let found = headers.iter().find(|header| {
        let text = header[0].as_str().expect("a name");
        text.eq_ignore_ascii_case(name)
    })?;
    Some(found[1].as_str().expect("a value").to_owned())
}

fn compare_json(target: &str, ours: &str, theirs: &str) {
    let (ours, theirs) = (Shape::parse(ours), Shape::parse(theirs));
    if target.ends_with("/monitor") {
        let (mut ours, mut theirs) = (metrics(&ours), metrics(&theirs));
        if is_read_only(&theirs) {
            // The recording does not contain the attempts of clients there.
            let is_traffic = |(name, _): &(String, String)| !name.ends_with("_per_namespace");
            ours.retain(is_traffic);
            theirs.retain(is_traffic);
        }
        let differ: Vec<_> = ours.symmetric_difference(&theirs).collect();
        assert!(differ.is_empty(), "{target}: {differ:#?}");
    } else if target.ends_with("/system_properties") {
        let own = |shape: &Shape| -> BTreeSet<String> {
            let names = shape.names().into_iter().map(str::to_owned);
            // Java's other names are the JVM's. The rest describes the start of this server.
            names
                .filter(|name| ["os.arch", "os.name", "user.dir", "user.name"].contains(&&**name))
                .collect()
        };
        assert_eq!(own(&ours), own(&theirs), "{target}");
        assert!(ours.get("zookeeper.admin.serverPort").is_some(), "{ours:?}");
        assert_eq!(
            ours.names().last_chunk::<2>(),
            Some(&["command", "error"]),
            "{target}"
        );
    } else {
        ours.check(&theirs, target);
    }
}

fn is_read_only(metrics: &BTreeSet<(String, String)>) -> bool {
    !metrics
        .iter()
        .any(|(name, _)| name == "quorum_size" || name == "app_quota_count_limit_per_namespace")
}

/// Returns the names and types of metrics, whose order is that of a hash map. The names of servers
/// and of namespaces differ.
fn metrics(shape: &Shape) -> BTreeSet<(String, String)> {
    let fields = shape.object().iter();
    let fields = fields.map(|(name, shape)| {
        let mut name = name.clone();
        for namespace in ["app", "live", "other", "missing", "zookeeper"] {
            name = name.replace(&format!("_{namespace}_"), "_N_");
        }
        let parts = name.split('_').map(|part| match part.parse::<u64>() {
            Ok(_) => "N",
            Err(_) => part,
        });
        (parts.collect::<Vec<_>>().join("_"), format!("{shape:?}"))
    });
    fields.collect()
}

#[test]
fn a_standalone_server_answers_as_recorded() {
    let (Some(records), Some(site)) = (recorded("standalone"), Site::start::<&str>(&[])) else {
        return;
    };
    let _session = populate(&site.server.address(), "s");
    compare(site.port, &records);
}

#[test]
fn members_answer_as_recorded() {
    let Some((ensemble, ports)) = ensemble() else {
        return;
    };
    let sessions: Vec<_> = ensemble
        .ids()
        .iter()
        .map(|id| {
            populate(
                &ensemble.member(*id).client_address().to_string(),
                &id.to_string(),
            )
        })
        .collect();
    ensemble.wait_for_equal_zxids(&ensemble.ids());
    for (role, name) in [
        (Role::Leader, "leader"),
        (Role::Follower, "follower"),
        (Role::Observer, "observer"),
    ] {
        let Some(records) = recorded(name) else {
            return;
        };
        let id = ensemble.in_role(role)[0];
        let place = ensemble.ids().iter().position(|other| *other == id);
        let port = &ports[place.expect("a member")];
        compare(port.number(), &records);
    }
    drop(sessions);
}

/// One of three voters, alone.
#[test]
fn a_member_that_looks_for_a_leader_answers_as_recorded() {
    for (name, read_only) in [("electing", "false"), ("read-only", "true")] {
        let Some(records) = recorded(name) else {
            return;
        };
        let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3])
            .setting("admin.enableServer", "true")
            .setting("admin.serverAddress", "127.0.0.1")
            .property("readonlymode.enabled", read_only);
        let Some(mut ensemble) = or_skip("a lonely member", builder.prepare()) else {
            return;
        };
        let ports = enable(&ensemble, &[1]);
        let port = ports[0].number();
        ensemble.start(1);
        let state = match read_only {
            "true" => "\"state\" : \"read-only\"",
            _ => "\"state\" : \"looking\"",
        };
        wait_for("the admin server", Duration::from_secs(30), || {
            let request = HttpRequest {
                method: "GET",
                target: "/health/ready",
                headers: &[],
                body: None,
            };
            let answer = request.send(port).ok()?;
            answer.text().contains(state).then_some(())
        });
        compare(port, &records);
        let ready = http_get(port, "/health/ready");
        assert_eq!(ready.status, 503, "{}", ready.text());
        assert!(
            ready.text().contains("no leader is known"),
            "{}",
            ready.text()
        );
        assert_eq!(http_get(port, "/health/live").status, 200);
    }
}

#[test]
fn every_serving_member_is_ready() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let ready = http_get(site.port, "/health/ready");
    assert_eq!(
        (ready.status, ready.header("content-type")),
        (200, Some("application/json"))
    );
    let expected = "{\n  \"ready\" : true,\n  \"state\" : \"standalone\",\n  \"reason\" : null\n}";
    assert_eq!(ready.text(), expected);
}
