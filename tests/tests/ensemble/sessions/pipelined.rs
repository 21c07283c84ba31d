//! Requests in flight on each kind of member: writes and syncs, which the leader orders, and reads,
//! which it does not order. Also, the visibility of writes after a sync.

use proto::request::{PathRequest, Request, flags};
use proto::response::GetDataResponse;
use tests::ensemble::EnsembleBuilder;
use tests::requests::{create, get_data, set_data};
use tests::{Flavour, or_skip};

use crate::sessions::{open, write};

/// Concurrent rounds of write, sync and read in flight.
const ROUNDS: usize = 100;
/// Writes on one member that are read on the others.
const SEEN_ROUNDS: usize = 1500;

#[test]
fn syncs_and_writes_are_answered_in_order() {
    let ours = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[ours, ours]).observers(&[ours]);
    let Some(ensemble) = or_skip("pipelined", builder.start_led_by_last_voter()) else {
        return;
    };
    for member in ensemble.ids() {
        let path = format!("/pipelined{member}");
        let mut session = open(&ensemble, member);
        let created = write(&mut session, create(&path, "", flags::PERSISTENT));
        assert_eq!(created.err, 0);
        for round in 0..ROUNDS {
            session.put(&Request::Write(set_data(&path, round.to_string(), -1)));
            let path = Some(path.as_str().into());
            session.put(&Request::Sync(PathRequest { path }));
            session.put(&get_data(&format!("/pipelined{member}")));
            if round % 50 == 0 {
                session.flush().expect("the server reads");
            }
        }
        session.flush().expect("the server reads");
        for round in 0..ROUNDS {
            // `take` checks their order, and the records distinguish them.
            let written = session.take().expect("the answer to a write");
            assert_eq!((written.err, written.body.len()), (0, 68), "round {round}");
            let synced = session.take().expect("the answer to a sync");
            let path_bytes = 4 + path.len();
            assert_eq!((synced.err, synced.body.len()), (0, path_bytes));
            assert!(synced.zxid >= written.zxid);
            let read = session.take().expect("the answer to a read");
            let data = read.record::<GetDataResponse>().data;
            assert_eq!(data.as_deref(), Some(round.to_string().as_bytes()));
        }
        session.close().expect("the end of the session");
    }
}

/// After a sync, a client sees on any member a write that another member has acknowledged to
/// another client. This includes the leader, which sends a commit before its own tree contains it.
#[test]
fn a_sync_shows_what_another_member_has_acknowledged() {
    let ours = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[ours, ours]).observers(&[ours]);
    let Some(ensemble) = or_skip("acknowledged elsewhere", builder.start_led_by_last_voter())
    else {
        return;
    };
    let ids = ensemble.ids();
    let mut sessions: Vec<_> = ids.iter().map(|&id| open(&ensemble, id)).collect();
    let path = "/told";
    let created = write(&mut sessions[0], create(path, "", flags::PERSISTENT));
    assert_eq!(created.err, 0);
    for round in 0..SEEN_ROUNDS {
        let writer = round % sessions.len();
        let text = round.to_string();
        let written = write(&mut sessions[writer], set_data(path, text.clone(), -1));
        assert_eq!(written.err, 0);
        for (at, reader) in sessions.iter_mut().enumerate() {
            if at == writer {
                continue;
            }
            assert_eq!(reader.sync().expect("an answer").err, 0);
            let read = reader.call(&get_data(path)).expect("an answer");
            let data = read.record::<GetDataResponse>().data;
            let told = format!(
                "round {round}, written at {}, read at {}",
                ids[writer], ids[at]
            );
            assert_eq!(data.as_deref(), Some(text.as_bytes()), "{told}");
        }
    }
}
