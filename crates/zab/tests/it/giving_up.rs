//! Leaders that step down, or that continue without a quorum by a grant of the oracle.

use std::sync::Arc;

use proto::learner::{LearnerInfo, LearnerPacket};
use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zoarium_zab::leader::{Action, EpochConfig, Leader, LeaderStart, LinkId};
use zoarium_zab::{CommittedLog, Record, Settings};

/// Creates server 2, the first of these voters, just elected.
fn elected(voters: i64, settings: Settings) -> Leader {
    let start = LeaderStart {
        sid: Sid(2),
        accepted_epoch: Epoch(1),
        accepted_floor: Epoch(0),
        current_epoch: Epoch(1),
        last_zxid: Zxid::new(Epoch(1), 5),
        committed: CommittedLog::default(),
        log_whole_from: Zxid::ZERO,
        quorum: Arc::new(Majority::new((0..voters).map(|at| Sid(2 + at)))),
        config_version: 0,
        next: None,
    };
    Leader::new(start, settings, 0, &mut Vec::new())
}

fn settings() -> Settings {
    Settings::new(200, 10, 5)
}

fn lines(out: &mut Vec<Action>) -> Vec<String> {
    out.drain(..).map(|action| action.to_string()).collect()
}

const GIVES_UP: &str =
    "step down: a voter searched for another leader before a quorum joined the new epoch";

#[test]
fn a_leader_without_an_epoch_gives_up_when_a_supporter_looks_again_after_the_time_for_it() {
    let limited = Settings {
        epoch_wait_max_ms: Some(500),
        ..settings()
    };
    let mut leader = elected(3, limited);
    let mut out = Vec::new();
    leader.handle_supporter_looks(500, &mut out);
    assert_eq!(lines(&mut out), [""; 0], "the time is not over");
    leader.handle_deadline(501, &mut out);
    assert_eq!(lines(&mut out), [""; 0], "nobody looks");
    leader.handle_supporter_looks(501, &mut out);
    assert_eq!(lines(&mut out), [GIVES_UP]);
}

#[test]
fn without_a_time_for_it_supporters_may_look_until_init_limit() {
    let mut leader = elected(3, settings());
    let mut out = Vec::new();
    leader.handle_supporter_looks(1999, &mut out);
    assert_eq!(lines(&mut out), [""; 0]);
    leader.handle_deadline(2000, &mut out);
    assert_eq!(
        lines(&mut out),
        ["step down: no quorum of voters joined the new epoch"]
    );
}

#[test]
fn after_the_promise_of_the_epoch_supporters_cannot_withdraw() {
    let limited = Settings {
        epoch_wait_max_ms: Some(0),
        ..settings()
    };
    // As the only voter, it has its epoch immediately.
    let mut leader = elected(1, limited);
    let mut out = Vec::new();
    leader.handle_supporter_looks(2000, &mut out);
    assert_eq!(lines(&mut out), [""; 0]);
}

/// Server 2 of two.
struct OfTwo {
    core: Leader,
    out: Vec<Action>,
    now_ms: i64,
}

impl OfTwo {
    fn elected() -> Self {
        let (core, out) = (elected(2, settings()), Vec::new());
        let now_ms = 0;
        Self { core, out, now_ms }
    }

    /// Creates a leader that is alone, by a grant of the oracle.
    fn alone() -> Self {
        let mut of_two = Self::elected();
        of_two.oracle(true);
        of_two.save_epochs();
        assert!(of_two.core.is_leading());
        of_two
    }

    fn oracle(&mut self, grants: bool) -> Vec<String> {
        self.core.handle_oracle(grants, self.now_ms, &mut self.out);
        lines(&mut self.out)
    }

    /// Saves the epochs; the oracle grants each step.
    fn save_epochs(&mut self) -> Vec<String> {
        let config = EpochConfig {
            text: "text".into(),
            version: 0,
        };
        let (core, out) = (&mut self.core, &mut self.out);
        core.handle_accepted_epoch_saved(config, self.now_ms, out);
        core.handle_oracle(true, self.now_ms, out);
        core.handle_current_epoch_saved(self.now_ms, out);
        core.handle_oracle(true, self.now_ms, out);
        lines(out)
    }

    fn hear(&mut self, packet: LearnerPacket) -> Vec<String> {
        let (core, out) = (&mut self.core, &mut self.out);
        core.handle_packet(LinkId(1), packet, self.now_ms, out);
        lines(out)
    }

    /// Connects server 3 until it is up to date.
    fn join(&mut self) -> Vec<String> {
        self.core.handle_connected(LinkId(1), self.now_ms);
        let epoch = Epoch(2);
        let mut heard = self.hear(LearnerPacket::FollowerInfo {
            accepted_epoch: Epoch(1),
            info: Some(LearnerInfo::new(Sid(3), 0)),
        });
        heard.extend(self.hear(LearnerPacket::AckEpoch {
            last_logged: Zxid::new(Epoch(1), 5),
            current_epoch: Some(Epoch(1)),
        }));
        let zxid = Zxid::new(epoch, 0);
        heard.extend(self.hear(LearnerPacket::Ack { zxid }));
        heard
    }

