//! Handling of lost connections and ended sessions, for all recipes.

use bytes::Bytes;
use client::{Client, Create, Error as ClientError, State};
use proto::{ErrorCode, SessionId, Stat};
use tokio::sync::watch;

use crate::error::{Error, Result};

/// Waits until the client is connected.
///
/// # Errors
/// If the session has ended.
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
    // This request fails with the reason why the session ended.
    client.exists("/").await.map(drop).map_err(Error::from)
}

/// Returns whether the request may succeed on another connection or, with renewal, in another
/// session.
pub(crate) fn is_transient(client: &Client, error: &ClientError) -> bool {
    error.is_connection_loss()
        || (client.is_renewed() && matches!(error, ClientError::SessionExpired { .. }))
}

/// Repeats an idempotent request until there is an answer.
///
/// # Errors
/// If a server refuses the request, or the session has ended.
pub(crate) async fn retry<T, F>(client: &Client, ask: impl Fn() -> F) -> Result<T, ClientError>
where
    F: Future<Output = client::Result<T>>,
{
    loop {
        match ask().await {
            Err(error) if is_transient(client, &error) => {
                if connected(client).await.is_err() {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

/// Checks the path of a recipe before any request is sent.
pub(crate) fn check_path(path: &str) -> Result<()> {
    let reason = match path {
        "/" => "the path is the root",
        _ if !path.starts_with('/') => "the path does not begin with a slash",
        _ if path.ends_with('/') => "the path ends with a slash",
        _ if path.contains("//") => "a name in the path is empty",
        _ if path.contains(char::is_control) => "the path contains a control character",
        _ if path.split('/').any(|name| [".", ".."].contains(&name)) => {
            "a name in the path is `.` or `..`"
        }
        _ => return Ok(()),
    };
    let path = path.to_owned();
    Err(Error::Path { path, reason })
}

/// Returns the path of a child, after checking that `name` can be the name of a znode.
pub(crate) fn child(directory: &str, name: &str) -> Result<String> {
    let path = format!("{directory}/{name}");
    if name.contains('/') {
        let reason = "the last name of the path contains a slash";
        return Err(Error::Path { path, reason });
    }
    check_path(&path).map(|()| path)
}

/// Returns the sorted names of a znode's children. The list is empty if the znode is missing.
pub(crate) async fn children_of(client: &Client, path: &str) -> Result<Vec<String>> {
    let names = match retry(client, || client.get_children(path)).await {
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Vec::new(),
        other => other?,
    };
    let mut names: Vec<_> = names.iter().map(|name| name.to_string()).collect();
    names.sort();
    Ok(names)
}

/// Returns the data of a znode, or `None` if the znode is missing.
pub(crate) async fn data_of(client: &Client, path: &str) -> Result<Option<Bytes>> {
    match retry(client, || client.get_data(path)).await {
        Ok((data, _)) => Ok(Some(data.unwrap_or_default())),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates a directory and its parents as containers. A server deletes a container after the
/// deletion of its last child.
///
/// The deepest znode is tried first, because the client may not be allowed to create its ancestors.
///
/// Source: CreateBuilderImpl.creatingParentContainersIfNeeded.
pub(crate) async fn make_directory(client: &Client, path: &str) -> Result<()> {
    let container = Create::container();
    let mut missing = Vec::new();
    let mut next = Some(path);
    while let Some(path) = next {
        match retry(client, || client.create(path, "", &container)).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                next = parent_of(path);
                if next.is_none() {
                    // The root directory of the client is missing.
                    return Err(error.into());
                }
                missing.push(path);
            }
            Err(error) if error.code() != Some(ErrorCode::NodeExists) => return Err(error.into()),
            _ => next = missing.pop(),
        }
    }
    Ok(())
}

fn parent_of(path: &str) -> Option<&str> {
    let (parent, _) = path.rsplit_once('/')?;
    (!parent.is_empty()).then_some(parent)
}

/// Deletes the ephemeral of session `owner` at a path that other clients use, too. If `is_there` is
/// set, the znode is known to exist. Otherwise this function reads it first.
///
/// A request without an answer may have been executed, and another client may have created the
/// znode again. A repetition therefore deletes the znode only if `is_own` returns true. A request
/// on an earlier connection cannot be executed after this read, because the session has moved to
/// the new connection. In another session nothing is deleted, because the znode was deleted with
/// its own session.
pub(crate) async fn delete_own(
    client: &Client,
    path: &str,
    owner: SessionId,
    mut is_there: bool,
    is_own: impl Fn(Option<&Bytes>, &Stat) -> bool,
) -> Result<(), ClientError> {
    while client.session_id() == owner {
        if !is_there {
            let look = || async {
                client.sync(path).await?;
                client.get_data(path).await
            };
            match retry(client, look).await {
                Ok((data, stat)) if is_own(data.as_ref(), &stat) => {}
                Err(error) if error.code() != Some(ErrorCode::NoNode) => return Err(error),
                _ => return Ok(()),
            }
        }
        is_there = false;
        match client.delete_in(owner, path, -1).await {
            Err(ClientError::SessionExpired { .. }) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
            Err(error) if is_transient(client, &error) => {
                if connected(client).await.is_err() {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
    Ok(())
}

/// Waits until either channel changes. Returns false if `standing` will never change again.
///
/// The standing of a recipe is valid only while the client is connected in the same session, so the
/// caller must check the standing after a change of either channel.
pub(crate) async fn wait_for_either<T>(
    standing: &mut watch::Receiver<T>,
    state: &mut watch::Receiver<State>,
) -> bool {
    tokio::select! {
        biased;
        changed = standing.changed() => changed.is_ok(),
        // The state of a closed client no longer changes.
        Ok(()) = state.changed() => true,
    }
}

/// Waits until the result of `read` differs from its current result. Returns immediately if the
/// current result is `None`. The result may change with `standing` and with the state of the
/// client.
pub(crate) async fn wait_until_changed<T, H: PartialEq>(
    client: &Client,
    mut standing: watch::Receiver<T>,
    read: impl Fn() -> Option<H>,
) {
    let mut state = client.state();
    let Some(first) = read() else { return };
    loop {
        state.mark_unchanged();
        standing.mark_unchanged();
        let is_over = read().is_none_or(|now| now != first);
        if is_over || !wait_for_either(&mut standing, &mut state).await {
            return;
        }
    }
}
