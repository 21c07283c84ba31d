//! Order bugs of Apache ZooKeeper, one test each: the moment at which each occurred, and the
//! correct behaviour.

use std::sync::Arc;

use proto::leader::LeaderPacket as Down;
use proto::learner::{LearnerInfo, LearnerPacket as Up};
use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zoarium_zab::leader::{EpochConfig, Leader, LeaderStart, LinkId};
use zoarium_zab::learner::{Action, Learner, LearnerKind, LearnerStart};
use zoarium_zab::{CommittedLog, Record, Settings, leader};

fn zxid(epoch: i64, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

fn record(epoch: i64, counter: u32) -> Record {
    Record::new(zxid(epoch, counter), &b"txn"[..])
}

const SETTINGS: (i64, i64, i64) = (200, 10, 5);

fn settings() -> Settings {
    Settings::new(SETTINGS.0, SETTINGS.1, SETTINGS.2)
}

/// A follower of epoch 1 with (1, 1) in its log, connected.
struct Follower {
    core: Learner,
    out: Vec<Action>,
}

impl Follower {
    fn new() -> Self {
        Self::of(LearnerKind::Follower)
    }

    fn of(kind: LearnerKind) -> Self {
        let mut committed = CommittedLog::default();
        committed.push(record(1, 1));
        let start = LearnerStart {
            sid: Sid(1),
            kind,
            accepted_epoch: Epoch(1),
            accepted_floor: Epoch(0),
            current_epoch: Epoch(1),
            last_logged: zxid(1, 1),
            truncation_failed_in: None,
            config_version: 0,
            lacks_snapshot: false,
            needs_snapshot: false,
            committed,
        };
        let mut out = Vec::new();
        let core = Learner::new(start, settings(), 0, &mut out);
        let mut follower = Self { core, out };
        follower.lines();
        follower
    }

    /// Creates a follower that has sent ACKEPOCH.
    fn greeted() -> Self {
        let mut follower = Self::new();
        follower.hear([Down::leader_info(Epoch(2))]);
        follower.core.handle_accepted_epoch_saved(&mut follower.out);
        follower.lines();
        follower
    }

    fn hear(&mut self, packets: impl IntoIterator<Item = Down>) -> Vec<String> {
        for packet in packets {
            self.core.handle_packet(packet, 0, &mut self.out);
        }
        self.lines()
    }

    fn synced(&mut self, upto: Zxid) -> Vec<String> {
        self.core.handle_synced(upto, &mut self.out);
        self.lines()
    }

    fn epoch_saved(&mut self) -> Vec<String> {
        self.core.handle_current_epoch_saved(&mut self.out);
        self.lines()
    }

    fn lines(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.out);
        all.iter().map(Action::to_string).collect()
    }
}

fn proposal(record: Record) -> Down {
    let Record { zxid, txn } = record;
    Down::Proposal { zxid, txn }
}

fn commit(epoch: i64, counter: u32) -> Down {
    let zxid = zxid(epoch, counter);
    Down::Commit { zxid }
}

fn new_leader() -> Down {
    let config = None;
    Down::NewLeader {
        zxid: zxid(2, 0),
        config,
    }
}

const DIFF: Down = Down::Diff { zxid: Zxid(0) };

#[test]
fn zk3911_zk4646_newleader_is_acknowledged_after_the_history_is_on_disk() {
    let mut follower = Follower::greeted();
    let heard = follower.hear([DIFF, proposal(record(1, 2)), commit(1, 2), new_leader()]);
    assert_eq!(
        heard,
        ["append 0x100000002 len=3", "deliver 0x100000002 len=3"]
    );
    assert_eq!(
        follower.synced(zxid(1, 1)),
        [""; 0],
        "less than the history"
    );
    assert_eq!(follower.synced(zxid(1, 2)), ["save current epoch 0x2"]);
    assert_eq!(follower.epoch_saved(), ["send ACK 0x200000000"]);
}

#[test]
fn zk4643_the_current_epoch_is_saved_after_the_history_is_on_disk() {
    let mut follower = Follower::greeted();
    follower.hear([DIFF, proposal(record(1, 2)), commit(1, 2), new_leader()]);
    assert_eq!(follower.epoch_saved(), [""; 0], "nobody asked for it yet");
    assert_eq!(follower.synced(zxid(1, 2)), ["save current epoch 0x2"]);
}

