//! A voter that has accepted a later epoch than the established one, from a prospective leader that
//! never led. One new epoch admits it, and no other server can cause the leader to step down.

use std::sync::Arc;

use proto::leader::LeaderPacket as Down;
use proto::learner::{LearnerInfo, LearnerPacket as Up};
use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zoarium_zab::leader::{Action, EpochConfig, Leader, LeaderStart, LinkId, NextConfig, StepDown};
use zoarium_zab::learner::{self, Learner, LearnerKind, LearnerStart};
use zoarium_zab::{CommittedLog, Record, Settings};

/// Server 3 of three in its current term. Server 2 supports it.
struct Term {
    core: Leader,
    out: Vec<Action>,
    epoch: Epoch,
}

const SUPPORTER: Sid = Sid(2);
const SUPPORTER_LINK: LinkId = LinkId(2);

impl Term {
    /// Creates a term after the election, with this accepted epoch and this floor.
    fn elected(accepted: Epoch, floor: Epoch) -> Self {
        let start = LeaderStart {
            sid: Sid(3),
            accepted_epoch: accepted,
            accepted_floor: floor,
            current_epoch: accepted,
            last_zxid: Zxid::new(Epoch(1), 1),
            committed: CommittedLog::default(),
            log_whole_from: Zxid::ZERO,
            quorum: Arc::new(Majority::new((1..=3).map(Sid))),
            config_version: 0,
            next: None,
        };
        let mut out = Vec::new();
        let core = Leader::new(start, Settings::new(200, 10, 5), 0, &mut out);
        let epoch = Epoch(accepted.0.max(floor.0) + 1);
        Self { core, out, epoch }
    }

    /// Creates a term whose epoch is fixed, because server 2 has connected.
    fn fixed(accepted: Epoch, floor: Epoch) -> Self {
        let mut term = Self::elected(accepted, floor);
        let said = term.introduce(SUPPORTER_LINK, SUPPORTER, accepted);
        assert_eq!(said, [format!("save accepted epoch {}", term.epoch)]);
        term
    }

    /// Creates a term whose epoch server 2 has accepted.
    fn accepted(accepted: Epoch, floor: Epoch) -> Self {
        let mut term = Self::fixed(accepted, floor);
        term.accepted_saved();
        let current_epoch = Some(accepted);
        let last_logged = Zxid::new(Epoch(1), 1);
        term.hear(
            SUPPORTER_LINK,
            Up::AckEpoch {
                last_logged,
                current_epoch,
            },
        );
        term
    }

    /// Creates a term in which server 3 leads.
    fn leading(accepted: Epoch, floor: Epoch) -> Self {
        let mut term = Self::accepted(accepted, floor);
        term.core.handle_current_epoch_saved(0, &mut term.out);
        let zxid = Zxid::new(term.epoch, 0);
        term.hear(SUPPORTER_LINK, Up::Ack { zxid });
        assert!(term.core.is_leading());
        term
    }

    fn accepted_saved(&mut self) -> Vec<String> {
        let config = EpochConfig {
            text: "text".into(),
            version: 0,
        };
        let (core, out) = (&mut self.core, &mut self.out);
        core.handle_accepted_epoch_saved(config, 0, out);
        self.lines()
    }

    fn introduce(&mut self, link: LinkId, sid: Sid, accepted_epoch: Epoch) -> Vec<String> {
        self.core.handle_connected(link, 0);
        self.hear(link, follower_info(sid, accepted_epoch))
    }

    /// Introduces a server over a new connection.
    fn introduce_again(&mut self, sid: Sid, accepted_epoch: Epoch) -> Vec<String> {
        self.introduce(LinkId(100), sid, accepted_epoch)
    }

    /// Returns the packets after the second introduction.
    fn introduce_twice(&mut self, sid: Sid, accepted_epoch: Epoch) -> Vec<String> {
        self.introduce_again(sid, accepted_epoch);
        self.core.handle_closed(LinkId(100));
        self.introduce_again(sid, accepted_epoch)
    }

    fn hear(&mut self, link: LinkId, packet: Up) -> Vec<String> {
        self.core.handle_packet(link, packet, 0, &mut self.out);
        self.lines()
    }

    fn lines(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.out);
        all.iter().map(Action::to_string).collect()
    }
}

