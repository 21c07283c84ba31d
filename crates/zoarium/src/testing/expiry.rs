//! The end of a session that a test wants.

use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Client, Error, Options, Session};
use proto::{ErrorCode, SessionId};
use tokio::time::sleep;

use crate::ServerError;

/// How long its client may take the session back again and again.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two attempts: a member that does not serve answers none.
const PAUSE: Duration = Duration::from_millis(10);

/// Takes the session over and closes it. Its client loses the connection, and is told that the session is over when it
/// comes back. The password of a session follows from its id.
pub(super) async fn expire(connect_string: &str, session: i64) -> Result<(), ServerError> {
    let id = SessionId(session);
    let password = Bytes::copy_from_slice(&session::password(id));
    let options = Options::new(connect_string).with_session(Session { id, password });
    let refused = |error: Error| ServerError::Test {
        what: "the session cannot be ended",
        why: error.to_string(),
    };
    let began = Instant::now();
    let mut has_asked = false;
    loop {
        let error = match Client::connect(options.clone()).await {
            Ok(client) => {
                let closed = client.close().await;
                let Err(error) = closed else { return Ok(()) };
                has_asked = true;
                error
            }
            // What was asked for before is done, and only the answer was lost.
            Err(Error::SessionExpired { .. }) if has_asked => return Ok(()),
            Err(error) => error,
        };
        if !was_taken_back(&error) || began.elapsed() > LIMIT {
            return Err(refused(error));
        }
        sleep(PAUSE).await;
    }
}

/// Whether the client of the session may have come back before the session was closed: it is that one's again then.
fn was_taken_back(error: &Error) -> bool {
    let is_unanswered = matches!(error, Error::Handshake { .. });
    is_unanswered || error.is_connection_loss() || error.code() == Some(ErrorCode::SessionMoved)
}
