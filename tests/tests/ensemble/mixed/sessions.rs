//! Sessions that move between the servers of both kinds, and sessions that expire.

use std::time::Duration;

use proto::ErrorCode;
use proto::request::{Request, flags};
use proto::response::GetDataResponse;
use tests::ensemble::{Ensemble, EnsembleBuilder, Holders};
use tests::requests::{create, get_data};
use tests::{Flavour, RawSession, wait_for};

use crate::mixed::{both_ways, led, ours};

/// Shortest session timeout here.
const SHORT_MS: i32 = 2000;
const LIMIT: Duration = Duration::from_secs(60);

fn open(ensemble: &Ensemble, id: u64, continued: Option<&RawSession>, timeout: i32) -> RawSession {
    let address = ensemble.member(id).client_address().to_string();
    let known = continued.map(RawSession::session);
    RawSession::open(&address, known, timeout)
        .unwrap_or_else(|error| panic!("no session at member {id}: {error}"))
}

fn owner_of(session: &mut RawSession, path: &str) -> Option<i64> {
    assert_eq!(session.sync().expect("an answer").err, 0);
    let answer = session.call(&get_data(path)).expect("an answer");
    if answer.err == ErrorCode::NoNode.code() {
        return None;
    }
    let GetDataResponse { stat, .. } = answer.record();
    Some(stat.ephemeral_owner)
}

#[test]
#[ignore = "runs other people's programs"]
fn a_session_moves_through_all_members_with_its_ephemeral() {
    both_ways(|leader, learner| {
        let with_observer = |builder: EnsembleBuilder| builder.observers(&[learner]);
        let Some(ensemble) = led("moving sessions", leader, &[learner, leader], with_observer)
        else {
            return;
        };
        for first in ensemble.ids() {
            let mut session = open(&ensemble, first, None, 30_000);
            let path = format!("/e{first}");
            let request = Request::Write(create(&path, "", flags::EPHEMERAL));
            assert_eq!(session.call(&request).expect("an answer").err, 0);
            let id = session.session().id.0;
            for next in ensemble.ids().into_iter().cycle().skip(1).take(8) {
                let mut moved = open(&ensemble, next, Some(&session), 30_000);
                assert_eq!(moved.session().id.0, id);
                assert_eq!(owner_of(&mut moved, &path), Some(id));
                session = moved;
            }
            session.close().expect("the end of the session");
            let mut other = open(&ensemble, first, None, 30_000);
            assert_eq!(owner_of(&mut other, &path), None);
            other.close().expect("the end of the session");
        }
    });
}

#[test]
#[ignore = "runs other people's programs"]
fn a_session_without_a_client_expires_everywhere_and_no_other_does() {
    both_ways(|leader, learner| {
        let Some(ensemble) = led("expiry", leader, &[learner, leader], |builder| builder) else {
            return;
        };
        // This session pings its server, which has to forward that to the leader.
        let addresses = ensemble.addresses(&ensemble.ids());
        let timeout = Duration::from_millis(SHORT_MS.unsigned_abs().into());
        let mut alive = Holders::open(&addresses, timeout);
        for id in ensemble.ids() {
            let mut session = open(&ensemble, id, None, SHORT_MS);
            let path = format!("/dead{id}");
            let request = Request::Write(create(&path, "", flags::EPHEMERAL));
            assert_eq!(session.call(&request).expect("an answer").err, 0);
            drop(session);
        }
        let mut other = open(&ensemble, 1, None, 30_000);
        for id in ensemble.ids() {
            let path = format!("/dead{id}");
            wait_for("end of the ephemeral", LIMIT, || {
                owner_of(&mut other, &path).is_none().then_some(())
            });
        }
        alive.check();
        alive.close();
        other.close().expect("the end of the session");
    });
}

#[test]
#[ignore = "runs other people's programs"]
fn watches_and_ephemerals_continue_at_the_other_kind() {
    let followers = [ours(), Flavour::Apache];
    let Some(mut ensemble) = led("moving watches", ours(), &followers, |builder| builder) else {
        return;
    };
    let addresses = ensemble.addresses(&ensemble.ids());
    let mut holders = Holders::open(&addresses, Duration::from_secs(30));
    holders.check();
    for id in [1, 2, 3, 2, 1] {
        ensemble.member_mut(id).terminate();
        holders.check();
        ensemble.start(id);
        ensemble.wait_until_all_serve();
        holders.check();
    }
    holders.close();
}
