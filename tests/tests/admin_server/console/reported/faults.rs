//! Time from a fault, or from its repair, to the verdict that a page shows.

use std::time::Instant;

use proto::request::Request;
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::requests::create;
use tests::{Browser, Flavour, RawSession, or_skip};

use super::{asked, report};
use crate::console::Visit;
use crate::console::ensemble::outages::says;
use crate::console::ensemble::{prepared, start_led_by_3, wait_for_line};

const HEALTHY: &str = "Healthy (3 of 3 voters in sync";

/// Setting `syncLimit` of the partitioned ensemble, in ticks of 2 s. A partition is noticed after
/// this time.
const SYNC_LIMIT: &str = "2";

fn report_since(name: &str, start: Instant) {
    let elapsed = u64::try_from(start.elapsed().as_millis());
    report(name, elapsed.expect("milliseconds"));
}

/// Waits for a verdict in the page, and reports the time since `start`.
fn wait_for(browser: &Browser, name: &str, verdict: &str, start: Instant) {
    browser.wait(&says(verdict));
    report_since(name, start);
}

#[test]
#[ignore = "drives a browser"]
fn figures_of_ended_members() {
    if asked().is_none() {
        return;
    }
    let Some(browser) = or_skip("figures of ended members", Browser::start()) else {
        return;
    };
    let Some((mut ensemble, ports)) = prepared("8") else {
        return;
    };
    start_led_by_3(&mut ensemble);
    browser.go(&format!("http://127.0.0.1:{}/", ports[0].number()));
    browser.wait(&says(HEALTHY));
    let start = Instant::now();
    ensemble.member_mut(2).kill();
    wait_for(&browser, "killed member, ms", "Degraded", start);
    let start = Instant::now();
    ensemble.member_mut(3).kill();
    wait_for(&browser, "lost quorum, ms", "No quorum", start);
    let start = Instant::now();
    ensemble.member_mut(1).kill();
    wait_for(
        &browser,
        "killed server of the page, ms",
        "No answer",
        start,
    );
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    let start = Instant::now();
    wait_for(&browser, "all members serve again, ms", HEALTHY, start);
}

/// Starts members in a network, led by member 3. Returns them with a page of member 2.
fn in_network(sync_limit: &str) -> Option<(Ensemble, Visit)> {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("admin.enableServer", "true")
        .setting("syncLimit", sync_limit)
        .in_network(3);
    let started = builder.start_led_by_last_voter();
    let mut ensemble = or_skip("figures of partitions", started)?;
    let address = (ensemble.network().address(2), 8080);
    let visit = Visit::begin_at(address.into());
    wait_for_line(&visit, HEALTHY);
    Some((ensemble, visit))
}

/// Waits for a verdict of the page's server, and reports the time since `start`. The page requests
/// the verdict every 2 s.
fn wait_for_server(visit: &Visit, name: &str, verdict: &str, start: Instant) {
    wait_for_line(visit, verdict);
    report_since(name, start);
}

#[test]
#[ignore = "drives a browser"]
fn figures_of_partitions() {
    if asked().is_none() {
        return;
    }
    let Some((mut ensemble, visit)) = in_network(SYNC_LIMIT) else {
        return;
    };
    let start = Instant::now();
    ensemble.network().cut(&[2], &[1, 3]);
    wait_for_server(&visit, "partition, ms", "No quorum", start);
    let start = Instant::now();
    ensemble.network().heal();
    wait_for_server(&visit, "healed partition, ms", HEALTHY, start);
    drop((ensemble, visit));

    // The follower must not leave the leader while it lags.
    let Some((mut ensemble, visit)) = in_network("1000") else {
        return;
    };
    ensemble.network().cut_one_way(3, 1);
    let address = ensemble.member(2).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    let write = Request::Write(create("/late", "", 0));
    assert_eq!(session.call(&write).expect("an answer").err, 0);
    let start = Instant::now();
    wait_for_server(&visit, "lagging follower, ms", "Degraded", start);
    ensemble.network().mend(&[3], &[1]);
    let start = Instant::now();
    wait_for_server(&visit, "follower without lag, ms", HEALTHY, start);
}
