//! A follower that serves observers: scripts, and a conversation of Apache ZooKeeper 3.9.5
//! replayed.

use std::fs;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket, Touch};
use proto::packet::QuorumPacket;
use proto::{Epoch, SessionId, Sid, Zxid};
use serde_json::Value;
use zoarium_zab::leader::{Action, LinkFault, LinkId};
use zoarium_zab::observer_master::{FollowerFacts, ObserverMaster};
use zoarium_zab::{CommittedLog, Record, Settings};

fn zxid(counter: u32) -> Zxid {
    Zxid::new(Epoch(1), counter)
}

fn record(counter: u32) -> Record {
    Record::new(zxid(counter), &b"txn"[..])
}

const LINK: LinkId = LinkId(1);

/// Follower 2 in epoch 1, with some transactions in memory.
struct Follower {
    master: ObserverMaster,
    committed: CommittedLog,
    out: Vec<Action>,
    now_ms: i64,
}

impl Follower {
    fn new(kept: std::ops::RangeInclusive<u32>, settings: Settings) -> Self {
        let mut committed = CommittedLog::default();
        let last = zxid(*kept.end());
        for counter in kept {
            committed.push(record(counter));
        }
        Self {
            master: ObserverMaster::new(Sid(2), Epoch(1), last, false, settings, 0),
            committed,
            out: Vec::new(),
            now_ms: 0,
        }
    }

    fn lines(&mut self) -> Vec<String> {
        self.out
            .drain(..)
            .map(|action| action.to_string())
            .collect()
    }

    fn hear_on(&mut self, link: LinkId, packet: LearnerPacket) -> Vec<String> {
        let facts = FollowerFacts {
            committed: &self.committed,
            config_version: 7,
            config: &|| Bytes::from_static(b"text"),
        };
        let (master, out) = (&mut self.master, &mut self.out);
        master.handle_packet(link, packet, &facts, self.now_ms, out);
        self.lines()
    }

    fn hear(&mut self, packet: LearnerPacket) -> Vec<String> {
        self.hear_on(LINK, packet)
    }

    fn introduce(&mut self, link: LinkId, info: LearnerInfo) -> Vec<String> {
        self.master.handle_connected(link, self.now_ms);
        self.hear_on(
            link,
            LearnerPacket::ObserverInfo {
                accepted_epoch: Epoch(0),
                info: Some(info),
            },
        )
    }

    fn ack_epoch(&mut self, last_logged: Zxid) -> Vec<String> {
        let current_epoch = Some(Epoch(0));
        self.hear(LearnerPacket::AckEpoch {
            last_logged,
            current_epoch,
        })
    }

    /// Creates a follower with an observer that is up to date.
    fn serving() -> Self {
        let mut follower = Self::new(1..=3, settings());
        follower.introduce(LINK, LearnerInfo::new(Sid(9), 0));
        follower.ack_epoch(zxid(3));
        follower.hear(LearnerPacket::Ack { zxid: zxid(0) });
        assert_eq!(follower.master.synced_observers(), 1);
        follower
    }

    fn commit(&mut self, counter: u32, designated: Option<Sid>) -> Vec<String> {
        self.committed.push(record(counter));
        self.master
            .handle_committed(&record(counter), designated, None, &mut self.out);
        self.lines()
    }
}

fn settings() -> Settings {
    Settings::new(200, 10, 5)
}

#[test]
fn an_observer_gets_missing_and_then_new_transactions() {
    let mut follower = Follower::new(1..=3, settings());
    let greeted = follower.introduce(LINK, LearnerInfo::new(Sid(9), 0));
    assert_eq!(greeted, ["link 1: send LEADERINFO epoch=0x1"]);
    let expected = [
        "link 1: send DIFF 0x100000003",
        "link 1: send PROPOSAL 0x100000002 len=3",
        "link 1: send COMMIT 0x100000002",
        "link 1: send PROPOSAL 0x100000003 len=3",
        "link 1: send COMMIT 0x100000003",
        "link 1: send NEWLEADER 0x100000000",
    ];
    assert_eq!(follower.ack_epoch(zxid(1)), expected);
    // The observer does not miss a transaction between its opening packet and its acknowledgement.
    let informed = follower.commit(4, None);
    assert_eq!(informed, ["link 1: send INFORM 0x100000004 len=3"]);
    let acknowledged = follower.hear(LearnerPacket::Ack { zxid: zxid(0) });
    assert_eq!(acknowledged, ["link 1: send UPTODATE"]);
    assert_eq!(follower.commit(4, None), [""; 0], "it is told once");
    let activated = follower.commit(5, Some(Sid(3)));
    assert_eq!(
        activated,
        ["link 1: send INFORMANDACTIVATE 0x100000005 sid=3 len=3"]
    );
}

