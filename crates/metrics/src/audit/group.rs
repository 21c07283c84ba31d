//! Lines that wait to be written, and their text.

use std::fmt::{self, Write};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use proto::{Id, OpCode, SessionId};
use tree::auth::{host_address, in_java_order, user_name};

use super::request::Mode;

/// Level of a line, which depends on the success of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The operation succeeded, or a stop of the server was requested.
    Info,
    /// The operation failed.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "INFO",
            Self::Error => "ERROR",
        })
    }
}

/// Client that sent a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Session of the client.
    pub session: SessionId,
    /// Identities at the time of the request.
    pub identities: Arc<[Id]>,
    /// Address of the client.
    pub ip: IpAddr,
}

/// Originator of the lines of a group.
#[derive(Debug)]
pub(super) enum Author {
    Client(Caller),
    Server {
        /// Session that ended, if any.
        session: Option<SessionId>,
        /// Name of the user that runs the server.
        user: Arc<str>,
    },
}

/// Reported event.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    Request(OpCode),
    EphemeralDeleted,
    ServerStart,
    ServerStop,
}

/// Result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventResult {
    Success,
    Failure,
    Invoked,
}

/// Lines of one request, of one ended session, or of the server.
///
/// A multi may have 45,000 lines, and a client's identities may have 16 KiB. Therefore the text of
/// a line is created only when the line is written. Until then, the memory of the lines is
/// proportional to the request: it contains the identities once, and the path of each line.
#[derive(Debug)]
pub struct LineGroup {
    author: Author,
    lines: Vec<CompactLine>,
    /// Paths of all lines, without separators.
    paths: String,
    /// ACL of a setACL, which has a single line.
    acl: Option<String>,
}

#[derive(Debug)]
struct CompactLine {
    event: Event,
    /// Length of the line's part of the paths, if the line has a path.
    path_bytes: Option<usize>,
    mode: Option<Mode>,
    result: EventResult,
}

impl LineGroup {
    pub(super) fn new(author: Author) -> Self {
        Self {
            author,
            lines: Vec::new(),
            paths: String::new(),
            acl: None,
        }
    }

    pub(super) fn push(
        &mut self,
        event: Event,
        path: Option<&str>,
        mode: Option<Mode>,
        result: EventResult,
    ) {
        self.paths.push_str(path.unwrap_or_default());
        self.lines.push(CompactLine {
            event,
            path_bytes: path.map(str::len),
            mode,
            result,
        });
    }

    pub(super) fn set_acl(&mut self, acl: Option<String>) {
        self.acl = acl;
    }

    /// Removes the lines of successful operations.
    pub(super) fn retain_failures(&mut self) {
        let (lines, paths) = (mem::take(&mut self.lines), mem::take(&mut self.paths));
        for (line, path) in with_paths(&lines, &paths) {
            if line.level() == Level::Error {
                self.push(line.event, path, line.mode, line.result);
            }
        }
    }

    /// Returns whether the lines belong to a client's request.
    pub(super) fn is_of_request(&self) -> bool {
        matches!(self.author, Author::Client(_))
    }

    /// Returns the number of lines.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the memory of the lines, bytes. The identities are counted for each group, although
    /// the requests of a connection share them.
    pub(super) fn bytes(&self) -> usize {
        let of_id = |id: &Id| size_of::<Id>() + id.scheme.len() + id.id.len();
        let identities = match &self.author {
            Author::Client(caller) => caller.identities.iter().map(of_id).sum(),
            Author::Server { .. } => 0,
        };
        let lines = self.lines.capacity() * size_of::<CompactLine>();
        let acl = self.acl.as_ref().map_or(0, String::capacity);
        size_of::<Self>() + identities + lines + self.paths.capacity() + acl
    }

    /// Calls `write` with the level and the text of each line. The text consists of keys and
    /// values, separated by tabs. Also logs the text at level debug.
    pub fn write_lines(&self, mut write: impl FnMut(Level, &str)) {
        let mut fields = self.author.fields();
        let start = fields.0.len();
        for (line, path) in with_paths(&self.lines, &self.paths) {
            fields.0.truncate(start);
            fields.add("operation", line.event.name());
            fields.add_known("znode", path);
            fields.add_known("znode_type", line.mode.map(Mode::name));
            fields.add_known("acl", self.acl.as_deref());
            fields.add("result", line.result.name());
            tracing::debug!(target: super::TARGET, "{}", fields.0);
            write(line.level(), &fields.0);
        }
    }
}

/// Returns the lines with their paths.
fn with_paths<'a>(
    lines: &'a [CompactLine],
    mut paths: &'a str,
) -> impl Iterator<Item = (&'a CompactLine, Option<&'a str>)> {
    lines.iter().map(move |line| {
        let path = line.path_bytes.map(|bytes| {
            let (path, rest) = paths.split_at(bytes);
            paths = rest;
            path
        });
        (line, path)
    })
}

impl CompactLine {
    fn level(&self) -> Level {
        match self.result {
            EventResult::Success | EventResult::Invoked => Level::Info,
            EventResult::Failure => Level::Error,
        }
    }
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Request(op) => op.audited_as().unwrap_or_default(),
            Self::EphemeralDeleted => "ephemeralZNodeDeletionOnSessionCloseOrExpire",
            Self::ServerStart => "serverStart",
            Self::ServerStop => "serverStop",
        }
    }
}

impl EventResult {
    pub(super) fn of(has_failed: bool) -> Self {
        if has_failed {
            Self::Failure
        } else {
            Self::Success
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Invoked => "invoked",
        }
    }
}

impl Author {
    /// Returns the fields that begin each line.
    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        match self {
            Self::Client(caller) => {
                fields.add("session", caller.session);
                let users = in_java_order(&caller.identities).into_iter().map(user_name);
                let users: Vec<&str> = users.filter(|user| !is_blank(user)).collect();
                let users = Some(users.join(",")).filter(|_| !users.is_empty());
                fields.add_known("user", users);
                fields.add("ip", host_address(caller.ip));
            }
            Self::Server { session, user } => {
                fields.add_known("session", *session);
                fields.add("user", user);
            }
        }
        fields
    }
}

/// Returns whether the string is blank. Source: String.trim, which removes all characters up to
/// U+0020.
fn is_blank(text: &str) -> bool {
    text.chars().all(|letter| letter <= ' ')
}

/// Line under construction.
///
/// Audited clients choose names, paths and ids. Characters that would start another line or key are
/// therefore escaped. Java writes them unescaped, so a client can forge lines.
#[derive(Default)]
struct Fields(String);

impl Fields {
    fn add(&mut self, key: &str, value: impl fmt::Display) {
        if !self.0.is_empty() {
            self.0.push('\t');
        }
        self.0.push_str(key);
        self.0.push('=');
        // Writing to a `String` cannot fail.
        let _ = write!(Escaped(&mut self.0), "{value}");
    }

    fn add_known(&mut self, key: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }
}

/// Writer that escapes control characters.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if letter.is_control() {
                self.0.extend(letter.escape_default());
            } else {
                self.0.push(letter);
            }
        }
        Ok(())
    }
}
