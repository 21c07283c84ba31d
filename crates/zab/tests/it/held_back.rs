//! The bound on the records that a learner holds back during synchronisation. The bound must not
//! weaken safety or liveness.

use proto::leader::LeaderPacket as Down;
use proto::{Epoch, Sid, Zxid};
use zoarium_zab::learner::{Action, Learner, LearnerKind, LearnerStart};
use zoarium_zab::{CommittedLog, Record, Settings};

const TXN: &[u8] = &[0; 1000];
/// Number of transactions that reach the bound.
const HELD_LEN: u32 = 8;

/// A learner of epoch 1 that has promised epoch 2.
struct Greeted {
    core: Learner,
    out: Vec<Action>,
    now_ms: i64,
}

impl Greeted {
    fn new(kind: LearnerKind) -> Self {
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
            committed: CommittedLog::default(),
        };
        let settings = Settings {
            held_back_bytes_max: TXN.len() * HELD_LEN as usize,
            ..Settings::new(200, 10, 5)
        };
        let mut out = Vec::new();
        let core = Learner::new(start, settings, 0, &mut out);
        let now_ms = 0;
        let mut learner = Self { core, out, now_ms };
        learner.hear(Down::leader_info(Epoch(2)));
        learner.core.handle_accepted_epoch_saved(&mut learner.out);
        learner.lines();
        learner
    }

    /// Creates a learner that is writing the leader's snapshot up to (1, 9).
    fn writing_snapshot(kind: LearnerKind) -> Self {
        let mut learner = Self::new(kind);
        learner.hear(Down::Snap { zxid: zxid(1, 9) });
        learner.core.handle_snapshot_received(learner.now_ms);
        assert_eq!(learner.hear(new_leader()), ["write snapshot"]);
        learner
    }

    fn hear(&mut self, packet: Down) -> Vec<String> {
        assert!(self.core.is_reading(), "{packet:?} has to wait");
        self.core.handle_packet(packet, self.now_ms, &mut self.out);
        self.lines()
    }

    /// Sends committed transactions of epoch 2 until the learner stops reading. Returns the number
    /// of proposals. The commit of the last one has to wait.
    fn hear_until_it_stops(&mut self) -> u32 {
        for counter in 1..10 * HELD_LEN {
            assert_eq!(self.hear(proposal(zxid(2, counter))), [""; 0]);
            if !self.core.is_reading() {
                return counter;
            }
            let zxid = zxid(2, counter);
            assert_eq!(self.hear(Down::Commit { zxid }), [""; 0]);
        }
        panic!("it reads on and on");
    }

    fn snapshot_written(&mut self) -> Vec<String> {
        self.core.handle_snapshot_written(&mut self.out);
        self.lines()
    }

    fn epoch_saved(&mut self) -> Vec<String> {
        self.core.handle_current_epoch_saved(&mut self.out);
        self.lines()
    }

    fn synced(&mut self, upto: Zxid) -> Vec<String> {
        self.core.handle_synced(upto, &mut self.out);
        self.lines()
    }

    /// Returns the actions of the deadline at this time, if one is set.
    fn deadline_at(&mut self, now_ms: i64) -> Vec<String> {
        self.now_ms = now_ms;
        self.core.handle_deadline(now_ms, &mut self.out);
        self.lines()
    }

    fn lines(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.out);
        all.iter().map(Action::to_string).collect()
    }
}

