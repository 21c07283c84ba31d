//! Sessions that only one server knows, and sessions without a leader.
//!
//! `ZOARIUM_TEST_SERVER=apache` uses Apache ZooKeeper instead of Zoarium, which shows whether a
//! scenario itself is right.

mod hasty;
mod local;
mod moved;
mod pipelined;
mod read_only;
mod secrets;

use std::time::Duration;

use client::{Error, MultiResult, decode_results};
use jute::Reader;
use proto::request::{Request, WriteRequest};
use tests::ensemble::Ensemble;
use tests::{Answer, RawSession};

/// Longer than any operation here takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Timeout of sessions that must not expire, ms.
const LONG_MS: i32 = 60_000;

/// Opens a session on a member, or resumes one.
fn try_open(
    ensemble: &Ensemble,
    id: u64,
    continued: Option<&RawSession>,
    timeout_ms: i32,
) -> Result<RawSession, Error> {
    let address = ensemble.member(id).client_address().to_string();
    RawSession::open(&address, continued.map(RawSession::session), timeout_ms)
}

fn open(ensemble: &Ensemble, id: u64) -> RawSession {
    let opened = try_open(ensemble, id, None, LONG_MS);
    opened.unwrap_or_else(|error| panic!("no session at member {id}: {error}"))
}

/// Writes and returns the answer, also an error.
fn write(session: &mut RawSession, request: WriteRequest) -> Answer {
    session.call(&Request::Write(request)).expect("an answer")
}

/// Returns the result codes of a multi.
fn codes(answer: &Answer) -> Vec<i32> {
    assert_eq!(answer.err, 0);
    let results = decode_results(&mut Reader::new(answer.body.clone())).expect("results");
    let code = |result: &MultiResult| match result {
        MultiResult::Failed(code) => *code,
        _ => 0,
    };
    results.iter().map(code).collect()
}
