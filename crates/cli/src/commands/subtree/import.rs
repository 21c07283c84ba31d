//! Command `import`, which creates the znodes that `export` wrote, with many requests in flight.

use std::io::{self, BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::{Client, Create, Error};
use proto::{Acl, ErrorCode};
use serde_json::{Value, json};

use super::read_ahead::ReadAhead;
use super::search::report_progress;
use crate::commands::Command;
use crate::failure::Failure;
use crate::output::text::number;
use crate::parse::options::Arguments;
use crate::parse::path;
use crate::shell::Shell;

/// Maximum length of a line that `import` reads, in bytes. It suffices for a znode of the maximum
/// size in base64.
const LINE_BYTES_MAX: u64 = 512 << 20;

/// Parsed line of an export.
#[derive(Debug, Clone)]
struct ImportLine {
    number: usize,
    path: String,
    data: Option<Bytes>,
    acl: Vec<Acl>,
}

/// Result for one line.
#[derive(Debug)]
enum ImportResult {
    Created,
    Replaced,
    Kept,
}

/// Number of lines with each result.
#[derive(Debug, Default)]
struct ImportCounts {
    created: usize,
    replaced: usize,
    kept: usize,
}

/// Creates the znodes that `export` wrote, below a path. Existing znodes are kept. With `-f`, they
/// receive the data and ACL of the line.
pub(crate) async fn import(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let below = command.path(given)?.trim_end_matches('/').to_owned();
    let mut tally = ImportCounts::default();
    match import_lines(shell, &below, given.has("f"), &mut tally).await {
        Ok(()) => {
            shell.report(tally.json(), &tally.text());
            Ok(())
        }
        // Lines after the refused line may have been executed, because their requests were already
        // in flight.
        Err(failure) if tally.created + tally.replaced > 0 => {
            Err(failure.with_note(&format!("Not finished: {}", tally.text())))
        }
        Err(failure) => Err(failure),
    }
}

async fn import_lines(
    shell: &mut Shell,
    below: &str,
    replaces: bool,
    tally: &mut ImportCounts,
) -> Result<(), Failure> {
    let mut read_ahead = ReadAhead::default();
    let (mut read, mut unread) = (None, Some(1));
    let (mut refused, mut unreadable) = (None, None);
    loop {
        if let (None, Some(number)) = (&read, unread) {
            match next_line(number, below) {
                Ok(Some(line)) => {
                    unread = Some(line.number + 1);
                    read = Some(line);
                }
                Ok(None) => unread = None,
                Err(failure) => (unread, unreadable) = (None, Some(failure)),
            }
        }
        let client = match read.as_ref().or(read_ahead.first()) {
            Some(line) => shell.client(&line.path).await?,
            None => break,
        };
        let put_of = |line: &ImportLine| {
            let (client, outside) = (client.clone(), shell.with_chroot(&line.path));
            put(client, outside, line.clone(), replaces)
        };
        let may_begin = |line: &mut ImportLine| {
            let waits =
                replaces && read_ahead.has(|earlier: &ImportLine| must_follow(earlier, line));
            !read_ahead.is_full() && !waits
        };
        if let Some(line) = read.take_if(may_begin) {
            read_ahead.note_data_len(line.data.as_ref().map_or(0, Bytes::len));
            read_ahead.push(line);
            read_ahead.send_requests(put_of);
            continue;
        }
        let Some((line, done)) = read_ahead.next(put_of).await? else {
            continue;
        };
        match done {
            Ok(done) => {
                tally.note(&done);
                report_progress(shell, tally.count());
            }
            // The results of pending requests must be counted before the end.
            Err(error) => {
                let failure = Failure::of(&error, &line.path);
                refused.get_or_insert(failure.in_line(line.number));
                (read, unread) = (None, None);
            }
        }
    }
    match refused.or(unreadable) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// Returns whether `line` must wait for the result of `earlier`, because both have the same path or
/// `earlier` is the parent. An existing parent receives its new ACL only after the request to
/// create it has failed, and the ACL may affect requests for its children.
fn must_follow(earlier: &ImportLine, line: &ImportLine) -> bool {
    let parent = line.path.rsplit_once('/').map_or("", |(parent, _)| parent);
    earlier.path == line.path || earlier.path == parent
}

/// Creates a znode. If it exists and must be replaced, sets its data and ACL instead.
async fn put(
    client: Client,
    outside: String,
    line: ImportLine,
    replaces: bool,
) -> Result<ImportResult, Error> {
    let create = Create::persistent().with_acl(line.acl.clone());
    let made = match line.data.clone() {
        Some(data) => client.create(&outside, data, &create).await,
        None => client.create_without_data(&outside, &create).await,
    };
    match made {
        Ok(_) => Ok(ImportResult::Created),
        Err(error) if error.code() != Some(ErrorCode::NodeExists) => Err(error),
        Err(_) if replaces => {
            let data = line.data.unwrap_or_default();
            client.set_data(&outside, data, -1).await?;
            client.set_acl(&outside, line.acl, -1).await?;
            Ok(ImportResult::Replaced)
        }
        Err(_) => Ok(ImportResult::Kept),
    }
}

impl ImportCounts {
    fn note(&mut self, done: &ImportResult) {
        match done {
            ImportResult::Created => self.created += 1,
            ImportResult::Replaced => self.replaced += 1,
            ImportResult::Kept => self.kept += 1,
        }
    }

    fn count(&self) -> usize {
        self.created + self.replaced + self.kept
    }

    fn json(&self) -> Value {
        json!({ "created": self.created, "replaced": self.replaced, "kept": self.kept })
    }

    fn text(&self) -> String {
        let Self {
            created,
            replaced,
            kept,
        } = self;
        let created = number(*created, "znode");
        format!("{created} created, {replaced} replaced, {kept} kept unchanged")
    }
}

fn wrong(number: usize, what: &str) -> Failure {
    Failure::new(format!("line {number}: {what}"))
}

/// Returns the line with this number. Skips a line for the root znode `/`, because this znode
/// already exists. Returns `None` at the end.
fn next_line(number: usize, below: &str) -> Result<Option<ImportLine>, Failure> {
    for number in number.. {
        let Some(text) = read_line(number)? else {
            break;
        };
        let line = parse(&text, number, below)?;
        if !line.path.is_empty() {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// Parses a line. The path in the result is empty if the line is for the root znode `/`.
fn parse(text: &str, number: usize, below: &str) -> Result<ImportLine, Failure> {
    let wrong = |what: &str| wrong(number, what);
    let znode: Value = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
    let name = znode["path"]
        .as_str()
        .ok_or_else(|| wrong("the field `path` is missing"))?;
    let path = match name {
        "/" => below.to_owned(),
        name => format!("{below}{name}"),
    };
    if !path.is_empty() {
        path::validate(&path).map_err(|failure| wrong(&failure.text))?;
    }
    let data = match &znode["data"] {
        Value::Null => None,
        Value::String(text) => {
            let data = STANDARD.decode(text);
            let data =
                data.map_err(|error| wrong(&format!("the field `data` is not base64: {error}")))?;
            Some(Bytes::from(data))
        }
        _ => return Err(wrong("the field `data` must be text or null")),
    };
    let acl = acl_of_json(&znode["acl"])
        .ok_or_else(|| wrong("the field `acl` does not have the form that `export` writes"))?;
    Ok(ImportLine {
        number,
        path,
        data,
        acl,
    })
}

fn acl_of_json(value: &Value) -> Option<Vec<Acl>> {
    let entry = |entry: &Value| {
        let perms = i32::try_from(entry["perms"].as_i64()?).ok()?;
        Some(Acl::new(
            perms,
            entry["scheme"].as_str()?,
            entry["id"].as_str()?,
        ))
    };
    value.as_array()?.iter().map(entry).collect()
}

fn read_line(number: usize) -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let mut input = io::stdin().lock().take(LINE_BYTES_MAX);
    let bytes = input.read_line(&mut line).map_err(|error| {
        Failure::new(format!(
            "cannot read line {number} of standard input: {error}"
        ))
    })?;
    if bytes as u64 == LINE_BYTES_MAX {
        let limit = LINE_BYTES_MAX >> 20;
        return Err(Failure::new(format!(
            "line {number} is longer than {limit} MiB"
        )));
    }
    Ok((bytes > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::super::search::acl_to_json;
    use super::*;

    fn line(path: &str) -> ImportLine {
        let text = json!({ "path": path, "data": null, "acl": [] }).to_string();
        parse(&text, 1, "/to").unwrap()
    }

    #[test]
    fn an_acl_round_trips_through_json() {
        let acl = vec![Acl::open(), Acl::new(1, "digest", "a:b")];
        let json = Value::Array(acl.iter().map(acl_to_json).collect());
        assert_eq!(acl_of_json(&json), Some(acl));
        assert_eq!(acl_of_json(&json!([{ "perms": 1 }])), None);
        assert_eq!(acl_of_json(&Value::Null), None);
    }

    #[test]
    fn a_znode_depends_on_itself_and_its_parent() {
        assert!(must_follow(&line("/a"), &line("/a/b")));
        assert!(must_follow(&line("/a"), &line("/a")));
        assert!(!must_follow(&line("/a"), &line("/ab")));
        assert!(!must_follow(&line("/a"), &line("/a/b/c")));
        assert!(!must_follow(&line("/a/b"), &line("/a/c")));
    }

    #[test]
    fn lines_are_put_below_a_path() {
        assert_eq!(line("/").path, "/to");
        assert_eq!(line("/a").path, "/to/a");
        let root = parse(r#"{"path":"/","data":"","acl":[]}"#, 1, "").unwrap();
        assert_eq!(root.path, "");
    }
}