#[test]
fn zk3023_a_snapshot_is_on_disk_before_the_epoch_and_the_acknowledgement() {
    let mut follower = Follower::greeted();
    let snap = Down::Snap { zxid: zxid(1, 9) };
    assert_eq!(follower.hear([snap]), ["receive snapshot 0x100000009"]);
    assert!(!follower.core.is_reading() && follower.core.is_tree_unsaved());
    follower.core.handle_snapshot_received(0);
    assert_eq!(follower.hear([new_leader()]), ["write snapshot"]);
    assert!(follower.core.is_tree_unsaved());
    follower.core.handle_snapshot_written(&mut follower.out);
    assert_eq!(follower.lines(), ["save current epoch 0x2"]);
    assert_eq!(follower.epoch_saved(), ["send ACK 0x200000000"]);
}

#[test]
fn zk4394_commits_between_newleader_and_uptodate_are_neither_lost_nor_fatal() {
    let mut follower = Follower::greeted();
    follower.hear([DIFF, proposal(record(1, 2)), new_leader()]);
    follower.epoch_saved();
    let more = [commit(1, 2), proposal(record(2, 1)), commit(2, 1)];
    assert_eq!(follower.hear(more), [""; 0]);
    let live = follower.hear([Down::UpToDate]);
    let expected = [
        "send ACK 0x200000000",
        "append 0x100000002 len=3",
        "deliver 0x100000002 len=3",
        "append 0x200000001 len=3",
        "deliver 0x200000001 len=3",
        "serve epoch=0x2",
    ];
    assert_eq!(live, expected);
}

#[test]
fn zk4685_zk4785_pending_proposals_are_acknowledged_singly_after_newleader() {
    let mut follower = Follower::greeted();
    let heard = follower.hear([
        DIFF,
        proposal(record(1, 2)),
        commit(1, 2),
        proposal(record(1, 3)),
        new_leader(),
    ]);
    assert_eq!(
        heard.len(),
        2,
        "the committed one alone is logged: {heard:?}"
    );
    assert_eq!(follower.synced(zxid(1, 2)), ["save current epoch 0x2"]);
    assert_eq!(follower.epoch_saved(), ["send ACK 0x200000000"]);
    let live = follower.hear([Down::UpToDate]);
    let expected = [
        "send ACK 0x200000000",
        "append 0x100000003 len=3",
        "serve epoch=0x2",
    ];
    assert_eq!(live, expected);
    assert_eq!(follower.synced(zxid(1, 3)), ["send ACK 0x100000003"]);
}

#[test]
fn zk4712_a_learner_that_has_left_neither_acts_nor_acknowledges() {
    let mut follower = live();
    follower.hear([proposal(record(2, 1))]);
    follower.core.handle_leave_request(&mut follower.out);
    assert_eq!(follower.lines(), ["leave: the server ends this role"]);
    assert_eq!(follower.synced(zxid(2, 1)), [""; 0]);
    assert_eq!(follower.hear([commit(2, 1)]), [""; 0]);
}

fn live() -> Follower {
    let mut follower = Follower::greeted();
    follower.hear([DIFF, new_leader()]);
    follower.epoch_saved();
    follower.hear([Down::UpToDate]);
    follower
}

#[test]
fn zk4925_a_hole_inside_an_epoch_is_never_taken() {
    let mut syncing = Follower::greeted();
    let hole = syncing.hear([DIFF, proposal(record(1, 3))]);
    assert_eq!(
        hole,
        ["leave: transaction 0x100000003 does not follow 0x100000001"]
    );
    let mut follower = live();
    let hole = follower.hear([proposal(record(2, 1)), proposal(record(2, 3))]);
    assert_eq!(
        hole,
        [
            "append 0x200000001 len=3",
            "leave: transaction 0x200000003 does not follow 0x200000001"
        ]
    );
    // Every leader begins with 1.
    let late = live().hear([proposal(record(2, 2))]);
    assert_eq!(
        late,
        ["leave: transaction 0x200000002 does not follow 0x100000001"]
    );
    for (epoch, counter) in [(1, 3), (2, 2)] {
        let mut log = CommittedLog::default();
        log.push(record(1, 1));
        log.push(record(epoch, counter));
        assert_eq!(log.min(), Some(zxid(epoch, counter)));
    }
}

