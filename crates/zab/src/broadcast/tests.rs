use std::collections::BTreeSet;

use proptest::prelude::*;
use proto::Epoch;
use proto::quorum::{GroupId, Hierarchical, Majority};

use super::*;

const LEADER: Sid = Sid(1);

fn ensemble(voters: i64) -> Proposals {
    let quorum = Majority::new((1..=voters).map(Sid));
    Proposals::new(quorum, LEADER, Zxid::ZERO)
}

fn propose(proposals: &mut Proposals, zxids: impl IntoIterator<Item = i64>) {
    for zxid in zxids {
        proposals.propose(Zxid(zxid));
    }
}

fn ack(proposals: &mut Proposals, sid: i64, zxid: i64) -> Vec<i64> {
    let committed = proposals.handle_ack(Sid(sid), Zxid(zxid)).unwrap();
    committed.map(|zxid| zxid.0).collect()
}

#[test]
fn a_lone_leader_commits_all_that_a_sync_covers() {
    let mut proposals = ensemble(1);
    propose(&mut proposals, 1..=5);
    assert_eq!(proposals.outstanding(), 5);
    assert_eq!(ack(&mut proposals, 1, 3), [1, 2, 3]);
    assert_eq!(ack(&mut proposals, 1, 3), [0; 0], "once only");
    assert_eq!(proposals.outstanding(), 2);
    propose(&mut proposals, [6]);
    assert_eq!(ack(&mut proposals, 1, 6), [4, 5, 6]);
    assert_eq!(proposals.last_committed(), Zxid(6));
}

#[test]
fn nothing_commits_before_the_leaders_disk_or_a_quorum_of_others_has_it() {
    let mut proposals = ensemble(3);
    propose(&mut proposals, 1..=2);
    assert_eq!(ack(&mut proposals, 2, 2), [0; 0], "one of three");
    assert_eq!(proposals.last_committed(), Zxid::ZERO);
    assert_eq!(ack(&mut proposals, 3, 1), [1], "the leader's own disk lags");
    let committed: Vec<Zxid> = proposals.handle_synced(Zxid(2)).unwrap().collect();
    assert_eq!(committed, [Zxid(2)]);
    assert_eq!(proposals.acked(LEADER), Some(Zxid(2)));
    assert_eq!(proposals.acked(Sid(3)), Some(Zxid(1)));
}

#[test]
fn a_server_without_a_vote_does_not_count() {
    let mut proposals = ensemble(3);
    propose(&mut proposals, [1]);
    for stranger in [4, 5, 6] {
        assert_eq!(ack(&mut proposals, stranger, 1), [0; 0]);
    }
    assert_eq!(proposals.acked(Sid(4)), None);
    assert_eq!(ack(&mut proposals, 3, 1), [0; 0]);
    assert_eq!(ack(&mut proposals, 2, 1), [1]);
}

#[test]
fn the_acknowledgement_of_newleader_commits_nothing() {
    let start = Zxid::new(Epoch(5), 0);
    let mut proposals = Proposals::new(Majority::new((1..=3).map(Sid)), LEADER, start);
    proposals.propose(start.next());
    for sid in 1..=3 {
        assert_eq!(ack(&mut proposals, sid, start.0), [0; 0]);
    }
    assert_eq!(proposals.last_committed(), start);
    ack(&mut proposals, 1, start.next().0);
    assert_eq!(ack(&mut proposals, 2, start.next().0), [start.next().0]);
}

#[test]
fn an_acknowledgement_of_an_unproposed_zxid_is_refused() {
    let mut proposals = ensemble(1);
    propose(&mut proposals, [1]);
    let fault = proposals.handle_ack(LEADER, Zxid(2)).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "server 1 acknowledges 0x2, but the last proposal is 0x1"
    );
    assert_eq!(
        (proposals.outstanding(), proposals.acked(LEADER)),
        (1, None)
    );
    propose(&mut proposals, [2]);
    assert_eq!(
        ack(&mut proposals, 1, 1),
        [1],
        "2 is not taken as acknowledged"
    );
}

