//! Commands `create`, `set`, `delete` and `deleteall`.
//!
//! Source: CreateCommand, SetCommand, DeleteCommand, DeleteAllCommand, ZKUtil.deleteRecursive.

use std::io::{self, Read};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::{Create, MultiOp};

use super::Command;
use super::acl::parse_acl;
use super::subtree::descent::subtree;
use crate::failure::{Failure, keeper_error};
use crate::output::text;
use crate::parse::options::Arguments;
use crate::parse::path;
use crate::shell::Shell;

/// Maximum number of bytes that are read from standard input as a znode's data. No server accepts
/// more.
const STDIN_BYTES_MAX: u64 = 256 << 20;

/// Number of znodes that `deleteall` deletes per request without `-b`.
pub(crate) const BATCH: usize = 1000;

pub(super) async fn create(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = given.word(0).ok_or_else(|| command.usage_error())?;
    let create = kind_of_znode(given)?;
    if given.has("s") {
        // The server appends a number, so the path is checked with a number at its end.
        path::validate(&format!("{path}1"))?;
    } else {
        path::validate(path)?;
    }
    // If standard input provides the data, the ACL takes the place of the data.
    let acl_at = if given.has("i") { 1 } else { 2 };
    let create = match given.word(acl_at) {
        Some(text) => create.with_acl(parse_acl(shell, text).map_err(|failure| {
            // Like Java's message, this message also reports the resulting empty ACL.
            let invalid = keeper_error("InvalidACL", "");
            Failure::new(format!(
                "{}\n{invalid}\nAcl is not valid : null",
                failure.text
            ))
        })?),
        None => create,
    };
    let data = if given.has("i") {
        Some(read_stdin()?)
    } else {
        given.word(1).map(|word| Bytes::from(word.to_owned()))
    };
    let (client, outside) = shell.client_for(path).await?;
    let created = match data {
        Some(data) => client.create(&outside, data, &create).await,
        None => client.create_without_data(&outside, &create).await,
    };
    let created = created.map_err(|error| match error.code() {
        Some(proto::ErrorCode::InvalidAcl) => {
            let invalid = keeper_error("InvalidACL", path);
            Failure::new(format!("{invalid}\nAcl is not valid : {path}"))
        }
        _ => Failure::of(&error, path),
    })?;
    shell.has_ephemerals |= given.has("e");
    let created = shell.without_chroot(&created).to_owned();
    // As in Java, the created path is reported on standard error.
    shell.print_error(&format!("Created {created}"));
    Ok(())
}

fn kind_of_znode(given: &Arguments) -> Result<Create, Failure> {
    let (sequential, ephemeral) = (given.has("s"), given.has("e"));
    let not_a_long = |_| Failure::new("-t argument must be a long value");
    let ttl_ms = given
        .value("t")
        .map(str::parse)
        .transpose()
        .map_err(not_a_long)?;
    if given.has("c") && (sequential || ephemeral) {
        return Err(Failure::new(
            "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.",
        ));
    }
    if ttl_ms.is_some() && ephemeral {
        return Err(Failure::new("TTLs cannot be used with Ephemeral znodes"));
    }
    if ttl_ms.is_some() && given.has("c") {
        return Err(Failure::new("TTLs cannot be used with Container znodes"));
    }
    let kind = match ttl_ms {
        Some(ttl_ms) => Create::ttl(ttl_of(ttl_ms)),
        None if given.has("c") => Create::container(),
        None if ephemeral => Create::ephemeral(),
        None => Create::persistent(),
    };
    Ok(if sequential { kind.sequential() } else { kind })
}

/// Returns the TTL. A negative number becomes the maximum duration, which the server also refuses.
pub(crate) fn ttl_of(ttl_ms: i64) -> Duration {
    u64::try_from(ttl_ms).map_or(Duration::MAX, Duration::from_millis)
}

pub(crate) fn read_stdin() -> Result<Bytes, Failure> {
    let mut data = Vec::new();
    let read = io::stdin()
        .lock()
        .take(STDIN_BYTES_MAX + 1)
        .read_to_end(&mut data);
    read.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
    if data.len() as u64 > STDIN_BYTES_MAX {
        let limit = STDIN_BYTES_MAX >> 20;
        return Err(Failure::new(format!(
            "standard input contains more than {limit} MiB"
        )));
    }
    Ok(data.into())
}

pub(super) async fn set(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let words = if given.has("i") { 1 } else { 2 };
    if given.words.len() < words {
        return Err(Failure::new(format!("{}\n{SET_OPTIONS}", command.line())));
    }
    let version = version(shell, command, given, words)?;
    let path = command.path(given)?;
    let data = match given.word(1) {
        _ if given.has("i") => read_stdin()?,
        Some(text) if given.has("b") => {
            let wrong = |error| Failure::new(format!("the data is not base64: {error}"));
            STANDARD.decode(text).map_err(wrong)?.into()
        }
        text => Bytes::from(text.unwrap_or_default().to_owned()),
    };
    let (client, outside) = shell.client_for(path).await?;
    let stat = client.set_data(&outside, data, version).await;
    let stat = stat.map_err(|error| Failure::of(&error, path))?;
    if given.has("s") {
        shell.print(&text::stat(&stat));
    }
    Ok(())
}

/// Options of `set`, as Commons CLI prints them. Source: HelpFormatter.
const SET_OPTIONS: &str = " -b         Supply data in base64 format
 -s         Print znode stats additionally
 -v <arg>   Set with an expected version
";

/// Returns the expected version from the option or, as in old scripts, from the last word. Without
/// either, returns -1.
fn version(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
    words: usize,
) -> Result<i32, Failure> {
    let Some(word) = given.word(words) else {
        return Ok(given.number("v")?.unwrap_or(-1));
    };
    let (name, before) = match command.name {
        "set" => ("set path data", "set [-s] [-v version] path data"),
        _ => ("delete path", "delete [-v version] path"),
    };
    shell.print_error(&format!(
        "'{name} [version]' has been deprecated. Please use '{before}' instead."
    ));
    word.parse().map_err(|_| Failure::no_number("v", word))
}

pub(super) async fn delete(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    if given.words.is_empty() {
        return Err(command.usage_error());
    }
    let version = version(shell, command, given, 1)?;
    let path = command.path(given)?;
    let (client, outside) = shell.client_for(path).await?;
    let deleted = client.delete(&outside, version).await;
    deleted.map_err(|error| Failure::of(&error, path))
}

pub(super) async fn delete_all(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    if given.words.is_empty() {
        return Err(command.usage_error());
    }
    let batch = given.number::<usize>("b")?.unwrap_or(BATCH).max(1);
    let path = command.path(given)?;
    let all = subtree(shell, path).await?;
    let client = shell.client(path).await?;
    let mut has_failed = false;
    // Children are deleted first. The list contains each znode before its descendants.
    let from_below: Vec<&String> = all.iter().rev().collect();
    for paths in from_below.chunks(batch) {
        let ops: Vec<MultiOp> = paths
            .iter()
            .map(|path| MultiOp::delete(&shell.with_chroot(path), -1))
            .collect();
        match client.multi(&ops).await {
            Ok(_) => {}
            Err(error) if error.code().is_some() => has_failed = true,
            Err(error) => return Err(Failure::of(&error, path)),
        }
    }
    if has_failed {
        shell.print_error("Failed to delete some node(s) in the subtree!");
    }
    Ok(())
}
