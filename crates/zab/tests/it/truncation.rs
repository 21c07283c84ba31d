//! A learner that cannot cut its log where its leader requests it. For example, an Apache leader
//! names the start of an epoch, which is not a transaction. The learner must not lose a record up
//! to there. It must rejoin even if the leader does not have a quorum without it.

use std::sync::Arc;

use proto::leader::LeaderPacket as Down;
use proto::learner::{LearnerInfo, LearnerPacket as Up};
use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zoarium_zab::leader::{EpochConfig, Leader, LeaderStart, LinkId};
use zoarium_zab::learner::{Action, Fault, Learner, LearnerKind, LearnerStart};
use zoarium_zab::{CommittedLog, Record, Settings, leader};

fn zxid(epoch: i64, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

fn history(upto: u32) -> CommittedLog {
    let mut history = CommittedLog::default();
    for counter in 1..=upto {
        history.push(Record::new(zxid(1, counter), &b"txn"[..]));
    }
    history
}

/// A follower with (1, 1) to (1, 5) in its log, connected.
struct Follower {
    core: Learner,
    out: Vec<Action>,
}

impl Follower {
    fn new(accepted: i64, truncation_failed_in: Option<Epoch>) -> Self {
        Self::of_kind(LearnerKind::Follower, accepted, truncation_failed_in)
    }

    fn of_kind(kind: LearnerKind, accepted: i64, truncation_failed_in: Option<Epoch>) -> Self {
        let start = LearnerStart {
            sid: Sid(1),
            kind,
            accepted_epoch: Epoch(accepted),
            accepted_floor: Epoch(0),
            current_epoch: Epoch(1),
            last_logged: zxid(1, 5),
            truncation_failed_in,
            config_version: 0,
            lacks_snapshot: false,
            needs_snapshot: false,
            committed: history(5),
        };
        let mut out = Vec::new();
        let core = Learner::new(start, Settings::new(200, 10, 5), 0, &mut out);
        out.clear();
        Self { core, out }
    }

    fn hear(&mut self, packet: Down) -> Vec<String> {
        self.core.handle_packet(packet, 0, &mut self.out);
        self.lines()
    }

    fn lines(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.out);
        all.iter().map(Action::to_string).collect()
    }

    /// Requests a cut that the learner cannot make, with a log that now ends at `end`.
    fn fail_to_cut(&mut self, wanted: Zxid, end: Zxid) -> Fault {
        let told = self.hear(Down::Trunc { zxid: wanted });
        assert_eq!(told, [format!("truncate {wanted}")]);
        self.core.handle_truncated(end, 0, &mut self.out);
        match self.out.pop() {
            Some(Action::Leave(fault)) => fault,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn after_a_failed_truncation_a_learner_accepts_only_a_snapshot() {
    let mut follower = Follower::new(2, None);
    follower.hear(Down::leader_info(Epoch(2)));
    let (wanted, end) = (zxid(1, 0), zxid(1, 5));
    let epoch = Epoch(2);
    let fault = follower.fail_to_cut(wanted, end);
    assert_eq!(fault, Fault::CannotTruncate { epoch, wanted, end });

    let back = || {
        let mut follower = Follower::new(2, Some(epoch));
        let greeted = follower.hear(Down::leader_info(epoch));
        assert_eq!(greeted, ["send ACKEPOCH 0x0 promised before"]);
        follower
    };
    let snapshot = Down::Snap { zxid: zxid(2, 0) };
    assert_eq!(back().hear(snapshot), ["receive snapshot 0x200000000"]);
    // A synchronisation that begins at its log would leave the uncut records in it.
    for packet in [
        Down::Diff { zxid: zxid(2, 0) },
        Down::Trunc { zxid: wanted },
    ] {
        let said = back().hear(packet);
        assert!(said[0].starts_with("leave: unexpected"), "{said:?}");
    }
}

#[test]
fn a_valid_promise_names_the_existing_log() {
    // With a smaller zxid, a leader that lacks some of these records could be established.
    let mut follower = Follower::new(2, Some(Epoch(2)));
    assert_eq!(
        follower.hear(Down::leader_info(Epoch(3))),
        ["save accepted epoch 0x3"]
    );
    follower.core.handle_accepted_epoch_saved(&mut follower.out);
    assert_eq!(follower.lines(), ["send ACKEPOCH 0x100000005 epoch=0x1"]);
}

#[test]
fn truncated_transactions_leave_memory_too() {
    // The rest is shorter than requested. Later records in memory could be mistaken for committed
    // ones.
    let mut follower = Follower::new(2, None);
    follower.hear(Down::leader_info(Epoch(2)));
    follower.fail_to_cut(zxid(1, 4), zxid(1, 2));
    assert_eq!(follower.core.into_committed().max(), Some(zxid(1, 2)));
}

/// Server 2 of three with the links of server 1. The third server is dead.
struct Leading {
    core: Leader,
    out: Vec<leader::Action>,
}

impl Leading {
    fn elected() -> Self {
        let start = LeaderStart {
            sid: Sid(2),
            accepted_epoch: Epoch(2),
            accepted_floor: Epoch(0),
            current_epoch: Epoch(2),
            last_zxid: zxid(1, 2),
            committed: history(2),
            log_whole_from: Zxid::ZERO,
            quorum: Arc::new(Majority::new([Sid(1), Sid(2), Sid(3)])),
            config_version: 0,
            next: None,
        };
        let mut out = Vec::new();
        let core = Leader::new(start, Settings::new(200, 10, 5), 0, &mut out);
        Self { core, out }
    }

    fn connect(&mut self, link: u64, accepted: i64) -> Vec<String> {
        self.core.handle_connected(LinkId(link), 0);
        let info = Some(LearnerInfo::new(Sid(1), 0));
        let accepted_epoch = Epoch(accepted);
        self.hear(
            link,
            Up::FollowerInfo {
                accepted_epoch,
                info,
            },
        )
    }

    fn hear(&mut self, link: u64, packet: Up) -> Vec<String> {
        let out = &mut self.out;
        self.core.handle_packet(LinkId(link), packet, 0, out);
        self.lines()
    }

    fn lines(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.out);
        all.iter().map(leader::Action::to_string).collect()
    }
}

#[test]
fn a_leader_that_needs_the_learner_is_established_in_the_same_epoch() {
    let mut leading = Leading::elected();
    assert_eq!(leading.connect(1, 1), ["save accepted epoch 0x3"]);
    let config = EpochConfig {
        text: "text".into(),
        version: 0,
    };
    let out = &mut leading.out;
    leading.core.handle_accepted_epoch_saved(config, 0, out);
    assert_eq!(leading.lines(), ["link 1: send LEADERINFO epoch=0x3"]);
    let truth = Up::AckEpoch {
        last_logged: zxid(1, 5),
        current_epoch: Some(Epoch(1)),
    };
    assert_eq!(
        leading.hear(1, truth),
        [
            "save current epoch 0x3",
            "link 1: send TRUNC 0x100000002",
            "link 1: send NEWLEADER 0x300000000",
        ]
    );
    leading.core.handle_current_epoch_saved(0, &mut leading.out);
    leading.core.handle_closed(LinkId(1));
    assert_eq!(leading.lines(), [""; 0], "goes on waiting");

    assert_eq!(leading.connect(2, 3), ["link 2: send LEADERINFO epoch=0x3"]);
    let nothing = Up::AckEpoch {
        last_logged: Zxid::ZERO,
        current_epoch: None,
    };
    assert_eq!(
        leading.hear(2, nothing),
        ["link 2: read log 0x0 to 0x100000001"]
    );
    let out = &mut leading.out;
    leading.core.handle_log_unusable(LinkId(2), 0, out);
    assert_eq!(
        leading.lines(),
        [
            "link 2: send snapshot 0x100000002",
            "link 2: send NEWLEADER 0x300000000",
        ]
    );
    leading.core.handle_snapshot_sent(LinkId(2), 0);
    assert_eq!(
        leading.hear(2, Up::Ack { zxid: zxid(3, 0) }),
        ["lead epoch=0x3", "link 2: send UPTODATE"]
    );
}

#[test]
fn an_observer_does_not_forget_what_is_committed() {
    // All transactions of the established epoch that an observer has are committed.
    let mut observer = Follower::of_kind(LearnerKind::Observer, 1, None);
    observer.hear(Down::leader_info(Epoch(1)));
    let told = observer.hear(Down::Trunc { zxid: zxid(1, 3) });
    let text = "the leader's last zxid 0x100000003 is lower than 0x100000005, the last zxid of this observer";
    assert_eq!(told, [format!("leave: {text}")]);
    // In an earlier epoch, it may have logged a proposal as a voter.
    let mut observer = Follower::of_kind(LearnerKind::Observer, 1, None);
    observer.hear(Down::leader_info(Epoch(2)));
    observer.core.handle_accepted_epoch_saved(&mut observer.out);
    observer.lines();
    let told = observer.hear(Down::Trunc { zxid: zxid(1, 3) });
    assert_eq!(told, ["truncate 0x100000003"]);
}

#[test]
fn a_snapshot_that_is_not_on_disk_is_not_trusted_when_its_leader_falls_silent() {
    let mut follower = Follower::new(2, None);
    follower.hear(Down::leader_info(Epoch(2)));
    follower.hear(Down::Snap { zxid: zxid(1, 9) });
    follower.core.handle_snapshot_received(0);
    assert!(follower.core.is_tree_unsaved());
    follower.core.handle_deadline(1_000_000, &mut follower.out);
    let said = follower.lines();
    assert!(said[0].starts_with("leave: no packet received"), "{said:?}");
    assert!(follower.core.is_tree_unsaved(), "it has to be loaded again");
}
