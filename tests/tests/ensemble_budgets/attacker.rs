//! Common parts of greedy clients.

use std::time::Duration;

use bytes::Bytes;
use proto::request::{Request, flags};
use tests::RawSession;
use tests::ensemble::Ensemble;
use tests::requests::create;

/// Length of data that nearly reaches the limit of a request.
pub(crate) const LONG: usize = 1_000_000;
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Session timeout of attackers, which do not ping. While a server is busy with their requests,
/// nothing keeps the session alive. It is longer than any test takes on a slow machine.
pub(crate) const ATTACKER_TIMEOUT_MS: i32 = 600_000;

/// Opens a session of the attacker on this member.
pub(crate) fn attacker(ensemble: &Ensemble, id: u64) -> RawSession {
    let address = ensemble.member(id).client_address().to_string();
    let session = RawSession::open(&address, None, ATTACKER_TIMEOUT_MS);
    let mut session = session.expect("a session for the attacker");
    session.set_patience(PATIENCE);
    session
}

/// Creates a znode of the maximum length.
pub(crate) fn create_long(ensemble: &Ensemble) {
    create_znode(ensemble, "/long", vec![b'x'; LONG]);
}

/// Creates a znode.
pub(crate) fn create_znode(ensemble: &Ensemble, path: &str, data: impl Into<Bytes>) {
    let request = Request::Write(create(path, data, flags::PERSISTENT));
    let answer = attacker(ensemble, crate::LEADER).call(&request);
    assert_eq!(answer.expect("an answer").err, 0, "{path}");
}

/// Returns a user of this length with a password. The identity has the same length plus the digest.
pub(crate) fn credentials(user: &str, bytes: usize) -> &'static str {
    let name = user.repeat(bytes / user.len());
    format!("{name}:secret").leak()
}
