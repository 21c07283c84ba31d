//! The latencies of transactions at each stage of an ensemble, as its members report them.
//!
//! `ZOARIUM_TEST_SERVER=apache` uses Apache ZooKeeper instead of Zoarium, which shows whether the
//! figures are right.

use std::time::Duration;

use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, EnsembleBuilder, Role};
use tests::requests::create;
use tests::{Flavour, RawSession, or_skip, wait_until};

const LIMIT: Duration = Duration::from_secs(30);
const WRITES: u64 = 40;
/// createSession comes first.
const TXNS: u64 = WRITES + 1;

/// Returns the number of values in a summary. It is 0 before the first value of its key.
fn count(ensemble: &Ensemble, id: u64, metric: &str) -> u64 {
    let figure = ensemble.member(id).metric(&format!("cnt_{metric}"));
    figure.map_or(0, |figure| figure.parse().expect("a count"))
}

#[test]
fn ages_of_transactions_are_measured_at_every_stage() {
    let flavour = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[flavour; 3]).observers(&[flavour]);
    let builder = builder.property("zookeeper.leader.ackLoggingFrequency", "1");
    let Some(ensemble) = or_skip("the figures of an ensemble", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let followers = ensemble.in_role(Role::Follower);
    let observer = ensemble.in_role(Role::Observer)[0];
    let address = ensemble.member(followers[0]).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    for number in 0..WRITES {
        let request = create(&format!("/n{number}"), Vec::new(), flags::PERSISTENT);
        session.call(&Request::Write(request)).expect("an answer");
    }
    ensemble.wait_for_equal_zxids(&ensemble.ids());

    // A follower's last acknowledgement may arrive after the commit, which needs only one of them.
    let wait_for_count = |id: u64, metric: &str| {
        let last = std::cell::Cell::new(0);
        let seen = wait_until(LIMIT, || {
            last.set(count(&ensemble, id, metric));
            (last.get() == TXNS).then_some(())
        });
        assert!(seen.is_some(), "{metric} of {id}: {} of {TXNS}", last.get());
    };
    wait_for_count(leader, "quorum_ack_latency");
    wait_for_count(leader, "proposal_ack_creation_latency");
    for follower in followers {
        wait_for_count(follower, "proposal_latency");
        wait_for_count(follower, "proposal_ack_creation_latency");
        wait_for_count(follower, "commit_propagation_latency");
    }
    wait_for_count(observer, "commit_propagation_latency");
    for not_its in ["proposal_latency", "proposal_ack_creation_latency"] {
        assert_eq!(count(&ensemble, observer, not_its), 0, "{not_its}");
    }
    assert_eq!(count(&ensemble, leader, "proposal_latency"), 0);
    // Two of three are a quorum. Acknowledgements after the commit are not measured.
    let voters = ensemble.voters();
    let acks = voters.iter().map(|sid| format!("{sid}_ack_latency"));
    let acks: u64 = acks.map(|metric| count(&ensemble, leader, &metric)).sum();
    assert_eq!(acks, 2 * TXNS);
}