#[test]
fn zk1818_votes_contain_the_epoch_once_it_is_established() {
    let mut follower = Follower::greeted();
    follower.hear([DIFF, new_leader()]);
    follower.epoch_saved();
    assert_eq!(
        follower.hear([Down::UpToDate]).last().unwrap(),
        "serve epoch=0x2"
    );
}

#[test]
fn an_epoch_is_promised_only_once_it_is_on_disk() {
    let mut follower = Follower::new();
    assert_eq!(
        follower.hear([Down::leader_info(Epoch(2))]),
        ["save accepted epoch 0x2"]
    );
    follower.core.handle_accepted_epoch_saved(&mut follower.out);
    assert_eq!(follower.lines(), ["send ACKEPOCH 0x100000001 epoch=0x1"]);
    // This epoch was promised before. An older one cannot belong to a leader.
    let mut again = Follower::new();
    let heard = again.hear([Down::leader_info(Epoch(1))]);
    assert_eq!(heard, ["send ACKEPOCH 0x100000001 promised before"]);
    let mut behind = Follower::new();
    let heard = behind.hear([Down::leader_info(Epoch(0))]);
    assert_eq!(
        heard,
        ["leave: the leader proposes epoch 0x0, but this server has accepted epoch 0x1"]
    );
}

#[test]
fn a_proposal_is_acknowledged_when_its_record_is_on_disk_and_committed_before_or_after() {
    let mut follower = live();
    let two = follower.hear([proposal(record(2, 1)), proposal(record(2, 2)), commit(2, 1)]);
    assert_eq!(
        two,
        [
            "append 0x200000001 len=3",
            "append 0x200000002 len=3",
            "deliver 0x200000001 len=3"
        ]
    );
    let acks = follower.synced(zxid(2, 2));
    assert_eq!(acks, ["send ACK 0x200000001", "send ACK 0x200000002"]);
    let unmatched = follower.hear([commit(2, 3)]);
    assert_eq!(
        unmatched,
        ["leave: the leader commits 0x200000003, but the next proposal is 0x200000002"]
    );
}

#[test]
fn an_observer_logs_informs_and_acknowledges_none() {
    let mut observer = Follower::of(LearnerKind::Observer);
    observer.hear([Down::leader_info(Epoch(2))]);
    observer.core.handle_accepted_epoch_saved(&mut observer.out);
    observer.hear([DIFF, new_leader()]);
    observer.epoch_saved();
    observer.hear([Down::UpToDate]);
    let Record { zxid: at, txn } = record(2, 1);
    let informed = observer.hear([Down::Inform { zxid: at, txn }]);
    assert_eq!(
        informed,
        ["append 0x200000001 len=3", "deliver 0x200000001 len=3"]
    );
    assert_eq!(observer.synced(at), [""; 0]);
}

/// Server 3 of three, elected with history up to (1, 2).
struct Elected {
    core: Leader,
    out: Vec<leader::Action>,
}

impl Elected {
    fn new(last: Zxid, committed: CommittedLog) -> Self {
        let start = LeaderStart {
            sid: Sid(3),
            accepted_epoch: Epoch(1),
            accepted_floor: Epoch(0),
            current_epoch: Epoch(1),
            last_zxid: last,
            committed,
            log_whole_from: zxid(1, 70),
            quorum: Arc::new(Majority::new((1..=3).map(Sid))),
            config_version: 0,
            next: None,
        };
        let mut out = Vec::new();
        let core = Leader::new(start, settings(), 0, &mut out);
        Self { core, out }
    }

