//! Replies that are longer than their requests, and clients that do not read them.

use proto::multi::MultiRead;
use proto::request::{PathModeRequest, PathWatchRequest, ReadRequest, Request, flags};
use proto::response::GetDataResponse;
use proto::{ErrorCode, Zxid};
use tests::RawSession;
use tests::ensemble::Ensemble;
use tests::requests::{create, delete, get_data, set_data};

use crate::attacker::{LONG, attacker, create_long};
use crate::{FOLLOWER, LEADER, withstands};

/// Mode of addWatch for a znode and its subtree.
const RECURSIVE: i32 = 1;

/// Returns a multiRead that reads the same data `times` times.
fn multi_read(path: &str, times: usize) -> Request {
    let read = ReadRequest::GetData(PathWatchRequest {
        path: Some(path.into()),
        watch: false,
    });
    Request::Read(ReadRequest::MultiRead(MultiRead::Reads(vec![read; times])))
}

#[test]
fn a_multi_read_is_answered_up_to_the_clients_maximum() {
    let attack = |ensemble: &Ensemble| {
        for id in [FOLLOWER, LEADER] {
            let mut session = attacker(ensemble, id);
            let answer = session.call(&multi_read("/long", 40_000));
            let code = ErrorCode::from_i32(answer.expect("an answer").err);
            assert_eq!(code, Some(ErrorCode::BadArguments));
            let answer = session.call(&multi_read("/long", 4)).expect("an answer");
            assert_eq!(answer.err, 0);
            assert!(answer.body.len() > 4 * LONG);
        }
    };
    withstands("multiRead", create_long, attack);
}

/// Queues a write, then `reads` reads of the written data, and another write.
fn put_reads_between_writes(session: &mut RawSession, reads: usize) {
    session.put(&Request::Write(set_data("/long", vec![b'y'; LONG], -1)));
    for _ in 0..reads {
        session.put(&get_data("/long"));
    }
    session.put(&Request::Write(set_data("/long", "z", -1)));
}

#[test]
fn reads_after_a_write_are_answered_one_by_one() {
    const READS: usize = 500;
    let attack = |ensemble: &Ensemble| {
        for id in [FOLLOWER, LEADER] {
            let mut session = attacker(ensemble, id);
            put_reads_between_writes(&mut session, READS);
            let written = session.take().expect("an answer").zxid;
            for read in 0..READS {
                let answer = session.take().expect("an answer");
                assert!(answer.zxid >= written);
                let GetDataResponse { data, stat } = answer.record();
                let data = data.expect("data");
                assert_eq!((data.len(), data[0]), (LONG, b'y'), "read {read}");
                assert_eq!(Zxid(stat.mzxid), written, "read {read} sees a later write");
            }
            assert_eq!(session.take().expect("an answer").err, 0);
            session.close().expect("the end of the session");
        }
    };
    withstands("reads behind a write", create_long, attack);
}

/// Length of the path in each event, in bytes.
const LONG_NAME: usize = 500_000;

#[test]
fn a_client_that_does_not_read_its_events_is_dropped() {
    let attack = |ensemble: &Ensemble| {
        let mut silent = attacker(ensemble, FOLLOWER);
        let watch = ReadRequest::AddWatch(PathModeRequest {
            path: Some("/".into()),
            mode: RECURSIVE,
        });
        assert_eq!(
            silent.call(&Request::Read(watch)).expect("an answer").err,
            0
        );
        let mut busy = attacker(ensemble, LEADER);
        let path = format!("/{}", "n".repeat(LONG_NAME));
        let given_up = || {
            let log = ensemble.member(FOLLOWER).log();
            log.contains("client does not read its events")
        };
        // Each of the two clients gets one event: 200 MB in total if neither is dropped.
        let mut rounds = 0..200;
        assert!(rounds.any(|_| {
            let create = create(&path, "", flags::PERSISTENT);
            for request in [create, delete(&path, -1)] {
                let answer = busy.call(&Request::Write(request));
                assert_eq!(answer.expect("an answer").err, 0);
            }
            given_up()
        }));
    };
    withstands("events that nobody reads", |_| {}, attack);
}

/// Without a limit, their replies would fill the memory, and the writes after their reads would
/// fill the pipeline.
#[test]
fn clients_that_do_not_read_their_replies_do_not_block_others() {
    let attack = |ensemble: &Ensemble| {
        let mut silent: Vec<_> = (0..30).map(|_| attacker(ensemble, FOLLOWER)).collect();
        for session in &mut silent {
            // More than the kernel buffers, followed by writes.
            for _ in 0..20 {
                session.put(&get_data("/long"));
            }
            for _ in 0..40 {
                session.put(&Request::Write(set_data("/short", "", -1)));
            }
            session.flush().expect("the server reads");
        }
        // A client that reads its replies is served meanwhile, and can write.
        let mut patient = attacker(ensemble, FOLLOWER);
        for _ in 0..30 {
            let write = Request::Write(set_data("/short", "", -1));
            for request in [write, get_data("/short")] {
                assert_eq!(patient.call(&request).expect("an answer").err, 0);
            }
        }
        // It can read long data after the silent clients have been dropped.
        assert_eq!(patient.call(&get_data("/long")).expect("an answer").err, 0);
        drop(silent);
    };
    withstands("replies that nobody reads", create_long, attack);
}