#[test]
fn transactions_no_longer_in_memory_are_sent_as_a_snapshot() {
    let mut follower = Follower::new(5..=6, settings());
    follower.introduce(LINK, LearnerInfo::new(Sid(9), 0));
    let expected = [
        "link 1: send snapshot 0x100000006",
        "link 1: send NEWLEADER 0x100000000",
    ];
    assert_eq!(follower.ack_epoch(zxid(1)), expected);
}

#[test]
fn an_observer_ahead_is_not_truncated() {
    let ahead = zxid(4);
    let mut follower = Follower::new(1..=3, settings());
    follower.introduce(LINK, LearnerInfo::new(Sid(9), 0));
    assert_eq!(
        follower.ack_epoch(ahead),
        [
            "link 1: close: the learner's log is newer than the leader's log: current epoch 0x0, last zxid 0x100000004"
        ]
    );
    // Once the follower has received the commits, it serves the observer.
    follower.commit(4, None);
    follower.introduce(LINK, LearnerInfo::new(Sid(9), 0));
    let served = follower.ack_epoch(ahead);
    assert_eq!(served[0], "link 1: send DIFF 0x100000004");
}

#[test]
fn an_observers_tail_of_an_earlier_epoch_is_truncated() {
    let mut follower = Follower::new(1..=3, settings());
    let (last, epoch) = (zxid(3), Epoch(2));
    follower.master = ObserverMaster::new(Sid(2), epoch, last, false, settings(), 0);
    follower.introduce(LINK, LearnerInfo::new(Sid(9), 0));
    let served = follower.ack_epoch(zxid(4));
    assert_eq!(served[0], "link 1: send TRUNC 0x100000003");
}

#[test]
fn only_observers_that_it_may_lead_are_served() {
    let refused = |packet: LearnerPacket| {
        let mut follower = Follower::new(1..=3, settings());
        follower.master.handle_connected(LINK, 0);
        follower.hear(packet)
    };
    let observer = |info| LearnerPacket::ObserverInfo {
        accepted_epoch: Epoch(0),
        info: Some(info),
    };
    let a_follower = LearnerPacket::FollowerInfo {
        accepted_epoch: Epoch(0),
        info: Some(LearnerInfo::new(Sid(9), 0)),
    };
    assert_eq!(
        refused(a_follower),
        ["link 1: close: unexpected FOLLOWERINFO epoch=0x0 sid=9"]
    );
    assert_eq!(
        refused(observer(LearnerInfo::new(Sid(2), 0))),
        ["link 1: close: the learner has this server's own sid 2"]
    );
    assert_eq!(
        refused(observer(LearnerInfo::new(Sid(9), 8))),
        [
            "link 1: close: the learner's member list has version 0x8, which is newer than this server's version 0x7"
        ]
    );
}

#[test]
fn a_snapshot_too_many_at_a_time_is_refused() {
    let limited = Settings {
        snap_syncs_max: 0,
        ..settings()
    };
    let mut follower = Follower::new(5..=6, limited);
    follower.introduce(LINK, LearnerInfo::new(Sid(9), 0));
    assert_eq!(
        follower.ack_epoch(zxid(1)),
        ["link 1: close: too many learners are syncing"]
    );
}

#[test]
fn requests_of_observers_are_forwarded_and_acknowledgements_are_faults() {
    let mut follower = Follower::serving();
    let touch = Touch {
        session: SessionId(5),
        timeout_ms: 4000,
    };
    let ping = LearnerPacket::Ping {
        zxid: zxid(3),
        touched: vec![touch],
    };
    assert_eq!(follower.hear(ping), ["link 1: touch len=1"]);
    let asked = follower.hear(LearnerPacket::Revalidate(touch));
    assert_eq!(asked, ["link 1: revalidate session=0x5"]);
    let (master, out) = (&mut follower.master, &mut follower.out);
    master.handle_revalidated(LINK, SessionId(5), true, out);
    master.handle_sync_done(LINK, out);
    let answered = [
        "link 1: send REVALIDATE session=0x5 valid=true",
        "link 1: send SYNC",
    ];
    assert_eq!(follower.lines(), answered);
    let wrong = follower.hear(LearnerPacket::Ack { zxid: zxid(3) });
    assert_eq!(wrong, ["link 1: close: unexpected ACK 0x100000003"]);
    let (master, out) = (&mut follower.master, &mut follower.out);
    master.handle_sync_done(LINK, out);
    assert_eq!(follower.lines(), [""; 0], "it is gone");
}

