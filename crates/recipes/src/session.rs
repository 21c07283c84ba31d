//! What every recipe does about connections and sessions.

use bytes::Bytes;
use client::{Client, Error as ClientError, State};
use proto::mutant::{self, Mutant};
use proto::{ErrorCode, SessionId, Stat};
use tokio::sync::watch;

use crate::error::{Error, Result};

/// Waits until the client is connected.
///
/// # Errors
/// If it never will be again.
pub(crate) async fn connected(client: &Client) -> Result<()> {
    let mut state = client.state();
    let is_renewed = client.is_renewed();
    let is_over = |state: &State| match state {
        State::Expired => !is_renewed,
        State::Closed | State::LoginRefused { .. } => true,
        State::Connected { .. } | State::Reconnecting | State::Lost => false,
    };
    let is_settled = |state: &State| state.connected_session().is_some() || is_over(state);
    let is_connected = match state.wait_for(is_settled).await {
        Ok(state) => state.connected_session().is_some(),
        Err(_) => false,
    };
    if is_connected {
        return Ok(());
    }
    // It says in its own words why it is over.
    client.exists("/").await.map(drop).map_err(Error::from)
}

/// Whether the same may succeed on another connection or, with renewal, in another session.
pub(crate) fn may_pass(client: &Client, error: &ClientError) -> bool {
    error.is_connection_loss()
        || (client.is_renewed() && matches!(error, ClientError::SessionExpired { .. }))
}

/// Asks until there is an answer: for what may be asked twice.
///
/// # Errors
/// That of the server, or of a client that is over.
pub(crate) async fn insist<T, F>(client: &Client, ask: impl Fn() -> F) -> Result<T, ClientError>
where
    F: Future<Output = client::Result<T>>,
{
    loop {
        match ask().await {
            Err(error) if may_pass(client, &error) => {
                if connected(client).await.is_err() {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

/// Checks a path once, so that no later error has to explain it.
pub(crate) fn check_path(path: &str) -> Result<()> {
    let reason = match path {
        "/" => "it is the root",
        _ if !path.starts_with('/') => "it does not begin with a slash",
        _ if path.ends_with('/') => "it ends with a slash",
        _ if path.contains("//") => "a name in it is empty",
        _ => return Ok(()),
    };
    let path = path.to_owned();
    Err(Error::Path { path, reason })
}

/// Deletes the ephemeral of session `owner` at a path that others use, too. `is_there` says that it is
/// known to be there; otherwise it is looked at first.
///
/// A request without an answer may have been carried out, and somebody else may have made the znode
/// since: it is deleted again only while it is this one's. What was asked over an earlier connection
/// is not carried out behind the look: the session has moved. In another session nothing is deleted:
/// the znode has gone with its own.
pub(crate) async fn delete_own(
    client: &Client,
    (path, owner): (&str, SessionId),
    mut is_there: bool,
    is_own: impl Fn(Option<&Bytes>, &Stat) -> bool,
) -> Result<(), ClientError> {
    while client.session_id() == owner {
        if !is_there {
            let look = || async {
                client.sync(path).await?;
                client.get_data(path).await
            };
            match insist(client, look).await {
                Ok((data, stat)) if is_own(data.as_ref(), &stat) => {}
                Err(error) if error.code() != Some(ErrorCode::NoNode) => return Err(error),
                _ => return Ok(()),
            }
        }
        is_there = mutant::is(Mutant::NextLeaderDeleted);
        match client.delete_in(owner, path, -1).await {
            Err(ClientError::SessionExpired { .. }) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
            Err(error) if may_pass(client, &error) => {
                if connected(client).await.is_err() {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
    Ok(())
}

/// Waits until either changes; false if the first never will again.
///
/// What a recipe says of itself counts only together with the client's state, and either may be the
/// one that changes last.
pub(crate) async fn either_changes<T>(
    standing: &mut watch::Receiver<T>,
    state: &mut watch::Receiver<State>,
) -> bool {
    tokio::select! {
        biased;
        changed = standing.changed() => changed.is_ok(),
        // A client that is gone changes nothing any more.
        Ok(()) = state.changed() => true,
    }
}

/// Waits until what `held` tells is not what it tells at this moment; at once if that is nothing.
/// It may change with `standing` and with the client's state.
pub(crate) async fn until_other<T, H: PartialEq>(
    client: &Client,
    mut standing: watch::Receiver<T>,
    held: impl Fn() -> Option<H>,
) {
    let mut state = client.state();
    let Some(first) = held() else { return };
    loop {
        state.mark_unchanged();
        standing.mark_unchanged();
        let is_over = held().is_none_or(|now| now != first);
        if is_over || !either_changes(&mut standing, &mut state).await {
            return;
        }
    }
}
