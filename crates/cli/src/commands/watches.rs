//! Commands `addWatch`, `removewatches`, and `watch`, which follows changes.
//!
//! Source: AddWatchCommand, RemoveWatchesCommand, ZooKeeper.removeWatches.

use std::pin::pin;

use client::{AddWatchMode, WatchEvent, WatchKind};
use proto::ErrorCode;
use tokio::sync::broadcast::error::RecvError;

use super::Command;
use crate::connection::Watch;
use crate::failure::Failure;
use crate::output::text;
use crate::parse::options::Arguments;
use crate::shell::Shell;

pub(super) async fn add_watch(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let (mode, watch) = match given.value("m") {
        None | Some("PERSISTENT_RECURSIVE") => (
            AddWatchMode::PersistentRecursive,
            Watch::PersistentRecursive,
        ),
        Some("PERSISTENT") => (AddWatchMode::Persistent, Watch::Persistent),
        Some(_) => return Err(command.usage_error()),
    };
    let path = command.path(given)?;
    let (client, outside) = shell.client_for(path).await?;
    let added = client.add_watch(&outside, mode).await;
    added.map_err(|error| Failure::of(&error, path))?;
    if let Some(connection) = shell.connection() {
        connection.add_watch(watch, path);
    }
    Ok(())
}

/// Removes the watches that this client has set on a path, and fails if there are none. With `-l`,
/// ignores an error of the server and removes the watches locally.
pub(super) async fn remove_watches(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = command.path(given)?;
    let kinds = [
        ("c", WatchKind::Children),
        ("d", WatchKind::Data),
        ("p", WatchKind::Persistent),
        ("r", WatchKind::PersistentRecursive),
    ];
    let named = kinds.into_iter().find(|(option, _)| given.has(option));
    let kind = named.map_or(WatchKind::Any, |(_, kind)| kind);
    let client = shell.client(path).await?;
    shell.print_events();
    let watches = shell
        .connection()
        .map(|connection| connection.watches_on(path, kind))
        .unwrap_or_default();
    if watches.is_empty() {
        return Err(Failure::of_code(ErrorCode::NoWatcher.code(), path));
    }
    let outside = shell.with_chroot(path);
    match client.remove_watches(&outside, kind).await {
        Err(error) if !given.has("l") => return Err(Failure::of(&error, path)),
        _ => {}
    }
    for watch in watches {
        let event = shell
            .connection()
            .map(|connection| connection.remove(watch, path));
        if let Some(event) = event {
            shell.print_event(&event);
        }
    }
    Ok(())
}

/// Prints the changes of a subtree until the user interrupts the command, the session ends, or the
/// output is closed.
pub(super) async fn follow(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = command.path(given)?;
    drop(shell.client(path).await?);
    let quiet = std::mem::replace(&mut shell.prints_watches, false);
    shell.print(&format!("watching {path}; Ctrl-C ends the command"));
    let done = each_event(shell, path, |shell, event| {
        let now = text::time(jiff::Timestamp::now().as_millisecond());
        let path = shell.without_chroot(&event.path).to_owned();
        shell.print(&format!(
            "{now} {:?} {path} zxid 0x{:x}",
            event.kind, event.zxid.0
        ));
        true
    });
    let done = done.await;
    shell.print_events();
    shell.prints_watches = quiet;
    done
}

/// Calls `each` for each event of a subtree until `each` returns `false`, the user interrupts the
/// command, the session ends, or the output is closed.
pub(crate) async fn each_event(
    shell: &mut Shell,
    path: &str,
    mut each: impl FnMut(&mut Shell, &WatchEvent) -> bool,
) -> Result<(), Failure> {
    let (client, outside) = shell.client_for(path).await?;
    let mut events = client.events();
    let added = client
        .add_watch(&outside, AddWatchMode::PersistentRecursive)
        .await;
    added.map_err(|error| Failure::of(&error, path))?;
    // The same future waits for the user throughout, so that no key press is lost between two
    // events.
    let mut ended = pin!(crate::shell::quit::by_user(
        terminal::stdout().is_terminal()
    ));
    let done = loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = &mut ended => break Ok(()),
        };
        match event {
            Ok(event) => {
                if !each(shell, &event) {
                    break Ok(());
                }
            }
            Err(RecvError::Lagged(count)) => {
                shell.print_error(&format!("changes arrived too fast; not shown: {count}"));
            }
            Err(RecvError::Closed) => break Err(Failure::new("the session has expired")),
        }
        if shell.has_failed_output() {
            break Ok(());
        }
    };
    let _ = client
        .remove_watches(&outside, WatchKind::PersistentRecursive)
        .await;
    done
}