    fn lines(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.out);
        all.iter().map(leader::Action::to_string).collect()
    }

    fn hear(&mut self, link: u64, packet: Up) -> Vec<String> {
        self.core
            .handle_packet(LinkId(link), packet, 0, &mut self.out);
        self.lines()
    }

    fn introduce(&mut self, link: u64, accepted: i64) -> Vec<String> {
        self.core.handle_connected(LinkId(link), 0);
        let sid = Sid(i64::try_from(link % 10).unwrap());
        let accepted_epoch = Epoch(accepted);
        let info = Some(LearnerInfo::new(sid, 0));
        self.hear(
            link,
            Up::FollowerInfo {
                accepted_epoch,
                info,
            },
        )
    }

    fn accepted_saved(&mut self) -> Vec<String> {
        let config = EpochConfig {
            text: "text".into(),
            version: 0,
        };
        self.core
            .handle_accepted_epoch_saved(config, 0, &mut self.out);
        self.lines()
    }

    fn ack_epoch(&mut self, link: u64, epoch: i64, last_logged: Zxid) -> Vec<String> {
        let current_epoch = Some(Epoch(epoch));
        self.hear(
            link,
            Up::AckEpoch {
                last_logged,
                current_epoch,
            },
        )
    }

    /// Creates a leader of epoch 2 with server 1 on link 1.
    fn leading() -> Self {
        let mut elected = Self::new(zxid(1, 2), log());
        elected.introduce(1, 1);
        elected.accepted_saved();
        elected.ack_epoch(1, 1, zxid(1, 2));
        elected.hear(1, Up::Ack { zxid: zxid(2, 0) });
        elected.core.handle_current_epoch_saved(0, &mut elected.out);
        elected.lines();
        elected
    }

    fn propose(&mut self, record: Record) -> Vec<String> {
        self.core.propose(record, 0, &mut self.out).unwrap();
        self.lines()
    }
}

fn log() -> CommittedLog {
    let mut log = CommittedLog::default();
    log.push(record(1, 1));
    log.push(record(1, 2));
    log
}

#[test]
fn only_durable_acknowledgements_establish_a_leader() {
    let mut elected = Elected::new(zxid(1, 2), log());
    assert_eq!(elected.lines(), [""; 0]);
    assert_eq!(elected.introduce(1, 4), ["save accepted epoch 0x5"]);
    assert_eq!(
        elected.accepted_saved(),
        ["link 1: send LEADERINFO epoch=0x5"]
    );
    let synced = elected.ack_epoch(1, 1, zxid(1, 1));
    let expected = [
        "save current epoch 0x5",
        "link 1: send DIFF 0x100000002",
        "link 1: send PROPOSAL 0x100000002 len=3",
        "link 1: send COMMIT 0x100000002",
        "link 1: send NEWLEADER 0x500000000",
    ];
    assert_eq!(synced, expected);
    // The leader's own epoch file is one of the two that are needed.
    assert_eq!(elected.hear(1, Up::Ack { zxid: zxid(5, 0) }), [""; 0]);
    elected.core.handle_current_epoch_saved(0, &mut elected.out);
    assert_eq!(elected.lines(), ["lead epoch=0x5", "link 1: send UPTODATE"]);
}

#[test]
fn a_learner_with_a_longer_log_is_refused() {
    let mut elected = Elected::new(zxid(1, 2), log());
    elected.introduce(1, 1);
    elected.accepted_saved();
    let ahead = elected.ack_epoch(1, 1, zxid(1, 3));
    assert_eq!(
        ahead,
        [
            "link 1: close: the learner's log is newer than the leader's log: current epoch 0x1, last zxid 0x100000003"
        ]
    );
    elected.core.handle_deadline(2000, &mut elected.out);
    let over = elected.lines();
    assert_eq!(over, ["step down: no quorum of voters accepted the epoch"]);
}

#[test]
fn zk2846_log_files_that_may_have_a_hole_are_not_read() {
    let mut elected = Elected::new(zxid(1, 90), CommittedLog::default());
    elected.introduce(1, 1);
    elected.accepted_saved();
    // The learner's log ends before the point from which this server's log is whole.
    let sent = elected.ack_epoch(1, 1, zxid(1, 69));
    let expected = [
        "save current epoch 0x2",
        "link 1: send snapshot 0x10000005a",
        "link 1: send NEWLEADER 0x200000000",
    ];
    assert_eq!(sent, expected);
}

#[test]
fn zk3526_a_short_committed_log_truncates_no_committed_transaction() {
    // A list that ends early because of a much later snapshot.
    let mut elected = Elected::new(zxid(1, 90), log());
    elected.introduce(1, 1);
    elected.accepted_saved();
    let sent = elected.ack_epoch(1, 1, zxid(1, 80));
    assert_eq!(
        sent,
        [
            "save current epoch 0x2",
            "link 1: read log 0x100000050 to 0x10000005a"
        ]
    );
    elected
        .core
        .handle_log_unusable(LinkId(1), 0, &mut elected.out);
    let sent = elected.lines();
    assert_eq!(
        sent,
        [
            "link 1: send snapshot 0x10000005a",
            "link 1: send NEWLEADER 0x200000000"
        ]
    );
}

