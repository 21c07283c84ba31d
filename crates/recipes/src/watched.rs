//! End of a watch, and its consequences for a recipe. Other modules do not interpret events.
//!
//! A watch ends with an event, with a lost connection or session, or because the application
//! removed it (`Client::remove_watches`). In each of these cases the recipe must read again.

#![allow(
    clippy::disallowed_methods,
    reason = "this module is the only one that waits for a watch"
)]

use client::{Change, Client, Error as ClientError, Watch, WatchStream};
use proto::ErrorCode;
use proto::watch::EventType;

use crate::error::{Error, Result};
use crate::session::{connected, is_transient};

/// State of a watched znode after the end of its watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The znode was deleted, or it was missing when it was read.
    Deleted,
    /// The znode may have changed, so the recipe must read it again.
    ReadAgain,
}

/// Waits for the end of a one-shot watch. `read` is the result of the read that set the watch.
/// After a lost connection, waits for the next connection.
///
/// # Errors
/// If the session has ended, or a server refused the read.
pub(crate) async fn watch_ended<A, B>(
    client: &Client,
    read: Result<(A, B, Watch), ClientError>,
) -> Result<WatchEnd> {
    let outcome = match read {
        Ok((_, _, mut watch)) => watch.changed().await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(event) if event.kind == EventType::NodeDeleted => Ok(WatchEnd::Deleted),
        Ok(_) | Err(ClientError::WatchRemoved { .. }) => Ok(WatchEnd::ReadAgain),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(WatchEnd::Deleted),
        Err(error) if is_transient(client, &error) => {
            // The state of the client may change shortly after this error. Until then, this wait
            // ends immediately, and the recipe reads again.
            connected(client).await?;
            Ok(WatchEnd::ReadAgain)
        }
        Err(error) => Err(error.into()),
    }
}

/// Change that a stream reports.
#[derive(Debug)]
pub(crate) enum StreamChange {
    /// The znode at this path was deleted.
    Deleted(String),
    /// The znode at this path was created, or its data changed.
    Written(String),
    /// The recipe must read everything again.
    Missed,
    /// The stream has ended. The recipe must start a new stream.
    Ended,
}

/// Returns the next change from a stream. Skips events about lists of children.
///
/// # Errors
/// If the session has ended, or a server refuses the watch.
pub(crate) async fn next_change(client: &Client, stream: &mut WatchStream) -> Result<StreamChange> {
    loop {
        return match stream.next().await {
            Ok(Change::Missed) => Ok(StreamChange::Missed),
            Ok(Change::Event(event)) => match event.kind {
                EventType::NodeDeleted => Ok(StreamChange::Deleted(event.path.to_string())),
                EventType::NodeChildrenChanged => continue,
                _ => Ok(StreamChange::Written(event.path.to_string())),
            },
            Err(ClientError::WatchRemoved { .. }) => Ok(StreamChange::Ended),
            Err(error) if is_transient(client, &error) => Ok(StreamChange::Ended),
            Err(error) => Err(Error::from(error)),
        };
    }
}
