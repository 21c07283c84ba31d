//! Every operation through every role has the same lines as on a standalone server.

use std::collections::BTreeMap;

use proto::request::flags;
use tests::ensemble::{Duty, Ensemble, EnsembleBuilder, Role};
use tests::requests::{create, delete, get_children};
use tests::{Flavour, RawSession, or_skip};

use crate::log::{Ask, AuditLog, user};
use crate::play::{Player, changes_of_members, operations};

/// A client's lines are in the log of its member, and the lines of a session's end are in every
/// log. No log contains any other line.
#[test]
fn every_operation_has_its_recorded_line_through_every_role() {
    let ours = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[ours; 3])
        .observers(&[ours; 2])
        .dynamic()
        .setting("audit.enable", "true");
    let Some(mut ensemble) = or_skip("audit", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let follower = ensemble.in_role(Role::Follower)[0];
    let [observer, spare] = ensemble.in_role(Role::Observer)[..] else {
        panic!("two observers");
    };
    let mut logs = logs(&ensemble);
    for log in logs.values_mut() {
        log.expect("server start", &start_line());
    }
    for id in [leader, follower, observer] {
        let open = |timeout_ms| open(&ensemble, id, timeout_ms);
        let Some(mut player) = Player::among("standalone", id, logs) else {
            return;
        };
        player.skip("server start");
        operations(&mut player, &open, false);
        player.skip("server stop");
        logs = members_change(&ensemble, id, spare, player.into_logs());
        clear(&mut open(30_000), logs.get_mut(&id).expect("a log"));
    }
    for id in ensemble.ids() {
        ensemble.member_mut(id).terminate();
        let stop = line("operation=serverStop\tresult=invoked");
        logs.get_mut(&id)
            .expect("a log")
            .expect("server stop", &[stop]);
    }
}

fn logs(ensemble: &Ensemble) -> BTreeMap<u64, AuditLog> {
    let ids = ensemble.ids().into_iter();
    ids.map(|id| (id, AuditLog::of(ensemble.member(id).home())))
        .collect()
}

/// Executes the steps that were recorded on a follower. The member `spare` leaves and joins again.
fn members_change(
    ensemble: &Ensemble,
    id: u64,
    spare: u64,
    logs: BTreeMap<u64, AuditLog>,
) -> BTreeMap<u64, AuditLog> {
    let mut player = Player::among("follower", id, logs).expect("recorded steps");
    player.skip("server start");
    let mut session = session_at(ensemble, id);
    player.call("create through", &mut session, create("/q", "", 0));
    let line = ensemble.member(spare).line_as(Duty::Observer, true);
    changes_of_members(&mut player, &mut session, spare, &line);
    ensemble.wait_until_all_serve();
    let ephemeral = create("/q/e", "", flags::EPHEMERAL);
    player.call("create ephemeral", &mut session, ephemeral);
    session.close().expect("the end of a session");
    player.expect_everywhere("close");
    player.into_logs()
}

/// Deletes the znodes of the operations, for the next run.
fn clear(session: &mut RawSession, log: &mut AuditLog) {
    let children = session.call(&get_children("/a")).expect("an answer");
    let children: Vec<jute::Str> = children.record();
    let paths = children.iter().map(|name| format!("/a/{name}"));
    let paths: Vec<String> = paths.chain(["/a".to_owned(), "/q".to_owned()]).collect();
    for path in &paths {
        let answer = session.call(&delete(path, -1).request());
        assert_eq!(answer.expect("an answer").err, 0, "{path}");
    }
    let client = "session=<SESSION>\tuser=127.0.0.1\tip=127.0.0.1";
    let line = |path| {
        format!(
            "<TIME> INFO o.a.z.a.Slf4jAuditLogger: {client}\toperation=delete\tznode={path}\tresult=success"
        )
    };
    let lines: Vec<String> = paths.iter().map(line).collect();
    log.expect("clear", &lines);
}

fn line(event: &str) -> String {
    format!(
        "<TIME> INFO o.a.z.a.Slf4jAuditLogger: user={}\t{event}",
        user()
    )
}

/// Returns the first line of each member.
pub(crate) fn start_line() -> [String; 1] {
    [line("operation=serverStart\tresult=success")]
}

fn open(ensemble: &Ensemble, id: u64, timeout_ms: i32) -> RawSession {
    let address = ensemble.member(id).client_address().to_string();
    RawSession::open(&address, None, timeout_ms).expect("a session")
}

/// Opens a session with a member.
pub(crate) fn session_at(ensemble: &Ensemble, id: u64) -> RawSession {
    open(ensemble, id, 30_000)
}
