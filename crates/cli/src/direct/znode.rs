//! Commands `get`, `ls`, `stat`, `set`, `create` and `acl`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::Create;
use proto::{Acl, ErrorCode};
use serde_json::json;

use super::{Data, DataForm, Direct};
use crate::commands::read::{children, ls_recursive};
use crate::commands::subtree::descent::Descent;
use crate::commands::subtree::walk::{Walk, WalkedProperties, WalkedZnode};
use crate::commands::write::{read_stdin, ttl_of};
use crate::exit;
use crate::failure::Failure;
use crate::output::json;
use crate::output::text::{self, PERMISSIONS};
use crate::parse::path;
use crate::shell::Shell;

pub(super) async fn get(shell: &mut Shell, path: &str, form: DataForm) -> Result<(), Failure> {
    let (client, outside) = shell.client_for(path).await?;
    let answer = client.get_data(&outside).await;
    let (data, stat) = answer.map_err(|error| Failure::of(&error, path))?;
    if shell.start.format.is_structured() {
        let (data, encoding) = json::data(data.as_deref(), form == DataForm::Base64);
        let value =
            json!({ "path": path, "data": data, "encoding": encoding, "stat": json::stat(&stat) });
        shell.show(|| value, String::new);
        return Ok(());
    }
    let data = data.unwrap_or_default();
    match form {
        DataForm::Raw => shell.print_bytes(&data),
        DataForm::Base64 => shell.print(&STANDARD.encode(&data)),
        DataForm::Hex => shell.print(&text::hex_dump(&data)),
    }
    Ok(())
}

/// Prints names on separate lines. With `is_long`, prints a table, and with `is_recursive`, all
/// paths.
pub(super) async fn list(
    shell: &mut Shell,
    path: &str,
    is_long: bool,
    is_recursive: bool,
) -> Result<(), Failure> {
    if is_long {
        let deepest = if is_recursive { usize::MAX } else { 1 };
        return list_long(shell, path, deepest).await;
    }
    if is_recursive {
        return ls_recursive(shell, path).await;
    }
    let (mut names, _) = children(shell, path, false).await?;
    names.sort_unstable();
    if shell.start.format.is_structured() {
        shell.show(|| json!({ "path": path, "children": names }), String::new);
        return Ok(());
    }
    for name in names {
        shell.print(&name);
    }
    Ok(())
}

async fn list_long(shell: &mut Shell, root: &str, deepest: usize) -> Result<(), Failure> {
    let mut walk = Walk::new(root, deepest, WalkedProperties::Names);
    if !shell.start.format.is_structured() {
        shell.print(&format!(
            "{:>8} {:>10} {:>8}  {:<28}  NAME",
            "VERSION", "BYTES", "CHILDREN", "MODIFIED"
        ));
    }
    while let Some(seen) = walk.next(shell).await? {
        // The list does not contain the root itself.
        if seen.depth == 0 {
            continue;
        }
        shell.show(
            || json!({ "path": seen.path, "stat": json::stat(&seen.stat) }),
            || row(&seen, root, deepest),
        );
        if shell.has_failed_output() {
            break;
        }
    }
    Ok(())
}

fn row(seen: &WalkedZnode, root: &str, deepest: usize) -> String {
    let name = match deepest {
        1 => seen.path[root.len()..].trim_start_matches('/'),
        _ => seen.path.as_str(),
    };
    format!(
        "{:>8} {:>10} {:>8}  {:<28}  {name}",
        seen.stat.version,
        seen.stat.data_length,
        seen.stat.num_children,
        text::time(seen.stat.mtime),
    )
}

pub(super) async fn stat(shell: &mut Shell, path: &str) -> Result<(), Failure> {
    let (client, outside) = shell.client_for(path).await?;
    let found = client.exists(&outside).await;
    let found = found.map_err(|error| Failure::of(&error, path))?;
    let stat = found.ok_or_else(|| Failure::of_code(ErrorCode::NoNode.code(), path))?;
    shell.show(
        || json!({ "path": path, "stat": json::stat(&stat) }),
        || text::stat(&stat),
    );
    Ok(())
}

pub(super) async fn set(
    shell: &mut Shell,
    path: &str,
    data: &Data,
    version: i32,
) -> Result<(), Failure> {
    let data = bytes_of(data)?.unwrap_or_default();
    let (client, outside) = shell.client_for(path).await?;
    let stat = client.set_data(&outside, data, version).await;
    let stat = stat.map_err(|error| Failure::of(&error, path))?;
    if shell.start.format.is_structured() {
        let value = json!({ "path": path, "stat": json::stat(&stat) });
        shell.show(|| value, String::new);
    }
    Ok(())
}

fn bytes_of(data: &Data) -> Result<Option<Bytes>, Failure> {
    Ok(match data {
        Data::Null => None,
        Data::Bytes(bytes) => Some(bytes.clone().into()),
        Data::Stdin => Some(read_stdin()?),
    })
}