fn follower_info(sid: Sid, accepted_epoch: Epoch) -> Up {
    let info = Some(LearnerInfo::new(sid, 0));
    Up::FollowerInfo {
        accepted_epoch,
        info,
    }
}

fn steps_down_for(sid: i64, accepted: &str) -> Vec<String> {
    let reason =
        format!("voter {sid} has accepted epoch {accepted}, so the leader needs a later epoch");
    vec![format!("step down: {reason}")]
}

/// Returns the packets to a server that has just connected.
fn is_told(epoch: &str) -> Vec<String> {
    vec![format!("link 100: send LEADERINFO epoch={epoch}")]
}

#[test]
fn a_leader_steps_down_for_a_voter_that_is_ahead_and_the_next_epoch_brings_it_in() {
    let mut term = Term::leading(Epoch(1), Epoch(0));
    assert_eq!(term.introduce_again(Sid(1), Epoch(7)), is_told("0x2"));
    // The voter disconnects, and connects again.
    term.core.handle_closed(LinkId(100));
    term.core.handle_connected(LinkId(101), 0);
    let introduction = follower_info(Sid(1), Epoch(7));
    let (core, out) = (&mut term.core, &mut term.out);
    core.handle_packet(LinkId(101), introduction, 0, out);
    // The host passes this on to the next term.
    let [Action::StepDown(StepDown::VoterAhead { sid, accepted })] = term.out[..] else {
        panic!("{:?}", term.out);
    };
    assert_eq!((sid, accepted), (Sid(1), Epoch(7)));
    // The same server is elected again, by server 2 alone.
    let mut term = Term::fixed(Epoch(2), accepted);
    assert_eq!(term.epoch, Epoch(8));
    let told = term.accepted_saved();
    assert_eq!(told, ["link 2: send LEADERINFO epoch=0x8"]);
    assert_eq!(term.introduce_again(Sid(1), Epoch(7)), is_told("0x8"));
}

#[test]
fn a_leader_steps_down_in_every_phase_after_its_epoch_is_fixed() {
    let mut open = Term::elected(Epoch(1), Epoch(0));
    let raised = open.introduce_again(Sid(1), Epoch(7));
    assert_eq!(raised, ["save accepted epoch 0x8"]);

    let mut promising = Term::fixed(Epoch(1), Epoch(0));
    let said = promising.introduce_twice(Sid(1), Epoch(7));
    assert_eq!(said, steps_down_for(1, "0x7"));
    assert_eq!(promising.accepted_saved(), [""; 0], "it is over");

    let mut synchronising = Term::accepted(Epoch(1), Epoch(0));
    let said = synchronising.introduce_twice(Sid(1), Epoch(7));
    assert_eq!(said, steps_down_for(1, "0x7"));
}

#[test]
fn two_voters_that_are_ahead_take_one_epoch_each_at_most() {
    let mut floor = Epoch(0);
    let mut accepted = Epoch(1);
    let mut stepped_down = Vec::new();
    // Both connect again and again; the one with the smaller epoch first.
    for _ in 0..5 {
        let mut term = Term::leading(accepted, floor);
        for (sid, ahead) in [(Sid(1), Epoch(7)), (SUPPORTER, Epoch(20))] {
            let said = term.introduce_twice(sid, ahead);
            if said.iter().any(|line| line.starts_with("step down")) {
                stepped_down.push((sid, ahead));
                floor = floor.max(ahead);
                break;
            }
        }
        accepted = term.epoch;
    }
    let expected = [(Sid(1), Epoch(7)), (SUPPORTER, Epoch(20))];
    assert_eq!(stepped_down, expected);
}

