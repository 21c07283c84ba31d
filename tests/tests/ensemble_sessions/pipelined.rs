//! Requests in flight at a learner: writes that go up to the leader, syncs that do too, and reads
//! that do not.

use proto::request::{PathRequest, Request, flags};
use proto::response::GetDataResponse;
use tests::ensemble::EnsembleBuilder;
use tests::requests::{create, get_data, set_data};
use tests::{Flavour, or_skip};

use crate::{open, write};

/// Rounds of write, sync, read in flight at the same time.
const ROUNDS: usize = 100;

#[test]
fn syncs_and_writes_go_up_in_the_order_in_which_they_came() {
    let ours = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[ours, ours]).observers(&[ours]);
    let Some(ensemble) = or_skip("pipelined", builder.start_led_by_last_voter()) else {
        return;
    };
    for learner in [1, 3] {
        let path = format!("/pipelined{learner}");
        let mut session = open(&ensemble, learner);
        let created = write(&mut session, create(&path, "", flags::PERSISTENT));
        assert_eq!(created.err, 0);
        for round in 0..ROUNDS {
            session.put(&Request::Write(set_data(&path, round.to_string(), -1)));
            let path = Some(path.as_str().into());
            session.put(&Request::Sync(PathRequest { path }));
            session.put(&get_data(&format!("/pipelined{learner}")));
            if round % 50 == 0 {
                session.flush().expect("the server reads");
            }
        }
        session.flush().expect("the server reads");
        for round in 0..ROUNDS {
            // `take` holds that they are in order; the records tell them apart.
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
