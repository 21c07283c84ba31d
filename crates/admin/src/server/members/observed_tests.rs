use super::*;

/// Observations by member 2 of an ensemble of three voters and an observer.
struct Watched {
    observed: Observed,
    ports: BTreeMap<Sid, HostPort>,
    own: Own,
}

fn report(sid: i64, state: MemberState, zxid: i64) -> Report {
    Report {
        state,
        zxid: Some(Zxid(zxid)),
        figures: Some(Figures {
            connections: Some(7),
            ..Figures::default()
        }),
        ..Report::looking(Sid(sid))
    }
}

fn leader(sid: i64, zxid: i64, synced: usize) -> Report {
    Report {
        synced_voters: Some(synced),
        leading_since_ms: Some(500),
        ..report(sid, MemberState::Leader, zxid)
    }
}

fn unreachable() -> Outcome {
    Outcome::Unreachable("Connection refused".to_owned())
}

const NEW: i64 = 0x1_0000_0001;

impl Watched {
    fn new() -> Self {
        let list =
            "server.1=a:1:2\nserver.2=b:1:2;b:2181\nserver.3=c:1:2\nserver.4=d:1:2:observer\n";
        let members = Membership::parse(list, false).unwrap();
        let others =
            [(1, 81), (3, 83), (4, 84)].map(|(id, port)| (Sid(id), HostPort::new("h", port)));
        Self {
            observed: Observed::default(),
            ports: others.into(),
            own: Own {
                my_id: Some(Sid(2)),
                members: Some(Arc::new(members)),
                report: leader(2, NEW, 3),
                now_ms: 1_000,
            },
        }
    }

    /// Records the outcomes of members 1, 3 and 4 at `now_ms`, and returns the state for the page.
    fn at(&mut self, now_ms: i64, outcomes: [Outcome; 3]) -> Value {
        self.own.now_ms = now_ms;
        let outcomes = [1, 3, 4].map(Sid).into_iter().zip(outcomes);
        self.observed
            .note(&self.own, outcomes.collect(), &self.ports)
    }
}

fn reports(reports: [Report; 3]) -> [Outcome; 3] {
    reports.map(|report| Outcome::Report(Box::new(report)))
}

fn all(zxid: i64) -> [Report; 3] {
    [
        report(1, MemberState::Follower, zxid),
        report(3, MemberState::Follower, zxid),
        report(4, MemberState::Observer, zxid),
    ]
}