#[test]
fn observers_are_pinged_twice_a_tick_and_dropped_when_silent() {
    let mut follower = Follower::serving();
    assert_eq!(follower.master.deadline_ms(), Some(100));
    let (master, out) = (&mut follower.master, &mut follower.out);
    master.handle_deadline(100, out);
    assert_eq!(follower.lines(), ["link 1: send PING 0x100000003"]);
    follower.commit(4, None);
    let (master, out) = (&mut follower.master, &mut follower.out);
    master.handle_deadline(200, out);
    assert_eq!(follower.lines(), ["link 1: send PING 0x100000004"]);
    let (master, out) = (&mut follower.master, &mut follower.out);
    master.handle_deadline(1000, out);
    let silent = follower.lines();
    assert_eq!(silent, ["link 1: close: no packet received for 1000 ms"]);
    assert_eq!(follower.master.deadline_ms(), None);
}

#[test]
fn a_second_connection_of_an_observer_replaces_the_first() {
    let mut follower = Follower::serving();
    let again = follower.introduce(LinkId(2), LearnerInfo::new(Sid(9), 0));
    let expected = [
        "link 1: close: server 9 has connected again",
        "link 2: send LEADERINFO epoch=0x1",
    ];
    assert_eq!(again, expected);
    let (master, out) = (&mut follower.master, &mut follower.out);
    master.drop_observer(LinkId(2), LinkFault::UndecodableRequest, out);
    let dropped = ["link 2: close: the learner forwarded a request that cannot be decoded"];
    assert_eq!(follower.lines(), dropped);
}

/// One packet of a recording.
struct Recorded {
    /// Whether the packet is on the observer's connection. The other connection belongs to the
    /// follower.
    is_observers: bool,
    is_down: bool,
    packet: QuorumPacket,
}

fn recorded(line: &Value) -> Option<Recorded> {
    let text = line["hex"]
        .as_str()
        .filter(|_| line["type"] != "SNAPSHOT")?;
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
    let int = |at: usize| i32::from_be_bytes(*bytes[at..].first_chunk().unwrap());
    let len = usize::try_from(int(12)).ok();
    let packet = QuorumPacket {
        packet_type: int(0),
        zxid: Zxid(i64::from_be_bytes(*bytes[4..].first_chunk().unwrap())),
        data: len.map(|len| bytes[16..16 + len].to_vec().into()),
        authinfo: None,
    };
    Some(Recorded {
        is_observers: line["from"] == "java-4" || line["to"] == "java-4",
        is_down: line["dir"] == "L>F",
        packet,
    })
}

/// Returns whether the order of the packet is defined. The clock determines the order of pings.
fn is_protocol(packet: &LeaderPacket) -> bool {
    !matches!(packet, LeaderPacket::Ping { .. })
}

/// Returns the packets of an observer master that receives the packets that Java's received.
fn replay(packets: Vec<Recorded>, config: &Bytes) -> Vec<LeaderPacket> {
    let last = packets.first().unwrap().packet.zxid;
    let mut master = ObserverMaster::new(Sid(1), last.epoch(), last, false, settings(), 0);
    master.handle_connected(LINK, 0);
    let mut committed = CommittedLog::default();
    let mut proposals: Vec<Record> = Vec::new();
    let mut said = Vec::new();
    for Recorded {
        is_observers,
        is_down,
        packet,
    } in packets
    {
        let mut out = Vec::new();
        match (is_observers, is_down) {
            (true, false) => {
                let facts = FollowerFacts {
                    committed: &committed,
                    config_version: i64::MAX,
                    config: &|| config.clone(),
                };
                let packet = packet.try_into().unwrap();
                master.handle_packet(LINK, packet, &facts, 0, &mut out);
            }
            (false, true) => match packet.try_into().unwrap() {
                LeaderPacket::Proposal { zxid, txn } => proposals.push(Record { zxid, txn }),
                LeaderPacket::Commit { zxid } => {
                    let record = proposals.iter().find(|record| record.zxid == zxid).unwrap();
                    committed.push(record.clone());
                    master.handle_committed(record, None, None, &mut out);
                }
                LeaderPacket::CommitAndActivate {
                    zxid,
                    designated_leader,
                } => {
                    let record = proposals.iter().find(|record| record.zxid == zxid).unwrap();
                    committed.push(record.clone());
                    master.handle_committed(record, Some(designated_leader), None, &mut out);
                }
                LeaderPacket::Sync => master.handle_sync_done(LINK, &mut out),
                LeaderPacket::Revalidate { session, is_valid } => {
                    master.handle_revalidated(LINK, session, is_valid, &mut out);
                }
                _ => {}
            },
            _ => {}
        }
        said.extend(out.into_iter().filter_map(|action| match action {
            Action::Send { packet, .. } => Some(packet),
            Action::SendSnapshot { zxid, .. } => Some(LeaderPacket::Snap { zxid }),
            _ => None,
        }));
    }
    said
}

