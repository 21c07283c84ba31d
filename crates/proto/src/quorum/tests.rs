use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

fn sids(numbers: impl IntoIterator<Item = i64>) -> BTreeSet<Sid> {
    numbers.into_iter().map(Sid).collect()
}

fn decides(verifier: &impl QuorumVerifier, numbers: impl IntoIterator<Item = i64>) -> bool {
    let set = sids(numbers);
    verifier.is_quorum(&|sid| set.contains(&sid))
}

fn two_groups_of_three() -> Hierarchical {
    let groups = [
        (GroupId(1), vec![Sid(1), Sid(2), Sid(3)]),
        (GroupId(2), vec![Sid(4), Sid(5), Sid(6)]),
    ];
    Hierarchical::new(sids(1..=6), groups, []).unwrap()
}

#[test]
fn a_majority_is_more_than_half() {
    assert!(decides(&Majority::new([Sid(1)]), [1]));
    for voters in 1..=9 {
        let verifier = Majority::new((1..=voters).map(Sid));
        for present in 0..=voters {
            assert_eq!(decides(&verifier, 1..=present), 2 * present > voters);
        }
    }
}

#[test]
fn servers_without_a_vote_do_not_count() {
    let verifier = Majority::new(sids(1..=3));
    assert!(!decides(&verifier, [1, 7, 8, 9]));
    assert!(decides(&verifier, [1, 3, 7]));
    assert!(verifier.is_voter(Sid(3)) && !verifier.is_voter(Sid(7)));
}

#[test]
fn the_empty_set_is_not_a_quorum() {
    assert!(!decides(&Majority::new([]), []));
    assert!(!decides(&Majority::new([]), [1]));
    assert!(!decides(&Hierarchical::new([], [], []).unwrap(), [1]));
}

#[test]
fn a_hierarchical_quorum_takes_most_of_most_groups() {
    let verifier = two_groups_of_three();
    assert!(decides(&verifier, [1, 2, 4, 5]));
    assert!(
        !decides(&verifier, [1, 2, 3, 4]),
        "one group of two is no majority"
    );
    assert!(!decides(&verifier, [1, 4, 5, 6]));
}

#[test]
fn a_group_without_weight_is_not_counted_and_its_servers_cannot_be_elected() {
    let groups = [
        (GroupId(1), vec![Sid(1), Sid(2), Sid(3)]),
        (GroupId(2), vec![Sid(4), Sid(5)]),
    ];
    let weightless = [(Sid(4), 0), (Sid(5), 0)];
    let verifier = Hierarchical::new(sids(1..=5), groups, weightless).unwrap();
    assert!(decides(&verifier, [1, 2]));
    assert!(!decides(&verifier, [1, 4, 5]));
    assert_eq!((verifier.weight(Sid(4)), verifier.weight(Sid(1))), (0, 1));
    assert!(verifier.is_voter(Sid(4)), "it still elects");
    assert_eq!(verifier.weight(Sid(99)), 0, "in no group");
}

#[test]
fn one_heavy_server_can_be_its_group() {
    let groups = [(GroupId(1), vec![Sid(1), Sid(2), Sid(3)])];
    let verifier = Hierarchical::new(sids(1..=3), groups, [(Sid(1), u64::MAX)]).unwrap();
    assert!(decides(&verifier, [1]));
    assert!(!decides(&verifier, [2, 3]));
}

#[test]
fn groups_must_be_disjoint_and_hold_every_voter() {
    let overlap = [
        (GroupId(1), vec![Sid(1), Sid(2)]),
        (GroupId(2), vec![Sid(2), Sid(3)]),
    ];
    let fault = Hierarchical::new(sids(1..=3), overlap, []).unwrap_err();
    assert_eq!(fault.to_string(), "server 2 is in group 1 and in group 2");
    let fault = Hierarchical::new(sids(1..=2), [(GroupId(1), vec![Sid(1)])], []).unwrap_err();
    assert_eq!(fault, QuorumFault::WithoutGroup { sid: Sid(2) });
}

/// Implements the rule a second time, with plain lists and without rounding halves down.
fn slow_hierarchical(groups: &[Vec<(i64, u64)>], present: &BTreeSet<Sid>) -> bool {
    let weigh = |members: &[(i64, u64)], wanted: &dyn Fn(i64) -> bool| -> u64 {
        let counted = members.iter().filter(|(sid, _)| wanted(*sid));
        counted.map(|(_, weight)| *weight).sum()
    };
    let (mut counted, mut won) = (0, 0);
    for members in groups {
        let total = weigh(members, &|_| true);
        if total == 0 {
            continue;
        }
        counted += 1;
        let acked = weigh(members, &|sid| present.contains(&Sid(sid)));
        won += usize::from(2 * acked > total);
    }
    2 * won > counted
}

