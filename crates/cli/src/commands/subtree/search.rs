//! Commands on subtrees that zkCli.sh lacks: overview, search and export.
//!
//! Each of these commands performs a [`Walk`] through the subtree.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::{Acl, Stat};
use serde_json::{Value, json};

use super::walk::{Walk, WalkedProperties};
use crate::commands::Command;
use crate::failure::Failure;
use crate::output::json;
use crate::output::text::number;
use crate::parse::options::Arguments;
use crate::parse::path;
use crate::shell::Shell;
use crate::shell::start::Format;

/// Number of bytes of an export that are printed together, because each print is a system call.
const LINES_BYTES: usize = 64 << 10;

/// Number of znodes between two progress reports of a long command on standard error.
const PROGRESS_EVERY: usize = 10_000;

fn depth(given: &Arguments) -> Result<usize, Failure> {
    Ok(given.number("d")?.unwrap_or(usize::MAX))
}

/// Escapes line breaks and terminal control characters.
pub(crate) fn plain(name: &str) -> String {
    let escape = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    name.chars().map(escape).collect()
}

/// Prints the names, indented, and the number of children at the maximum depth.
pub(crate) async fn tree(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let root = command.path(given)?;
    let deepest = depth(given)?;
    let mut walk = Walk::new(root, deepest, WalkedProperties::Names);
    while let Some(seen) = walk.next(shell).await? {
        let name = match seen.depth {
            0 => seen.path.as_str(),
            _ => seen.path.rsplit('/').next().unwrap_or_default(),
        };
        let more = if seen.depth == deepest && !seen.names.is_empty() {
            format!(" (children: {})", seen.names.len())
        } else {
            String::new()
        };
        let mark = if seen.stat.ephemeral_owner == 0 {
            ""
        } else {
            " *"
        };
        let value = || {
            let is_ephemeral = is_ephemeral(&seen.stat);
            let children = seen.names.len();
            json!({
                "path": seen.path, "depth": seen.depth, "children": children,
                "ephemeral": is_ephemeral,
            })
        };
        let indent = "  ".repeat(seen.depth);
        shell.show(value, || format!("{indent}{}{mark}{more}", plain(name)));
        if shell.has_failed_output() {
            break;
        }
    }
    Ok(())
}

/// Prints the number of znodes and the number of data bytes below each path, down to a depth.
pub(crate) async fn du(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let root = command.path(given)?;
    let shown: usize = given.number("d")?.unwrap_or(1);
    let mut walk = Walk::new(root, usize::MAX, WalkedProperties::Names);
    // Path of each ancestor whose subtree is not complete, with the numbers of its znodes and
    // bytes.
    let mut open: Vec<(String, usize, i64)> = Vec::new();
    let mut count = 0;
    loop {
        let (seen, ended) = match walk.next(shell).await {
            Ok(seen) => (seen, Ok(())),
            // The sums of the readable znodes are printed before the failure.
            Err(failure) if walk.has_ended() => (None, Err(failure)),
            Err(failure) => return Err(failure),
        };
        let depth = seen.as_ref().map_or(0, |seen| seen.depth);
        while open.len() > depth {
            let Some((path, znodes, bytes)) = open.pop() else {
                break;
            };
            if open.len() <= shown {
                shell.show(
                    || json!({ "path": path, "bytes": bytes, "znodes": znodes }),
                    || format!("{bytes:>12} bytes {znodes:>10} znodes {}", plain(&path)),
                );
            }
            if let Some((_, above_znodes, above_bytes)) = open.last_mut() {
                *above_znodes += znodes;
                *above_bytes += bytes;
            }
        }
        let Some(seen) = seen else {
            return ended;
        };
        open.push((seen.path, 1, seen.stat.data_length.into()));
        count += 1;
        report_progress(shell, count);
    }
}

pub(crate) fn report_progress(shell: &mut Shell, count: usize) {
    if count.is_multiple_of(PROGRESS_EVERY) {
        shell.print_error(&format!("{count} znodes so far"));
    }
}

/// Prints paths whose last name matches a pattern with `*` and `?`.
pub(crate) async fn find(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let root = command.path(given)?;
    let pattern: Vec<char> = given.value("name").unwrap_or("*").chars().collect();
    let mut walk = Walk::new(root, usize::MAX, WalkedProperties::Names);
    while let Some(seen) = walk.next(shell).await? {
        let name: Vec<char> = seen
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .chars()
            .collect();
        if matches_glob(&pattern, &name) {
            shell.show(|| json!({ "path": seen.path }), || plain(&seen.path));
        }
        if shell.has_failed_output() {
            break;
        }
    }
    Ok(())
}

