//! The verdict of the console on an ensemble, and the figures of all its members.

pub(super) mod outages;

use std::process::Command;

use proto::request::{Request, flags};
use serde_json::Value;
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::requests::create;
use tests::{Flavour, Port, RawSession, http_get, or_skip, wait_for, wait_until, zoarium_binary};

use super::{Visit, found};
use crate::site::LIMIT;

/// Figures of a member that serves clients.
const FIGURES: [&str; 7] = [
    "zxid",
    "connections",
    "sessions",
    "watches",
    "version",
    "serving_since",
    "lag",
];

const HEALTHY: &str = "Healthy (3 of 3 voters in sync, tolerates 1 failure)";

/// Prepares three members that know each other's admin ports. None of them runs.
pub(super) fn prepared(sync_limit: &str) -> Option<(Ensemble, Vec<Port>)> {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .dynamic()
        .setting("syncLimit", sync_limit)
        .setting("history.enabled", "true")
        .setting("history.minFreeMegabytes", "0")
        .setting("admin.enableServer", "true");
    let ensemble = or_skip("the console of an ensemble", builder.prepare())?;
    let ports = ensemble.add_admin_ports(true);
    Some((ensemble, ports))
}

/// Starts all three members so that member 3 leads.
pub(super) fn start_led_by_3(ensemble: &mut Ensemble) {
    for id in [1, 3] {
        ensemble.start(id);
    }
    assert_eq!(ensemble.wait_until_these_serve(&[1, 3]), 3);
    ensemble.start(2);
    assert_eq!(ensemble.wait_until_all_serve(), 3);
}

/// Returns the state of the ensemble that a console shows.
fn state(visit: &Visit) -> Value {
    found(&visit.ask("GET", "/console/ensemble", None))
}

/// Waits until a console shows a line about health, and returns the whole state.
pub(super) fn wait_for_line(visit: &Visit, wanted: &str) -> Value {
    let mut last = Value::Null;
    let reached = wait_until(LIMIT, || {
        last = state(visit);
        let line = last["health"]["line"].as_str()?;
        line.starts_with(wanted).then_some(())
    });
    assert!(reached.is_some(), "{wanted:?} is not shown: {last:#}");
    last
}

fn member(state: &Value, id: u64) -> &Value {
    let mut members = state["members"].as_array().expect("members").iter();
    members.find(|row| row["member"] == id).expect("a member")
}

/// Returns the line of `zoarium status --all`.
fn status(ensemble: &Ensemble, server: u64) -> String {
    let mut command = Command::new(zoarium_binary());
    command.args(["status", "--all", "--output", "json", "-s"]);
    command.arg(ensemble.member(server).client_address().to_string());
    let output = command.output().expect("run zoarium status");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    printed["health"].as_str().expect("a line").to_owned()
}

/// Checks that the timeline contains the events of the test.
fn shows_events(state: &Value) {
    let events = state["events"].as_array().expect("events").iter();
    let events: Vec<&str> = events.filter_map(|event| event["text"].as_str()).collect();
    for event in [
        "server 3 was elected leader",
        "server 3 does not lead any more",
        "server 2 does not answer any more",
        "server 2 answers again",
    ] {
        assert!(events.contains(&event), "{event}: {events:#?}");
    }
}

/// Checks that a console shows the kept figures of another member, and of no other address.
fn shows_figures_of_others(visit: &Visit) {
    let ask = |query: &str| visit.ask("GET", &format!("/console/figures?{query}"), None);
    let kept = wait_for("figures of another member", LIMIT, || {
        let kept = found(&ask("member=2&series=reads,connections"));
        let values = kept["series"]["connections"].as_array()?.clone();
        values.iter().any(Value::is_number).then_some(kept)
    });
    let series = kept["series"].as_object().expect("series");
    assert_eq!(series.len(), 2, "{kept:#}");
    assert_eq!(ask("member=9").status, 502);
    assert_eq!(
        ask("member=1").status,
        502,
        "the member itself needs no query"
    );
    assert_eq!(ask("member=127.0.0.1:80").status, 400);
}

