use proto::Epoch;
use proto::learner::LearnerInfo;
use proto::quorum::Majority;

use super::*;
use crate::leader::{EpochConfig, LeaderStart};
use crate::{CommittedLog, Settings};

fn voters(sids: &[i64]) -> Arc<Majority> {
    Arc::new(Majority::new(sids.iter().copied().map(Sid)))
}

fn zxid(counter: u32) -> Zxid {
    Zxid::new(Epoch(1), counter)
}

/// Creates server 3, which leads epoch 1 of these voters. Each other voter follows over the link
/// with the number of its sid.
fn leading(sids: &[i64]) -> Leader {
    let start = LeaderStart {
        sid: Sid(3),
        accepted_epoch: Epoch(0),
        accepted_floor: Epoch(0),
        current_epoch: Epoch(0),
        last_zxid: Zxid::ZERO,
        committed: CommittedLog::default(),
        log_whole_from: Zxid::ZERO,
        quorum: voters(sids),
        config_version: 0,
        next: None,
    };
    let out = &mut Vec::new();
    let mut leader = Leader::new(start, Settings::new(200, 10, 5), 0, out);
    let followers: Vec<i64> = sids.iter().copied().filter(|sid| *sid != 3).collect();
    let link = |sid: &i64| LinkId(sid.unsigned_abs());
    for sid in &followers {
        leader.handle_connected(link(sid), 0);
        let info = LearnerPacket::FollowerInfo {
            accepted_epoch: Epoch(0),
            info: Some(LearnerInfo::new(Sid(*sid), 0)),
        };
        leader.handle_packet(link(sid), info, 0, out);
    }
    let config = EpochConfig {
        text: "old".into(),
        version: 0,
    };
    leader.handle_accepted_epoch_saved(config, 0, out);
    for sid in &followers {
        let ack = LearnerPacket::AckEpoch {
            last_logged: Zxid::ZERO,
            current_epoch: Some(Epoch(0)),
        };
        leader.handle_packet(link(sid), ack, 0, out);
    }
    leader.handle_current_epoch_saved(0, out);
    for sid in &followers {
        ack(&mut leader, link(sid).0, 0, out);
    }
    assert!(leader.is_leading());
    leader
}

fn ack(leader: &mut Leader, link: u64, counter: u32, out: &mut Vec<Action>) {
    let ack = LearnerPacket::Ack {
        zxid: zxid(counter),
    };
    leader.handle_packet(LinkId(link), ack, 0, out);
}

fn lines(out: &mut Vec<Action>) -> Vec<String> {
    out.drain(..).map(|action| action.to_string()).collect()
}

fn record(counter: u32) -> Record {
    Record::new(zxid(counter), &b"txn"[..])
}

#[test]
fn the_last_zxid_of_an_epoch_is_not_assigned() {
    let mut leader = leading(&[3]);
    let last = zxid(u32::MAX - 2);
    leader.proposals = crate::broadcast::Proposals::shared(voters(&[3]), Sid(3), last);
    let out = &mut Vec::new();
    assert_eq!(leader.propose(record(u32::MAX - 1), 0, out), Ok(()));
    out.clear();
    let refused = leader.propose(record(u32::MAX), 0, out);
    assert_eq!(refused, Err(ProposeError::CounterExhausted));
    assert_eq!(
        lines(out),
        ["step down: the zxids of this epoch are used up"]
    );
    assert!(!leader.is_leading());
}

fn reconfig(sids: &[i64], leader_stays: bool) -> (Leader, Vec<Action>) {
    let mut leader = leading(&[1, 2, 3]);
    let next = NextConfig {
        quorum: voters(sids),
        text: "new".into(),
        leader_stays,
    };
    let mut out = Vec::new();
    leader
        .propose_reconfig(record(1), next.clone(), 0, &mut out)
        .unwrap();
    leader.propose(record(2), 0, &mut out).unwrap();
    let second = leader.propose_reconfig(record(3), next, 0, &mut out);
    assert_eq!(second, Err(ProposeError::ReconfigInProgress));
    out.clear();
    (leader, out)
}

#[test]
fn a_reconfiguration_needs_both_quorums_and_so_does_what_follows_it() {
    // The members of the new configuration are the leader and server 5, which is not connected.
    let (mut leader, mut out) = reconfig(&[3, 5], true);
    leader.handle_synced(zxid(2), &mut out);
    ack(&mut leader, 1, 2, &mut out);
    ack(&mut leader, 2, 2, &mut out);
    assert_eq!(lines(&mut out), [""; 0], "three of three, but one of two");
    assert_eq!(leader.outstanding(), 2);
}

#[test]
fn a_remaining_leader_continues_in_the_new_configuration() {
    let (mut leader, mut out) = reconfig(&[1, 3], true);
    leader.handle_synced(zxid(2), &mut out);
    ack(&mut leader, 1, 2, &mut out);
    let expected = [
        "activate config 0x100000001 len=3 sid=3",
        "link 1: send COMMITANDACTIVATE 0x100000001 sid=3",
        "link 2: send COMMITANDACTIVATE 0x100000001 sid=3",
        "deliver 0x100000001 len=3",
        "link 1: send COMMIT 0x100000002",
        "link 2: send COMMIT 0x100000002",
        "deliver 0x100000002 len=3",
    ];
    assert_eq!(lines(&mut out), expected);
    assert!(leader.is_leading());
    // Server 2 no longer has a vote.
    leader.propose(record(3), 0, &mut out).unwrap();
    leader.handle_synced(zxid(3), &mut out);
    out.clear();
    ack(&mut leader, 2, 3, &mut out);
    assert_eq!(lines(&mut out), [""; 0]);
    ack(&mut leader, 1, 3, &mut out);
    assert_eq!(leader.last_committed(), zxid(3));
}

#[test]
fn a_removed_leader_names_the_follower_with_the_longest_log_and_commits_no_more() {
    let (mut leader, mut out) = reconfig(&[1, 2], false);
    ack(&mut leader, 1, 1, &mut out);
    ack(&mut leader, 2, 2, &mut out);
    let expected = [
        "link 1: send COMMITANDACTIVATE 0x100000001 sid=2",
        "link 2: send COMMITANDACTIVATE 0x100000001 sid=2",
        "deliver 0x100000001 len=3",
        "activate config 0x100000001 len=3 sid=2",
    ];
    assert_eq!(lines(&mut out), expected);
    ack(&mut leader, 1, 2, &mut out);
    assert_eq!(lines(&mut out), [""; 0]);
    assert_eq!(
        leader.propose(record(3), 0, &mut out),
        Err(ProposeError::NotLeading)
    );
}

#[test]
fn a_standalone_server_commits_synced_transactions() {
    let mut alone = Leader::standalone(Sid(0), zxid(7));
    let out = &mut Vec::new();
    for counter in 8..=10 {
        assert_eq!(alone.propose_alone(zxid(counter)), Ok(()));
    }
    assert_eq!(*out, [], "nobody is sent anything");
    alone.handle_synced(zxid(9), out);
    alone.handle_synced(zxid(9), out);
    alone.handle_synced(zxid(10), out);
    let delivered = |counter| Action::Deliver(Record::new(zxid(counter), Bytes::new()));
    assert_eq!(*out, [delivered(9), delivered(10)]);
    assert_eq!(alone.last_committed(), zxid(10));

    let refused = leading(&[1, 2, 3]).propose_alone(zxid(1));
    assert_eq!(refused, Err(ProposeError::NotLeading));
}