#[test]
fn an_observer_receives_the_packets_of_a_java_observer() {
    let Some(path) = testkit::recordings::find("vectors/ensemble/observer-master.jsonl") else {
        return;
    };
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let packets: Vec<Recorded> = lines.filter_map(|line| recorded(&line)).collect();
    let observers = packets.iter().filter(|recorded| recorded.is_observers);
    let down = |recorded: &&Recorded| recorded.is_down;
    let expected: Vec<LeaderPacket> = observers
        .filter(down)
        .map(|recorded| recorded.packet.clone().try_into().unwrap())
        .filter(is_protocol)
        .collect();
    let config = expected.iter().find_map(|packet| match packet {
        LeaderPacket::NewLeader { config, .. } => config.clone(),
        _ => None,
    });
    let config = config.unwrap();
    let said = replay(packets, &config);
    assert!(said.len() >= 12, "{} packets", said.len());
    assert_eq!(said, expected);
}

#[test]
fn an_observer_receives_the_digest_of_a_quorum() {
    let ours = LearnerInfo {
        protocol_version: Some(LearnerInfo::REPORTS_DIGESTS),
        ..LearnerInfo::new(Sid(9), 0)
    };
    let serving = |leader_compares, info| {
        let mut follower = Follower::new(1..=3, settings());
        follower.master =
            ObserverMaster::new(Sid(2), Epoch(1), zxid(3), leader_compares, settings(), 0);
        follower.introduce(LINK, info);
        follower.ack_epoch(zxid(3));
        follower.hear(LearnerPacket::Ack { zxid: zxid(0) });
        follower
    };
    let differs = || LearnerPacket::DigestDiffers {
        zxid: zxid(3),
        digest: 8,
    };
    let digest = |digest| LearnerPacket::Digest {
        zxid: zxid(3),
        digest,
    };
    let ask = |follower: &mut Follower| {
        follower.master.query_digests(zxid(3), &mut follower.out);
        follower.lines()
    };
    let judge = |follower: &mut Follower, at| {
        follower
            .master
            .handle_digest_judged(at, 7, &mut follower.out);
        follower.lines()
    };
    let told = ["link 1: send DIGESTJUDGED 0x100000003 digest=0x7"];

    let mut follower = serving(true, ours);
    assert_eq!(follower.hear(differs()), ["compare digests"]);
    assert_eq!(ask(&mut follower), ["link 1: send DIGESTASKED 0x100000003"]);
    assert!(follower.hear(digest(8)).is_empty(), "nobody knows yet");
    assert!(judge(&mut follower, zxid(2)).is_empty(), "an old answer");
    assert_eq!(judge(&mut follower, zxid(3)), told);
    assert_eq!(follower.hear(digest(8)), told, "it answers late");
    assert!(follower.hear(digest(7)).is_empty(), "it is right");
    follower.master.handle_closed(LINK);
    assert!(follower.hear(digest(8)).is_empty(), "it is gone");

    // With a leader or an observer that does not support the packets.
    for (leader_compares, info) in [(false, ours), (true, LearnerInfo::new(Sid(9), 0))] {
        let mut follower = serving(leader_compares, info);
        let passed_on = follower.hear(differs());
        assert_eq!(passed_on.is_empty(), !leader_compares);
        assert!(ask(&mut follower).is_empty());
    }
}