#[test]
fn only_a_voter_with_a_plausible_epoch_makes_a_leader_step_down() {
    // This epoch does not exceed the leader's, so the voter is led.
    let mut term = Term::leading(Epoch(1), Epoch(0));
    assert_eq!(term.introduce_twice(Sid(1), Epoch(2)), is_told("0x2"));

    // A server that is not in any configuration.
    let mut term = Term::leading(Epoch(1), Epoch(0));
    assert_eq!(term.introduce_twice(Sid(9), Epoch(7)), is_told("0x2"));

    // An observer, even if the configuration lists it as a voter.
    for sid in [Sid(1), Sid(9)] {
        let mut term = Term::leading(Epoch(1), Epoch(0));
        term.core.handle_connected(LinkId(100), 0);
        let introduction = Up::ObserverInfo {
            accepted_epoch: Epoch(7),
            info: Some(LearnerInfo::new(sid, 0)),
        };
        assert_eq!(term.hear(LinkId(100), introduction.clone()), is_told("0x2"));
        term.core.handle_closed(LinkId(100));
        term.core.handle_connected(LinkId(100), 0);
        assert_eq!(term.hear(LinkId(100), introduction), is_told("0x2"));
    }

    // The voter is never ahead twice in a row by the same or a higher epoch, so another server has
    // introduced itself, or its disk has changed.
    let mut term = Term::leading(Epoch(1), Epoch(0));
    for accepted in [7, 2, 7, 2, 7, 5] {
        let told = term.introduce(LinkId(100), Sid(1), Epoch(accepted));
        assert_eq!(told, is_told("0x2"));
        term.core.handle_closed(LinkId(100));
    }

    // Impossible epochs, and some that elections cannot have reached.
    for accepted in [i64::from(i32::MAX), i64::MAX, -1] {
        let mut term = Term::leading(Epoch(1), Epoch(0));
        let closed = term.introduce_twice(Sid(1), Epoch(accepted));
        let [closed] = &closed[..] else {
            panic!("{closed:?}");
        };
        assert!(closed.starts_with("link 100: close: the learner's accepted epoch"));
    }
    let mut term = Term::leading(Epoch(1), Epoch(0));
    let far = Epoch(i64::from(i32::MAX) - 1);
    assert_eq!(term.introduce_twice(Sid(1), far), is_told("0x2"));
}

#[test]
fn a_leader_that_hands_over_to_another_does_not_step_down_before() {
    let mut term = Term::leading(Epoch(1), Epoch(0));
    let zxid = Zxid::new(Epoch(2), 1);
    let next = NextConfig {
        quorum: Arc::new(Majority::new([Sid(1), SUPPORTER])),
        text: "text".into(),
        leader_stays: false,
    };
    let record = Record::new(zxid, &b"txn"[..]);
    let proposed = term.core.propose_reconfig(record, next, 0, &mut term.out);
    assert_eq!(proposed, Ok(()));
    // A quorum of both configurations: this server and 2 of three, 1 and 2 of two.
    term.introduce(LinkId(1), Sid(1), Epoch(2));
    term.hear(
        LinkId(1),
        Up::AckEpoch {
            last_logged: Zxid::new(Epoch(1), 1),
            current_epoch: None,
        },
    );
    for zxid in [Zxid::new(Epoch(2), 0), zxid] {
        term.hear(LinkId(1), Up::Ack { zxid });
    }
    term.core.handle_synced(zxid, &mut term.out);
    term.hear(SUPPORTER_LINK, Up::Ack { zxid });
    assert!(!term.core.is_leading());
    assert_eq!(term.introduce_twice(Sid(1), Epoch(7)), is_told("0x2"));
}

/// The server that has stepped down, as a follower of another leader.
#[test]
fn a_follower_reports_a_later_epoch_and_is_not_bound_by_it() {
    let start = LearnerStart {
        sid: Sid(3),
        kind: LearnerKind::Follower,
        accepted_epoch: Epoch(2),
        accepted_floor: Epoch(7),
        current_epoch: Epoch(2),
        last_logged: Zxid::new(Epoch(1), 1),
        truncation_failed_in: None,
        config_version: 0,
        lacks_snapshot: false,
        needs_snapshot: false,
        committed: CommittedLog::default(),
    };
    let mut out = Vec::new();
    let mut follower = Learner::new(start, Settings::new(200, 10, 5), 0, &mut out);
    let [learner::Action::Send(Up::FollowerInfo { accepted_epoch, .. })] = out[..] else {
        panic!("{out:?}");
    };
    assert_eq!(accepted_epoch, Epoch(7));
    out.clear();
    // A Java leader that had fixed its epoch before.
    follower.handle_packet(Down::leader_info(Epoch(3)), 0, &mut out);
    assert_eq!(out, [learner::Action::SaveAcceptedEpoch(Epoch(3))]);
}
