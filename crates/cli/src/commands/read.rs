//! Commands that only read: `ls`, `get`, `stat`, `sync` and others.
//!
//! Source: LsCommand, GetCommand, StatCommand, SyncCommand, GetEphemeralsCommand,
//! GetAllChildrenNumberCommand.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::{ErrorCode, Stat};
use serde_json::json;

use super::Command;
use super::subtree::descent::Descent;
use crate::connection::Watch;
use crate::failure::Failure;
use crate::output::json;
use crate::output::text;
use crate::parse::options::Arguments;
use crate::parse::path;
use crate::shell::Shell;

/// Returns whether a watch is requested, with `-w` or, as in old scripts, with a second word. If
/// the old form is used, reports that it is deprecated.
fn wants_watch(shell: &mut Shell, command: &Command, given: &Arguments) -> bool {
    if given.words.len() > 1 {
        let name = command.name;
        shell.print_error(&format!(
            "'{name} path [watch]' has been deprecated. Please use '{name} [-w] path' instead."
        ));
    }
    given.has("w") || given.words.len() > 1
}

pub(super) async fn ls(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = command.path(given)?;
    let watch = wants_watch(shell, command, given);
    if given.has("R") {
        return ls_recursive(shell, path).await;
    }
    let (mut names, stat) = children(shell, path, watch).await?;
    names.sort_unstable();
    let with_stat = given.has("s");
    shell.show(
        || {
            let mut shown = json!({ "path": path, "children": names });
            if with_stat {
                shown["stat"] = json::stat(&stat);
            }
            shown
        },
        || {
            if with_stat {
                format!("{}\n{}", text::list(&names), text::stat(&stat))
            } else {
                text::list(&names)
            }
        },
    );
    Ok(())
}

/// Returns the names of the children in arbitrary order, and the Stat.
pub(crate) async fn children(
    shell: &mut Shell,
    path: &str,
    watch: bool,
) -> Result<(Vec<String>, Stat), Failure> {
    let (client, outside) = shell.client_for(path).await?;
    let answer = if watch {
        client.get_children2_and_watch(&outside).await
    } else {
        client.get_children2(&outside).await
    };
    let (names, stat) = answer.map_err(|error| Failure::of(&error, path))?;
    if watch && let Some(connection) = shell.connection() {
        connection.add_watch(Watch::Child, path);
    }
    Ok((names.iter().map(|name| name.to_string()).collect(), stat))
}

/// Prints a line for each znode.
pub(crate) async fn ls_recursive(shell: &mut Shell, path: &str) -> Result<(), Failure> {
    let mut descent = Descent::new(path, true);
    while let Some(path) = descent.next(shell).await? {
        shell.show(|| json!({ "path": path }), || path.clone());
        if shell.has_failed_output() {
            break;
        }
    }
    Ok(())
}

pub(super) async fn get(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    if given.words.is_empty() {
        return Err(Failure::new(format!("{}\n{GET_OPTIONS}", command.line())));
    }
    let path = command.path(given)?;
    let watch = wants_watch(shell, command, given);
    let (client, outside) = shell.client_for(path).await?;
    let answer = if watch {
        client.get_data_and_watch(&outside).await
    } else {
        client.get_data(&outside).await
    };
    let (data, stat) = answer.map_err(|error| Failure::of(&error, path))?;
    if watch && let Some(connection) = shell.connection() {
        connection.add_watch(Watch::Data, path);
    }
    let shown = || match &data {
        Some(data) if given.has("b") => STANDARD.encode(data),
        Some(data) if given.has("x") => text::hex_dump(data),
        data => text::data(data.as_deref()),
    };
    let value = || {
        let (data, encoding) = json::data(data.as_deref(), given.has("b"));
        json!({ "path": path, "data": data, "encoding": encoding, "stat": json::stat(&stat) })
    };
    shell.show(value, shown);
    if given.has("s") && !shell.start.format.is_structured() {
        shell.print(&text::stat(&stat));
    }
    Ok(())
}

/// Options of `get`, as Commons CLI prints them. Source: HelpFormatter.
const GET_OPTIONS: &str = " -b   Output data in base64 format
 -s   Print znode stats additionally
 -w   Watch for changes on the znode
 -x   Output data in hexdump format
";

pub(super) async fn stat(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = command.path(given)?;
    let watch = wants_watch(shell, command, given);
    let (client, outside) = shell.client_for(path).await?;
    let answer = if watch {
        client.exists_and_watch(&outside).await
    } else {
        client.exists(&outside).await
    };
    let stat = answer.map_err(|error| Failure::of(&error, path))?;
    if watch && let Some(connection) = shell.connection() {
        connection.add_watch(Watch::Data, path);
    }
    match stat {
        Some(stat) => shell.show(
            || json!({ "path": path, "stat": json::stat(&stat) }),
            || text::stat(&stat),
        ),
        None => return Err(Failure::of_code(ErrorCode::NoNode.code(), path)),
    }
    Ok(())
}

pub(super) async fn sync(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = command.path(given)?;
    let (client, outside) = shell.client_for(path).await?;
    let synced = client.sync(&outside).await;
    synced.map_err(|error| Failure::of(&error, path))?;
    shell.print("Sync is OK");
    Ok(())
}

pub(super) async fn all_children_number(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = command.path(given)?;
    let (client, outside) = shell.client_for(path).await?;
    let count = client.get_all_children_number(&outside).await;
    let count = count.map_err(|error| Failure::of(&error, path))?;
    shell.show(
        || json!({ "path": path, "number": count }),
        || count.to_string(),
    );
    Ok(())
}

/// Prints the ephemerals of the session below a path, or all of them without a path.
pub(super) async fn ephemerals(shell: &mut Shell, given: &Arguments) -> Result<(), Failure> {
    let path = given.word(0).unwrap_or("/");
    path::validate(path)?;
    let (client, outside) = shell.client_for(path).await?;
    let paths = client.get_ephemerals(&outside).await;
    let paths = paths.map_err(|error| Failure::of(&error, path))?;
    let mut inside: Vec<String> = paths
        .iter()
        .map(|path| shell.without_chroot(path).to_owned())
        .collect();
    inside.sort_unstable();
    shell.show(
        || json!({ "path": path, "ephemerals": inside }),
        || text::list(&inside),
    );
    Ok(())
}
