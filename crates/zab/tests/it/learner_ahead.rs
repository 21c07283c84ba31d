//! A learner with a longer log than its leader's, while a proposed configuration is not known to be
//! committed. It is led, and its log cut, only if no part of its surplus can have been committed.

use std::sync::Arc;

use proto::learner::{LearnerInfo, LearnerPacket as Up};
use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zoarium_zab::leader::{Action, EpochConfig, Leader, LeaderStart, LinkId, NextConfig};
use zoarium_zab::{CommittedLog, Record, Settings};

const LAST: Zxid = Zxid(0x1_0000_002b);
const AHEAD: Zxid = Zxid(0x1_0000_002c);
const PROPOSED_AT: Zxid = Zxid(0x1_0000_0028);

fn majority(sids: &[i64]) -> Arc<Majority> {
    Arc::new(Majority::new(sids.iter().copied().map(Sid)))
}

/// Server 2, elected after epoch 1. It waits for others to accept epoch 2.
struct Term {
    leader: Leader,
    out: Vec<Action>,
}

impl Term {
    fn promised(in_force: &[i64], proposed: Option<&[i64]>, proposed_at: Zxid) -> Self {
        let mut committed = CommittedLog::default();
        committed.push(Record::new(LAST, &b"txn"[..]));
        let start = LeaderStart {
            sid: Sid(2),
            accepted_epoch: Epoch(1),
            accepted_floor: Epoch(0),
            current_epoch: Epoch(1),
            last_zxid: LAST,
            committed,
            log_whole_from: Zxid::ZERO,
            quorum: majority(in_force),
            config_version: 0,
            next: proposed.map(|sids| NextConfig {
                quorum: majority(sids),
                text: "proposed".into(),
                leader_stays: true,
            }),
        };
        let mut out = Vec::new();
        let leader = Leader::new(start, Settings::new(200, 10, 5), 0, &mut out);
        let mut term = Self { leader, out };
        for sid in in_force.iter().chain(proposed.into_iter().flatten()) {
            if *sid != 2 {
                term.introduce(*sid);
            }
        }
        let config = EpochConfig {
            text: "proposed".into(),
            version: proposed_at.0,
        };
        let (leader, out) = (&mut term.leader, &mut term.out);
        // The introductions have fixed the epoch.
        leader.handle_accepted_epoch_saved(config, 0, out);
        out.clear();
        term
    }

    /// Introduces a server over the link with its number.
    fn introduce(&mut self, sid: i64) {
        let link = LinkId(sid.unsigned_abs());
        self.leader.handle_connected(link, 0);
        let introduction = Up::FollowerInfo {
            accepted_epoch: Epoch(1),
            info: Some(LearnerInfo::new(Sid(sid), 0)),
        };
        let out = &mut self.out;
        self.leader.handle_packet(link, introduction, 0, out);
        out.clear();
    }

    fn ack_epoch(&mut self, sid: i64, epoch: i64, last_logged: Zxid) -> Vec<String> {
        let link = LinkId(sid.unsigned_abs());
        let packet = Up::AckEpoch {
            last_logged,
            current_epoch: Some(Epoch(epoch)),
        };
        self.leader.handle_packet(link, packet, 0, &mut self.out);
        let all = std::mem::take(&mut self.out);
        all.iter().map(Action::to_string).collect()
    }
}

fn is_refused(told: &[String]) -> bool {
    matches!(told, [only] if only.contains("close") && only.contains("the learner's log is newer"))
}

/// Servers 2 and 3 are in force. Server 3 has led, has removed itself, and has logged one more
/// transaction.
#[test]
fn a_former_leader_that_removed_itself_is_accepted_and_truncated() {
    let mut term = Term::promised(&[2, 3], Some(&[2]), PROPOSED_AT);
    let told = term.ack_epoch(3, 1, AHEAD);
    let expected = [
        "save current epoch 0x2",
        "link 3: send TRUNC 0x10000002b",
        "link 3: send NEWLEADER 0x200000000",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_learner_ahead_is_refused_if_its_tail_may_be_committed() {
    // No other configuration was proposed.
    let mut term = Term::promised(&[2, 3], None, PROPOSED_AT);
    assert!(is_refused(&term.ack_epoch(3, 1, AHEAD)));
    // With a different last leader, its log may differ, too.
    let mut term = Term::promised(&[2, 3], Some(&[2]), PROPOSED_AT);
    assert!(is_refused(&term.ack_epoch(3, 2, AHEAD)));
    // The configuration was proposed after the end of this server's log: until then, the one in
    // force decides.
    let mut term = Term::promised(&[2, 3], Some(&[2]), AHEAD);
    assert!(is_refused(&term.ack_epoch(3, 1, AHEAD)));
    // A quorum of the proposed list may have logged it.
    let mut term = Term::promised(&[2, 3], Some(&[2, 4, 5]), PROPOSED_AT);
    assert!(is_refused(&term.ack_epoch(3, 1, AHEAD)));
}

#[test]
fn only_learners_that_are_not_ahead_count_for_the_epoch() {
    let mut term = Term::promised(&[2, 3], Some(&[2, 4, 5]), PROPOSED_AT);
    assert!(is_refused(&term.ack_epoch(3, 1, AHEAD)));
    assert_eq!(term.ack_epoch(4, 1, PROPOSED_AT), [""; 0]);
    term.introduce(3);
    let told = term.ack_epoch(3, 1, AHEAD);
    assert_eq!(
        told.first().map(String::as_str),
        Some("save current epoch 0x2")
    );
}

/// Servers 2 and 3 are in force. The last leader proposed the list of 4, 5 and 6, and may have
/// committed more with a quorum of this list only. A server of that quorum may connect after 2 and
/// 3 have accepted the epoch.
#[test]
fn a_quorum_of_the_proposed_list_must_accept_the_epoch() {
    let mut term = Term::promised(&[2, 3], Some(&[4, 5, 6]), PROPOSED_AT);
    assert_eq!(term.ack_epoch(3, 1, LAST), [""; 0]);
    assert_eq!(term.ack_epoch(5, 1, LAST), [""; 0]);
    assert!(is_refused(&term.ack_epoch(4, 1, AHEAD)));
    let told = term.ack_epoch(6, 1, LAST);
    assert_eq!(
        told.first().map(String::as_str),
        Some("save current epoch 0x2")
    );
}

/// Only server 4 has logged the proposal of its list. The servers in force show that it is not
/// committed.
#[test]
fn a_proposed_list_that_is_not_logged_has_no_say() {
    let mut term = Term::promised(&[2, 3], Some(&[2, 4]), AHEAD);
    let told = term.ack_epoch(3, 1, LAST);
    assert_eq!(
        told.first().map(String::as_str),
        Some("save current epoch 0x2")
    );
    let told = term.ack_epoch(4, 1, AHEAD);
    assert_eq!(
        told.first().map(String::as_str),
        Some("link 4: send TRUNC 0x10000002b")
    );
}
