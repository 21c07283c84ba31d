//! The end of a session that a test wants.

use bytes::Bytes;
use client::{Client, Options, Session};
use proto::SessionId;

use crate::ServerError;

/// Takes the session over and closes it. Its client loses the connection, and is told that the session is over when it
/// comes back. The password of a session follows from its id.
pub(super) async fn expire(connect_string: &str, session: i64) -> Result<(), ServerError> {
    let id = SessionId(session);
    let password = Bytes::copy_from_slice(&session::password(id));
    let options = Options::new(connect_string).with_session(Session { id, password });
    let refused = |error: client::Error| ServerError::Test {
        what: "the session cannot be ended",
        why: error.to_string(),
    };
    let client = Client::connect(options).await.map_err(refused)?;
    client.close().await.map_err(refused)
}
