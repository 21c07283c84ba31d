use std::sync::Arc;

use proto::Epoch;
use proto::learner::{LearnerInfo, LearnerPacket};
use proto::quorum::Majority;

use super::*;
use crate::leader::{EpochConfig, LeaderStart};
use crate::{CommittedLog, Record, Settings};

const OWN: u64 = 7;
const OTHER: u64 = 8;
const THIRD: u64 = 9;

/// Creates server 5, which leads epoch 1 and has committed a transaction. Servers 1 to `followers`
/// follow. Each uses the link with the number of its sid and the protocol version from `version`.
fn leading(followers: i64, version: impl Fn(i64) -> i32) -> Leader {
    let start = LeaderStart {
        sid: Sid(5),
        accepted_epoch: Epoch(0),
        accepted_floor: Epoch(0),
        current_epoch: Epoch(0),
        last_zxid: Zxid::ZERO,
        committed: CommittedLog::default(),
        log_whole_from: Zxid::ZERO,
        quorum: Arc::new(Majority::new((1..=5).map(Sid))),
        config_version: 0,
        next: None,
    };
    let out = &mut Vec::new();
    let mut leader = Leader::new(start, Settings::new(200, 10, 5), 0, out);
    let all_send = |leader: &mut Leader, packet: &dyn Fn(i64) -> LearnerPacket| {
        for sid in 1..=followers {
            leader.handle_packet(link(sid), packet(sid), 0, &mut Vec::new());
        }
    };
    (1..=followers).for_each(|sid| leader.handle_connected(link(sid), 0));
    all_send(&mut leader, &|sid| LearnerPacket::FollowerInfo {
        accepted_epoch: Epoch(0),
        info: Some(LearnerInfo {
            protocol_version: Some(version(sid)),
            ..LearnerInfo::new(Sid(sid), 0)
        }),
    });
    let config = EpochConfig {
        text: "list".into(),
        version: 0,
    };
    leader.handle_accepted_epoch_saved(config, 0, out);
    all_send(&mut leader, &|_| LearnerPacket::AckEpoch {
        last_logged: Zxid::ZERO,
        current_epoch: Some(Epoch(0)),
    });
    leader.handle_current_epoch_saved(0, out);
    let ack = |counter| LearnerPacket::Ack {
        zxid: Zxid::new(Epoch(1), counter),
    };
    all_send(&mut leader, &|_| ack(0));
    let record = Record::new(LAST, &b"txn"[..]);
    leader.propose(record, 0, out).expect("it leads");
    leader.handle_synced(LAST, out);
    all_send(&mut leader, &|_| ack(1));
    assert_eq!(leader.last_committed(), LAST);
    leader
}

const COMPARE: Action = Action::CompareDigests {
    zxid: LAST,
    digest: OTHER,
};

const LAST: Zxid = Zxid(0x1_0000_0001);

fn link(sid: i64) -> LinkId {
    LinkId(sid.unsigned_abs())
}

fn ours(_: i64) -> i32 {
    LearnerInfo::REPORTS_DIGESTS
}

fn lines(out: Vec<Action>) -> Vec<String> {
    out.iter().map(Action::to_string).collect()
}

fn differs(leader: &mut Leader, sid: i64, out: &mut Vec<Action>) {
    let (zxid, digest) = (LAST, OTHER);
    let packet = LearnerPacket::DigestDiffers { zxid, digest };
    leader.handle_packet(link(sid), packet, 0, out);
}

/// Returns the leader's actions after followers have answered with these digests (`None` for a
/// follower that does not answer) and the time is over.
fn judged(answers: &[Option<u64>]) -> Vec<String> {
    let followers = i64::try_from(answers.len()).expect("some");
    let mut leader = leading(followers, ours);
    let mut out = Vec::new();
    differs(&mut leader, 1, &mut out);
    assert_eq!(out, [COMPARE]);
    out.clear();
    leader.compare_digests(OWN, 0, &mut out);
    assert_eq!(out.len(), answers.len(), "all are asked: {out:?}");
    out.clear();
    for (sid, digest) in (1..).zip(answers) {
        if let Some(digest) = *digest {
            let packet = LearnerPacket::Digest { zxid: LAST, digest };
            leader.handle_packet(link(sid), packet, 0, &mut out);
        }
    }
    if answers.contains(&None) {
        assert!(out.is_empty(), "{out:?}");
        leader.end_comparison_if_due(999, &mut out);
        assert!(out.is_empty(), "{out:?}");
        leader.end_comparison_if_due(1000, &mut out);
    }
    lines(out)
}