    /// Proposes a record and syncs it. Returns the actions.
    fn write(&mut self, counter: u32) -> Vec<String> {
        let zxid = Zxid::new(Epoch(2), counter);
        let record = Record::new(zxid, &b"txn"[..]);
        let (core, out) = (&mut self.core, &mut self.out);
        core.propose(record, self.now_ms, out).unwrap();
        core.handle_synced(zxid, out);
        let mut said = lines(out);
        said.retain(|line| !line.starts_with("append"));
        said
    }

    /// Advances the clock by a tick and handles every deadline.
    fn tick(&mut self) -> Vec<String> {
        for _ in 0..2 {
            self.now_ms += 100;
            self.core.handle_deadline(self.now_ms, &mut self.out);
        }
        lines(&mut self.out)
    }
}

#[test]
fn the_oracle_lets_one_of_two_lead_and_commit_alone() {
    let mut leader = OfTwo::elected();
    assert_eq!(leader.oracle(false), [""; 0], "one of two is no majority");
    assert_eq!(leader.oracle(true), ["save accepted epoch 0x2"]);
    let saved = leader.save_epochs();
    assert_eq!(saved, ["save current epoch 0x2", "lead epoch=0x2"]);
    assert_eq!(leader.write(1), [""; 0]);
    assert_eq!(leader.oracle(true), ["deliver 0x200000001 len=3"]);
    assert_eq!(leader.tick(), [""; 0], "it is not stepped down");
}

#[test]
fn the_oracle_is_ignored_in_an_ensemble_of_three() {
    let mut leader = elected(3, settings());
    let mut out = Vec::new();
    leader.handle_oracle(true, 0, &mut out);
    assert_eq!(lines(&mut out), [""; 0]);
    assert!(!leader.needs_oracle());
}

#[test]
fn without_the_oracles_permission_a_lone_leader_steps_down() {
    let mut leader = OfTwo::alone();
    leader.oracle(false);
    assert_eq!(leader.write(1), [""; 0]);
    assert_eq!(
        leader.tick(),
        ["step down: the connection to a quorum of voters was lost"]
    );
}

/// The oracle may have named the other server since, and that server may have elected itself.
#[test]
fn a_permission_of_the_oracle_applies_only_once() {
    let mut leader = OfTwo::elected();
    assert_eq!(leader.oracle(true), ["save accepted epoch 0x2"]);
    let config = EpochConfig {
        text: "text".into(),
        version: 0,
    };
    let (core, out) = (&mut leader.core, &mut leader.out);
    core.handle_accepted_epoch_saved(config, 0, out);
    assert_eq!(lines(out), [""; 0], "it takes no epoch on");
    assert!(leader.core.oracle_question().is_some());
    assert_eq!(leader.oracle(true), ["save current epoch 0x2"]);
    assert_eq!(leader.core.oracle_question(), None, "its disk is at work");
    leader.core.handle_current_epoch_saved(0, &mut leader.out);
    assert_eq!(lines(&mut leader.out), [""; 0], "it does not lead");
    let question = leader.core.oracle_question();
    assert_eq!(leader.oracle(true), ["lead epoch=0x2"]);
    assert_eq!(leader.core.oracle_question(), None);
    assert_eq!(leader.write(1), [""; 0], "it commits nothing");
    let of_first = leader.core.oracle_question();
    assert!(of_first.is_some() && of_first != question);
    assert_eq!(leader.write(2), [""; 0]);
    assert_ne!(leader.core.oracle_question(), of_first);
    // The leader keeps asking.
    assert_eq!(leader.tick(), [""; 0]);
    let both = ["deliver 0x200000001 len=3", "deliver 0x200000002 len=3"];
    assert_eq!(leader.oracle(true), both);
    assert_eq!(leader.core.oracle_question(), None);
}

#[test]
fn both_connected_servers_are_needed_despite_the_oracle() {
    let mut leader = OfTwo::alone();
    assert!(leader.core.needs_oracle());
    leader.join();
    assert!(!leader.core.needs_oracle());
    leader.oracle(true);
    let sent = ["link 1: send PROPOSAL 0x200000001 len=3"];
    assert_eq!(leader.write(1), sent);
    let zxid = Zxid::new(Epoch(2), 1);
    let committed = leader.hear(LearnerPacket::Ack { zxid });
    let expected = [
        "link 1: send COMMIT 0x200000001",
        "deliver 0x200000001 len=3",
    ];
    assert_eq!(committed, expected);
}

#[test]
fn proposals_of_a_lost_follower_are_committed_with_the_oracles_permission() {
    let mut leader = OfTwo::alone();
    leader.join();
    leader.write(1);
    leader.core.handle_closed(LinkId(1));
    assert_eq!(lines(&mut leader.out), [""; 0]);
    assert_eq!(leader.oracle(true), ["deliver 0x200000001 len=3"]);
    assert_eq!(leader.tick(), [""; 0]);
    // The leader must not deliver a record that its own disk lacks.
    let zxid = Zxid::new(Epoch(2), 2);
    let record = Record::new(zxid, &b"txn"[..]);
    leader.core.propose(record, 0, &mut leader.out).unwrap();
    lines(&mut leader.out);
    assert_eq!(leader.oracle(true), [""; 0]);
}
