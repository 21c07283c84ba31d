//! Faults that a test requests by commands.

use std::io::Write;
use std::time::{Duration, Instant};

use client::{Create, State};
use serde_json::Value;

use super::connect;
use super::fixture::Fixture;
use crate::embedded::embedding::run;

fn serving(answer: &Value) -> Vec<bool> {
    let members = answer["members"].as_array().unwrap().iter();
    members
        .map(|member| member["isServing"].as_bool().unwrap())
        .collect()
}

#[test]
fn a_test_kills_pauses_and_separates_members() {
    let mut fixture = Fixture::start(&["--members", "3"]);
    let status = fixture.must("status");
    assert_eq!(serving(&status), [true; 3]);
    assert_eq!(status["members"][1]["id"], 2);
    assert_eq!(status["members"][1]["address"], fixture.members()[1]);

    let leader = status["leader"].as_u64().unwrap();
    fixture.must(&format!("kill {leader}"));
    fixture.must("wait");
    let status = fixture.must("status");
    let next = status["leader"].as_u64().unwrap();
    assert_ne!(next, leader);
    fixture.must(&format!("restart {leader}"));
    fixture.must("wait");

    // The paused leader keeps its connections, but others elect another leader.
    fixture.must(&format!("pause {next}"));
    fixture.must("wait");
    let status = fixture.must("status");
    let third = status["leader"].as_u64().unwrap();
    assert_ne!(third, next);
    let is_down = |id: u64| !serving(&status)[usize::try_from(id).unwrap() - 1];
    assert!(is_down(next));
    fixture.must(&format!("resume {next}"));
    fixture.must("wait");
    assert_eq!(serving(&fixture.must("status")), [true; 3]);

    let rest: Vec<String> = (1..=3)
        .filter(|id| *id != third)
        .map(|id| id.to_string())
        .collect();
    fixture.must(&format!("partition {} from {third}", rest.join(",")));
    fixture.must("wait");
    assert_ne!(fixture.must("status")["leader"].as_u64().unwrap(), third);
    fixture.must("heal");
    fixture.must("wait");

    fixture.must("pause 1,2");
    let no_majority = fixture.command("wait");
    assert_eq!(no_majority["ok"], false);
    let error = no_majority["error"].as_str().unwrap();
    assert!(error.contains("member 1 is paused"), "{error}");
    // A restart ends the pause, and a stop does not wait for it.
    fixture.must("restart 1");
    fixture.must("wait");
    drop(fixture.stdin.take());
    fixture.ends();
}

#[test]
fn a_test_slows_disks_and_ends_sessions() {
    let mut fixture = Fixture::start(&[]);
    run(async {
        let client = connect(fixture.connect_string()).await;
        fixture.must("slow 300ms");
        let began = Instant::now();
        let ephemeral = Create::ephemeral();
        client.create("/mine", "", &ephemeral).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(300));
        fixture.must("slow 0ms 1");
        fixture.must(&format!("expire {}", client.session_id()));
        let mut state = client.state();
        let expired = state.wait_for(|state| matches!(state, State::Expired));
        expired.await.unwrap();
        let other = connect(fixture.connect_string()).await;
        assert!(other.exists("/mine").await.unwrap().is_none());
    });
    let unknown = fixture.command("expire 0x1");
    assert_eq!(unknown["ok"], false);
    assert!(
        unknown["error"].as_str().unwrap().contains("session"),
        "{unknown}"
    );
}

#[test]
fn wrong_commands_are_refused_and_do_not_stop_the_servers() {
    let mut fixture = Fixture::start(&[]);
    let wrong = [
        ("shoot 1", "write kill"),
        ("kill 9", "the member does not exist"),
        ("partition 2", "member 2 does not exist"),
        ("partition 1 from 1", "must be on one of the two sides"),
        ("slow 50", "50ms"),
    ];
    for (command, reason) in wrong {
        let answer = fixture.command(command);
        assert_eq!(answer["ok"], false);
        assert!(
            answer["error"].as_str().unwrap().contains(reason),
            "{answer}"
        );
    }
    let long = "x".repeat(10_000);
    writeln!(fixture.stdin.as_mut().unwrap(), "\n{long}").unwrap();
    let answer = fixture.line();
    assert!(answer.contains("more than 4096 bytes"), "{answer}");

    let head = "POST / HTTP/1.1";
    let answer = fixture.http(head, "\nslow 0ms\nkill 9\nheal");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let (_, lines) = answer.split_once("\r\n\r\n").unwrap();
    let is_ok = |line: &str| serde_json::from_str::<Value>(line).unwrap()["ok"] == true;
    let ok: Vec<bool> = lines.lines().map(is_ok).collect();
    assert_eq!(ok, [true, false, true]);
    let refused = [
        ("GET / HTTP/1.1", "405"),
        ("POST / HTTP/1.1\r\nOrigin: http://example.com", "403"),
    ];
    for (head, status) in refused {
        let answer = fixture.http(head, "");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
    fixture.must("wait");
}
