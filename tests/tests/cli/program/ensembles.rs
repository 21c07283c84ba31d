//! `status` of an ensemble, with all members and with too few.

use serde_json::Value;
use tests::ensemble::EnsembleBuilder;
use tests::{Flavour, or_skip};

use super::{complaint, program};

#[test]
fn the_exit_code_distinguishes_healthy_degraded_and_down() {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3]).dynamic();
    let Some(mut ensemble) = or_skip("status", builder.start_led_by_last_voter()) else {
        return;
    };
    let first = ensemble.member(1).client_address().to_string();
    let status = || json(&["status", "--all"], &first);
    let (code, found) = status();
    assert_eq!(
        (code, &found["state"]),
        (Some(0), &"healthy".into()),
        "{found}"
    );
    let members = found["members"].as_array().expect("members");
    let roles: Vec<&str> = members
        .iter()
        .map(|member| member["role"].as_str().expect("a role"))
        .collect();
    assert_eq!(roles, ["follower", "follower", "leader"], "{found}");
    assert_eq!(members[0]["member"], "1");
    assert_eq!(members[0]["address"], first);
    assert_eq!(members[0]["version"], "3.9.5");
    assert!(
        members[0]["lag"].is_u64() && members[0]["connections"].is_u64(),
        "{found}"
    );
    // The table for people has a line for each member, and the state.
    let table = program(&["status", "--all"], &first, "");
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let ends: Vec<&str> = table
        .lines()
        .map(|line| line.split(' ').next().unwrap_or_default())
        .collect();
    assert_eq!(ends, ["MEMBER", "1", "2", "3", "Healthy"], "{table}");
    let line = "Healthy (3 of 3 voters in sync, tolerates 1 failure)";
    assert_eq!(table.lines().last(), Some(line));
    assert_eq!(found["health"], line);

    ensemble.member_mut(2).kill();
    let (code, found) = status();
    assert_eq!(
        (code, &found["state"]),
        (Some(8), &"degraded".into()),
        "{found}"
    );
    assert!(found["members"][1]["problem"].is_string(), "{found}");
    let line =
        "Degraded (2 of 3 voters in sync; server 2 is unreachable; one more failure stops writes)";
    assert_eq!(found["health"], line);

    ensemble.member_mut(3).kill();
    let served = tests::wait_until(super::super::PATIENCE, || {
        let (code, found) = status();
        (code == Some(7)).then_some(found)
    });
    let served = served.expect("it is down");
    assert_eq!(served["state"], "down");
    let health = served["health"].as_str().expect("a line");
    assert!(
        health.starts_with("No quorum (0 of 1 server serving; 127.0.0.1:"),
        "{health}"
    );
}

/// Returns the exit code of a command, and its object.
fn json(words: &[&str], server: &str) -> (Option<i32>, Value) {
    let words = [words, &["--output", "json"]].concat();
    let output = program(&words, server, "");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = serde_json::from_str(&printed);
    let found = found.unwrap_or_else(|error| panic!("{error}: {printed}{}", complaint(&output)));
    (output.status.code(), found)
}

/// All members have the same host, and the member list does not contain their client ports.
#[test]
fn members_on_one_host_are_found_by_their_admin_ports() {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3]);
    let builder = builder.setting("admin.enableServer", "true");
    let Some(mut ensemble) = or_skip("status", builder.prepare()) else {
        return;
    };
    let ports = ensemble.add_admin_ports(true);
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    let clients = ensemble.addresses(&[1, 2, 3]);
    let admin = format!("127.0.0.1:{}", ports[0].number());
    let status = ["status", "--all", "--admin", &admin];
    let (code, found) = json(&status, "");
    assert_eq!(code, Some(0), "{found}");
    let members = found["members"].as_array().expect("members");
    for (member, client) in members.iter().zip(&clients) {
        assert_eq!(member["address"], *client, "{found}");
    }
    assert_eq!(members.len(), 3, "{found}");
    let top = ["top", "-n", "1", "-d", "0.1", "--admin", &admin];
    let (_, found) = json(&top, "");
    let members = found["members"].as_object().expect("members");
    let shown: Vec<&String> = members.keys().collect();
    let mut wanted: Vec<&String> = clients.iter().collect();
    wanted.sort();
    assert_eq!(shown, wanted, "{found}");
    assert!(
        members.values().all(|member| member["Mode"].is_string()),
        "{found}"
    );
    assert_eq!(found["problems"], Value::Array(Vec::new()), "{found}");
    assert!(found["clients"].is_array(), "{found}");

    // The default admin port does not belong to this ensemble.
    let (code, found) = json(&["status", "--all"], &clients[0]);
    assert_eq!(code, Some(8), "{found}");
    let members = found["members"].as_array().expect("members");
    assert!(
        members
            .iter()
            .any(|member| member["address"] == *clients[0]),
        "{found}"
    );
    let problems = members
        .iter()
        .filter_map(|member| member["problem"].as_str());
    let problems: Vec<&str> = problems.collect();
    assert!(!problems.is_empty(), "{found}");
    for problem in problems {
        let reason = "its client port is unknown: no admin port reports it (127.0.0.1:8080";
        assert!(
            problem.starts_with(reason) && problem.contains("--admin"),
            "{problem}"
        );
    }

    ensemble.member_mut(3).kill();
    ensemble.wait_until_these_serve(&[1, 2]);
    let (code, found) = json(&status, "");
    assert_eq!(code, Some(8), "{found}");
    assert!(found["members"][2]["problem"].is_string(), "{found}");
    let lost = format!(
        "cannot query its admin port 127.0.0.1:{}: ",
        ports[2].number()
    );
    let (_, found) = json(&top, "");
    let problem = found["problems"][0].as_str().expect("a problem");
    assert!(problem.starts_with(&format!("member 3: {lost}")), "{found}");
}
