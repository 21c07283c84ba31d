//! Elections on a network that delays, reorders and loses messages.

mod common;

use std::collections::BTreeMap;

use common::network::{Network, Weather};
use proptest::collection::vec;
use proptest::prelude::*;
use proto::{Epoch, Sid, Zxid};
use zoarium_election::{Candidate, Vote};

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (0..3i64, 0..3i64).prop_map(|(epoch, zxid)| Candidate {
        zxid: Some(Zxid(zxid)),
        peer_epoch: Epoch(epoch),
    });
    vec(one, 3..=7)
}

fn best(candidates: &[Candidate], alive: &[Sid]) -> Sid {
    let votes = (1..)
        .map(Sid)
        .zip(candidates)
        .map(|(leader, candidate)| Vote {
            leader,
            zxid: candidate.zxid.unwrap_or(Vote::UNTRUSTED),
            peer_epoch: candidate.peer_epoch,
        });
    let alive = votes.filter(|vote| alive.contains(&vote.leader));
    let better = |one: Vote, other: Vote| {
        if other.is_better_than(&one) {
            other
        } else {
            one
        }
    };
    alive.reduce(better).expect("somebody").leader
}

/// A fault, or its end, before the network becomes stable.
#[derive(Debug, Clone, Copy)]
enum Blow {
    Crash(usize),
    Restart(usize),
    Cut(usize, usize),
    Heal,
}

fn blow() -> impl Strategy<Value = Blow> {
    prop_oneof![
        3 => (0..7usize).prop_map(Blow::Crash),
        3 => (0..7usize).prop_map(Blow::Restart),
        4 => (0..7usize, 0..7usize).prop_map(|(one, other)| Blow::Cut(one, other)),
        1 => Just(Blow::Heal),
    ]
}

fn strike(network: &mut Network, servers: usize, blow: Blow) {
    let sid = |index: usize| Sid(i64::try_from(index % servers + 1).expect("small"));
    match blow {
        Blow::Crash(one) => network.crash(sid(one)),
        Blow::Restart(one) => network.restart(sid(one)),
        Blow::Cut(one, other) if sid(one) != sid(other) => network.cut(sid(one), sid(other)),
        Blow::Cut(..) => {}
        Blow::Heal => network.heal(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// If every notification arrives within the time that a quorum waits, all servers elect the
    /// best running one, and a round does not have two outcomes.
    #[test]
    fn a_connected_quorum_elects_its_best(
        candidates in candidates(),
        down in vec(any::<bool>(), 7),
        starts in vec(0..60i64, 7),
        seed in any::<u64>(),
    ) {
        let weather = Weather { delay_max_ms: 60, lost_percent: 0 };
        let mut network = Network::new(&candidates, weather, seed);
        let servers = candidates.len();
        let mut alive = Vec::new();
        let mut failures_left = (servers - 1) / 2;
        for (index, sid) in (1..).map(Sid).take(servers).enumerate() {
            if down[index] && failures_left > 0 {
                failures_left -= 1;
                network.crash(sid);
            } else {
                alive.push(sid);
                network.start(sid, starts[index]);
            }
        }
        network.run(3000);
        let best = best(&candidates, &alive);
        prop_assert_eq!(network.agreed_leader(), Some(best));
        let mut outcomes = BTreeMap::new();
        for decision in &network.decisions {
            let outcome = *outcomes.entry(decision.round).or_insert(decision.vote);
            prop_assert_eq!(outcome, decision.vote);
        }
        // The number of votes is bounded: a few from each to each, with the repeats of three
        // seconds.
        prop_assert!(network.messages < 30 * servers * servers, "{}", network.messages);
    }

    /// After any faults, once messages arrive again, one leader is elected and stays.
    #[test]
    fn the_ensemble_heals(
        candidates in candidates(),
        blows in vec((0..1500i64, blow()), 0..20),
        lost_percent in 0..40i64,
        seed in any::<u64>(),
    ) {
        let weather = Weather { delay_max_ms: 1500, lost_percent };
        let servers = candidates.len();
        let mut network = Network::new(&candidates, weather, seed);
        for sid in (1..).map(Sid).take(servers) {
            network.start(sid, 0);
        }
        for (pause_ms, blow) in blows {
            network.run(pause_ms);
            strike(&mut network, servers, blow);
        }
        network.weather = Weather { delay_max_ms: 40, lost_percent: 0 };
        network.heal();
        network.run(60_000);
        let leader = network.agreed_leader();
        prop_assert!(leader.is_some());
        let decisions = network.decisions.len();
        network.run(60_000);
        prop_assert_eq!(network.agreed_leader(), leader);
        prop_assert_eq!(network.decisions.len(), decisions, "somebody looked again");
    }
}