#[test]
fn a_quorum_decides_who_is_wrong() {
    let told = |sid, agreed| format!("link {sid}: send DIGESTJUDGED 0x100000001 {agreed}");
    let by_none = "no quorum";
    let by_leader = |sids: &[i64]| sids.iter().map(|sid| told(*sid, "digest=0x7")).collect();
    let own_is_wrong = "own digest 0x7 is not 0x8 at 0x100000001".to_owned();
    let (own, other, third) = (Some(OWN), Some(OTHER), Some(THIRD));
    let table: [(&[Option<u64>], Vec<String>); 9] = [
        // All agree again. Observers of these followers may still differ.
        (&[own, own, own, own], by_leader(&[1, 2, 3, 4])),
        (&[other, own, own, own], by_leader(&[1, 2, 3, 4])),
        (&[other, third, own, own], by_leader(&[1, 2, 3, 4])),
        (&[other, other, other, own], vec![own_is_wrong.clone()]),
        (&[other, other, other, other], vec![own_is_wrong.clone()]),
        // Two have one digest, two have another, and one has neither.
        (
            &[other, other, third, own],
            vec![told(1, by_none), told(2, by_none), told(3, by_none)],
        ),
        // Servers that do not answer do not count.
        (&[other, own, own, None], by_leader(&[1, 2, 3])),
        (&[other, other, other, None], vec![own_is_wrong]),
        (&[other, own, None, None], vec![told(1, by_none)]),
    ];
    for (answers, expected) in table {
        assert_eq!(judged(answers), expected, "{answers:?}");
    }
}

#[test]
fn a_learner_without_the_packets_disables_the_comparison() {
    let java = |sid| match sid {
        4 => LearnerInfo::PROTOCOL_VERSION,
        _ => LearnerInfo::REPORTS_DIGESTS,
    };
    let mut leader = leading(4, java);
    let mut out = Vec::new();
    differs(&mut leader, 1, &mut out);
    leader.compare_digests(OWN, 0, &mut out);
    assert!(out.is_empty(), "{out:?}");
    leader.handle_closed(link(4));
    differs(&mut leader, 1, &mut out);
    assert_eq!(out, [COMPARE]);
}

#[test]
fn one_comparison_at_a_time_and_a_learner_that_leaves_is_not_waited_for() {
    let mut leader = leading(3, ours);
    let mut out = Vec::new();
    leader.compare_digests(OWN, 0, &mut out);
    out.clear();
    for sid in [1, 2] {
        differs(&mut leader, sid, &mut out);
    }
    leader.compare_digests(OWN, 0, &mut out);
    assert!(out.is_empty(), "{out:?}");
    for (sid, zxid, digest) in [
        // This answer belongs to a query that was never sent.
        (1, Zxid(LAST.0 - 1), OTHER),
        (1, LAST, OTHER),
        (2, LAST, OWN),
    ] {
        let packet = LearnerPacket::Digest { zxid, digest };
        leader.handle_packet(link(sid), packet, 0, &mut out);
    }
    assert!(out.is_empty(), "{out:?}");
    leader.handle_closed(link(3));
    leader.end_comparison_if_due(1, &mut out);
    // Servers 2 and 5 are not a quorum of five.
    assert_eq!(
        lines(std::mem::take(&mut out)),
        ["link 1: send DIGESTJUDGED 0x100000001 no quorum"]
    );
    // The next comparison may begin when the time of the current one is over.
    differs(&mut leader, 1, &mut out);
    assert!(out.is_empty(), "{out:?}");
    leader.end_comparison_if_due(1000, &mut out);
    differs(&mut leader, 1, &mut out);
    assert_eq!(out, [COMPARE]);
}

#[test]
fn a_learner_with_the_leaders_snapshot_does_not_vote_on_its_digest() {
    for (copies, expected) in [(0, "digest=0x7"), (1, "digest=0x7"), (2, "no quorum")] {
        let mut leader = leading(4, ours);
        for sid in 1..=copies {
            // The learner connects again with an empty log.
            let info = LearnerPacket::FollowerInfo {
                accepted_epoch: Epoch(1),
                info: Some(LearnerInfo {
                    protocol_version: Some(LearnerInfo::REPORTS_DIGESTS),
                    ..LearnerInfo::new(Sid(sid), 0)
                }),
            };
            let greeting = LearnerPacket::AckEpoch {
                last_logged: Zxid(-1),
                current_epoch: None,
            };
            let ack = LearnerPacket::Ack {
                zxid: Zxid::new(Epoch(1), 0),
            };
            leader.handle_closed(link(sid));
            leader.handle_connected(link(sid), 0);
            let mut out = Vec::new();
            for packet in [info, greeting, ack] {
                leader.handle_packet(link(sid), packet, 0, &mut out);
            }
            let sends = |action: &Action| matches!(action, Action::SendSnapshot { .. });
            assert!(out.iter().any(sends), "{out:?}");
        }
        let mut out = Vec::new();
        leader.compare_digests(OWN, 0, &mut out);
        out.clear();
        for (sid, digest) in [(1, OWN), (2, OWN), (3, OWN), (4, OTHER)] {
            let packet = LearnerPacket::Digest { zxid: LAST, digest };
            leader.handle_packet(link(sid), packet, 0, &mut out);
        }
        let told = lines(out);
        let last = told.last().expect("it is told");
        assert_eq!(
            *last,
            format!("link 4: send DIGESTJUDGED 0x100000001 {expected}")
        );
    }
}