#[test]
fn each_member_shows_a_killed_member_and_a_lost_quorum() {
    // The members are not partitioned, so none may lose its leader on a busy machine.
    let Some((mut ensemble, ports)) = prepared("100") else {
        return;
    };
    start_led_by_3(&mut ensemble);
    let visits: Vec<Visit> = ports
        .iter()
        .map(|port| Visit::begin(port.number()))
        .collect();
    for visit in &visits {
        wait_for_line(visit, HEALTHY);
        let state = wait_for("figures of all members", LIMIT, || {
            let state = state(visit);
            let has_all = |id: u64| {
                let row = member(&state, id);
                FIGURES.iter().all(|figure| !row[*figure].is_null())
            };
            ensemble.ids().into_iter().all(has_all).then_some(state)
        });
        assert_eq!(member(&state, 3)["state"], "leader");
        let admin = format!("127.0.0.1:{}", ports[0].number());
        let is_own = member(&state, 1)["is_own"] == true;
        assert!(is_own || member(&state, 1)["admin"] == *admin, "{state:#}");
    }
    shows_figures_of_others(&visits[0]);
    assert_eq!(status(&ensemble, 1), HEALTHY);

    ensemble.member_mut(2).kill();
    let degraded =
        "Degraded (2 of 3 voters in sync; server 2 is unreachable; one more failure stops writes)";
    for (visit, port) in [(&visits[0], &ports[0]), (&visits[2], &ports[2])] {
        let state = wait_for_line(visit, degraded);
        let row = member(&state, 2);
        assert!(
            row["zxid"].is_string() && row["problem"].is_string(),
            "{state:#}"
        );
        let times = [&row["seen"], &row["since"]].map(|time| time.as_i64().expect("a time"));
        assert!(times[0] <= times[1], "{state:#}");
        // The probes describe only the member that answers them.
        for probe in ["/health/ready", "/health/live"] {
            assert_eq!(http_get(port.number(), probe).status, 200, "{probe}");
        }
    }
    assert_eq!(status(&ensemble, 1), degraded);

    ensemble.member_mut(3).kill();
    let lost = "No quorum (1 of 3 voters answering; server 1 is looking for a leader; \
                server 2 is unreachable; server 3 is unreachable; writes are not served)";
    let state = wait_for_line(&visits[0], lost);
    let remedy = state["health"]["remedy"].as_str().expect("advice");
    assert!(
        remedy.starts_with("Start the unreachable servers"),
        "{remedy}"
    );
    // The command needs a quorum to read the member list.
    let line = status(&ensemble, 1);
    assert!(
        line.starts_with("No quorum (0 of 1 server serving; 127.0.0.1:"),
        "{line}"
    );
    assert_eq!(http_get(ports[0].number(), "/health/ready").status, 503);

    for id in [2, 3] {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    let state = wait_for_line(&visits[0], HEALTHY);
    shows_events(&state);
}

/// Members have separate addresses and the usual ports, without keys for the admin ports.
#[test]
fn both_sides_of_a_partition_show_it() {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("admin.enableServer", "true")
        .in_network(3);
    let Some(mut ensemble) = or_skip("a partition in the console", builder.start()) else {
        return;
    };
    let visits = [1, 2, 3].map(|id| {
        let address = (ensemble.network().address(id), 8080);
        Visit::begin_at(address.into())
    });
    for visit in &visits {
        wait_for_line(visit, HEALTHY);
    }
    ensemble.network().cut(&[1], &[2, 3]);
    let alone = wait_for_line(
        &visits[0],
        "No quorum (1 of 3 voters answering; server 1 is looking",
    );
    assert_eq!(member(&alone, 2)["state"], "unreachable");
    for visit in &visits[1..] {
        wait_for_line(
            visit,
            "Degraded (2 of 3 voters in sync; server 1 is unreachable; one more",
        );
    }
    ensemble.network().heal();
    for visit in &visits {
        wait_for_line(visit, HEALTHY);
    }
}

/// A follower whose packets from the leader are lost still answers, but lags.
#[test]
fn a_lagging_follower_is_shown_until_it_has_caught_up() {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("admin.enableServer", "true")
        // The follower must not leave the leader while it lags.
        .setting("syncLimit", "1000")
        .in_network(3);
    let what = "a lagging follower in the console";
    let Some(mut ensemble) = or_skip(what, builder.start_led_by_last_voter()) else {
        return;
    };
    // The leader cannot query the follower, either. The other follower can query both.
    let address = (ensemble.network().address(2), 8080);
    let visit = Visit::begin_at(address.into());
    wait_for_line(&visit, HEALTHY);
    ensemble.network().cut_one_way(3, 1);
    let address = ensemble.member(2).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    let write = Request::Write(create("/late", "", flags::PERSISTENT));
    assert_eq!(session.call(&write).expect("an answer").err, 0);
    let lagging = "Degraded (2 of 3 voters in sync; server 1 lags ";
    let state = wait_for_line(&visit, lagging);
    assert_eq!(member(&state, 1)["state"], "follower");
    ensemble.network().mend(&[3], &[1]);
    wait_for_line(&visit, HEALTHY);
}
