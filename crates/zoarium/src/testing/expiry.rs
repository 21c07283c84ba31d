//! Ends sessions at the request of a test.

use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Client, Error, Options, Session};
use proto::{ErrorCode, SessionId};
use tokio::time::sleep;

use crate::ServerError;

/// Maximum time for all attempts. The client of the session may resume the session after each
/// attempt.
const LIMIT: Duration = Duration::from_secs(60);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Resumes the session in place of its client, then closes it. The client loses the connection and
/// learns that the session is over when it reconnects. The function can resume the session, because
/// the password of a session can be derived from its id.
pub(super) async fn expire(connect_string: &str, id: SessionId) -> Result<(), ServerError> {
    let password = Bytes::copy_from_slice(&replica::session::password(id));
    let options = Options::new(connect_string).with_session(Session { id, password });
    let refused = |error: Error| ServerError::Test {
        what: "cannot end the session",
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
            // The close was executed, and only the reply was lost.
            Err(Error::SessionExpired { .. }) if has_asked => return Ok(()),
            Err(error) => error,
        };
        if !has_session_moved_back(&error) || began.elapsed() > LIMIT {
            return Err(refused(error));
        }
        sleep(PAUSE).await;
    }
}

/// Returns whether the attempt may have failed because the client resumed the session first.
fn has_session_moved_back(error: &Error) -> bool {
    let is_unanswered = matches!(error, Error::Handshake { .. });
    is_unanswered || error.is_connection_loss() || error.code() == Some(ErrorCode::SessionMoved)
}
