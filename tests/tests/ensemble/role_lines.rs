//! Lines of the log for changes of the role: one line for each, and few warnings.

use tests::ensemble::{EnsembleBuilder, SESSION_TIMEOUT_MS, SETTLE_LIMIT};
use tests::{Flavour, RawSession, or_skip, wait_for};

/// Texts of the lines for a new role.
const NEW_ROLES: [&str; 2] = [": leading ", ": in sync with the leader "];
/// Texts of the lines for the end of a role.
const ENDS: [&str; 3] = [
    ": lost the connection to the leader ",
    ": stopped following ",
    ": stopped leading ",
];

/// Returns the lines of a log with this level.
fn of_level<'a>(log: &'a str, level: &str) -> Vec<&'a str> {
    let lines = log.lines();
    lines
        .filter(|line| line.split_whitespace().nth(1) == Some(level))
        .collect()
}

fn count(lines: &[&str], texts: &[&str]) -> usize {
    let has_any = |line: &&&str| texts.iter().any(|text| line.contains(text));
    lines.iter().filter(has_any).count()
}

#[test]
fn a_new_role_is_one_line_and_a_killed_leader_causes_few_warnings() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3]);
    let Some(mut ensemble) = or_skip("lines of the log", builder.start_led_by_last_voter()) else {
        return;
    };
    let started = [1, 2].map(|id| ensemble.member(id).log());
    for log in &started {
        assert_eq!(count(&of_level(log, "INFO"), &NEW_ROLES), 1, "{log}");
    }
    // A session begins and ends without a line.
    let address = ensemble.member(1).client_address().to_string();
    let session = RawSession::open(&address, None, SESSION_TIMEOUT_MS).expect("a session");
    session.close().expect("the end of the session");
    ensemble.member_mut(3).kill();
    ensemble.wait_until_these_serve(&[1, 2]);
    ensemble.start(3);
    ensemble.wait_until_all_serve();
    for (id, started) in [1, 2].into_iter().zip(started) {
        let log = wait_for("a line for the new role", SETTLE_LIMIT, || {
            let log = ensemble.member(id).log().split_off(started.len());
            (count(&of_level(&log, "INFO"), &NEW_ROLES) > 0).then_some(log)
        });
        let (info, warnings) = (of_level(&log, "INFO"), of_level(&log, "WARN"));
        let (begins, ends) = (count(&info, &NEW_ROLES), count(&warnings, &ENDS));
        // On a busy machine an election can fail, and the member tries again.
        assert!(begins == 1 || begins <= ends, "{log}");
        assert_eq!(info.len(), begins, "other lines:\n{log}");
        // One more warning for each server that does not answer.
        assert!(warnings.len() <= 3 * ends, "{log}");
        assert!(of_level(&log, "ERROR").is_empty(), "{log}");
    }
}