#[test]
#[should_panic(expected = "proposal 0x2 after 0x2")]
fn a_zxid_is_not_proposed_twice() {
    propose(&mut ensemble(1), [2, 2]);
}

/// Seed 1097 of the simulator: a reconfiguration turned a voter into an observer. That voter had
/// not acknowledged the proposals after the reconfiguration, and the leader never committed
/// anything again.
#[test]
fn seed_1097_proposals_after_a_reconfiguration_need_only_the_new_voters() {
    let mut proposals = Proposals::new(Majority::new([Sid(1), Sid(2)]), Sid(1), Zxid(0));
    propose(&mut proposals, [1]);
    proposals.join(Zxid(1), Arc::new(Majority::new([Sid(1), Sid(3)])));
    propose(&mut proposals, [2, 3]);
    // Both quorums decide about the reconfiguration. No later proposal is committed together with
    // it.
    assert_eq!(ack(&mut proposals, 1, 3), []);
    assert_eq!(ack(&mut proposals, 3, 3), []);
    assert_eq!(ack(&mut proposals, 2, 1), [1]);
    proposals.replace();
    // Server 2 never acknowledges again.
    assert_eq!(ack(&mut proposals, 3, 3), [2, 3]);
    propose(&mut proposals, [4]);
    assert_eq!(ack(&mut proposals, 1, 4), []);
    assert_eq!(ack(&mut proposals, 3, 4), [4]);
}

#[test]
fn groups_decide_as_their_verifier_says() {
    let groups = [
        (GroupId(1), vec![Sid(1), Sid(2), Sid(3)]),
        (GroupId(2), vec![Sid(4)]),
        (GroupId(3), vec![Sid(5)]),
    ];
    let quorum = Hierarchical::new((1..=5).map(Sid), groups, []).unwrap();
    let mut proposals = Proposals::new(quorum, LEADER, Zxid::ZERO);
    propose(&mut proposals, [1]);
    assert_eq!(ack(&mut proposals, 1, 1), [0; 0]);
    assert_eq!(
        ack(&mut proposals, 4, 1),
        [0; 0],
        "half of group 1 is missing"
    );
    assert_eq!(ack(&mut proposals, 5, 1), [1]);
}

/// Reference implementation with a set of servers for each proposal.
struct ReferenceProposals {
    voters: BTreeSet<i64>,
    proposals: Vec<(i64, BTreeSet<i64>)>,
    committed: usize,
}

impl ReferenceProposals {
    fn ack(&mut self, sid: i64, zxid: i64) -> Vec<i64> {
        for (proposed, acks) in &mut self.proposals {
            if *proposed <= zxid && self.voters.contains(&sid) {
                acks.insert(sid);
            }
        }
        let mut out = Vec::new();
        while let Some((zxid, acks)) = self.proposals.get(self.committed) {
            if 2 * acks.len() <= self.voters.len() {
                break;
            }
            out.push(*zxid);
            self.committed += 1;
        }
        out
    }
}

proptest! {
    #[test]
    fn positions_are_equivalent_to_a_set_for_each_proposal(
        voters in 1..=5i64,
        steps in proptest::collection::vec(
            prop_oneof![Just(None), (1..=6i64, 0..40i64).prop_map(Some)], 0..120),
    ) {
        let mut fast = ensemble(voters);
        let mut slow = ReferenceProposals { voters: (1..=voters).collect(), proposals: vec![], committed: 0 };
        let mut next = 1;
        for step in steps {
            match step {
                None => {
                    fast.propose(Zxid(next));
                    slow.proposals.push((next, BTreeSet::new()));
                    next += 1;
                }
                Some((_, zxid)) if zxid >= next => {}
                Some((sid, zxid)) => {
                    prop_assert_eq!(ack(&mut fast, sid, zxid), slow.ack(sid, zxid));
                }
            }
            prop_assert_eq!(fast.outstanding(), slow.proposals.len() - slow.committed);
            prop_assert_eq!(fast.last_committed().0, i64::try_from(slow.committed).unwrap());
            prop_assert_eq!(fast.last_proposed().0, next - 1);
        }
    }
}
