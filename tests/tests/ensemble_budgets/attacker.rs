//! What greedy clients have in common.

use std::time::Duration;

use bytes::Bytes;
use proto::request::{Request, flags};
use tests::RawSession;
use tests::ensemble::Ensemble;
use tests::requests::create;

/// Almost all that a request may be long.
pub(crate) const LONG: usize = 1_000_000;
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Of the sessions of attackers, who do not ping: while a server is busy with what they have asked for,
/// nothing keeps the session alive. Longer than any test takes on a slow machine.
pub(crate) const ATTACKER_TIMEOUT_MS: i32 = 600_000;

/// A session of the attacker's at this member.
pub(crate) fn attacker(ensemble: &Ensemble, id: u64) -> RawSession {
    let address = ensemble.member(id).client_address().to_string();
    let session = RawSession::open(&address, None, ATTACKER_TIMEOUT_MS);
    let mut session = session.expect("a session for the attacker");
    session.set_patience(PATIENCE);
    session
}

/// Makes a znode as long as can be.
pub(crate) fn create_long(ensemble: &Ensemble) {
    create_znode(ensemble, "/long", vec![b'x'; LONG]);
}

/// Makes a znode.
pub(crate) fn create_znode(ensemble: &Ensemble, path: &str, data: impl Into<Bytes>) {
    let request = Request::Write(create(path, data, flags::PERSISTENT));
    let answer = attacker(ensemble, crate::LEADER).call(&request);
    assert_eq!(answer.expect("an answer").err, 0, "{path}");
}

/// A user and a password of so many bytes. The identity has as many, and the digest.
pub(crate) fn credentials(user: &str, bytes: usize) -> &'static str {
    let name = user.repeat(bytes / user.len());
    format!("{name}:secret").leak()
}