#[test]
fn a_lost_member_keeps_its_last_figures() {
    let mut watched = Watched::new();
    let healthy = watched.at(1_000, reports(all(NEW)));
    assert_eq!(
        healthy["health"]["line"],
        "Healthy (3 of 3 voters in sync, tolerates 1 failure)"
    );
    let [_, third, fourth] = reports(all(NEW));
    let lost = watched.at(3_000, [unreachable(), third, fourth]);
    assert_eq!(
        lost["health"]["line"],
        "Degraded (2 of 3 voters in sync; server 1 is unreachable; one more failure stops writes)"
    );
    let fault = json!({ "text": "server 1 is unreachable", "since": 3_000, "seen": 1_000 });
    assert_eq!(lost["health"]["faults"], json!([fault]));
    let row = &lost["members"][0];
    assert_eq!(
        (&row["state"], &row["problem"]),
        (&json!("unreachable"), &json!("Connection refused"))
    );
    assert_eq!(
        (&row["connections"], &row["seen"]),
        (&json!(7), &json!(1_000))
    );
    assert_eq!(row["lag_ms"], Value::Null);
    let back = watched.at(5_000, reports(all(NEW)));
    assert_eq!(back["health"]["verdict"], "healthy");
    assert_eq!(back["members"][0]["problem"], Value::Null);
    let events = back["events"].as_array().unwrap().iter();
    let events: Vec<_> = events
        .map(|event| {
            (
                event["at"].as_i64().unwrap(),
                event["text"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        events,
        [
            (5_000, "server 1 answers again"),
            (3_000, "server 1 does not answer any more"),
            (500, "server 2 was elected leader"),
        ]
    );
}

#[test]
fn members_without_a_reachable_admin_port_do_not_look_dead() {
    let mut watched = Watched::new();
    let hidden = || Outcome::Hidden("401".to_owned());
    let [.., fourth] = reports(all(NEW));
    let state = watched.at(1_000, [unreachable(), hidden(), fourth.clone()]);
    assert_eq!(state["health"]["verdict"], "healthy", "{state}");
    assert_eq!(state["members"][0]["state"], "unreachable");
    assert_eq!(state["members"][2]["state"], "unknown");
    assert_eq!(state["members"][2]["problem"], "401");
    // The leader has lost a follower.
    watched.own.report = leader(2, NEW, 2);
    let state = watched.at(2_000, [unreachable(), hidden(), fourth]);
    assert_eq!(state["health"]["verdict"], "degraded", "{state}");
}

#[test]
fn the_lag_is_the_age_of_the_first_missing_transaction() {
    let mut watched = Watched::new();
    watched.at(1_000, reports(all(NEW)));
    watched.own.report = leader(2, NEW + 5, 3);
    // Members report some ms before the leader.
    let state = watched.at(2_000, reports(all(NEW)));
    assert_eq!(state["health"]["verdict"], "healthy", "{state}");
    assert_eq!(
        (&state["members"][0]["lag"], &state["members"][0]["lag_ms"]),
        (&json!(5), &json!(0))
    );
    watched.own.report = leader(2, NEW + 9, 3);
    let mut late = all(NEW + 9);
    late[1].zxid = Some(Zxid(NEW + 4));
    let state = watched.at(6_000, reports(late));
    assert_eq!(
        state["health"]["line"],
        "Degraded (2 of 3 voters in sync; server 3 lags 4 s; one more failure stops writes)"
    );
    let state = watched.at(7_000, reports(all(NEW + 9)));
    assert_eq!(state["health"]["verdict"], "healthy", "{state}");
    // A new epoch without a transaction does not make the other members late.
    watched.own.report = leader(2, 0x2_0000_0000, 3);
    watched.at(8_000, reports(all(NEW + 9)));
    let state = watched.at(20_000, reports(all(NEW + 9)));
    assert_eq!(state["health"]["verdict"], "healthy", "{state}");
}

#[test]
fn a_removed_member_disappears() {
    let mut watched = Watched::new();
    watched.at(1_000, reports(all(NEW)));
    watched.ports.remove(&Sid(4));
    let outcomes = reports(all(NEW)).into_iter().take(2);
    let outcomes = [1, 3].map(Sid).into_iter().zip(outcomes).collect();
    let state = watched
        .observed
        .note(&watched.own, outcomes, &watched.ports);
    let ids: Vec<_> = state["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["member"].as_i64())
        .collect();
    assert_eq!(ids, [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_standalone_server_is_its_own_ensemble() {
    let own = Own {
        my_id: None,
        members: None,
        report: Report {
            member: None,
            ..report(0, MemberState::Standalone, 1)
        },
        now_ms: 1_000,
    };
    let state = Observed::default().note(&own, BTreeMap::new(), &BTreeMap::new());
    assert_eq!(
        state["health"]["line"],
        "Healthy (standalone server, tolerates no failure)"
    );
    assert_eq!(state["members"][0]["is_own"], true);
    assert_eq!(state["members"][0]["state"], "standalone");
}

#[test]
fn the_disk_latency_is_the_mean_of_the_latest_syncs() {
    let mut watched = Watched::new();
    let mut with_syncs = |now_ms, syncs, syncs_ms| {
        let figures = Figures {
            syncs: Some(syncs),
            syncs_ms: Some(syncs_ms),
            ..Figures::default()
        };
        watched.own.report.figures = Some(figures);
        watched.at(now_ms, reports(all(NEW)))["members"][1]["sync_ms"].clone()
    };
    assert_eq!(with_syncs(1_000, 10, 100), Value::Null);
    assert_eq!(with_syncs(2_000, 14, 110), json!(2.5));
    // Without a sync, the last mean remains. The counters of a restarted server start at 0.
    assert_eq!(with_syncs(3_000, 14, 110), json!(2.5));
    assert_eq!(with_syncs(4_000, 1, 1), json!(2.5));
}