/// Generates up to seven servers in up to three groups, with small weights.
fn grouped() -> impl Strategy<Value = Vec<Vec<(i64, u64)>>> {
    btree_map(1..8i64, (0..3usize, 0..4u64), 1..=7).prop_map(|servers| {
        let mut groups = vec![Vec::new(); 3];
        for (sid, (group, weight)) in servers {
            groups[group].push((sid, weight));
        }
        groups
    })
}

fn build(groups: &[Vec<(i64, u64)>]) -> Hierarchical {
    let servers = || groups.iter().flatten();
    let numbered = groups.iter().zip(1..).map(|(members, number)| {
        let members = members.iter().map(|(sid, _)| Sid(*sid)).collect();
        (GroupId(number), members)
    });
    Hierarchical::new(
        servers().map(|(sid, _)| Sid(*sid)),
        numbered,
        servers().map(|(sid, weight)| (Sid(*sid), *weight)),
    )
    .unwrap()
}

fn subset(bits: u32) -> BTreeSet<Sid> {
    sids((1..8).filter(|sid| bits & (1 << sid) != 0))
}

fn quorums(verifier: &dyn QuorumVerifier) -> Vec<BTreeSet<Sid>> {
    let sets = (0..128u32).map(|bits| subset(bits << 1));
    sets.filter(|set| verifier.is_quorum(&|sid| set.contains(&sid)))
        .collect()
}

fn assert_safe(verifier: &dyn QuorumVerifier) {
    let quorums = quorums(verifier);
    for one in &quorums {
        for other in &quorums {
            assert!(
                !one.is_disjoint(other),
                "{one:?} and {other:?} in {verifier:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hierarchical_agrees_with_the_slow_rule(groups in grouped()) {
        let verifier = build(&groups);
        for bits in 0..128u32 {
            let present = subset(bits << 1);
            let fast = verifier.is_quorum(&|sid| present.contains(&sid));
            prop_assert_eq!(fast, slow_hierarchical(&groups, &present), "{:?}", present);
        }
    }

    #[test]
    fn any_two_quorums_share_a_server(groups in grouped(), voters in vec(1..8i64, 1..=7)) {
        assert_safe(&build(&groups));
        assert_safe(&Majority::new(sids(voters)));
    }
}

/// Counts the tolerated failures by trying all sets of failing servers.
fn tolerated_by_trial(verifier: &impl QuorumVerifier, present: &BTreeSet<Sid>) -> Option<usize> {
    let all: Vec<Sid> = present.iter().copied().collect();
    let is_fatal = |failed: u32| {
        !verifier.is_quorum(&|sid| {
            let at = all.iter().position(|other| *other == sid);
            at.is_some_and(|at| failed >> at & 1 == 0)
        })
    };
    let fatal = (0..1_u32 << all.len()).filter(|failed| is_fatal(*failed));
    let fewest = fatal.map(u32::count_ones).min();
    let fewest = fewest.expect("no servers are not a quorum");
    usize::try_from(fewest).unwrap().checked_sub(1)
}

proptest! {
    #[test]
    fn the_tolerated_failures_are_the_most_that_leave_a_quorum(
        present in vec(any::<bool>(), 8),
        weights in vec(0_u64..4, 8),
        voters in 1_i64..9,
    ) {
        let present: BTreeSet<Sid> = (1..).zip(&present).filter(|(_, has)| **has).map(|(sid, _)| Sid(sid)).collect();
        let has = |sid: Sid| present.contains(&sid);
        let majority = Majority::new((1..=voters).map(Sid));
        prop_assert_eq!(majority.failures_tolerated(&has), tolerated_by_trial(&majority, &present));
        let groups = [(1, 1..=3), (2, 4..=6), (3, 7..=8)];
        let groups = groups.map(|(id, sids)| (GroupId(id), sids.map(Sid).collect()));
        let weights = (1..).map(Sid).zip(weights);
        let hierarchical = Hierarchical::new(sids(1..=8), groups, weights).unwrap();
        prop_assert_eq!(hierarchical.failures_tolerated(&has), tolerated_by_trial(&hierarchical, &present));
    }
}