fn zxid(epoch: i64, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

fn proposal(zxid: Zxid) -> Down {
    let Record { zxid, txn } = Record::new(zxid, TXN);
    Down::Proposal { zxid, txn }
}

fn inform(zxid: Zxid) -> Down {
    let Record { zxid, txn } = Record::new(zxid, TXN);
    Down::Inform { zxid, txn }
}

fn new_leader() -> Down {
    let (zxid, config) = (zxid(2, 0), None);
    Down::NewLeader { zxid, config }
}

fn appended_and_delivered(zxids: impl IntoIterator<Item = Zxid>) -> Vec<String> {
    let both = |zxid| {
        [
            format!("append {zxid} len=1000"),
            format!("deliver {zxid} len=1000"),
        ]
    };
    zxids.into_iter().flat_map(both).collect()
}

#[test]
fn while_its_snapshot_is_written_a_learner_stops_reading_at_the_bound() {
    let mut learner = Greeted::writing_snapshot(LearnerKind::Follower);
    let heard = learner.hear_until_it_stops();
    assert!((1..=HELD_LEN).contains(&heard), "{heard} are held back");
    // The snapshot comes first, then the epoch, then the acknowledgement.
    assert_eq!(learner.snapshot_written(), ["save current epoch 0x2"]);
    assert!(!learner.core.is_reading());
    let mut said = learner.epoch_saved();
    assert_eq!(said.remove(0), "send ACK 0x200000000");
    // UPTODATE comes after the packets that wait on the connection, so the held-back records must
    // leave.
    let last = zxid(2, heard);
    let mut expected = appended_and_delivered((1..heard).map(|counter| zxid(2, counter)));
    expected.push(format!("append {last} len=1000"));
    assert_eq!(said, expected);
    let delivered = learner.hear(Down::Commit { zxid: last });
    assert_eq!(delivered, [format!("deliver {last} len=1000")]);
}

#[test]
fn packets_between_the_acknowledgement_and_uptodate_are_handled_as_after_it() {
    let mut learner = Greeted::writing_snapshot(LearnerKind::Follower);
    let heard = learner.hear_until_it_stops();
    learner.snapshot_written();
    learner.epoch_saved();
    let (held, next) = (zxid(2, heard), zxid(2, heard + 1));
    learner.hear(Down::Commit { zxid: held });
    let mut said = learner.hear(proposal(next));
    said.extend(learner.hear(Down::Commit { zxid: next }));
    assert_eq!(said, appended_and_delivered([next]));
    // A leader measures silence and missing acknowledgements from the acknowledgement of NEWLEADER
    // on.
    let ping = Down::Ping { zxid: zxid(2, 0) };
    assert_eq!(learner.hear(ping), ["answer PING 0x200000000"]);
    let acks = (1..=next.counter()).map(|counter| format!("send ACK {}", zxid(2, counter)));
    assert_eq!(learner.synced(next), acks.collect::<Vec<_>>());
    // An uncommitted proposal is logged, and waits.
    let last = next.next();
    assert_eq!(
        learner.hear(proposal(last)),
        [format!("append {last} len=1000")]
    );
    assert!(!learner.core.is_live());
    let expected = ["send ACK 0x200000000", "serve epoch=0x2"];
    assert_eq!(learner.hear(Down::UpToDate), expected);
    assert!(learner.core.is_live());
    let delivered = learner.hear(Down::Commit { zxid: last });
    assert_eq!(delivered, [format!("deliver {last} len=1000")]);
    assert_eq!(learner.core.committed().max(), Some(last));
}

#[test]
fn a_learner_that_stops_reading_does_not_time_out_its_leader() {
    let mut learner = Greeted::writing_snapshot(LearnerKind::Follower);
    learner.hear_until_it_stops();
    assert_eq!(learner.core.deadline_ms(), None);
    assert_eq!(learner.deadline_at(60_000), [""; 0]);
    learner.snapshot_written();
    learner.epoch_saved();
    // The packets that the leader has sent meanwhile are not read yet: its silence begins now.
    assert_eq!(learner.deadline_at(60_000), [""; 0]);
    assert_eq!(learner.core.deadline_ms(), Some(61_000));
    let left = learner.deadline_at(61_000);
    assert_eq!(
        left,
        ["leave: no packet received from the leader for 1000 ms"]
    );
}

#[test]
fn an_observer_stops_reading_at_the_bound_too() {
    let mut observer = Greeted::writing_snapshot(LearnerKind::Observer);
    let mut heard = 0;
    while observer.core.is_reading() {
        heard += 1;
        assert!(heard <= HELD_LEN, "it reads on and on");
        assert_eq!(observer.hear(inform(zxid(2, heard))), [""; 0]);
    }
    observer.snapshot_written();
    let mut said = observer.epoch_saved();
    assert_eq!(said.remove(0), "send ACK 0x200000000");
    let all = (1..=heard).map(|counter| zxid(2, counter));
    assert_eq!(said, appended_and_delivered(all));
    let next = zxid(2, heard + 1);
    assert_eq!(observer.hear(inform(next)), appended_and_delivered([next]));
    assert_eq!(observer.synced(next), [""; 0]);
    let expected = ["send ACK 0x200000000", "serve epoch=0x2"];
    assert_eq!(observer.hear(Down::UpToDate), expected);
}

#[test]
fn a_history_above_the_bound_goes_to_the_log_before_newleader_which_waits_for_all_of_it() {
    let mut learner = Greeted::new(LearnerKind::Follower);
    learner.hear(Down::Diff { zxid: zxid(1, 0) });
    let end = 1 + 3 * HELD_LEN;
    let mut said = Vec::new();
    let mut held = 0;
    for counter in 2..=end {
        let zxid = zxid(1, counter);
        said.extend(learner.hear(proposal(zxid)));
        said.extend(learner.hear(Down::Commit { zxid }));
        held = counter as usize - 1 - said.len() / 2;
        assert!(held <= HELD_LEN as usize, "{held} are held back");
    }
    assert!(held > 0, "the last one is above the bound by chance");
    assert_eq!(learner.synced(zxid(1, 2)), [""; 0]);
    said.extend(learner.hear(new_leader()));
    let all = (2..=end).map(|counter| zxid(1, counter));
    assert_eq!(said, appended_and_delivered(all));
    assert_eq!(learner.synced(zxid(1, end - 1)), [""; 0]);
    assert_eq!(learner.synced(zxid(1, end)), ["save current epoch 0x2"]);
    assert_eq!(learner.epoch_saved(), ["send ACK 0x200000000"]);
}

#[test]
fn syncs_before_newleader_are_not_repeated() {
    let mut learner = Greeted::new(LearnerKind::Follower);
    learner.hear(Down::Diff { zxid: zxid(1, 0) });
    let mut next = zxid(1, 2);
    let mut said = learner.hear(proposal(next));
    while said.is_empty() {
        assert!(next.counter() < 10 * HELD_LEN, "all of it is held back");
        learner.hear(Down::Commit { zxid: next });
        next = next.next();
        said = learner.hear(proposal(next));
    }
    // The newest proposal is not committed.
    let committed = 2..next.counter();
    let last = zxid(1, next.counter() - 1);
    assert_eq!(
        said,
        appended_and_delivered(committed.map(|counter| zxid(1, counter)))
    );
    assert_eq!(learner.synced(last), [""; 0]);
    assert_eq!(learner.hear(new_leader()), ["save current epoch 0x2"]);
}
