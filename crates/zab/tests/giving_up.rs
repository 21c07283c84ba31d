//! Leaders that give up, or go on where they could not by counting.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zab::leader::{Action, Leader, LeaderStart};
use zab::{CommittedLog, Settings};

/// Server 2 of some, just elected.
fn elected(voters: i64, settings: Settings) -> Leader {
    let start = LeaderStart {
        sid: Sid(2),
        accepted_epoch: Epoch(1),
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
    "step down: a voter has changed its mind before there was a quorum for a new epoch";

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
        ["step down: no quorum of voters for a new epoch"]
    );
}

#[test]
fn once_the_epoch_is_promised_nobody_can_change_its_mind() {
    let limited = Settings {
        epoch_wait_max_ms: Some(0),
        ..settings()
    };
    // Alone it has its epoch at once.
    let mut leader = elected(1, limited);
    let mut out = Vec::new();
    leader.handle_supporter_looks(2000, &mut out);
    assert_eq!(lines(&mut out), [""; 0]);
}