/// Returns whether the pattern matches the whole name. The time is at most proportional to the
/// product of both lengths.
fn matches_glob(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut name_at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while name_at < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, name_at));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[name_at] => {
                at += 1;
                name_at += 1;
            }
            _ => match star {
                // The last star matches one more character.
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    at = star_at + 1;
                    name_at = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// Prints the paths of znodes whose data contains a string, with each matching line. With `-l`,
/// prints only the paths. The exit code is 1 without a match, as in grep.
pub(crate) async fn grep(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let wanted = given.word(0).ok_or_else(|| command.usage_error())?;
    let root = given.word(1).ok_or_else(|| command.usage_error())?;
    path::validate(root)?;
    let mut walk = Walk::new(root, usize::MAX, WalkedProperties::Names);
    let mut has_found = false;
    while let Some(seen) = walk.next(shell).await? {
        if seen.stat.data_length == 0 {
            continue;
        }
        let client = shell.client(&seen.path).await?;
        let data = match client.get_data(&shell.with_chroot(&seen.path)).await {
            Ok((data, _)) => data.unwrap_or_default(),
            Err(error) if error.code().is_some() => {
                walk.skip(shell, &Failure::of(&error, &seen.path));
                continue;
            }
            Err(error) => return Err(Failure::of(&error, &seen.path)),
        };
        let text = String::from_utf8_lossy(&data);
        let mut lines = text.lines().filter(|line| line.contains(wanted));
        if given.has("l") {
            if lines.next().is_some() {
                has_found = true;
                shell.show(|| json!({ "path": seen.path }), || plain(&seen.path));
            }
        } else {
            for line in lines {
                has_found = true;
                shell.show(
                    || json!({ "path": seen.path, "line": line }),
                    || format!("{}: {}", plain(&seen.path), plain(line)),
                );
            }
        }
        if shell.has_failed_output() {
            break;
        }
    }
    if has_found {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "no znode below {root} contains this text"
        )))
    }
}

/// Prints a JSON object per line for each znode, parents first, with `path`, `data` (base64, or
/// null for null data) and `acl`. Ephemerals are only counted, because they belong to their
/// sessions. `/zookeeper` and its descendants are omitted. Fails at the end if a znode could not be
/// read.
pub(crate) async fn export(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let root = command.path(given)?;
    let mut walk = Walk::new(root, usize::MAX, WalkedProperties::All).without_ensemble();
    let (mut count, mut ephemerals) = (0, 0);
    let mut lines = String::new();
    let ended = loop {
        let seen = match walk.next(shell).await {
            Ok(Some(seen)) => seen,
            Ok(None) => break Ok(()),
            Err(failure) => break Err(failure),
        };
        if seen.stat.ephemeral_owner > 0 && is_session(seen.stat.ephemeral_owner) {
            ephemerals += 1;
            continue;
        }
        let line = json!({
            "path": seen.path,
            "data": seen.data.map(|data| STANDARD.encode(data)),
            "acl": seen.acl.iter().map(acl_to_json).collect::<Vec<_>>(),
        });
        if shell.start.format == Format::Yaml {
            shell.show(|| line, String::new);
        } else {
            add_line(&mut lines, &line);
        }
        if lines.len() >= LINES_BYTES {
            shell.print(&lines);
            lines.clear();
        }
        if shell.has_failed_output() {
            return Ok(());
        }
        count += 1;
        report_progress(shell, count);
    };
    if !lines.is_empty() {
        shell.print(&lines);
    }
    let text = format!(
        "{} exported, {} not exported",
        number(count, "znode"),
        number(ephemerals, "ephemeral")
    );
    match ended {
        Ok(()) => {
            shell.print_error(&text);
            Ok(())
        }
        Err(failure) if count + ephemerals > 0 => Err(failure.with_note(&text)),
        Err(failure) => Err(failure),
    }
}

/// Adds a value without characters that control a terminal.
fn add_line(lines: &mut String, value: &Value) {
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines.push_str(&json::line(value));
}

/// Returns whether the znode belongs to a session. For containers and TTL znodes, servers report
/// the owner 0, as for persistent znodes. Source: DataNode.copyStat.
pub(crate) fn is_ephemeral(stat: &Stat) -> bool {
    stat.ephemeral_owner != 0 && is_session(stat.ephemeral_owner)
}

/// Returns whether an owner is a session. The owners of container and TTL znodes have a mark in the
/// top byte. Source: EphemeralType.
fn is_session(owner: i64) -> bool {
    owner.to_be_bytes()[0] != 0xff && owner != i64::MIN
}

pub(crate) fn acl_to_json(acl: &Acl) -> Value {
    json!({ "perms": acl.perms, "scheme": &*acl.id.scheme, "id": &*acl.id.id })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        matches_glob(&chars(pattern), &chars(name))
    }

    #[test]
    fn globs_have_stars_and_question_marks() {
        assert!(matches("*", "") && matches("*", "abc"));
        assert!(matches("lock-*", "lock-0000000001"));
        assert!(matches("*-?", "x-1") && !matches("*-?", "x-12"));
        assert!(matches("a*b*c", "a__b__b_c") && !matches("a*b*c", "a__b"));
        assert!(!matches("abc", "ab") && !matches("", "a"));
    }

    #[test]
    fn a_name_cannot_send_terminal_commands() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(plain("grüße"), "grüße");
        let mut lines = String::new();
        for path in ["/a\u{7f}", "/b\u{9b}2J"] {
            add_line(&mut lines, &json!({ "path": path }));
        }
        assert_eq!(
            lines,
            "{\"path\":\"/a\\u007f\"}\n{\"path\":\"/b\\u009b2J\"}"
        );
    }

    #[test]
    fn container_owners_are_not_printed_as_sessions() {
        assert!(is_session(0x1000_0000_0001));
        assert!(!is_session(i64::MIN));
    }
}
