//! A returning learner is synchronised by DIFF, TRUNC or SNAP, in both directions.

use std::time::Duration;

use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::requests::create;
use tests::{Flavour, RawSession, wait_for};

use crate::mixed::{PROGRESS, both_ways, led};

/// Transactions that a leader keeps in memory for returning learners. This is Java's minimum.
const IN_MEMORY: usize = 500;
const LIMIT: Duration = Duration::from_secs(60);

/// Method of a learner's synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Diff,
    Truncated,
    Snapshot,
}

/// Returns the methods that the learner has logged since its log had this length.
fn ways(ensemble: &Ensemble, learner: u64, since: usize) -> Vec<Way> {
    let member = ensemble.member(learner);
    let log = member.log().split_off(since);
    let texts = match member.flavour() {
        Flavour::Zoarium => ["by=\"DIFF\"", "by=\"TRUNC\"", "by=\"SNAP\""],
        _ => {
            let truncates = "Truncating log to get in sync";
            ["Getting a diff from", truncates, "Getting a snapshot"]
        }
    };
    let ways = texts.iter().zip([Way::Diff, Way::Truncated, Way::Snapshot]);
    let found = ways.filter(|(text, _)| log.contains(**text));
    found.map(|(_, way)| way).collect()
}

fn log_length(ensemble: &Ensemble, id: u64) -> usize {
    ensemble.member(id).log().len()
}

fn write(ensemble: &Ensemble, through: u64, top: &str, count: usize) {
    let address = ensemble.member(through).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000)
        .unwrap_or_else(|error| panic!("no session: {error}"));
    for number in 0..count {
        let path = format!("{top}{number:05}");
        session.put(&Request::Write(create(
            &path,
            path.clone(),
            flags::PERSISTENT,
        )));
    }
    for _ in 0..count {
        assert_eq!(session.take().expect("an answer").err, 0);
    }
    session.close().expect("the end of the session");
}

/// A follower is down during `count` writes, and returns.
fn away(leader: Flavour, learner: Flavour, count: usize, factor: &str, expected: Way) {
    let build = |builder: EnsembleBuilder| {
        builder
            .property("zookeeper.commitLogCount", &IN_MEMORY.to_string())
            // Maximum size of a diff from the log, relative to the newest snapshot.
            .property("zookeeper.snapshotSizeFactor", factor)
    };
    let what = "synchronisation of mixed ensembles";
    let Some(mut ensemble) = led(what, leader, &[learner, leader], build) else {
        return;
    };
    write(&ensemble, 1, "/before", 20);
    ensemble.member_mut(1).terminate();
    write(&ensemble, 2, "/meanwhile", count);
    let since = log_length(&ensemble, 1);
    ensemble.start(1);
    assert_eq!(ensemble.wait_until_all_serve(), 3);
    let what = format!("{learner:?} behind {leader:?} by {count}");
    assert_eq!(ways(&ensemble, 1, since), [expected], "{what}");
    write(&ensemble, 1, "/after", 20);
    let tree = check::same_trees(&ensemble, &[1, 2, 3]);
    assert!(tree.znodes.len() > count);
}

#[test]
#[ignore = "runs other people's programs"]
fn a_few_transactions_are_a_diff_from_memory() {
    both_ways(|leader, learner| {
        away(leader, learner, 100, "-1", Way::Diff);
    });
}

#[test]
#[ignore = "runs other people's programs"]
fn many_transactions_are_a_diff_from_the_log() {
    both_ways(|leader, learner| {
        away(leader, learner, 3 * IN_MEMORY, "1000", Way::Diff);
    });
}

#[test]
#[ignore = "runs other people's programs"]
fn a_gap_larger_than_the_log_limit_is_a_snapshot() {
    both_ways(|leader, learner| {
        away(leader, learner, 3 * IN_MEMORY, "-1", Way::Snapshot);
    });
}

/// Under load, which makes the snapshot a fuzzy one.
#[test]
#[ignore = "runs other people's programs"]
fn a_snapshot_is_sent_while_others_write() {
    both_ways(|leader, learner| {
        let build = |builder: EnsembleBuilder| {
            builder
                .property("zookeeper.commitLogCount", &IN_MEMORY.to_string())
                .property("zookeeper.snapshotSizeFactor", "-1")
                .observers(&[learner])
        };
        let Some(mut ensemble) = led("snapshots under load", leader, &[learner, leader], build)
        else {
            return;
        };
        let load = Load::start(&ensemble.addresses(&[2, 3]));
        load.wait_for_progress(PROGRESS);
        for id in [1, 4] {
            ensemble.member_mut(id).kill();
        }
        load.wait_for_progress(IN_MEMORY as u64);
        let since = [1, 4].map(|id| (id, log_length(&ensemble, id)));
        for id in [1, 4] {
            ensemble.start(id);
        }
        ensemble.wait_until_all_serve();
        load.wait_for_progress(PROGRESS);
        for (id, since) in since {
            let ways = ways(&ensemble, id, since);
            assert!(ways.contains(&Way::Snapshot), "{id}: {ways:?}");
        }
        let report = load.finish();
        println!("{leader:?} leads: {}", report.summary());
        check::nothing_is_lost(&ensemble, &report);
    });
}

/// An isolated leader logs writes that it cannot commit any more and that its successors never
/// received.
fn leader_with_more(old: Flavour, successors: Flavour, writes_after: usize, expected: Way) {
    let build = |builder: EnsembleBuilder| {
        builder
            .property("zookeeper.commitLogCount", &IN_MEMORY.to_string())
            .in_network(3)
    };
    let what = "a leader that is cut off";
    let Some(mut ensemble) = led(what, old, &[successors, successors], build) else {
        return;
    };
    write(&ensemble, 1, "/before", 50);
    ensemble.wait_for_equal_zxids(&[1, 2, 3]);
    let address = ensemble.member(3).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    ensemble.network().cut(&[3], &[1, 2]);
    for number in 0..20 {
        let path = format!("/never{number}");
        session.put(&Request::Write(create(&path, "", flags::PERSISTENT)));
    }
    session.flush().expect("requests are taken");
    // The connection ends without an answer when the leader steps down.
    assert!(session.take().is_err(), "acknowledged without a quorum");
    let next = ensemble.wait_until_these_serve(&[1, 2]);
    if writes_after > 0 {
        write(&ensemble, next, "/after", writes_after);
    }
    ensemble.wait_until_none_serves(&[3]);
    let since = log_length(&ensemble, 3);
    ensemble.network().heal();
    assert_eq!(ensemble.wait_until_all_serve(), next);
    let found = wait_for("word of the synchronisation", LIMIT, || {
        let ways = ways(&ensemble, 3, since);
        (!ways.is_empty()).then_some(ways)
    });
    assert!(
        found.contains(&expected),
        "{old:?} under {successors:?}: {found:?}"
    );
    let tree = check::same_trees(&ensemble, &[1, 2, 3]);
    let is_phantom = |path: &&String| path.starts_with("/never");
    assert_eq!(tree.znodes.keys().find(is_phantom), None);
}

#[test]
#[ignore = "runs other people's programs"]
fn transactions_only_on_an_isolated_leader_are_truncated() {
    both_ways(|old, successors| {
        leader_with_more(old, successors, 0, Way::Truncated);
    });
}

#[test]
#[ignore = "runs other people's programs"]
fn transactions_only_on_an_isolated_leader_are_replaced_by_a_later_epoch() {
    both_ways(|old, successors| {
        leader_with_more(old, successors, 50, Way::Snapshot);
    });
}
