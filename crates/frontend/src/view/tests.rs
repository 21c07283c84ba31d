use metrics::fourlw::{self, Word};
use metrics::role::{Learners, Mode, RoleCell, ZabState};

use super::*;
use crate::start::tests::test_frontend;

fn serving(cell: &RoleCell, mode: Mode) {
    cell.update(clock::monotonic_ms(), |view| {
        view.mode = mode;
        view.is_serving = true;
        view.zab = ZabState::Broadcast;
    });
}

#[test]
fn words_are_answered_by_the_role() {
    let view = test_frontend().view;
    let ask = |word| fourlw::answer(word, &[], &*view);
    assert!(ask(Word::Srvr).contains("\nMode: standalone\n"));
    assert!(ask(Word::Dump).contains("\nSession Sets ("));

    let role = &view.role;
    serving(
        role,
        Mode::Follower {
            synced_observers: None,
        },
    );
    assert!(ask(Word::Srvr).contains("\nMode: follower\n"));
    assert!(ask(Word::Mntr).contains("\nzk_peer_state\tfollowing - broadcast\n"));
    assert!(ask(Word::Dump).contains("\nGlobal Sessions(0):\n"));
    assert_eq!(ask(Word::Isro), "rw");

    let learners = Learners {
        connected: 2,
        ..Learners::default()
    };
    serving(
        role,
        Mode::Leader {
            since_ms: 0,
            learners,
        },
    );
    role.proposed(60);
    assert!(ask(Word::Srvr).ends_with("\nProposal sizes last/min/max: 60/60/60\n"));
    assert!(ask(Word::Mntr).contains("\nzk_learners\t2\n"));
    assert_eq!(ask(Word::Srst), "Server stats reset.\n");
    assert!(ask(Word::Srvr).ends_with("\nProposal sizes last/min/max: -1/-1/-1\n"));

    serving(role, Mode::ReadOnly);
    assert_eq!(ask(Word::Isro), "ro");
    assert!(
        ask(Word::Stat).contains("\nREAD-ONLY mode; serving only read-only clients\nClients:\n")
    );

    role.update(clock::monotonic_ms(), |view| view.is_serving = false);
    assert_eq!(view.role().served_mode(), None);
    assert_eq!(ask(Word::Isro), "null");
    assert!(ask(Word::Srvr).contains("is not currently serving requests"));
}
