//! `status` of an ensemble, with all members and with too few.

use serde_json::Value;
use tests::ensemble::EnsembleBuilder;
use tests::{Flavour, or_skip};

use super::{complaint, program};

#[test]
fn the_exit_code_tells_healthy_degraded_and_down_apart() {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3]).dynamic();
    let Some(mut ensemble) = or_skip("status", builder.start_led_by_last_voter()) else {
        return;
    };
    let first = ensemble.member(1).client_address().to_string();
    let status = |words: &[&str]| {
        let words = [&["status", "--all", "--output", "json"], words].concat();
        let output = program(&words, &first, "");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: Value = serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{error}: {printed}{}", complaint(&output)));
        (output.status.code(), found)
    };
    let (code, found) = status(&[]);
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
    assert_eq!(ends, ["MEMBER", "1", "2", "3", "healthy"], "{table}");

    ensemble.member_mut(2).kill();
    let (code, found) = status(&[]);
    assert_eq!(
        (code, &found["state"]),
        (Some(8), &"degraded".into()),
        "{found}"
    );
    assert!(found["members"][1]["problem"].is_string(), "{found}");

    ensemble.member_mut(3).kill();
    let served = tests::wait_until(super::super::PATIENCE, || {
        let (code, found) = status(&[]);
        (code == Some(7)).then_some(found)
    });
    assert_eq!(served.expect("it is down")["state"], "down");
}