#[test]
fn zk4685_an_acknowledgement_before_that_of_newleader_ends_that_connection_only() {
    let mut elected = Elected::leading();
    elected.propose(record(2, 1));
    elected.introduce(2, 1);
    let sent = elected.ack_epoch(2, 1, zxid(1, 2));
    let expected = [
        "link 2: send DIFF 0x100000002",
        "link 2: send PROPOSAL 0x200000001 len=3",
        "link 2: send NEWLEADER 0x200000000",
    ];
    assert_eq!(sent, expected);
    let closed = elected.hear(2, Up::Ack { zxid: zxid(2, 1) });
    assert_eq!(closed, ["link 2: close: unexpected ACK 0x200000001"]);
    assert!(elected.core.is_leading());
}

#[test]
fn a_commit_needs_two_disks_and_comes_in_order() {
    let mut elected = Elected::leading();
    assert_eq!(
        elected.propose(record(2, 1)),
        [
            "append 0x200000001 len=3",
            "link 1: send PROPOSAL 0x200000001 len=3"
        ]
    );
    elected.propose(record(2, 2));
    for _ in 0..2 {
        elected.core.sync(LinkId(1), &mut elected.out);
    }
    assert_eq!(elected.core.pending_syncs(), 1);
    assert_eq!(elected.hear(1, Up::Ack { zxid: zxid(2, 2) }), [""; 0]);
    elected.core.handle_synced(zxid(2, 1), &mut elected.out);
    let first = [
        "link 1: send COMMIT 0x200000001",
        "deliver 0x200000001 len=3",
    ];
    assert_eq!(elected.lines(), first);
    elected.core.handle_synced(zxid(2, 2), &mut elected.out);
    let second = [
        "link 1: send COMMIT 0x200000002",
        "deliver 0x200000002 len=3",
        "link 1: send SYNC",
        "link 1: send SYNC",
    ];
    assert_eq!(elected.lines(), second);
    assert_eq!(elected.core.pending_syncs(), 0);
}

#[test]
fn an_acknowledgement_is_forgotten_with_the_connection_whose_log_may_be_cut_next() {
    let mut elected = Elected::leading();
    elected.propose(record(2, 1));
    elected.hear(1, Up::Ack { zxid: zxid(2, 1) });
    // Server 1 returns over a new connection, and must cut an uncommitted record.
    let replaced = elected.introduce(11, 2);
    let expected = [
        "link 1: close: server 1 has connected again",
        "link 11: send LEADERINFO epoch=0x2",
    ];
    assert_eq!(replaced, expected);
    let sent = elected.ack_epoch(11, 2, zxid(2, 1));
    assert_eq!(sent[0], "link 11: send TRUNC 0x100000002");
    elected.core.handle_synced(zxid(2, 1), &mut elected.out);
    assert_eq!(elected.lines(), [""; 0], "one disk of three");
}

#[test]
fn a_transaction_has_the_next_number_or_is_not_proposed() {
    let mut elected = Elected::leading();
    assert_eq!(elected.core.next_zxid(), zxid(2, 1));
    let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        elected.core.propose(record(2, 2), 0, &mut Vec::new())
    }));
    assert!(wrong.is_err(), "a number of its own for each transaction");
}

#[test]
fn a_leader_pings_drops_silent_learners_and_steps_down_without_a_quorum() {
    let mut elected = Elected::leading();
    elected.core.handle_deadline(100, &mut elected.out);
    assert_eq!(elected.lines(), ["link 1: send PING 0x200000000"]);
    let touched = Vec::new();
    let zxid = zxid(2, 0);
    elected
        .core
        .handle_packet(LinkId(1), Up::Ping { zxid, touched }, 900, &mut elected.out);
    elected.propose(record(2, 1));
    elected.core.handle_deadline(1001, &mut elected.out);
    let lagging = "link 1: close: the learner has not acknowledged 0x200000001 after 1001 ms";
    assert_eq!(elected.lines(), [lagging]);
    elected.core.handle_deadline(1200, &mut elected.out);
    elected.core.handle_deadline(1300, &mut elected.out);
    assert_eq!(
        elected.lines(),
        ["step down: the connection to a quorum of voters was lost"]
    );
    assert_eq!(elected.core.deadline_ms(), None);
}
