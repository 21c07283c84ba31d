//! Malformed requests of clients, sent to any member.
//!
//! A single one stops a Java ensemble: its leader commits nothing any more. The member that
//! receives it must answer it and never forward it. A Zoarium leader must continue when a Java
//! learner has forwarded one.

use std::time::Duration;

use fastrand::Rng;
use proto::OpCode;
use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::requests::create;
use tests::{Flavour, RawSession, or_skip};

use crate::bad_input::{PROGRESS, ours};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Operations that become transactions, whose bodies the leader decodes.
const WRITES: [OpCode; 10] = [
    OpCode::Create,
    OpCode::Create2,
    OpCode::CreateContainer,
    OpCode::CreateTtl,
    OpCode::Delete,
    OpCode::SetData,
    OpCode::SetAcl,
    OpCode::Multi,
    OpCode::Reconfig,
    OpCode::Sync,
];

/// Returns bodies that are not records of this operation.
fn bodies(rng: &mut Rng) -> [Vec<u8>; 4] {
    let negative = [0xff, 0xff, 0xff, 0xf0];
    let long = [0x7f, 0xff, 0xff, 0xff, b'/', b'a'];
    let mut random: Vec<u8> = std::iter::repeat_with(|| rng.u8(128..)).take(40).collect();
    // Otherwise it would end a multi that has not begun.
    random[4] = 0;
    [Vec::new(), negative.to_vec(), long.to_vec(), random]
}

/// Sends each body in a separate session, because the server may end the connection.
fn send_to(ensemble: &Ensemble, id: u64) {
    let mut rng = Rng::with_seed(id);
    let address = ensemble.member(id).client_address().to_string();
    for op in WRITES {
        for body in bodies(&mut rng) {
            let mut session = RawSession::open(&address, None, 10_000)
                .unwrap_or_else(|error| panic!("member {id} takes no session: {error}"));
            session.set_patience(PATIENCE);
            session.put_bytes(op, &body);
            match session.take() {
                Ok(answer) => assert_ne!(answer.err, 0, "{op:?} {body:x?} at member {id}"),
                Err(lost) => {
                    let silent = lost.0.contains("no answer within");
                    assert!(!silent, "{op:?} {body:x?} is not answered by member {id}");
                    continue;
                }
            }
            // The session continues.
            let path = format!("/m{id}-");
            let request = Request::Write(create(&path, "", flags::EPHEMERAL_SEQUENTIAL));
            let answer = session.call(&request);
            let answer = answer.unwrap_or_else(|lost| panic!("{op:?} at member {id}: {lost:?}"));
            assert_eq!(answer.err, 0);
            session.close().expect("the end of the session");
        }
    }
}

fn survives(leader: Flavour, followers: &[Flavour], through: &[u64]) {
    let mut voters = followers.to_vec();
    voters.push(leader);
    let builder = EnsembleBuilder::new(&voters).observers(&[ours()]);
    let started = builder.start_led_by_last_voter();
    let Some(ensemble) = or_skip("requests that do not decode", started) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    for &id in through {
        send_to(&ensemble, id);
        load.wait_for_progress(PROGRESS);
        assert_eq!(ensemble.leaders(), [3]);
    }
    let report = load.finish();
    assert_eq!(report.unknown(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

#[test]
fn an_ensemble_continues_after_bad_requests_to_any_role() {
    survives(ours(), &[ours(), ours()], &[1, 2, 3, 4]);
}

#[test]
#[ignore = "runs other people's programs"]
fn zoarium_followers_keep_bad_requests_from_a_java_leader() {
    survives(Flavour::Apache, &[ours(), ours()], &[1, 2, 4]);
}

#[test]
#[ignore = "runs other people's programs"]
fn a_zoarium_leader_continues_when_java_forwards_bad_requests() {
    survives(ours(), &[Flavour::Apache, ours()], &[1]);
}
