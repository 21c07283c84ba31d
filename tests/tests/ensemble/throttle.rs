//! Requests that wait because `request_throttle_max_requests` are pending. Reads wait as well, and
//! stale requests are dropped.

use std::time::Duration;

use proto::request::{Request, WriteRequest};
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::requests::{create, get_data, set_data};
use tests::{Flavour, RawSession, or_skip, wait_for};

const LIMIT: Duration = Duration::from_secs(30);

/// Returns settings of three servers with long timeouts, so that two of them can be paused.
fn throttled(settings: &[(&str, &str)]) -> EnsembleBuilder {
    let ours = Flavour::under_test();
    let mut builder = EnsembleBuilder::new(&[ours; 3])
        .setting("syncLimit", "1000")
        .setting("request_throttle_max_requests", "1")
        .setting("request_throttle_stall_time", "20");
    for (key, value) in settings {
        builder = builder.setting(key, value);
    }
    builder
}

fn write(request: WriteRequest) -> Request {
    Request::Write(request)
}

/// The leader's pipeline is full: one write is pending that cannot be committed.
struct Full {
    ensemble: Ensemble,
    leader: u64,
    writer: RawSession,
}

impl Full {
    fn new(mut ensemble: Ensemble) -> Full {
        let leader = ensemble.wait_until_all_serve();
        let mut writer = session(&ensemble, leader, 60_000);
        let created = writer.call(&write(create("/a", "before", 0)));
        assert_eq!(created.expect("an answer").err, 0);
        for id in others(&ensemble, leader) {
            ensemble.member_mut(id).pause();
        }
        writer.put(&write(set_data("/a", "behind", -1)));
        writer.flush().expect("it goes out");
        let full = Full {
            ensemble,
            leader,
            writer,
        };
        full.wait_for("outstanding_requests", 1);
        full
    }

    fn metric(&self, name: &str) -> u64 {
        let value = self.ensemble.member(self.leader).metric(name);
        value.expect("a metric").parse().expect("a number")
    }

    fn wait_for(&self, name: &str, value: u64) {
        wait_for(&format!("{name} {value}"), LIMIT, || {
            (self.metric(name) >= value).then_some(())
        });
    }

    fn go_on(&mut self) {
        for id in others(&self.ensemble, self.leader) {
            self.ensemble.member_mut(id).resume();
        }
        assert_eq!(self.writer.take().expect("an answer").err, 0);
    }
}

fn others(ensemble: &Ensemble, leader: u64) -> Vec<u64> {
    let mut ids = ensemble.ids();
    ids.retain(|id| *id != leader);
    ids
}

fn session(ensemble: &Ensemble, id: u64, timeout_ms: i32) -> RawSession {
    let address = ensemble.member(id).client_address().to_string();
    RawSession::open(&address, None, timeout_ms).expect("a session")
}

#[test]
fn throttled_reads_wait_and_are_dropped_with_their_client() {
    let Some(ensemble) = or_skip("throttle", throttled(&[]).start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let mut patient = session(&ensemble, leader, 60_000);
    let mut leaving = session(&ensemble, leader, 60_000);
    let mut full = Full::new(ensemble);
    patient.put(&get_data("/a"));
    patient.flush().expect("it goes out");
    leaving.put(&get_data("/a"));
    leaving.flush().expect("it goes out");
    // Both have waited for several stalls.
    full.wait_for("request_throttle_wait_count", 6);
    assert_eq!(full.metric("stale_requests_dropped"), 0);
    drop(leaving);
    full.wait_for("stale_requests_dropped", 1);
    full.go_on();
    // It had to wait until the write was complete, and so sees it.
    let answer = patient.take().expect("an answer");
    let data: proto::response::GetDataResponse = answer.record();
    assert_eq!(data.data.as_deref(), Some(&b"behind"[..]));
    assert_eq!(full.metric("stale_requests_dropped"), 1);
}

#[test]
fn stale_requests_are_dropped_if_enabled() {
    let settings = [
        ("request_stale_latency_check", "true"),
        ("request_stale_connection_check", "false"),
    ];
    let Some(ensemble) = or_skip("throttle", throttled(&settings).start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let mut short = session(&ensemble, leader, 600);
    let mut full = Full::new(ensemble);
    short.put(&get_data("/a"));
    assert!(short.take().is_err(), "the connection is closed");
    assert_eq!(full.metric("stale_requests_dropped"), 1);
    full.go_on();
}

#[test]
fn stale_requests_are_kept_if_disabled() {
    let settings = [("request_throttle_drop_stale", "false")];
    let Some(ensemble) = or_skip("throttle", throttled(&settings).start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let mut leaving = session(&ensemble, leader, 60_000);
    let mut full = Full::new(ensemble);
    leaving.put(&write(create("/left", "", 0)));
    leaving.flush().expect("it goes out");
    full.wait_for("request_throttle_wait_count", 3);
    drop(leaving);
    let more = full.metric("request_throttle_wait_count") + 10;
    full.wait_for("request_throttle_wait_count", more);
    full.go_on();
    wait_for("what the client that left had asked for", LIMIT, || {
        let answer = full.writer.call(&get_data("/left")).expect("an answer");
        (answer.err == 0).then_some(())
    });
    assert_eq!(full.metric("stale_requests_dropped"), 0);
}