pub(super) async fn create(shell: &mut Shell, direct: &Direct) -> Result<(), Failure> {
    let Direct::Create {
        path,
        data,
        acl,
        is_sequential,
        is_container,
        ttl_ms,
        with_parents,
    } = direct
    else {
        return Ok(());
    };
    let mut create = match ttl_ms {
        Some(ttl_ms) => Create::ttl(ttl_of(*ttl_ms)),
        None if *is_container => Create::container(),
        None => Create::persistent(),
    };
    if *is_sequential {
        create = create.sequential();
    }
    if let Some(acl) = acl {
        create = create.with_acl(acl_of(acl)?);
    }
    let data = bytes_of(data)?;
    if *with_parents {
        create_parents(shell, path).await?;
    }
    let (client, outside) = shell.client_for(path).await?;
    let created = match data {
        Some(data) => client.create(&outside, data, &create).await,
        None => client.create_without_data(&outside, &create).await,
    };
    let created = created.map_err(|error| match error.code() {
        // The usual message would state that the znode itself does not exist.
        Some(ErrorCode::NoNode) => Failure {
            plain: Some(format!("{path}: the parent does not exist (-p creates it)")),
            ..Failure::of(&error, path)
        },
        _ => Failure::of(&error, path),
    })?;
    let created = shell.without_chroot(&created).to_owned();
    shell.show(|| json!({ "path": created }), || created.clone());
    Ok(())
}

async fn create_parents(shell: &mut Shell, path: &str) -> Result<(), Failure> {
    for (at, _) in path.match_indices('/').skip(1) {
        let parent = &path[..at];
        let (client, outside) = shell.client_for(parent).await?;
        let create = Create::persistent();
        match client.create_without_data(&outside, &create).await {
            Err(error) if error.code() != Some(ErrorCode::NodeExists) => {
                return Err(Failure::of(&error, parent));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Prints an ACL in the format in which it can be set, or sets it.
pub(super) async fn acl(
    shell: &mut Shell,
    root: &str,
    acl: Option<&str>,
    version: i32,
    is_recursive: bool,
) -> Result<(), Failure> {
    let new = acl.map(acl_of).transpose()?;
    let mut descent = Descent::new(root, is_recursive);
    while let Some(path) = descent.next(shell).await? {
        let (client, outside) = shell.client_for(&path).await?;
        let answer = match &new {
            Some(new) => {
                let stat = client.set_acl(&outside, new.clone(), version).await;
                stat.map(|stat| (new.clone(), stat))
            }
            None => client.get_acl(&outside).await,
        };
        let (acl, stat) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                descent.skip(shell, &error, &path)?;
                continue;
            }
        };
        let value = || json!({ "path": path, "acl": json::acl(&acl), "stat": json::stat(&stat) });
        let shown = || {
            if is_recursive {
                format!("{path} {}", text_of(&acl))
            } else {
                text_of(&acl)
            }
        };
        if new.is_none() || shell.start.format.is_structured() {
            shell.show(value, shown);
        }
        if shell.has_failed_output() {
            break;
        }
    }
    descent.finish(if new.is_some() { "changed" } else { "readable" })
}

fn text_of(acl: &[Acl]) -> String {
    let entries = acl.iter().map(|entry| {
        let perms = text::permissions(entry.perms);
        format!("{}:{}:{perms}", entry.id.scheme, entry.id.id)
    });
    entries.collect::<Vec<_>>().join(",")
}

/// Parses `scheme:id:perms[,...]`.
fn acl_of(text: &str) -> Result<Vec<Acl>, Failure> {
    let entries = text.split(',').map(|entry| {
        let parts = entry
            .split_once(':')
            .and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once(':')?)));
        let (scheme, (id, letters)) = parts?;
        let mut perms = 0;
        for letter in letters.chars() {
            let (_, bit) = PERMISSIONS.iter().find(|(known, _)| *known == letter)?;
            perms |= bit;
        }
        Some(Acl::new(perms, scheme, id))
    });
    let acl: Option<Vec<Acl>> = entries.collect();
    acl.ok_or_else(|| {
        Failure::new(format!(
            "{text}: an ACL has the form scheme:id:perms[,...], with the permissions cdrwa"
        ))
        .with_exit(exit::USAGE)
    })
}

/// Returns the parent of a path.
pub(super) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Returns the new path of a znode at or below `from` after `from` has been moved to `to`.
pub(super) fn moved(path: &str, from: &str, to: &str) -> String {
    match path.strip_prefix(from).unwrap_or_default() {
        "" => to.to_owned(),
        below => path::child(to, below.trim_start_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_is_printed_as_it_is_set() {
        let text = "world:anyone:r,digest:ann:h=:cdrwa,ip:10.0.0.0/8:rw";
        assert_eq!(text_of(&acl_of(text).unwrap()), text);
        for wrong in ["", "world", "world:anyone:x", "a:b:r,,", "r"] {
            assert_eq!(acl_of(wrong).unwrap_err().exit, exit::USAGE, "{wrong}");
        }
    }

    #[test]
    fn paths_move_with_their_root() {
        assert_eq!(moved("/a", "/a", "/b/c"), "/b/c");
        assert_eq!(moved("/a/x/y", "/a", "/b/c"), "/b/c/x/y");
        assert_eq!((parent("/a"), parent("/a/b")), ("/", "/a"));
    }
}
