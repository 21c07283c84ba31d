//! A learner that connects while a reconfiguration is proposed. For this learner, the old
//! configuration stays in force until the commit. Java's leader sends the proposed one in
//! NEWLEADER, and Java's learner installs it.

use std::sync::Arc;

use proto::leader::LeaderPacket as Down;
use proto::learner::{LearnerInfo, LearnerPacket as Up};
use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zoarium_zab::leader::{Action, EpochConfig, Leader, LeaderStart, LinkId, NextConfig};
use zoarium_zab::learner::{self, Learner, LearnerKind, LearnerStart};
use zoarium_zab::{CommittedLog, Record, Settings};

const FOLLOWER: LinkId = LinkId(2);
const NEWCOMER: LinkId = LinkId(4);

fn zxid(epoch: i64, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

/// Server 3 of two. It leads epoch 2 together with server 2.
struct Term {
    leader: Leader,
    out: Vec<Action>,
}

impl Term {
    fn begin() -> Self {
        let start = LeaderStart {
            sid: Sid(3),
            accepted_epoch: Epoch(1),
            accepted_floor: Epoch(0),
            current_epoch: Epoch(1),
            last_zxid: zxid(1, 1),
            committed: CommittedLog::default(),
            log_whole_from: Zxid::ZERO,
            quorum: Arc::new(Majority::new([Sid(2), Sid(3)])),
            config_version: 0,
            next: None,
        };
        let mut out = Vec::new();
        let leader = Leader::new(start, Settings::new(200, 10, 5), 0, &mut out);
        let mut term = Self { leader, out };
        term.introduce(FOLLOWER, Sid(2), Epoch(1), true);
        let config = EpochConfig {
            text: "in force".into(),
            version: zxid(2, 0).0,
        };
        let (leader, out) = (&mut term.leader, &mut term.out);
        leader.handle_accepted_epoch_saved(config, 0, out);
        term.accept(FOLLOWER, zxid(1, 1));
        let (leader, out) = (&mut term.leader, &mut term.out);
        leader.handle_current_epoch_saved(0, out);
        term.hear(FOLLOWER, Up::Ack { zxid: zxid(2, 0) });
        assert!(term.leader.is_leading());
        term
    }

    fn introduce(&mut self, link: LinkId, sid: Sid, accepted_epoch: Epoch, votes: bool) {
        self.leader.handle_connected(link, 0);
        let info = Some(LearnerInfo::new(sid, 0));
        let introduction = if votes {
            Up::FollowerInfo {
                accepted_epoch,
                info,
            }
        } else {
            Up::ObserverInfo {
                accepted_epoch,
                info,
            }
        };
        self.hear(link, introduction);
    }

    /// Returns the packets to a learner that has accepted the epoch.
    fn accept(&mut self, link: LinkId, last_logged: Zxid) -> Vec<String> {
        let current_epoch = Some(Epoch(1));
        self.hear(
            link,
            Up::AckEpoch {
                last_logged,
                current_epoch,
            },
        )
    }

    fn propose_reconfig(&mut self) {
        let next = NextConfig {
            quorum: Arc::new(Majority::new([Sid(2), Sid(3), Sid(4)])),
            text: "proposed".into(),
            leader_stays: true,
        };
        let record = Record::new(zxid(2, 1), &b"reconfig"[..]);
        let (leader, out) = (&mut self.leader, &mut self.out);
        let proposed = leader.propose_reconfig(record, next, 0, out);
        assert_eq!(proposed, Ok(()));
        self.out.clear();
    }

    fn commit_reconfig(&mut self) {
        self.leader.handle_synced(zxid(2, 1), &mut self.out);
        self.hear(FOLLOWER, Up::Ack { zxid: zxid(2, 1) });
    }

    fn hear(&mut self, link: LinkId, packet: Up) -> Vec<String> {
        self.leader.handle_packet(link, packet, 0, &mut self.out);
        let all = std::mem::take(&mut self.out);
        all.iter().map(told).collect()
    }
}

/// Returns the short form of a packet.
fn told(action: &Action) -> String {
    match action {
        Action::Send { packet, .. } => match packet {
            Down::NewLeader { config, .. } => {
                let text = config.as_deref().map(String::from_utf8_lossy);
                format!("NEWLEADER {}", text.unwrap_or_default())
            }
            Down::Proposal { zxid, .. } => format!("PROPOSAL {zxid}"),
            Down::Diff { zxid } => format!("DIFF {zxid}"),
            _ => "other".into(),
        },
        _ => action.to_string(),
    }
}

#[test]
fn a_leader_names_the_configuration_in_force_and_then_proposes_the_other() {
    for votes in [true, false] {
        let mut term = Term::begin();
        term.propose_reconfig();
        term.introduce(NEWCOMER, Sid(4), Epoch(2), votes);
        let mut expected = vec!["link 4: send snapshot 0x200000000", "NEWLEADER in force"];
        if votes {
            expected.push("PROPOSAL 0x200000001");
        }
        let told = term.accept(NEWCOMER, zxid(1, 1));
        assert_eq!(told, expected, "votes: {votes}");
    }
}

#[test]
fn a_committed_configuration_is_named_in_newleader() {
    let mut term = Term::begin();
    term.propose_reconfig();
    // Two of three, and two of two.
    term.commit_reconfig();
    term.introduce(NEWCOMER, Sid(4), Epoch(2), true);
    let told = term.accept(NEWCOMER, zxid(2, 1));
    assert_eq!(told, ["DIFF 0x200000001", "NEWLEADER proposed"]);
}

/// With a Java leader, an observer learns of the reconfiguration only from NEWLEADER.
#[test]
fn a_learner_knows_up_to_where_a_configuration_can_be_in_force() {
    let upto_after = |opening: Zxid, committed: Option<Zxid>| {
        let start = LearnerStart {
            sid: Sid(4),
            kind: LearnerKind::Observer,
            accepted_epoch: Epoch(2),
            accepted_floor: Epoch(0),
            current_epoch: Epoch(2),
            last_logged: opening,
            truncation_failed_in: None,
            config_version: 0,
            lacks_snapshot: false,
            needs_snapshot: false,
            committed: CommittedLog::default(),
        };
        let mut out = Vec::new();
        let mut learner = Learner::new(start, Settings::new(200, 10, 5), 0, &mut out);
        let new_leader = Down::NewLeader {
            zxid: zxid(2, 0),
            config: Some("text".into()),
        };
        let opening = [Down::leader_info(Epoch(2)), Down::Diff { zxid: opening }];
        let committed = committed.into_iter().flat_map(|zxid| {
            let txn = b"txn"[..].into();
            [Down::Proposal { zxid, txn }, Down::Commit { zxid }]
        });
        for packet in opening.into_iter().chain(committed).chain([new_leader]) {
            learner.handle_packet(packet, 0, &mut out);
        }
        learner.handle_synced(Zxid(i64::MAX), &mut out);
        learner.handle_current_epoch_saved(&mut out);
        out.clear();
        learner.handle_packet(Down::UpToDate, 0, &mut out);
        let mut installed = out.iter().filter_map(|action| match action {
            learner::Action::InstallConfig { upto, .. } => Some(*upto),
            _ => None,
        });
        installed.next().expect("a configuration")
    };
    assert_eq!(upto_after(zxid(2, 7), None), zxid(2, 7));
    // The leader committed this one while it read the log.
    assert_eq!(upto_after(zxid(2, 7), Some(zxid(2, 8))), zxid(2, 8));
    // The last proposal before the epoch is in force with it.
    assert_eq!(upto_after(zxid(1, 7), None), zxid(2, 0));
}
